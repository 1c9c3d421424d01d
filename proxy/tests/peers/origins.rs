//! Other servers as HTTP/2 origins, and other clients: curl, nghttp and h2load before node and
//! nginx, `openssl s_client` before a listener.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::program::{Server, file, run};
use crate::support::pki::{Authority, Credential, authority};
use crate::support::{Driver, Gateway, gateway, on_both_drivers, pattern, same_bytes};

on_both_drivers! {
    #[ignore = "needs curl, nginx and nodejs"]
    fn curl_is_served_by_node_and_nginx_in_every_version(driver) {
        for origin in Kind::ALL {
            let scene = Scene::new(driver, origin);
            for client in ["--http1.1", "--http2-prior-knowledge", "--http2"] {
                scene.gets_a_file(client);
            }
        }
    }

    #[ignore = "needs nghttp2-client, nginx and nodejs"]
    fn nghttp_and_h2load_are_served(driver) {
        for origin in Kind::ALL {
            let scene = Scene::new(driver, origin);
            for address in ["http://@plain/", "https://127.0.0.1:@sealed/"] {
                let address = scene.address(address);
                let output = run(Command::new("nghttp").args(["--no-verify-peer", "--verbose", &address]));
                assert!(output.contains(":status: 200"), "{origin:?}: {output}");
                let load = ["--requests", "400", "--clients", "4", "--max-concurrent-streams", "16"];
                let output = run(Command::new("h2load").args(load).arg(&address));
                assert!(output.contains("400 succeeded, 0 failed, 0 errored"), "{origin:?}: {output}");
                assert!(output.contains("400 2xx"), "{origin:?}: {output}");
            }
        }
    }

    #[ignore = "needs openssl"]
    fn openssl_completes_handshakes_and_resumes_a_session(driver) {
        let scene = Scene::new(driver, Kind::Node);
        let session = scene.folder.path().join("session");
        for version in ["-tls1_3", "-tls1_2"] {
            let output = run(scene.s_client(version).args(["-alpn", "h2,http/1.1", "-sess_out"]).arg(&session));
            for line in ["Verify return code: 0 (ok)", "ALPN protocol: h2", "New, "] {
                assert!(output.contains(line), "{line} is not in {output}");
            }
        }
        let output = run(scene.s_client("-tls1_2").arg("-sess_in").arg(&session));
        assert!(output.contains("Reused, TLSv1.2"), "{output}");
    }
}

/// An origin of HTTP/2.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Node,
    NodeByTls,
    Nginx,
    NginxByTls,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Node, Self::NodeByTls, Self::Nginx, Self::NginxByTls];

    fn speaks_tls(self) -> bool {
        matches!(self, Self::NodeByTls | Self::NginxByTls)
    }

    /// The command that starts it on a port, with what it needs in a folder.
    fn command(self, folder: &Path, port: u16) -> Command {
        let (certificate, key) = (folder.join("origin.crt"), folder.join("origin.key"));
        if matches!(self, Self::Node | Self::NodeByTls) {
            let mut node = Command::new("node");
            node.arg(file("h2_origin.js")).arg(port.to_string());
            if self.speaks_tls() {
                node.args([certificate, key]);
            }
            return node;
        }
        let (listen, tls) = if self.speaks_tls() {
            let tls =
                "ssl_certificate @FOLDER@/origin.crt; ssl_certificate_key @FOLDER@/origin.key;";
            ("ssl http2", tls)
        } else {
            ("http2", "")
        };
        let text = std::fs::read_to_string(file("h2_origin.conf")).expect("a file of ours");
        let text = text
            .replace("@LISTEN@", listen)
            .replace("@TLS@", tls)
            .replace("@PORT@", &port.to_string())
            .replace("@FOLDER@", &folder.to_string_lossy());
        let configuration = folder.join("nginx.conf");
        std::fs::write(&configuration, text).expect("a file in our own folder");
        let mut nginx = Command::new("nginx");
        nginx.arg("-c").arg(configuration);
        nginx
    }
}

/// A gateway with an HTTP and an HTTPS listener, in front of an origin.
struct Scene {
    origin: Kind,
    gateway: Gateway,
    folder: TempDir,
    _server: Server,
}

impl Scene {
    fn new(driver: Driver, origin: Kind) -> Self {
        let (ca, folder) = (
            authority("ca"),
            tempfile::tempdir().expect("a temporary folder"),
        );
        write_files(folder.path(), &ca, &ca.server(&["backend.test"]));
        let server = Server::start(|port| origin.command(folder.path(), port));
        let gateway = before(driver, origin, server.address(), &ca);
        Self {
            origin,
            gateway,
            folder,
            _server: server,
        }
    }

    /// An address in which `@plain` is the plain listener's, and `@sealed` the port of HTTPS.
    fn address(&self, text: &str) -> String {
        let port = self.gateway.https_address().port().to_string();
        text.replace("@plain", &self.gateway.address().to_string())
            .replace("@sealed", &port)
    }

    /// A large file, which node receives first and returns, and nginx has: nginx responds to a POST
    /// before it has read it, and this curl treats the `NO_ERROR` reset after such a response as a
    /// failure.
    fn gets_a_file(&self, client: &str) {
        let sent = self.folder.path().join("pattern");
        let downloaded = self.folder.path().join("got");
        let mut curl = self.curl(client);
        if matches!(self.origin, Kind::Node | Kind::NodeByTls) {
            curl.args(["--data-binary", &format!("@{}", sent.display())]);
        }
        curl.args(["--dump-header", "-", "--output"])
            .arg(&downloaded);
        let (origin, output) = (self.origin, run(&mut curl).to_lowercase());
        let version = match client {
            "--http1.1" => "http/1.1 200",
            _ => "http/2 200",
        };
        for line in [version, "x-version: http/2.0"] {
            assert!(
                output.contains(line),
                "{origin:?} {client}: {line} is not in {output}"
            );
        }
        same_bytes(
            &std::fs::read(&downloaded).expect("the downloaded file"),
            &pattern(BODY),
        );
    }

    fn curl(&self, client: &str) -> Command {
        let address = match client {
            // Agreed on by ALPN.
            "--http2" => self.address("https://a.test:@sealed/"),
            _ => self.address("http://@plain/"),
        };
        let resolved = self.address("a.test:@sealed:127.0.0.1");
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--fail",
            "--max-time",
            "60",
            client,
        ])
        .args(["--resolve", &resolved, "--cacert"])
        .arg(self.folder.path().join("ca.crt"))
        .arg(address);
        curl
    }

    fn s_client(&self, version: &str) -> Command {
        let mut openssl = Command::new("openssl");
        openssl
            .args(["s_client", version, "-servername", "a.test", "-CAfile"])
            .arg(self.folder.path().join("ca.crt"))
            .args(["-connect", &self.gateway.https_address().to_string()]);
        openssl
    }
}

fn before(driver: Driver, origin: Kind, address: SocketAddr, ca: &Authority) -> Gateway {
    let builder = gateway(driver)
        .https("web", None, &[&ca.server(&["a.test"])])
        .authority("ca", ca)
        .backend("origin", &[address])
        .speaks("origin", "H2C")
        .rule("{backendRefs: [{@origin}]}")
        .rule_of("web", "{backendRefs: [{@origin}]}");
    let trust = "caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]";
    if origin.speaks_tls() {
        let validation = format!("hostname: backend.test, {trust}");
        return builder.backend_tls("origin", &validation).start();
    }
    builder.start()
}

fn write_files(folder: &Path, ca: &Authority, origin: &Credential) {
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).expect("a file in our own folder");
    };
    write("ca.crt", ca.pem().as_bytes());
    write("origin.crt", origin.pem().as_bytes());
    write("origin.key", origin.key_pem().as_bytes());
    write("pattern", &pattern(BODY));
}

/// Several windows of a stream.
const BODY: usize = 300_000;
