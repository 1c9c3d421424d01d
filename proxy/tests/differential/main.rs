//! Forwarded requests are parsed alike by other servers: the forwarded cases of the corpus are sent
//! through the gateway to nginx, HAProxy, Apache, Node and Python, each a reverse proxy in front of
//! a recording origin.
//!
//! Needs those servers (`apt-get install nginx haproxy apache2 nodejs python3`), so it runs only on
//! request: `cargo test -p proxy --test differential -- --ignored`.

#[expect(dead_code, reason = "a part of a case is enough here")]
#[path = "../corpus/case.rs"]
mod case;
#[path = "../corpus/escape.rs"]
mod escape;
mod path_rewrite;
mod peer;
#[expect(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test crate speaks a part of the language"
)]
#[path = "../support/mod.rs"]
mod support;

use case::{Case, Connection};
use peer::{KINDS, Kind, Peer};
use support::{Driver, Gateway, Message, client, gateway};

#[test]
#[ignore = "needs nginx, haproxy, apache2, node and python3"]
fn every_server_parses_forwarded_requests_like_the_gateway() {
    let cases: Vec<Case> = case::all()
        .into_iter()
        .filter(is_plainly_forwarded)
        .collect();
    let failures: Vec<String> = KINDS
        .iter()
        .flat_map(|kind| replay(*kind, &cases))
        .collect();
    assert!(
        failures.is_empty(),
        "{} differences:\n- {}",
        failures.len(),
        failures.join("\n- ")
    );
}

/// Cases about requests alone: all of it is forwarded, and the origin's answer does not matter.
fn is_plainly_forwarded(case: &Case) -> bool {
    case.verdict.refusals.is_empty() && case.origin.is_empty()
}

fn replay(kind: Kind, cases: &[Case]) -> Vec<String> {
    let peer = Peer::start(kind);
    let gateway = gateway(Driver::Epoll)
        .backend("peer", &[peer.address])
        .rule("{backendRefs: [{@peer}]}")
        .start();
    let mut refused = 0;
    let mut failures = Vec::new();
    for case in cases {
        match compare(&gateway, &peer, case) {
            Ok(refusals) => refused += usize::from(refusals > 0),
            Err(why) => failures.push(format!("{}: {}: {why}", kind.name, case.name)),
        }
    }
    eprintln!(
        "{}: {} cases, {refused} of them refused by it",
        kind.name,
        cases.len()
    );
    // A server that rejects everything has no differences, and proves nothing.
    if refused * 5 > cases.len() {
        failures.push(format!(
            "{} refused {refused} of {} cases",
            kind.name,
            cases.len()
        ));
    }
    failures
}

/// Sends a case. Returns how many of its requests the server rejected, or the difference in
/// parsing.
fn compare(gateway: &Gateway, peer: &Peer, case: &Case) -> Result<usize, String> {
    peer.origin.take();
    let mut client = client(gateway.address());
    client.sends(&case.client);
    let mut refusals = 0;
    for expected in &case.forwarded {
        let method = expected.start.split(' ').next().unwrap_or_default();
        let answer = client
            .reply_to(method)
            .map_err(|cut| format!("no answer: {cut}"))?;
        refusals += usize::from(answer.status() >= 400);
    }
    if case.verdict.connection == Connection::GoesOn {
        // A smuggled request would have been answered or recorded by now.
        client.gets("/after-the-case");
        let after = client
            .reply_to("GET")
            .map_err(|cut| format!("nothing after it: {cut}"))?;
        if after.status() != 200 {
            return Err(format!("the request after it was answered with {after}"));
        }
    }
    let (mut got, malformed) = peer.origin.take();
    got.retain(|request| request.target() != "/after-the-case");
    if !malformed.is_empty() {
        return Err(format!("it sent on malformed bytes: {malformed:?}"));
    }
    same_requests(case, &got, refusals).map(|()| refusals)
}

/// Repeated slashes as one: what a path with them names differs between servers (Apache merges
/// leading ones), but no request begins or ends elsewhere for it.
fn merged(start: &str) -> String {
    let slash = |(before, c): &(char, char)| !(*before == '/' && *c == '/');
    let pairs = std::iter::once(' ').chain(start.chars()).zip(start.chars());
    pairs.filter(slash).map(|(_, c)| c).collect()
}

fn same_requests(case: &Case, got: &[Message], refusals: usize) -> Result<(), String> {
    let expected: Vec<(String, Vec<u8>)> = case
        .forwarded
        .iter()
        .map(|request| {
            (
                merged(&request.start),
                request.body.clone().unwrap_or_default(),
            )
        })
        .collect();
    let read: Vec<(String, Vec<u8>)> = got
        .iter()
        .map(|request| {
            (
                merged(&format!("{} {}", request.method(), request.target())),
                request.body.clone(),
            )
        })
        .collect();
    let mut remaining = expected.iter();
    let in_order = read
        .iter()
        .all(|request| remaining.any(|expected| expected == request));
    if in_order && read.len() + refusals == expected.len() {
        return Ok(());
    }
    let formatted = |requests: &[(String, Vec<u8>)]| {
        let texts = requests
            .iter()
            .map(|(start, body)| format!("`{start}` + {} bytes", body.len()));
        texts.collect::<Vec<_>>().join(", ")
    };
    Err(format!(
        "it read {} where we forwarded {}",
        formatted(&read),
        formatted(&expected)
    ))
}
