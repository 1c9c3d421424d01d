//! Memory of answers and pages for clients that do not read them: texts of policies are not copied, and pages of
//! servers count with the buffers in use, so that neither sheds the requests of others.

use super::external_auth::gateway_with_auth;
use super::metrics::{count, waits_for_buffers};
use super::overload::{Cgroup, within};
use super::page_servers::gateway_with;
use super::slow_readers::TAKES_NOTHING;
use crate::support::frames::{
    END_HEADERS, END_STREAM, HEADERS, PREFACE, Peer, RST_STREAM, SETTINGS, block, frame, request,
};
use crate::support::{
    Driver, Gateway, GatewayBuilder, gateway, ok, on_both_drivers, origin, raw, status,
};

const STREAMS: u32 = 100;
/// That of the largest bodies.
const BODY: usize = 256 * 1024;

/// A GET for this path.
fn get(stream: u32, path: &str) -> Vec<u8> {
    let mut fields = request("GET");
    fields[2].1 = path;
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(&fields))
}

/// A client that opens no window for bodies.
fn takes_nothing(gateway: &Gateway) -> Peer {
    let mut peer = Peer::silent(gateway.address());
    peer.sends(PREFACE)
        .sends(frame(SETTINGS, 0, 0, &TAKES_NOTHING));
    peer
}

/// A client that has the heads of so many responses, and takes no body.
fn with_heads(gateway: &Gateway, path: &str) -> Peer {
    let mut peer = takes_nothing(gateway);
    for number in 0..STREAMS {
        peer.sends(get(2 * number + 1, path));
    }
    for _ in 0..STREAMS {
        peer.next_of(HEADERS);
    }
    peer
}

/// A ConfigMap with a long body that names the request.
fn long_body() -> String {
    let rest = "x".repeat(BODY - "{request_id}".len());
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: long}}\ndata: {{body: '{{request_id}}{rest}'}}"
    )
}

const FROM: &str = "contentType: text/html, bodyFrom: {name: long, key: body}";

/// Rules whose responses have that body: an answer, and pages of errors of the gateway and of a backend.
fn with_long_bodies(driver: Driver, app: std::net::SocketAddr) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[app])
        .rule("{name: answered, matches: [{path: {value: /answered}}]}")
        .rule("{matches: [{path: {value: /failed}}], backendRefs: [{@origin}]}")
        .document(&long_body())
        .policy(&format!(
            "errorPages: [{{statuses: ['404'], source: Any, bodies: [{{{FROM}}}]}}]"
        ))
        .policy_of(
            "HTTPRoute/route-0/answered",
            &format!("respond: {{status: 410, {FROM}}}"),
        )
        .shards(1)
}

on_both_drivers! {
    /// A copy for each stream would take 25 MiB for each of these clients.
    fn clients_that_do_not_read_cause_no_copies_of_bodies_of_policies(driver) {
        let app = origin().replies(status(404));
        let gateway = with_long_bodies(driver, app.address()).start();
        // Each stream to the backend has a connection of its own.
        for (path, clients) in [("/none", 4), ("/answered", 4), ("/failed", 1)] {
            // What the gateway needs for so many streams.
            drop(with_heads(&gateway, path));
            let before = gateway.anonymous_bytes();
            let held: Vec<Peer> = (0..clients).map(|_| with_heads(&gateway, path)).collect();
            let grown = gateway.anonymous_bytes().saturating_sub(before);
            let most = (5 << 20) * held.len() as u64;
            assert!(grown < most, "{path}: {grown} bytes for {clients} clients of {STREAMS} streams");
        }
    }

    /// As pages of servers are: beyond it, a denial has its status and no body.
    fn denials_of_servers_that_clients_do_not_read_are_bounded_by_the_memory_for_buffers(driver) {
        const LIMIT: usize = 8 << 20;
        const TEXT: usize = 64 << 10;
        let cgroup = Cgroup::new(LIMIT);
        let denial = format!(
            "HTTP/1.1 403 No\r\nContent-Type: text/html\r\nX-Why: no\r\nContent-Length: {TEXT}\r\n\r\n{}",
            "x".repeat(TEXT)
        );
        let (auth, app) = (origin().replies(raw(denial)), origin());
        let gateway = gateway_with_auth(driver, &auth, &app, "").shards(1);
        let gateway = within(&cgroup, gateway).start();
        let mut others = gateway.client();
        let whole = others.gets("/").expects(403);
        assert_eq!((whole.text().len(), whole.value("content-type")), (TEXT, Some("text/html")));
        let mut peer = takes_nothing(&gateway);
        for number in 0..STREAMS {
            peer.sends(get(2 * number + 1, "/"));
            peer.next_of(HEADERS);
        }
        waits_for_buffers(&gateway, |bytes| (1.5e6..2.2e6).contains(&bytes));
        let short = others.gets("/").expects(403);
        assert_eq!((&*short.text(), short.value("x-why")), ("", Some("no")));
        assert!(!short.has("content-type"), "{short}");
        assert!(count(&gateway, "gateway_shard_shed_requests_total", "") < 0.5);
        for number in 0..STREAMS {
            peer.sends(frame(RST_STREAM, 0, 2 * number + 1, &[0, 0, 0, 8]));
        }
        waits_for_buffers(&gateway, |bytes| bytes < 5e5);
        assert_eq!(others.gets("/").expects(403).text().len(), TEXT);
    }

    /// Half of the memory for buffers is for such copies: beyond it errors have their text, the server is not asked, and
    /// nobody's request is shed.
    fn pages_of_servers_that_clients_do_not_read_are_bounded_by_the_memory_for_buffers(driver) {
        const LIMIT: usize = 32 << 20;
        let cgroup = Cgroup::new(LIMIT);
        let (pages, app) = (origin().replies(ok("x".repeat(BODY))), origin());
        let gateway = gateway_with(&pages, driver)
            .backend("origin", &[app.address()])
            .rule("{matches: [{path: {value: /app}}], backendRefs: [{@origin}]}")
            .shards(1);
        let gateway = within(&cgroup, gateway).start();
        let mut others = gateway.client();
        others.gets("/app").expects(200);
        let before = gateway.anonymous_bytes();
        let mut peer = takes_nothing(&gateway);
        for number in 0..STREAMS {
            // One after the other: else all but 32 would have no place at the server.
            peer.sends(get(2 * number + 1, "/a"));
            peer.next_of(HEADERS);
            if number % 10 == 0 {
                others.gets("/app").expects(200);
            }
        }
        let grown = gateway.anonymous_bytes().saturating_sub(before);
        assert!(grown < 16 << 20, "{grown} bytes for {STREAMS} streams");
        // Half of the limit is for buffers, and half of that for copies.
        waits_for_buffers(&gateway, |bytes| (6e6..9e6).contains(&bytes));
        let result = |name: &str| count(&gateway, "gateway_error_page_requests_total", name);
        let received = result("result=\"received\"");
        assert!((20.0..40.0).contains(&received), "{received} pages of 256 KiB");
        assert!((received + result("result=\"no_memory\"") - f64::from(STREAMS)).abs() < 0.5);
        assert!(pages.requests().len() < 40, "it is asked for no page that is dropped");
        others.gets("/app").expects(200);
        assert_eq!(others.gets("/a").expects(500).value("content-type"), Some("text/plain; charset=utf-8"));
        assert!(count(&gateway, "gateway_shard_shed_requests_total", "") < 0.5);
        // They are given back with their streams.
        for number in 0..STREAMS {
            peer.sends(frame(RST_STREAM, 0, 2 * number + 1, &[0, 0, 0, 8]));
        }
        waits_for_buffers(&gateway, |bytes| bytes < 1e6);
        assert_eq!(others.gets("/a").expects(500).text().len(), BODY);
    }
}
