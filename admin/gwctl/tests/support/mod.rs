//! A gateway from the real binary, with a configuration that has something of everything.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use self::port::Ports;

#[path = "../../../../proxy/tests/support/port.rs"]
pub(crate) mod port;

/// A gateway with a live backend, a backend without a listener, and a Service.
pub(crate) struct Gateway {
    process: Child,
    /// The address of its admin server.
    pub(crate) admin: String,
    pub(crate) port: u16,
    pub(crate) secure: u16,
    pub(crate) file: PathBuf,
    _folder: TempDir,
    _ports: Ports,
}

impl Gateway {
    pub(crate) fn start() -> Self {
        Self::start_at(|port, _| format!("127.0.0.1:{port}"))
    }

    /// Starts one with its admin server at an address that is made of a free port and a folder.
    pub(crate) fn start_at(admin: impl FnOnce(u16, &Path) -> String) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("gateway.yaml");
        let ports = Ports::free(4);
        let [port, secure, free, dead] = ports[..] else {
            panic!("four were asked for")
        };
        let admin = admin(free, folder.path());
        let pair = rcgen::generate_simple_self_signed(["shop.example".to_owned()]).expect("a key");
        fs::write(folder.path().join("own.pem"), pair.cert.pem()).expect("a file");
        let yaml = configuration([port, secure], origin(), dead) + &secret(&pair);
        fs::write(&file, yaml).expect("a file");
        let process = Command::new(binary())
            .args(["run", "--shards", "2", "--config"])
            .arg(&file)
            .arg(format!("--admin-address={admin}"))
            .args(["--metrics-address=off", "--readiness-address=off"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the gateway starts");
        let gateway = Self {
            process,
            admin,
            port,
            secure,
            file,
            _folder: folder,
            _ports: ports,
        };
        gateway.wait_until_it_listens();
        gateway
    }

    fn wait_until_it_listens(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        let wait_for = |address: &str| {
            let listens = || match address.strip_prefix("unix:") {
                Some(path) => UnixStream::connect(path).is_ok(),
                None => TcpStream::connect(address).is_ok(),
            };
            while !listens() {
                assert!(Instant::now() < until, "it does not listen on {address}");
                thread::sleep(Duration::from_millis(10));
            }
        };
        wait_for(&self.admin);
        for port in [self.port, self.secure] {
            wait_for(&format!("127.0.0.1:{port}"));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The gateway binary beside `gwctl`. Workspace tests have built it; it is built here where it is missing.
pub(crate) fn binary() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_gwctl")).with_file_name("gateway");
    if !path.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        // Cargo's variables for our package would invalidate its build cache.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG")) {
            cargo.env_remove(name);
        }
        let built = cargo
            .args(["build", "--package", "proxy", "--bin", "gateway"])
            .status();
        assert!(built.expect("cargo runs").success(), "the gateway builds");
        assert!(path.exists(), "build the gateway first, with this profile");
    }
    path
}

/// An origin that responds to every request with 200 and `hello`.
pub(crate) fn origin() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut head = [0; 4096];
                while stream.read(&mut head).is_ok_and(|read| read > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// A Secret with the listener's self-signed certificate.
fn secret(pair: &rcgen::CertifiedKey<rcgen::KeyPair>) -> String {
    let indented = |pem: String| pem.replace('\n', "\n    ");
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: own}}\ntype: kubernetes.io/tls\n\
         stringData:\n  tls.crt: |\n    {}\n  tls.key: |\n    {}\n",
        indented(pair.cert.pem()),
        indented(pair.signing_key.serialize_pem())
    )
}

fn configuration([port, secure]: [u16; 2], origin: u16, dead: u16) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: edge}}
spec:
  gatewayClassName: gateway
  listeners:
  - {{name: http, port: {port}, protocol: HTTP, hostname: '*.example'}}
  - {{name: https, port: {secure}, protocol: HTTPS, tls: {{certificateRefs: [{{name: own}}]}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: shop}}
spec:
  parentRefs: [{{name: edge, sectionName: http}}, {{name: edge, sectionName: https}}]
  rules:
  - backendRefs: [{{group: gateway-system.io, kind: Backend, name: live}}]
  - matches: [{{path: {{type: PathPrefix, value: /dead}}}}]
    backendRefs: [{{group: gateway-system.io, kind: Backend, name: dead}}]
  - matches: [{{path: {{type: PathPrefix, value: /pods}}}}]
    backendRefs: [{{name: pods, port: 80}}]
---
apiVersion: v1
kind: Service
metadata: {{name: pods}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: pods-1, labels: {{kubernetes.io/service-name: pods}}}}
addressType: IPv4
endpoints: [{{addresses: [127.0.0.1]}}]
ports: [{{port: {origin}}}]
---
apiVersion: gateway-system.io/v1alpha1
kind: Backend
metadata: {{name: live}}
spec: {{addresses: [{{host: 127.0.0.1, port: {origin}}}]}}
---
apiVersion: gateway-system.io/v1alpha1
kind: Backend
metadata: {{name: dead}}
spec: {{addresses: [{{host: 127.0.0.1, port: {dead}}}]}}
"
    )
}
