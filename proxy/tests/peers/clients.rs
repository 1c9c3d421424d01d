//! Clients of other languages, each of which downloads, uploads, streams, is refused while it writes, and
//! closes its sending side where it can: `programs/client*`, whose lines are compared with what they have
//! to be. `peers.md` has the last result.

use std::path::{Path, PathBuf};
use std::process::Command;

use ring::digest::{SHA256, digest};
use tempfile::TempDir;

use super::program::{Server, file, python, run};
use crate::support::pki::authority;
use crate::support::{Driver, Gateway, Signer, gateway, key_set, on_both_drivers, pattern};

on_both_drivers! {
    #[ignore = "needs nodejs, python3-venv, and packages of Python"]
    fn requests_of_python(driver) {
        let python = python().join("python");
        Scene::new(driver).is_well_with(Uploads::WithAndWithoutLength, |address, scene| {
            let mut command = Command::new(&python);
            command.arg(file("client.py")).args(scene.arguments(address));
            command
        });
    }

    #[ignore = "needs nodejs and php-cli"]
    fn streams_of_php(driver) {
        Scene::new(driver).is_well_with(Uploads::WithLength, |address, scene| {
            let mut command = Command::new("php");
            command.arg(file("client.php")).args(scene.arguments(address));
            command
        });
    }

    #[ignore = "needs nodejs and openjdk-17-jdk-headless"]
    fn http_client_of_java_over_http_1(driver) {
        java(driver, "HTTP_1_1");
    }

    #[ignore = "needs nodejs and openjdk-17-jdk-headless"]
    fn http_client_of_java_over_http_2(driver) {
        java(driver, "HTTP_2");
    }

    #[ignore = "needs nodejs and curl"]
    fn curl_over_http_1(driver) {
        curl(driver, "--http1.1");
    }

    #[ignore = "needs nodejs and curl"]
    fn curl_over_http_2(driver) {
        curl(driver, "--http2-prior-knowledge");
    }

    #[ignore = "needs nodejs"]
    fn fetch_of_node(driver) {
        Scene::new(driver).is_well_with(Uploads::WithLength, |address, scene| {
            let mut command = Command::new("node");
            command.arg(file("fetch.js")).arg(address);
            command.env("NODE_EXTRA_CA_CERTS", scene.authority());
            command
        });
    }

    /// Over HTTP/1, and by TLS over HTTP/2.
    #[ignore = "needs nodejs and chromium"]
    fn fetch_of_chromium(driver) {
        Scene::new(driver).is_well_with(Uploads::WithLength, |address, scene| {
            let mut command = Command::new("chromium");
            // An authority of a test can only be made known to the profile of a user.
            command.args(["--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors"]);
            command.arg(format!("--user-data-dir={}", scene.folder.path().join("profile").display()));
            command.arg("--dump-dom").arg(format!("{address}/page.html"));
            command
        });
    }
}

fn java(driver: Driver, version: &str) {
    Scene::new(driver).is_well_with(Uploads::WithLength, |address, scene| {
        let mut command = Command::new("java");
        command.arg(file("Client.java"));
        command.args(scene.arguments(address)).arg(version);
        command
    });
}

fn curl(driver: Driver, version: &str) {
    Scene::new(driver).is_well_with(Uploads::WithAndWithoutLength, |address, scene| {
        let mut command = Command::new("bash");
        command.arg(file("client_curl.sh"));
        command.args(scene.arguments(address)).arg(version);
        command
    });
}

/// What a client uploads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Uploads {
    WithLength,
    WithAndWithoutLength,
}

/// A gateway with an HTTP and an HTTPS listener, in front of an origin that says what it gets.
struct Scene {
    gateway: Gateway,
    folder: TempDir,
    body: Vec<u8>,
    _origin: Server,
}

impl Scene {
    fn new(driver: Driver) -> Self {
        let (ca, folder) = (
            authority("ca"),
            tempfile::tempdir().expect("a temporary folder"),
        );
        let body = pattern(BODY);
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join(name), bytes).expect("a file in our own folder");
        };
        write("ca.crt", ca.pem().as_bytes());
        write("body", &body);
        let origin = Server::start(|port| {
            let mut node = Command::new("node");
            node.arg(file("client_origin.js")).arg(port.to_string());
            node.arg(folder.path().join("body")).arg(file(""));
            node
        });
        let keys = key_set(&[Signer::ed25519().jwk("key")]);
        let jwt = format!(
            "jwt: {{providers: [{{name: idp, issuer: 'https://issuer.test', audiences: [api], \
             jwks: {{inline: '{keys}'}}}}]}}"
        );
        let mut builder = gateway(driver)
            .https("web", None, &[&ca.server(&["127.0.0.1"])])
            .backend("origin", &[origin.address()]);
        for (number, listener) in ["http", "web"].into_iter().enumerate() {
            let rule = |path: &str| {
                format!(
                    "{{name: {path}, matches: [{{path: {{value: /{path}}}}}], backendRefs: [{{@origin}}]}}"
                )
            };
            builder = builder
                .rule_of(listener, &rule("secret"))
                .rule_of(listener, &rule("limited"))
                .rule_of(listener, "{backendRefs: [{@origin}]}")
                .policy_of(&format!("HTTPRoute/route-{number}/secret"), &jwt)
                .policy_of(
                    &format!("HTTPRoute/route-{number}/limited"),
                    "limits: {requestBodyBytes: 1000}",
                );
        }
        Self {
            gateway: builder.start(),
            folder,
            body,
            _origin: origin,
        }
    }

    /// Runs a client against both listeners, and compares what it says.
    #[track_caller]
    fn is_well_with(&self, uploads: Uploads, client: impl Fn(&str, &Self) -> Command) {
        let plain = format!("http://{}", self.gateway.address());
        let sealed = format!("https://{}", self.gateway.https_address());
        for address in [plain, sealed] {
            let output = run(&mut client(&address, self));
            let said: Vec<&str> = output.lines().filter(|line| is_result(line)).collect();
            eprintln!("{address}\n  {}", said.join("\n  "));
            let mut expected = self.expected(uploads);
            // A client of fetch has no connection that it could close half of, in a browser.
            let can_half_close = said
                .last()
                .is_some_and(|line| line.starts_with("half-close"));
            if address.starts_with("http:") && can_half_close {
                expected.push("half-close 200 late".to_owned());
            }
            assert_eq!(said, expected, "{output}");
        }
    }

    fn expected(&self, uploads: Uploads) -> Vec<String> {
        let hash = digest(&SHA256, &self.body);
        let digits = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
        let hash = digits.collect::<Vec<_>>().concat();
        let upload = format!("upload 200 {BODY} {hash}");
        let mut expected = vec![format!("download 200 {hash}"), upload.clone()];
        if uploads == Uploads::WithAndWithoutLength {
            expected.push(upload);
        }
        expected.extend(
            [
                "stream 200 data: first, data: second",
                "secret 401",
                "limited 413",
                "conflict 409",
            ]
            .map(str::to_owned),
        );
        expected
    }

    fn arguments(&self, address: &str) -> [PathBuf; 3] {
        [
            Path::new(address).to_owned(),
            self.authority(),
            self.folder.path().join("body"),
        ]
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }
}

/// Whether a line is one of a client's own: browsers print more.
fn is_result(line: &str) -> bool {
    let words = [
        "download ",
        "upload ",
        "stream ",
        "secret ",
        "limited ",
        "conflict ",
        "half-close ",
    ];
    words.iter().any(|word| line.starts_with(word))
}

/// More than the buffers of all connections between a client and an origin have.
const BODY: usize = 10_000_000;
