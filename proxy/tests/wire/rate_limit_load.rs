//! Rate limits under load: every key gets what its rule allows and no more, whichever shard its requests come to, and
//! a flood of other keys frees none that is being refused.
//!
//! The long forms measure, and so run by name, with a release build, a few minutes each:
//! `GATEWAY_UNDER_TEST=target/release/gateway cargo test --release -p proxy --all-features --test wire
//! rate_limit_load -- --ignored --nocapture --test-threads 1`.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use memchr::memmem;

use super::picker_cost::processor_time;
use crate::support::{Driver, Gateway, GatewayBuilder, TIMEOUT, gateway, on_both_drivers};

/// Clients that send at once, and connections of each: enough that both shards count requests of each key.
const CLIENTS: u32 = 4;
const CONNECTIONS: u32 = 4;
/// Requests that a client sends before it reads the responses.
const BATCH: usize = 64;

/// A gateway of two shards that counts by a header. It answers by itself whatever passes, so that no more than that
/// is measured.
fn limited(driver: Driver, rule: &str) -> Gateway {
    limited_to(driver, &of_keys(rule)).start()
}

fn of_keys(rule: &str) -> String {
    format!("{{name: each, key: [{{header: X-Key}}], {rule}}}")
}

fn limited_to(driver: Driver, rules: &str) -> GatewayBuilder {
    gateway(driver)
        .shards(2)
        .rule("{filters: [{type: RequestRedirect, requestRedirect: {hostname: other.test}}]}")
        .policy(&format!("rateLimit: {{rules: [{rules}]}}"))
}

/// A client with several connections, of which it uses one after the other.
struct Generator {
    connections: Vec<TcpStream>,
    batches: usize,
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Generator {
    fn new(address: SocketAddr) -> Self {
        let connect = |_| {
            let connection = TcpStream::connect(address).expect("the listener accepts");
            connection.set_nodelay(true).expect("a socket of ours");
            connection
                .set_read_timeout(Some(TIMEOUT))
                .expect("above zero");
            connection
        };
        Self {
            connections: (0..CONNECTIONS).map(connect).collect(),
            batches: 0,
            sent: Vec::new(),
            received: Vec::new(),
        }
    }

    /// Sends a request of each key; tells of each whether it passed.
    fn sends(&mut self, keys: &[u32], mut passed: impl FnMut(u32, bool)) {
        self.sent.clear();
        for key in keys {
            write!(
                self.sent,
                "GET / HTTP/1.1\r\nHost: a\r\nX-Key: {key}\r\n\r\n"
            )
            .expect("memory can be written");
        }
        self.batches += 1;
        let at = self.batches % self.connections.len();
        let connection = &mut self.connections[at];
        connection.write_all(&self.sent).expect("it is read");
        self.received.clear();
        let (mut answered, mut begin) = (0, 0);
        while answered < keys.len() {
            while let Some((status, end)) = response(&self.received[begin..]) {
                match status {
                    302 => passed(keys[answered], true),
                    429 => passed(keys[answered], false),
                    other => panic!("status {other}"),
                }
                answered += 1;
                begin += end;
            }
            if answered < keys.len() {
                let before = self.received.len();
                self.received.resize(before + 64 * 1024, 0);
                let count = connection.read(&mut self.received[before..]);
                let count = count.expect("responses come");
                assert!(count > 0, "the connection was closed");
                self.received.truncate(before + count);
            }
        }
        assert_eq!(begin, self.received.len(), "as many responses as requests");
    }
}

/// Status and length of a response, if all of it is there.
fn response(bytes: &[u8]) -> Option<(u16, usize)> {
    let head = memmem::find(bytes, b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).expect("fields of the gateway");
    let status = text.get(9..12).and_then(|status| status.parse().ok());
    let (_, length) = text.split_once("Content-Length: ").expect("a length");
    let length = length.split("\r\n").next().and_then(|it| it.parse().ok());
    let end = head + length.unwrap_or(0_usize);
    (bytes.len() >= end).then_some((status.expect("a status"), end))
}

/// Sends `times` requests of each of these keys in a row, from all clients. Returns how many passed.
fn sends_each(gateway: &Gateway, keys: &Range<u32>, times: usize) -> u64 {
    let (address, clients) = (gateway.address(), 0..CLIENTS);
    thread::scope(|scope| {
        let clients = clients.map(|client| {
            let keys = (keys.clone()).skip(client as usize);
            scope.spawn(move || {
                let (mut generator, mut passed) = (Generator::new(address), 0);
                let keys: Vec<u32> = keys.step_by(CLIENTS as usize).collect();
                for keys in keys.chunks(BATCH) {
                    // One after the other, on another connection and so on the other shard.
                    for _ in 0..times {
                        generator.sends(keys, |_, has_passed| passed += u64::from(has_passed));
                    }
                }
                passed
            })
        });
        let clients: Vec<_> = clients.collect();
        clients
            .into_iter()
            .map(|it| it.join().expect("no failure"))
            .sum()
    })
}

/// What a rule allows a key, as a client computes it.
#[derive(Debug, Clone, Copy, Default)]
struct Key {
    /// The time until which the key has used its rate.
    used_until: Duration,
    asked: u32,
    allowed: u32,
    passed: u32,
}

/// A rule: the time between two requests of its rate, and how many may come at once.
#[derive(Debug, Clone, Copy)]
struct Pace {
    step: Duration,
    burst: u32,
}

impl Key {
    fn asks(&mut self, at: Duration, pace: Pace) {
        self.asked += 1;
        let until = self.used_until.max(at) + pace.step;
        if until <= at + pace.step * pace.burst {
            self.used_until = until;
            self.allowed += 1;
        }
    }
}

/// Sends requests of keys at random for a time, from all clients. Returns what became of each key.
fn sends_for(time: Duration, keys: u32, pace: Pace, address: SocketAddr) -> Vec<Key> {
    let begun = Instant::now();
    thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|client| {
            scope.spawn(move || {
                let mut generator = Generator::new(address);
                // Each client has keys of its own, so that it knows when their requests are counted.
                let own = keys / CLIENTS;
                let mut all = vec![Key::default(); own as usize];
                let (mut state, mut batch) = (u64::from(client) + 1, [0; BATCH]);
                while begun.elapsed() < time {
                    for key in &mut batch {
                        // A linear congruential generator (Knuth, MMIX).
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let number = u32::try_from(state >> 33).expect("31 bits");
                        *key = client * own + number % own;
                    }
                    let at = begun.elapsed();
                    generator.sends(&batch, |key, has_passed| {
                        let key = &mut all[(key - client * own) as usize];
                        key.asks(at, pace);
                        key.passed += u32::from(has_passed);
                    });
                }
                all
            })
        });
        let clients: Vec<_> = clients.collect();
        let clients = clients.into_iter();
        clients
            .flat_map(|it| it.join().expect("no failure"))
            .collect()
    })
}

/// Prints what a part of a run took.
fn report(what: &str, gateway: &Gateway, (begun, before): (Instant, Duration), requests: u64) {
    let (took, used) = (
        begun.elapsed(),
        processor_time(gateway).saturating_sub(before),
    );
    let each = used.as_secs_f64() * 1e6 / f64::from(u32::try_from(requests.max(1)).expect("few"));
    eprintln!(
        "{what}: {requests} requests in {:.1} s, {:.1} s of CPU ({each:.1} µs each), {:.1} MiB of memory",
        took.as_secs_f64(),
        used.as_secs_f64(),
        f64::from(u32::try_from(gateway.anonymous_bytes() >> 10).expect("few")) / 1024.0,
    );
}

fn begin(gateway: &Gateway) -> (Instant, Duration) {
    (Instant::now(), processor_time(gateway))
}

on_both_drivers! {
    fn each_of_thousands_of_keys_gets_exactly_what_is_allowed(driver) {
        const KEYS: u32 = 3000;
        let gateway = limited(driver, "requests: 3, per: Hour");
        assert_eq!(sends_each(&gateway, &(0..KEYS), 5), 3 * u64::from(KEYS));
        assert_eq!(sends_each(&gateway, &(0..KEYS), 1), 0);
    }

    fn a_flood_of_keys_that_come_once_frees_none_that_is_refused(driver) {
        const KEYS: Range<u32> = 0..500;
        const FLOOD: Range<u32> = 1000..13_000;
        let gateway = limited(driver, "requests: 2, per: Hour, maxKeys: 8192");
        assert_eq!(sends_each(&gateway, &KEYS, 3), 2 * KEYS.len() as u64);
        // A key in 2 million has the place and the 24 bits of another.
        assert!(sends_each(&gateway, &FLOOD, 1) >= FLOOD.len() as u64 - 2);
        assert_eq!(sends_each(&gateway, &KEYS, 1), 0);
    }

    /// Whatever changes beside a rule, on both shards, between and during requests that it counts.
    fn changes_of_the_configuration_under_load_forget_nothing(driver) {
        const KEYS: u32 = 200;
        const REQUESTS: u32 = 150;
        let with = |version: usize| {
            let other = format!("{{name: other-{version}, requests: 1000000}}");
            let each = of_keys(&format!("requests: {REQUESTS}, per: Day"));
            // Before it and after it, by turns.
            let rules = if version.is_multiple_of(2) { [other, each] } else { [each, other] };
            limited_to(driver, &rules.join(", "))
        };
        let gateway = with(1).start();
        thread::scope(|scope| {
            let sent = scope.spawn(|| sends_each(&gateway, &(0..KEYS), REQUESTS as usize + 50));
            let mut version = 1;
            while !sent.is_finished() {
                version += 1;
                gateway.reconfigure(&with(version));
                gateway.waits_for_applied(version);
            }
            assert!(version > 3, "{version} configurations");
            assert_eq!(sent.join().expect("no failure"), u64::from(REQUESTS * KEYS));
        });
    }

    #[ignore = "measures, for half a minute"]
    fn as_many_requests_pass_as_are_allowed_at_the_limit_of_the_machine(driver) {
        const KEYS: u32 = 200_000;
        let pace = Pace { step: Duration::from_secs(10), burst: 3 };
        let gateway = limited(driver, "requests: 6, per: Minute, burst: 3, maxKeys: 1048576");
        let start = begin(&gateway);
        let keys = sends_for(Duration::from_secs(30), KEYS, pace, gateway.address());
        let sum = |of: fn(&Key) -> u32| keys.iter().map(|key| u64::from(of(key))).sum::<u64>();
        let (allowed, passed) = (sum(|key| key.allowed), sum(|key| key.passed));
        let asked = sum(|key| key.asked);
        report(&format!("{driver:?}, {KEYS} keys"), &gateway, start, asked);
        let differ = keys.iter().filter(|key| key.allowed != key.passed).count();
        eprintln!("{allowed} allowed, {passed} passed; {differ} keys differ");
        let beyond = keys.iter().enumerate().filter(|(_, key)| key.allowed.abs_diff(key.passed) > pace.burst);
        let beyond: Vec<(usize, &Key)> = beyond.collect();
        assert!(allowed > u64::from(KEYS));
        assert!(beyond.is_empty(), "{beyond:?}");
    }

    #[ignore = "measures, for minutes"]
    fn a_flood_of_ten_million_keys_that_come_once(driver) {
        const KEYS: Range<u32> = 0..200_000;
        const FLOOD: Range<u32> = 1_000_000..11_000_000;
        let gateway = limited(driver, "requests: 2, per: Hour, maxKeys: 1048576");
        let mut start = begin(&gateway);
        let passed = sends_each(&gateway, &KEYS, 3);
        report(&format!("{driver:?}, 3 requests of 200 000 keys, {passed} passed"), &gateway, start, 600_000);
        start = begin(&gateway);
        let new = sends_each(&gateway, &FLOOD, 1);
        report(&format!("10 million keys, {new} passed"), &gateway, start, 10_000_000);
        let freed = sends_each(&gateway, &KEYS, 1);
        eprintln!("{freed} of 200 000 limited keys were freed");
        assert!(new >= FLOOD.len() as u64 - 100);
        // Where a new key finds all 16 places taken by keys that are being refused: less than one, in the mean.
        assert!(freed < 5, "{freed}");
    }
}
