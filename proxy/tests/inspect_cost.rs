//! The cost of scrapes and dumps of a proxy with many routes, measured on the release process:
//!
//! `cargo test --release -p proxy --test inspect_cost -- --ignored --nocapture --test-threads=1`

#[expect(
    dead_code,
    unused_imports,
    reason = "each test crate speaks a part of the language"
)]
#[path = "support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use support::{Client, Driver, Gateway, gateway, on_both_drivers, origin};

/// A scrape of this many routes, each of which has served a request, within this time.
const SCRAPED: usize = 5_000;
const SCRAPE_BAR: Duration = Duration::from_millis(50);
const SCRAPES: u32 = 20;

/// Extra memory that a dump of this many routes may take, however slowly it is read.
const DUMPED: usize = 100_000;
const DUMP_BAR: u64 = 16 << 20;

/// Bytes that a slow reader reads at a time, and its pause in between.
const GULP: usize = 256 << 10;
const REST: Duration = Duration::from_millis(20);

/// Longest wait for a large configuration.
const LOADING: Duration = Duration::from_mins(5);

/// Routes with this many rules in all, each with a distinct path.
fn rules(count: usize) -> String {
    let numbers: Vec<usize> = (0..count).collect();
    let mut yaml = String::new();
    // A route takes 16 rules.
    for numbers in numbers.chunks(16) {
        let first = numbers[0];
        writeln!(
            yaml,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
             metadata: {{name: many-{first}}}\nspec:\n  parentRefs: [{{name: gw}}]\n  rules:"
        )
        .expect("memory");
        for n in numbers {
            let backend = "{group: gateway-system.io, kind: Backend, name: origin}";
            let path = format!("[{{path: {{value: /rule/{n}}}}}]");
            writeln!(yaml, "  - {{matches: {path}, backendRefs: [{backend}]}}").expect("memory");
        }
    }
    yaml
}

/// A gateway with this many rules beside the initial one.
fn start(driver: Driver, origin: &support::Origin, count: usize) -> Gateway {
    let builder = gateway(driver).routes_to(origin).inspected();
    let gateway = builder.clone().start();
    gateway.rewrite(&(builder.yaml(gateway.ports()) + &rules(count)));
    let deadline = Instant::now() + LOADING;
    while number(
        &asks(&gateway, "metrics", "/metrics"),
        "gateway_configuration_number",
    ) < 2.0
    {
        assert!(
            Instant::now() < deadline,
            "it is not loaded:\n{}",
            gateway.log()
        );
        std::thread::park_timeout(Duration::from_millis(100));
    }
    gateway
}

fn asks(gateway: &Gateway, server: &str, path: &str) -> String {
    let mut client: Client = gateway.client_of(server);
    client.sends(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    client.expects(200).text()
}

/// The sum of a metric's samples.
fn number(metrics: &str, name: &str) -> f64 {
    let lines = metrics
        .lines()
        .filter(|line| line.split(['{', ' ']).next() == Some(name));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// Reads a whole response, slowly or not. Returns its bytes and the peak memory of the process in
/// that time.
fn reads(gateway: &Gateway, (server, path): (&str, &str), rest: Option<Duration>) -> (usize, u64) {
    let mut stream = TcpStream::connect(gateway.server(server)).expect("the server accepts");
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("taken");
    let (mut gulp, mut total, mut most) = (vec![0; GULP], 0, 0);
    loop {
        let count = stream.read(&mut gulp).expect("an answer to its end");
        if count == 0 {
            assert!(total > 0, "no answer");
            return (total, most);
        }
        total += count;
        most = most.max(gateway.anonymous_bytes());
        if let Some(rest) = rest {
            std::thread::park_timeout(rest);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "megabytes to read")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

on_both_drivers! {
    #[ignore = "a measurement; run it alone and with --release"]
    fn a_scrape_of_many_routes(driver) {
        let origin = origin();
        let gateway = start(driver, &origin, SCRAPED);
        let mut client = gateway.client();
        for n in 0..SCRAPED {
            client.gets(&format!("/rule/{n}")).expects(200);
        }
        let before = asks(&gateway, "metrics", "/metrics");
        let mut times = Vec::new();
        for _ in 0..SCRAPES {
            let started = Instant::now();
            reads(&gateway, ("metrics", "/metrics"), None);
            times.push(started.elapsed());
        }
        let after = asks(&gateway, "metrics", "/metrics");
        times.sort_unstable();
        let median = times[times.len() / 2];
        let cpu = "gateway_shard_cpu_seconds_total";
        let shard = (number(&after, cpu) - number(&before, cpu)) / f64::from(SCRAPES);
        eprintln!(
            "{driver:?}: {SCRAPED} routes, {} lines, {:.1} MiB: {median:.1?} a scrape, of which \
             {:.3} ms on the shard",
            after.lines().count(), mebibytes(after.len() as u64), shard * 1e3
        );
        assert!(median < SCRAPE_BAR, "{median:?}");
        assert!(shard < median.as_secs_f64() / 10.0, "the shard has a part in it: {shard} s");
    }

    #[ignore = "a measurement; run it alone and with --release"]
    fn a_dump_of_very_many_routes(driver) {
        let origin = origin();
        let gateway = start(driver, &origin, DUMPED);
        // Memory needed for loading is freed gradually, and first responses permanently allocate
        // some.
        reads(&gateway, ("admin", "/config_dump"), None);
        let before = gateway.anonymous_bytes();
        for (who, rest) in [("a fast reader", None), ("a slow reader", Some(REST))] {
            let started = Instant::now();
            let (bytes, most) = reads(&gateway, ("admin", "/config_dump"), rest);
            let grown = most.saturating_sub(before);
            eprintln!(
                "{driver:?}: {DUMPED} routes, {:.1} MiB to {who} in {:.1?}: {:.1} MiB of memory, \
                 {:.1} more meanwhile, {:.1} after",
                mebibytes(bytes as u64), started.elapsed(), mebibytes(before), mebibytes(grown),
                mebibytes(gateway.anonymous_bytes().saturating_sub(before))
            );
            assert!(grown < DUMP_BAR, "{grown} bytes more");
        }
    }
}
