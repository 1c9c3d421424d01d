//! Replays the committed fuzz corpora: an input that once failed a check must not fail it again.

use std::path::Path;

#[path = "../fuzz/checks/client_hello.rs"]
mod client_hello;
#[path = "../fuzz/checks/h1_body.rs"]
mod h1_body;
#[path = "../fuzz/checks/h1_head.rs"]
mod h1_head;
#[path = "../fuzz/checks/h1_pair.rs"]
mod h1_pair;
#[path = "../fuzz/checks/h2_engine.rs"]
mod h2_engine;
#[path = "../fuzz/checks/h2_hpack.rs"]
mod h2_hpack;
#[path = "../fuzz/checks/h2_pair.rs"]
mod h2_pair;
#[path = "../fuzz/checks/jwt.rs"]
mod jwt;
#[path = "../fuzz/checks/path.rs"]
mod path;
#[path = "../fuzz/checks/path_rewrite.rs"]
mod path_rewrite;
#[path = "../fuzz/checks/proxy_protocol.rs"]
mod proxy_protocol;
#[path = "../fuzz/checks/route_match.rs"]
mod route_match;
#[path = "../fuzz/checks/tls_session.rs"]
mod tls_session;
#[path = "../fuzz/checks/udp_sessions.rs"]
mod udp_sessions;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let entries = std::fs::read_dir(&folder).expect("every target has a corpus");
    let mut count = 0;
    for entry in entries {
        let file = entry.expect("a readable folder").path();
        let data = std::fs::read(&file).expect("a readable file");
        // The test's output ends with the failing file.
        eprintln!("{}", file.display());
        check(&data);
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn client_hello_corpus() {
    replay("client_hello", client_hello::check);
}

#[test]
fn h1_head_corpus() {
    replay("h1_head", h1_head::check);
}

#[test]
fn h1_body_corpus() {
    replay("h1_body", h1_body::check);
}

#[test]
fn h1_pair_corpus() {
    replay("h1_pair", h1_pair::check);
}

#[test]
fn h2_engine_corpus() {
    replay("h2_engine", h2_engine::check);
}

#[test]
fn h2_hpack_corpus() {
    replay("h2_hpack", h2_hpack::check);
}

#[test]
fn h2_pair_corpus() {
    replay("h2_pair", h2_pair::check);
}

/// The check uses private items of the crate, and so is part of it.
#[cfg(feature = "test-hooks")]
#[test]
fn h2_io_corpus() {
    replay("h2_io", proxy::http2::script::check);
}

#[test]
fn jwt_corpus() {
    replay("jwt", jwt::check);
}

#[test]
fn path_corpus() {
    replay("path", path::check);
}

#[test]
fn path_rewrite_corpus() {
    replay("path_rewrite", path_rewrite::check);
}

#[test]
fn proxy_protocol_corpus() {
    replay("proxy_protocol", proxy_protocol::check);
}

#[test]
fn route_match_corpus() {
    replay("route_match", route_match::check);
}

#[test]
fn tls_session_corpus() {
    replay("tls_session", tls_session::check);
}

#[test]
fn udp_sessions_corpus() {
    replay("udp_sessions", udp_sessions::check);
}

proptest::proptest! {
    #[test]
    fn udp_sessions_agree_with_a_naive_implementation(
        data in proptest::collection::vec(0..=u8::MAX, 0..2_000)
    ) {
        udp_sessions::check(&data);
    }

    /// More bytes never change a verdict.
    #[test]
    fn verdicts_on_proxy_headers_are_final(
        start in proptest::sample::select(PROXY_STARTS),
        tail in proptest::collection::vec(0..=u8::MAX, 0..200)
    ) {
        proxy_protocol::check(&[start, &tail].concat());
    }
}

/// No header, and both versions' up to where addresses begin to differ.
const PROXY_STARTS: &[&[u8]] = &[b"", b"PROXY TCP4 ", b"\r\n\r\n\0\r\nQUIT\n"];
