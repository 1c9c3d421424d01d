//! WebSocket by the cases of the Autobahn test suite: an echo origin passes them behind the gateway as
//! it does without, over HTTP/1 and over HTTP/2.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::program::{Server, file, output, python};
use crate::support::pki::authority;
use crate::support::{Driver, Gateway, gateway, on_both_drivers};

on_both_drivers! {
    #[ignore = "needs python3-venv, and packages of Python"]
    fn autobahn_cases_pass_with_the_gateway_as_without(driver) {
        let python = python();
        let echo = Server::start(|port| {
            let mut command = Command::new(python.join("python"));
            command.arg(file("websocket_echo.py")).arg(port.to_string());
            command
        });
        let gateway = chain(driver, echo.address());
        let ways = [
            ("directly", echo.address()),
            ("HTTP/1", gateway.address()),
            ("HTTP/2", gateway.address_of(1)),
            ("HTTP/2 over TLS", gateway.address_of(2)),
        ];
        let verdicts = ways.map(|(_, address)| run_cases(&python, address));
        let [directly, behind @ ..] = &verdicts;
        report(&ways.map(|(way, _)| way), &verdicts);
        let passed = directly.values().filter(|verdict| verdict.is_pass()).count();
        assert!(passed >= MIN_CASES, "the origin itself passes {passed} cases only");
        for verdicts in behind {
            let worse: Vec<_> = directly.iter()
                .filter(|(case, verdict)| verdict.is_pass() && !verdicts[*case].is_pass())
                .map(|(case, verdict)| format!("{case}: {verdict:?}, now {:?}", verdicts[case]))
                .collect();
            assert!(worse.is_empty(), "{worse:#?}");
        }
    }
}

/// Of 305 cases; the echo origin sends another status than the last one asks for.
const MIN_CASES: usize = 300;

/// The suite's cases but those of compression, of which one of each kind shows that its negotiation
/// is forwarded: gateways do not parse frames.
const CASES: [&str; 13] = [
    "1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*", "12.1.1", "12.2.1", "13.1.1",
    "13.5.1",
];

/// A gateway with listeners for each path to the origin: over HTTP/1; through a second listener of
/// ours over HTTP/2; and through it over HTTP/2 and TLS.
fn chain(driver: Driver, echo: SocketAddr) -> Gateway {
    let ca = authority("ca");
    let builder = gateway(driver)
        .listener("h2")
        .listener("tls")
        .https("https", None, &[&ca.server(&["a.test"])])
        .authority("ca", &ca)
        .backend("echo", &[echo])
        .rule("{backendRefs: [{@echo}]}")
        .rule_of("https", "{backendRefs: [{@echo}]}");
    // The addresses of its own listeners are known once it has them.
    let gateway = builder.clone().start();
    let trust = "caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]";
    let builder = builder
        .backend("itself", &[gateway.address()])
        .speaks("itself", "H2C")
        .rule_of("h2", "{backendRefs: [{@itself}]}")
        .backend("sealed", &[gateway.https_address()])
        .speaks("sealed", "H2C")
        .backend_tls("sealed", &format!("hostname: a.test, {trust}"))
        .rule_of("tls", "{backendRefs: [{@sealed}]}");
    gateway.reconfigure(&builder);
    gateway.waits_for_applied(2);
    gateway
}

/// The suite's verdict on each case.
type Verdicts = BTreeMap<String, Verdict>;

/// The suite's verdict on a case.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    exchange: String,
    close: String,
}

impl Verdict {
    /// As the suite counts: `NON-STRICT` may be a matter of timing.
    fn is_pass(&self) -> bool {
        let passes = |verdict: &str| ["OK", "NON-STRICT", "INFORMATIONAL"].contains(&verdict);
        passes(&self.exchange) && passes(&self.close)
    }
}

/// Runs all cases against an address, and repeats each failed one alone: cases have deadlines that
/// a busy machine may miss.
fn run_cases(python: &Path, address: SocketAddr) -> Verdicts {
    let mut verdicts = run(python, address, 8, &CASES);
    let failed = verdicts.iter().filter(|(_, verdict)| !verdict.is_pass());
    let failed: Vec<String> = failed.map(|(case, _)| case.clone()).collect();
    if !failed.is_empty() {
        let failed: Vec<&str> = failed.iter().map(String::as_str).collect();
        verdicts.extend(run(python, address, 1, &failed));
    }
    verdicts
}

/// Runs cases against an address, this many at a time.
fn run(python: &Path, address: SocketAddr, at_once: usize, cases: &[&str]) -> Verdicts {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(python.join("kosoku"));
    command.args(["--parallelism", &at_once.to_string(), "--outdir"]);
    command.arg(folder.path());
    command.args(cases.iter().flat_map(|cases| ["--include", *cases]));
    // It exits with 1 if a case fails: the report tells which.
    let output = output(command.arg(format!("ws://{address}")));
    let report = std::fs::read_to_string(folder.path().join("index.json"));
    let report = report.unwrap_or_else(|_| panic!("no report: {}", output.stderr.escape_ascii()));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let agents = report.as_object().expect("verdicts by agent").values();
    let cases = agents.filter_map(Value::as_object).flatten();
    let text = |value: &Value| value.as_str().expect("a verdict").to_owned();
    cases
        .map(|(case, result)| {
            let (exchange, close) = (text(&result["behavior"]), text(&result["behaviorClose"]));
            (case.clone(), Verdict { exchange, close })
        })
        .collect()
}

/// Prints how many cases pass on each path, and the cases that differ.
fn report(ways: &[&str], verdicts: &[Verdicts]) {
    for (way, verdicts) in ways.iter().zip(verdicts) {
        let passed = verdicts
            .values()
            .filter(|verdict| verdict.is_pass())
            .count();
        eprintln!("{way}: {passed} of {} cases pass", verdicts.len());
    }
    let (first, others) = verdicts.split_first().expect("a run");
    for (case, verdict) in first {
        let differ = others
            .iter()
            .any(|verdicts| verdicts.get(case) != Some(verdict));
        if differ || !verdict.is_pass() {
            let all: Vec<_> = verdicts.iter().map(|verdicts| verdicts.get(case)).collect();
            eprintln!("{case}: {all:?}");
        }
    }
}
