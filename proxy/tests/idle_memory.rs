//! Memory of idle connections and streams, measured on the release process:
//!
//! `cargo test --release -p proxy --test idle_memory -- --ignored --nocapture`

#[expect(
    dead_code,
    unused_imports,
    reason = "each test crate speaks a part of the language"
)]
#[path = "support/mod.rs"]
mod support;

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use support::frames::{ACK, DATA, END_STREAM, HEADERS, PING, Peer, frame, get, post};
use support::pki::authority;
use support::{Client, Gateway, gateway, on_both_drivers, origin, tls};

const CONNECTIONS: usize = 8_000;

/// Connections opened at a time, so that not all of them are busy together.
const STEP: usize = 500;

/// Bytes that an idle connection may cost: 1.1 KiB, as in the bench, and a quarter for what is left of
/// a burst: here nearly all connections come before the first of them is parked.
const BAR: u64 = 1_408;

/// Opened one after the other, within two seconds on a machine with nothing else to do.
const BURST: usize = 10_000;

/// How long after its end a burst may cost no more than [`BURST_BAR`].
const SOON: Duration = Duration::from_secs(1);

/// Bytes that a connection of a burst may cost then.
const BURST_BAR: u64 = 1_331;

const TLS_CONNECTIONS: usize = 2_000;

/// Bytes that an idle connection of TLS may cost: rustls' own state, and no record buffers. Less than
/// half of nginx's.
const TLS_BAR: u64 = 7 * 1024;

const H2_CONNECTIONS: usize = 1_000;

/// Bytes that an idle connection of HTTP/2 may cost: 5.7 KB were measured, and a quarter for what is left of
/// a burst.
const H2_BAR: u64 = 7_200;

/// With [`H2_STREAMS`] on each, fewer streams than an endpoint may have connections: 1 024.
const H2_STREAM_CONNECTIONS: usize = 20;

const H2_STREAMS: usize = 50;

/// Bytes that a stream may cost whose request waits for its body, with the connection to its origin:
/// 15.0 KB were measured, and a quarter.
const H2_STREAM_BAR: u64 = 18_800;

/// Timeout for memory to settle.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Memory is settled when it has not changed for longer than a connection takes to park and the
/// shard takes to free memory.
const SETTLED: Duration = Duration::from_secs(7);

/// Bytes of memory, once settled.
fn settled(gateway: &Gateway) -> u64 {
    let started = Instant::now();
    let mut last = (gateway.anonymous_bytes(), Instant::now());
    while last.1.elapsed() < SETTLED && started.elapsed() < TIMEOUT {
        std::thread::park_timeout(Duration::from_millis(50));
        let now = gateway.anonymous_bytes();
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
    last.0
}

/// This many connections, each after one request.
fn busy_once(connect: &dyn Fn() -> Client) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..STEP).map(|_| connect()).collect();
    for client in &mut clients {
        client.gets("/").expects(200);
    }
    clients
}

/// Memory of each of this many idle connections.
fn measure(gateway: &Gateway, connections: usize, connect: &dyn Fn() -> Client) -> u64 {
    // Code and tables are in memory then; buffers and other remains of a burst are not, and count
    // as the connections'.
    connect().gets("/").expects(200);
    let before = settled(gateway);
    let mut idle = Vec::with_capacity(connections);
    while idle.len() < connections {
        idle.extend(busy_once(connect));
    }
    let after = settled(gateway);
    let per_connection = after.saturating_sub(before) / connections as u64;
    eprintln!(
        "{per_connection} bytes for each of {connections} idle connections ({before} before, {after} after)"
    );
    for client in &mut idle {
        client.gets("/").expects(200);
    }
    per_connection
}

/// Memory of each connection of a burst, one second after the last connection or request.
fn measure_burst(gateway: &Gateway, asks: bool) -> u64 {
    // Code and tables are in memory then.
    gateway.client().gets("/").expects(200);
    let before = settled(gateway);
    let started = Instant::now();
    let connect = |_| {
        let mut client = gateway.client();
        if asks {
            client.gets("/").expects(200);
        }
        client
    };
    let mut burst: Vec<Client> = (0..BURST).map(connect).collect();
    let (took, ended) = (started.elapsed(), Instant::now());
    let mut most = 0;
    while ended.elapsed() < SOON {
        most = most.max(gateway.anonymous_bytes());
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let after = gateway.anonymous_bytes();
    let per_connection = after.saturating_sub(before) / BURST as u64;
    eprintln!(
        "{per_connection} bytes for each of {BURST} connections that came within {took:?} \
         ({before} before, {most} at most, {after} after)"
    );
    for client in burst.iter_mut().step_by(97) {
        client.gets("/").expects(200);
    }
    per_connection
}

/// This many HTTP/2 clients, each after one request on its first stream.
fn h2_clients(gateway: &Gateway, count: usize) -> Vec<Peer> {
    let mut clients = Vec::with_capacity(count);
    for _ in 0..count {
        let mut client = Peer::client(gateway.address());
        client.settles().sends(get(1));
        assert_eq!(client.next_of(HEADERS).status(), Some(200));
        while client.next_of(DATA).flags & END_STREAM == 0 {}
        clients.push(client);
    }
    clients
}

/// Streams of a client after its first.
fn streams() -> impl Iterator<Item = u32> {
    (3..).step_by(2).take(H2_STREAMS)
}

on_both_drivers! {
    #[ignore = "measures: run it on a release build, as said above"]
    fn an_idle_connection_uses_little_memory(driver) {
        // Ours are as many as the gateway's: a test's soft limit is often too low.
        proxy::machine::descriptors::per_shard(NonZeroU32::MIN).expect("a limit");
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("keepAliveTimeout: 1h").start();
        let per_connection = measure(&gateway, CONNECTIONS, &|| gateway.client());
        assert!(per_connection <= BAR, "{per_connection} bytes, not {BAR}");
    }

    #[ignore = "measures: run it on a release build, as said above"]
    fn the_memory_of_a_burst_of_connections_is_freed(driver) {
        proxy::machine::descriptors::per_shard(NonZeroU32::MIN).expect("a limit");
        let origin = origin();
        for asks in [false, true] {
            let gateway = gateway(driver).routes_to(&origin).limits("keepAliveTimeout: 1h").start();
            let per_connection = measure_burst(&gateway, asks);
            assert!(per_connection <= BURST_BAR, "{per_connection} bytes, not {BURST_BAR}");
        }
    }

    #[ignore = "measures: run it on a release build, as said above"]
    fn an_idle_tls_connection_uses_little_memory(driver) {
        proxy::machine::descriptors::per_shard(NonZeroU32::MIN).expect("a limit");
        let (origin, ca) = (origin(), authority("ca"));
        let gateway = gateway(driver)
            .https("web", None, &[&ca.server(&["a.test"])])
            .backend("origin", &[origin.address()])
            .rule_of("web", "{backendRefs: [{@origin}]}")
            .limits("keepAliveTimeout: 1h")
            .start();
        let tls = tls(&ca, "a.test").forgetful();
        // One handshake after the other: so many together would not all finish within the handshake
        // timeout.
        let connect = || {
            let mut client = gateway.tls_client(&tls);
            client.completes_handshake();
            client
        };
        let per_connection = measure(&gateway, TLS_CONNECTIONS, &connect);
        assert!(per_connection <= TLS_BAR, "{per_connection} bytes, not {TLS_BAR}");
    }

    #[ignore = "measures: run it on a release build, as said above"]
    fn an_idle_http_2_connection_uses_little_memory(driver) {
        proxy::machine::descriptors::per_shard(NonZeroU32::MIN).expect("a limit");
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("keepAliveTimeout: 1h").start();
        drop(h2_clients(&gateway, 1));
        let before = settled(&gateway);
        let mut idle = h2_clients(&gateway, H2_CONNECTIONS);
        let after = settled(&gateway);
        let per_connection = after.saturating_sub(before) / H2_CONNECTIONS as u64;
        eprintln!("{per_connection} bytes for each of {H2_CONNECTIONS} ({before} before, {after} after)");
        for client in &mut idle {
            client.sends(get(3));
            assert_eq!(client.next_of(HEADERS).stream, 3);
        }
        assert!(per_connection <= H2_BAR, "{per_connection} bytes, not {H2_BAR}");
    }

    #[ignore = "measures: run it on a release build, as said above"]
    fn a_stream_waiting_for_its_body_uses_little_memory(driver) {
        proxy::machine::descriptors::per_shard(NonZeroU32::MIN).expect("a limit");
        let origin = origin();
        let gateway = gateway(driver)
            .routes_to(&origin)
            .limits("keepAliveTimeout: 1h, bodyIdleTimeout: 1h")
            .start();
        let mut clients = h2_clients(&gateway, H2_STREAM_CONNECTIONS);
        let before = settled(&gateway);
        for client in &mut clients {
            client.sends(streams().flat_map(post).collect::<Vec<_>>());
            // The PING is acknowledged after the preceding frames have been processed.
            client.sends(frame(PING, 0, 0, &[0; 8]));
            assert_eq!(client.next_of(PING).flags, ACK);
        }
        let after = settled(&gateway);
        let count = H2_STREAM_CONNECTIONS * H2_STREAMS;
        let per_stream = after.saturating_sub(before) / count as u64;
        eprintln!("{per_stream} bytes for each of {count} streams ({before} before, {after} after)");
        for client in &mut clients {
            let ends = streams().flat_map(|stream| frame(DATA, END_STREAM, stream, b""));
            client.sends(ends.collect::<Vec<_>>());
            for _ in streams() {
                // In the static table, 200.
                assert_eq!(client.next_of(HEADERS).payload.first(), Some(&0x88));
            }
        }
        assert!(per_stream <= H2_STREAM_BAR, "{per_stream} bytes, not {H2_STREAM_BAR}");
    }
}
