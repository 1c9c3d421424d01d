//! A gateway with routes for tokens of the provider, and an origin that tells which group it saw.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::instance::port::Ports;
use crate::support::message::send;
use crate::support::server::{Server, response};

pub(super) struct Gateway {
    process: Child,
    port: u16,
    admin: u16,
    origin: Server,
    folder: TempDir,
    _ports: Ports,
}

impl Gateway {
    /// Starts one with the policy of `manifests` for its Gateway `edge`.
    pub(super) fn start(manifests: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let ports = Ports::free(2);
        let [port, admin] = ports[..] else {
            panic!("two were asked for")
        };
        let origin = Server::new(|_, _| response(200, "text/plain", "hello"));
        let routes = ROUTES
            .replace("PORT", &port.to_string())
            .replace("ORIGIN", &origin.port.to_string());
        fs::write(folder.path().join("routes.yaml"), routes).expect("a file");
        fs::write(folder.path().join("policy.yaml"), manifests).expect("a file");
        let log = fs::File::create(folder.path().join("log")).expect("a file");
        let lines = log.try_clone().expect("a descriptor");
        let process = Command::new(binary())
            .args(["run", "--shards", "2", "--config"])
            .arg(folder.path())
            .arg(format!("--admin-address=127.0.0.1:{admin}"))
            .args(["--metrics-address=off", "--readiness-address=off"])
            .env("RUST_LOG", "info,proxy=debug")
            .stdout(lines)
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("the gateway starts");
        let gateway = Self {
            process,
            port,
            admin,
            origin,
            folder,
            _ports: ports,
        };
        let deadline = Instant::now() + Duration::from_mins(1);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "{}", gateway.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        gateway
    }

    /// The status of a GET with this token.
    pub(super) fn status(&self, path: &str, token: Option<&str>) -> u16 {
        let token = token.map(|token| format!("Authorization: Bearer {token}"));
        send(self.port, "GET", path, token.as_slice(), "").status()
    }

    /// The trace of a GET with this token.
    pub(super) fn traced(&self, path: &str, token: &str) -> String {
        let mut watcher = TcpStream::connect(("127.0.0.1", self.admin)).expect("the admin server");
        let timeout = Some(Duration::from_mins(1));
        watcher.set_read_timeout(timeout).expect("a timeout");
        let request = b"GET /debug/trace HTTP/1.0\r\nHost: localhost\r\n\r\n";
        watcher.write_all(request).expect("it is sent");
        let mut lines = BufReader::new(watcher).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == ": ready"), "{}", self.log());
        self.status(path, Some(token));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The group of the request that the origin saw last.
    pub(super) fn group_seen(&self) -> String {
        let calls = self.origin.take();
        let seen = calls.last().and_then(|call| call.request.header("x-group"));
        seen.expect("the header of the claim").to_owned()
    }

    /// Its logs and its configuration, as it tells of them.
    pub(super) fn everything_it_tells(&mut self) -> String {
        let mut told = String::new();
        for path in ["/config_dump", "/debug/tasks"] {
            told += &send(self.admin, "GET", path, &[], "").body;
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        told + &self.log()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn binary() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_gwctl")).with_file_name("gateway");
    assert!(
        path.exists(),
        "build the gateway first: cargo build -p proxy --bin gateway"
    );
    path
}

const ROUTES: &str = r#"
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec: {gatewayClassName: gateway, listeners: [{name: http, port: PORT, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: app}
spec:
  parentRefs: [{name: edge}]
  rules:
  - name: all
    backendRefs: [{group: gateway-system.io, kind: Backend, name: app}]
  - name: admins
    matches: [{path: {type: PathPrefix, value: /admins}}]
    backendRefs: [{group: gateway-system.io, kind: Backend, name: app}]
  - name: access-tokens
    matches: [{path: {type: PathPrefix, value: /access-tokens}}]
    backendRefs: [{group: gateway-system.io, kind: Backend, name: app}]
---
apiVersion: gateway-system.io/v1alpha1
kind: Backend
metadata: {name: app}
spec: {addresses: [{host: 127.0.0.1, port: ORIGIN}]}
---
apiVersion: gateway-system.io/v1alpha1
kind: TrafficPolicy
metadata: {name: admins}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: app, sectionName: admins}]
  authorization: {allow: [{name: admins, when: claims.group == 'admins'}]}
---
apiVersion: gateway-system.io/v1alpha1
kind: TrafficPolicy
metadata: {name: access-tokens}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: app, sectionName: access-tokens}]
  authorization:
    deny: [{name: no-id-tokens, when: claims.typ != 'Bearer'}]
    allow: [{name: groups, when: "claims.group in ['users', 'admins']"}]
"#;
