//! HTTP/2 by the cases of h2spec, each in its strict form.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::program::{output, run};
use crate::support::pki::authority;
use crate::support::{gateway, ok, on_both_drivers, origin};

on_both_drivers! {
    #[ignore = "needs Go, and its proxy of modules"]
    fn h2spec_cases_pass(driver) {
        let (ca, h2spec) = (authority("ca"), h2spec());
        let origin = origin().replies(ok("a body of some bytes"));
        let gateway = gateway(driver)
            .routes_to(&origin)
            .https("web", None, &[&ca.server(&["127.0.0.1"])])
            .rule_of("web", "{backendRefs: [{@origin}]}")
            .start();
        // A plain listener serves both versions: what is no preface of HTTP/2 is a request of HTTP/1, and
        // gets a response of HTTP/1.
        let preface = "Sends invalid connection preface";
        for (port, options, failing) in [
            (gateway.address().port(), &[][..], &[preface][..]),
            (gateway.https_address().port(), &["--tls", "--insecure"], &[]),
        ] {
            let mut command = Command::new(&h2spec);
            command.args(["--strict", "--host", "127.0.0.1", "--port", &port.to_string()]);
            let output = output(command.args(options));
            let text = String::from_utf8_lossy(&output.stdout);
            let summary = text.lines().rev().find(|line| line.contains(" tests, "));
            eprintln!("{options:?}: {}", summary.unwrap_or("no result"));
            let failed: Vec<&str> = text.lines().filter_map(failed_case).collect();
            assert!(summary.is_some_and(|line| line.starts_with("146 tests, ")), "{text}");
            // Named where they fail, and again at the end.
            assert!(failed.iter().all(|case| failing.contains(case)), "{text}");
            assert_eq!(failed.is_empty(), failing.is_empty(), "{text}");
        }
    }
}

/// The title of a case, if this line says that it failed: `× 2: Sends invalid connection preface`.
fn failed_case(line: &str) -> Option<&str> {
    let (_, case) = line.split_once('×')?;
    Some(case.split_once(": ")?.1)
}

/// The program, built from its module.
#[track_caller]
fn h2spec() -> PathBuf {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MAKING.lock();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("h2spec");
    let program = folder.join("h2spec");
    if !program.exists() {
        std::fs::create_dir_all(&folder).expect("a folder of ours");
        let go = |arguments: &[&str]| {
            run(Command::new("go").args(arguments).current_dir(&folder));
        };
        let module = "github.com/summerwind/h2spec/cmd/h2spec";
        if !folder.join("go.mod").exists() {
            go(&["mod", "init", "h2spec"]);
        }
        go(&["get", &format!("{module}@v2.2.1+incompatible")]);
        go(&["build", "-o", "h2spec", module]);
    }
    program
}
