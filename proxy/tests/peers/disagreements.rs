//! Requests on which implementations of HTTP/1.1 disagree, from two public corpora: what must be rejected
//! is, what must be accepted is, and the framing of whatever reaches an origin is unambiguous.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde::Deserialize;

use super::program::{Server, file, python, run};
use crate::support::{gateway, on_both_drivers};

on_both_drivers! {
    #[ignore = "needs python3-venv, packages of Python, and the registry of crates"]
    fn requests_of_public_corpora_are_rejected_or_unambiguous(driver) {
        let python = python();
        let program = || {
            let mut command = Command::new(python.join("python"));
            command.arg(file("disagreements.py"));
            command
        };
        let origin = Server::start(|port| {
            let mut command = program();
            command.args(["origin", &port.to_string()]);
            command
        });
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{backendRefs: [{@origin}]}")
            .start();
        let lines = run(program()
            .arg(gateway.address().to_string())
            .arg(guardian())
            .arg(gunicorn(&python)));
        let cases: Vec<Case> = lines
            .lines()
            .map(|line| serde_json::from_str(line).expect("a case"))
            .collect();

        let ambiguous: Vec<_> = cases.iter().filter(|case| !case.is_unambiguous()).collect();
        assert!(ambiguous.is_empty(), "{ambiguous:#?}");
        let different: Vec<_> = cases.iter().filter(|case| case.differs()).collect();
        let accepted = cases.iter().filter(|case| case.is_accepted()).count();
        eprintln!(
            "{} cases: {accepted} accepted, {} differ from their corpus",
            cases.len(),
            different.len()
        );
        let known = |name: &str| DIFFERENT.iter().any(|(_, names)| names.contains(&name));
        let unexplained: Vec<_> = different.iter().filter(|case| !known(&case.name)).collect();
        assert!(unexplained.is_empty(), "{unexplained:#?}");
        let names: Vec<&str> = different.iter().map(|case| &*case.name).collect();
        for name in DIFFERENT.iter().flat_map(|(_, names)| *names) {
            assert!(names.contains(name), "{name} does not differ any more");
        }
    }
}

/// Where the gateway and a corpus differ, and why the gateway is right.
const DIFFERENT: &[(&str, &[&str])] = &[
    (
        "codings other than chunked are not supported: 501 (RFC 9112 section 6.1), as nginx and Envoy respond",
        &[
            "guardian more-compliant-tests: Correct TE OK",
            "guardian more-compliant-tests: Transfer-Encoding: identity and chunked OK",
            "guardian rfc-compliant: Different Transfer-Encoding headers combined",
            "gunicorn valid: rfc9112_smuggle_gzip_chunked_01",
            "gunicorn valid: rfc9112_smuggle_te_identity_chunked_01",
        ],
    ),
    (
        "one Transfer-Encoding field, without parameters: others are read differently",
        &[
            "guardian more-compliant-tests: Multiple transfer encoding headers in a single request OK",
            "guardian more-compliant-tests: TE with custom parameters OK",
            "guardian rfc-compliant: Different Transfer-Encoding headers",
            "guardian rfc-compliant: Transfer-Encoding with a param: chunked;custom_param",
        ],
    ),
    (
        "a request target is a URI, and not empty (RFC 9112 section 3.2)",
        &[
            "guardian rfc-compliant: Compliant URL",
            "guardian rfc-compliant: International in URI",
            "guardian rfc-compliant: Empty URI",
        ],
    ),
    (
        "a list of identical lengths is one (RFC 9112 section 6.3), and is forwarded as one",
        &[
            "guardian severe: Bad Content-Length: 1000,1000",
            "gunicorn invalid: rfc9112_smuggle_cl_list_form_01",
        ],
    ),
    (
        "the case states a length and has no body of it, so that there is no complete request",
        &[
            "guardian more-compliant-tests: Large Size OK",
            "gunicorn valid: 099",
        ],
    ),
    (
        "trailer fields that frame or route are dropped (RFC 9110 section 6.5.1), the request is not",
        &[
            "gunicorn invalid: rfc9110_trailer_forbidden_cl_01",
            "gunicorn invalid: rfc9110_trailer_forbidden_host_01",
            "gunicorn invalid: rfc9110_trailer_forbidden_te_01",
        ],
    ),
    (
        "`Host` is a host and a port (RFC 9110 section 7.2)",
        &["gunicorn valid: 002", "gunicorn valid: 003"],
    ),
    (
        "user information in a request target is an error (RFC 9110 section 4.2.4)",
        &["gunicorn valid: rfc9112_target_absolute_userinfo_01"],
    ),
    (
        "CONNECT is not supported: 501",
        &[
            "gunicorn valid: rfc9112_target_authority_connect_01",
            "gunicorn valid: rfc9112_target_authority_ipv6_01",
        ],
    ),
    (
        "`OPTIONS *` is about the gateway, which has no rule for it: 404",
        &["gunicorn valid: rfc9112_target_asterisk_options_01"],
    ),
    (
        "gunicorn's limits of a line are smaller: they are settings here",
        &[
            "gunicorn invalid: 006",
            "gunicorn invalid: 007",
            "gunicorn invalid: 008",
        ],
    ),
];

/// What became of a case.
#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    expected: Expected,
    /// Status codes of all responses.
    statuses: Vec<u16>,
    /// The requests that reached the origin.
    forwarded: Vec<String>,
}

/// What the corpus expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Expected {
    Accept,
    Reject,
    /// It is bad, but both are safe; or a setting of the corpus' own program decides.
    Either,
}

impl Case {
    /// Whether each of its requests was served by the origin.
    fn is_accepted(&self) -> bool {
        !self.statuses.is_empty() && self.statuses.iter().all(|status| *status == 200)
    }

    /// Whether the corpus expects something else.
    fn differs(&self) -> bool {
        match self.expected {
            Expected::Accept => !self.is_accepted(),
            Expected::Reject => !self.forwarded.is_empty(),
            Expected::Either => false,
        }
    }

    /// Whether every request that reached the origin states the length of its body at most once, in the one
    /// form that all implementations read alike.
    fn is_unambiguous(&self) -> bool {
        self.forwarded.iter().all(|request| {
            let (head, _) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
            let framing = head.split("\r\n").skip(1).filter(|line| {
                let name = line.split(':').next().unwrap_or_default();
                let name = name.to_ascii_lowercase().replace('_', "-");
                ["content-length", "transfer-encoding"].contains(&name.trim())
            });
            let framing: Vec<&str> = framing.collect();
            match framing[..] {
                [] | ["Transfer-Encoding: chunked"] => true,
                [line] => line.strip_prefix("Content-Length: ").is_some_and(|length| {
                    !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit())
                }),
                _ => false,
            }
        })
    }
}

/// The folder of the crate that has the cases of AWS's HTTP Desync Guardian.
#[track_caller]
fn guardian() -> PathBuf {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MAKING.lock();
    // A crate that depends on it: Cargo downloads it as it does all others.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guardian");
    let cargo = |arguments: &[&str]| {
        run(Command::new(env!("CARGO"))
            .args(arguments)
            .current_dir(&folder))
    };
    if !folder.join("Cargo.toml").exists() {
        std::fs::create_dir_all(folder.join("src")).expect("a folder of ours");
        std::fs::write(folder.join("src/lib.rs"), "").expect("a file of ours");
        let manifest = "[workspace]\n[package]\nname = \"cases\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
            [dependencies]\nhttp_desync_guardian = \"=0.1.3\"\n";
        std::fs::write(folder.join("Cargo.toml"), manifest).expect("a file of ours");
    }
    cargo(&["fetch"]);
    let metadata = cargo(&["metadata", "--quiet", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let package = packages
        .iter()
        .find(|it| it["name"] == "http_desync_guardian");
    let manifest = package
        .and_then(|it| it["manifest_path"].as_str())
        .expect("the package");
    Path::new(manifest)
        .parent()
        .expect("a file in a folder")
        .to_owned()
}

/// The sources of gunicorn, as the index of packages names them.
const RELEASE: &str = "gunicorn-27.0.1";

/// The folder of gunicorn's sources, which have the cases of its parser.
#[track_caller]
fn gunicorn(python: &Path) -> PathBuf {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MAKING.lock();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gunicorn");
    if !folder.join(RELEASE).exists() {
        std::fs::create_dir_all(&folder).expect("a folder of ours");
        let requirement = RELEASE.replace('-', "==");
        run(Command::new(python.join("pip"))
            .args([
                "download",
                "--quiet",
                "--no-deps",
                "--no-binary",
                ":all:",
                &requirement,
            ])
            .current_dir(&folder));
        run(Command::new("tar")
            .args(["xzf", &format!("{RELEASE}.tar.gz")])
            .current_dir(&folder));
    }
    folder.join(RELEASE)
}
