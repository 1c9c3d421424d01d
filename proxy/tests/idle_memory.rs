//! What an idle keep-alive connection costs in memory, measured on the process as it ships:
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

use support::{Client, Gateway, gateway, on_both_drivers, origin};

const CONNECTIONS: usize = 8_000;

/// Opened at a time, so that not all of them are busy at once.
const STEP: usize = 500;

/// Bytes that an idle connection may cost.
const BAR: u64 = 1_126;

/// Longest wait for memory to settle.
const PATIENCE: Duration = Duration::from_secs(30);

/// Memory is settled when it has not moved for longer than a connection takes to park, and the
/// shard to look for memory to give back.
const SETTLED: Duration = Duration::from_secs(7);

/// Resident bytes, once they stand still.
fn settled(gateway: &Gateway) -> u64 {
    let begun = Instant::now();
    let mut last = (gateway.resident_bytes(), Instant::now());
    while last.1.elapsed() < SETTLED && begun.elapsed() < PATIENCE {
        std::thread::park_timeout(Duration::from_millis(50));
        let now = gateway.resident_bytes();
        if now != last.0 {
            last = (now, Instant::now());
        }
    }
    last.0
}

/// So many connections, each of which was asked something.
fn busy_once(gateway: &Gateway) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..STEP).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.gets("/").expects(200);
    }
    clients
}

on_both_drivers! {
    #[ignore = "measures: run it on a release build, as said above"]
    fn an_idle_connection_costs_little(driver) {
        // Ours are as many as the gateway's: a test's soft limit is often too low.
        proxy::descriptors::client_connections(NonZeroU32::MIN).expect("a limit");
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("keepAliveTimeout: 1h").start();
        // Code and tables are in memory then; buffers and whatever else a burst leaves are not, and
        // count as the connections'.
        gateway.client().gets("/").expects(200);
        let before = settled(&gateway);
        let mut idle = Vec::with_capacity(CONNECTIONS);
        while idle.len() < CONNECTIONS {
            idle.extend(busy_once(&gateway));
        }
        let after = settled(&gateway);
        let each = after.saturating_sub(before) / CONNECTIONS as u64;
        eprintln!(
            "{driver:?}: {each} bytes for each of {CONNECTIONS} idle connections \
             ({before} before, {after} after)"
        );
        assert!(each <= BAR, "{each} bytes, not {BAR}");
        for client in &mut idle {
            client.gets("/").expects(200);
        }
    }
}
