//! The configuration thread as a whole, with a supervisor that only records its bind requests.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tempfile::TempDir;

use super::{LocalConfig, LocalHandle, StartError, start_with};
use crate::config::apply::{BindRequest, Binder};
use crate::config::compile::CompileOptions;
use crate::config::dns::sample::Server;
use crate::config::in_force::InForce;
use crate::config::{Published, Snapshot};

/// A running configuration thread.
struct Local {
    folder: TempDir,
    published: Published,
    bind_requests: Receiver<Vec<BindRequest>>,
    names: Server,
    handle: Result<LocalHandle, StartError>,
}

impl Local {
    fn start(files: &[(&str, String)]) -> Self {
        Self::start_where(files, |_| Vec::new())
    }

    /// Starts one whose supervisor responds like this.
    fn start_where(
        files: &[(&str, String)],
        answer: impl Fn(&[BindRequest]) -> Vec<(u32, io::Error)> + Send + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("a file");
        }
        let (sender, bind_requests) = channel();
        let binder: Binder = Box::new(move |requests| {
            let failed = answer(&requests);
            // The test may be over.
            let _ = sender.send(requests);
            failed
        });
        let names = Server::start();
        names.set_answer("app.test", 1, &["127.0.0.9"]);
        let published = Arc::new(ArcSwap::from_pointee(Snapshot::default()));
        let config = LocalConfig {
            paths: vec![folder.path().to_owned()],
            unknown_fields: translate::files::UnknownFields::Refuse,
            port_offset: 8000,
            reserved_ports: BTreeSet::new(),
            compile: CompileOptions::new(std::num::NonZeroU32::MIN),
            session_keys: crate::config::session_keys::OwnSessionKeys::read(&[]).expect("a key"),
            in_force: InForce::default(),
        };
        let server = names.clone();
        let resolver = move || server.resolver();
        let handle = start_with(config, Arc::clone(&published), binder, resolver);
        Self {
            folder,
            published,
            bind_requests,
            names,
            handle,
        }
    }

    /// Waits for the next request to the supervisor.
    fn next_bind_addresses(&self) -> Vec<String> {
        let bind_requests = self.bind_requests.recv_timeout(Duration::from_secs(20));
        let bind_requests = bind_requests.expect("the supervisor gets a request");
        bind_requests
            .iter()
            .map(|it| it.address.to_string())
            .collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    fn endpoints(&self) -> Vec<String> {
        let snapshot = self.published.load();
        let clusters = snapshot.clusters.iter();
        let endpoints = clusters.flat_map(|cluster| &cluster.endpoints);
        endpoints
            .map(|endpoint| endpoint.name.to_string())
            .collect()
    }
}

fn gateway(port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web}}
spec:
  gatewayClassName: gateway
  listeners:
  - {{name: http, port: {port}, protocol: HTTP}}
"
    )
}

/// A backend, and a route to it.
fn app(spec: &str) -> String {
    format!(
        "apiVersion: gateway-system.io/v1alpha1
kind: Backend
metadata: {{name: app}}
spec: {spec}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: app}}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - backendRefs: [{{group: gateway-system.io, kind: Backend, name: app}}]
"
    )
}

fn fixed(host: &str) -> String {
    app(&format!("{{addresses: [{{host: {host}, port: 80}}]}}"))
}

#[test]
#[expect(clippy::print_stdout, reason = "a time to look at, not to assert")]
fn configuration_files_are_applied_and_watched() {
    let files = [
        ("gateway.yaml", gateway(80)),
        ("app.yaml", fixed("127.0.0.1")),
    ];
    let local = Local::start(&files);
    local.handle.as_ref().expect("it starts");
    assert_eq!(local.next_bind_addresses(), ["[::]:8080"]);
    assert_eq!(local.endpoints(), ["127.0.0.1:80"]);

    let started = Instant::now();
    local.write("app.yaml", &fixed("127.0.0.2"));
    assert_eq!(local.next_bind_addresses(), ["[::]:8080"]);
    println!(
        "a change of a file was in force after {:?}",
        started.elapsed()
    );
    assert_eq!(local.endpoints(), ["127.0.0.2:80"]);

    local.write("gateway.yaml", &gateway(9090));
    assert_eq!(local.next_bind_addresses(), ["[::]:9090"]);
    assert!(local.published.load().bind(0).is_none());
    assert!(local.published.load().bind(1).is_some());
}

#[test]
fn invalid_objects_are_ignored_and_previous_versions_are_kept() {
    let files = [
        ("gateway.yaml", gateway(80)),
        ("app.yaml", fixed("127.0.0.1")),
        ("bad.yaml", "kind: [".to_owned()),
    ];
    let local = Local::start(&files);
    local.handle.as_ref().expect("it starts");
    local.next_bind_addresses();
    assert_eq!(local.endpoints(), ["127.0.0.1:80"]);
    local.write("app.yaml", "kind: [");
    // Nothing changed, so only the binds are requested again.
    assert_eq!(local.next_bind_addresses(), ["[::]:8080"]);
    assert_eq!(local.endpoints(), ["127.0.0.1:80"]);
    local.write("app.yaml", &fixed("127.0.0.3"));
    local.next_bind_addresses();
    assert_eq!(local.endpoints(), ["127.0.0.3:80"]);
}

#[test]
fn dns_names_are_resolved_in_advance_and_refreshed() {
    let backend = app("{dns: {name: app.test, port: 80}}");
    let files = [("gateway.yaml", gateway(80)), ("app.yaml", backend)];
    let local = Local::start(&files);
    local.handle.as_ref().expect("it starts");
    local.next_bind_addresses();
    assert_eq!(
        local.endpoints(),
        ["127.0.0.9:80"],
        "from the first request on"
    );
    local.names.set_answer("app.test", 1, &["127.0.0.8"]);
    local.next_bind_addresses();
    assert_eq!(local.endpoints(), ["127.0.0.8:80"]);
}

#[test]
fn a_change_does_not_wait_for_an_unresponsive_dns_name() {
    let files = [
        ("gateway.yaml", gateway(80)),
        ("app.yaml", fixed("127.0.0.1")),
    ];
    let local = Local::start(&files);
    local.handle.as_ref().expect("it starts");
    local.next_bind_addresses();
    local.names.stop_answering("slow.test");
    let both = "{addresses: [{host: 127.0.0.2, port: 80}, {host: slow.test, port: 80}]}";
    let started = Instant::now();
    local.write("app.yaml", &app(both));
    local.next_bind_addresses();
    assert_eq!(local.endpoints(), ["127.0.0.2:80"]);
    // A lookup used to block for two seconds; any other delay here is the machine's.
    assert!(
        started.elapsed() < Duration::from_millis(1_500),
        "after {:?}",
        started.elapsed()
    );
}

#[test]
fn a_slowly_rewritten_file_is_read_when_it_is_complete() {
    let files = [
        ("gateway.yaml", gateway(80)),
        ("app.yaml", fixed("127.0.0.1")),
    ];
    let local = Local::start(&files);
    local.handle.as_ref().expect("it starts");
    local.next_bind_addresses();
    let text = fixed("127.0.0.2");
    let (half, rest) = text.split_once("---").expect("two documents");
    let mut file = fs::File::create(local.path("app.yaml")).expect("a file");
    for part in ["", half, "---"] {
        file.write_all(part.as_bytes()).expect("a file");
        // The file was read, and its previous content is in force.
        local.next_bind_addresses();
        assert_eq!(local.endpoints(), ["127.0.0.1:80"]);
    }
    file.write_all(rest.as_bytes()).expect("a file");
    drop(file);
    while local.endpoints() != ["127.0.0.2:80"] {
        assert_eq!(local.endpoints(), ["127.0.0.1:80"]);
        local.next_bind_addresses();
    }
    // An empty file is accepted once it stays empty.
    local.write("app.yaml", "");
    local.next_bind_addresses();
    assert_eq!(local.endpoints(), ["127.0.0.2:80"]);
    local.next_bind_addresses();
    assert_eq!(local.endpoints(), [""; 0]);
}

#[test]
fn a_start_without_files_is_an_error() {
    for files in [&[][..], &[("notes.txt", String::new())]] {
        let local = Local::start(files);
        let error = local.handle.as_ref().expect_err("there is nothing to read");
        assert!(matches!(error, StartError::NothingRead(_)), "{error}");
        let folder = local.folder.path().display().to_string();
        assert!(error.to_string().contains(&folder), "{error}");
    }
}

#[test]
fn a_start_without_listeners_is_explained() {
    let refused = |requests: &[BindRequest]| {
        let refused = |request: &BindRequest| (request.id, ErrorKind::PermissionDenied.into());
        requests.iter().map(refused).collect()
    };
    let local = Local::start_where(&[("gateway.yaml", gateway(80))], refused);
    let error = local.handle.as_ref().expect_err("the port is refused");
    assert!(error.to_string().contains("--port-offset"), "{error}");

    let local = Local::start(&[("app.yaml", fixed("127.0.0.1"))]);
    let error = local.handle.as_ref().expect_err("there is no Gateway");
    assert!(error.to_string().contains("Gateway"), "{error}");
}

#[test]
fn a_failed_bind_is_retried() {
    let tries = std::sync::atomic::AtomicU32::new(0);
    let first_is_refused = move |requests: &[BindRequest]| {
        let first = tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        let refused = requests
            .iter()
            .filter(|it| first && it.address.port() == 9090);
        refused
            .map(|it| (it.id, ErrorKind::AddrInUse.into()))
            .collect()
    };
    let two = gateway(80) + "  - {name: more, port: 9090, protocol: HTTP}\n";
    let local = Local::start_where(&[("gateway.yaml", two)], first_is_refused);
    local.handle.as_ref().expect("one listener came up");
    let both = ["[::]:8080", "[::]:9090"];
    assert_eq!(local.next_bind_addresses(), both);
    assert_eq!(
        local.next_bind_addresses(),
        both,
        "without a change of a file"
    );
}

#[test]
fn dropping_the_handle_ends_the_thread() {
    let local = Local::start(&[("gateway.yaml", gateway(80))]);
    drop(local.handle.expect("it starts"));
    local.bind_requests.recv().expect("the first bind request");
    local
        .bind_requests
        .recv()
        .expect_err("the thread and its binder have ended");
}
