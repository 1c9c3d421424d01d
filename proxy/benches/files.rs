//! From the write of a file to serving what it says, and the memory of it: 5 000 routes, each with a
//! Service, in 50 files, on one listener. One route of a file changes at a time.
//!
//! Prints p50, p99 and the worst of the times, and what is resident, with the part of it that is no
//! file's: with a Gateway alone, with all routes above that, and after the changes above all routes (the
//! target is a tenth). Run it with `cargo bench -p proxy --bench files`.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark, off the shards"
)]

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use admin::process::use_small_pages;
use proxy::config::apply::BindRequest;
use proxy::config::compile::CompileOptions;
use proxy::config::in_force::InForce;
use proxy::config::local::{self, LocalConfig};
use translate::files::UnknownFields;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As in the gateway; see [`use_small_pages`].
#[used]
#[expect(unsafe_code, reason = "a function that runs before `main`")]
#[unsafe(link_section = ".init_array.00000")]
static SMALL_PAGES: extern "C" fn() = use_small_pages;

const FILES: usize = 50;
const ROUTES: usize = 100;
const CHANGES: usize = 1_000;
/// Longer than a change takes, so that none waits for the one before.
const PAUSE: Duration = Duration::from_millis(40);
/// After this, files count as complete and are not read again, and free memory has been returned.
const REST: Duration = Duration::from_secs(5);
/// The same after many changes: the code that they used is returned once a minute.
const REST_AFTER_CHANGES: Duration = Duration::from_secs(65);

fn main() {
    // `cargo test` runs it too, to see that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("gateway.yaml"), GATEWAY).expect("a file");
    let (sender, receiver) = channel();
    let binder = move |_: Vec<BindRequest>| {
        // Called after each snapshot is published; the receiver outlives all of them.
        sender.send(Instant::now()).expect("it is measured");
        Vec::new()
    };
    let config = configuration(folder.path());
    let published = Arc::default();
    let handle = local::start(config, Arc::clone(&published), Box::new(binder));
    let handle = handle.expect("a configuration");
    receiver.recv().expect("it is published");
    let alone = Resident::now();
    println!("a Gateway alone: {alone}");

    for file in 0..FILES {
        write(folder.path(), file, None);
    }
    while published.load().clusters.iter().count() < FILES * ROUTES {
        receiver.recv().expect("it is published");
    }
    std::thread::sleep(REST);
    let all = Resident::now();
    println!(
        "all routes: {all}, above a Gateway alone {}",
        all.above(&alone)
    );

    let mut times: Vec<Duration> = (0..CHANGES)
        .map(|number| change(folder.path(), number, &receiver))
        .collect();
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    println!(
        "{CHANGES} changes: p50 {:?}, p99 {:?}, at most {:?}",
        at(50),
        at(99),
        at(100)
    );
    std::thread::sleep(REST_AFTER_CHANGES);
    let changed = Resident::now();
    println!(
        "after the changes: {changed}, above all routes {}",
        changed.above(&all)
    );
    let percent = |kib: f64, of: f64| kib / of * 100.0;
    let routes = all.above(&alone).total;
    println!(
        "{:.1} % of the routes' own",
        percent(changed.above(&all).total, routes)
    );
    drop(handle);
}

fn configuration(folder: &Path) -> LocalConfig {
    LocalConfig {
        paths: vec![folder.to_owned()],
        unknown_fields: UnknownFields::Refuse,
        port_offset: 8000,
        reserved_ports: BTreeSet::new(),
        compile: CompileOptions::new(NonZeroU32::MIN),
        session_keys: proxy::config::session_keys::OwnSessionKeys::read(&[]).expect("a key"),
        in_force: InForce::default(),
    }
}

/// Changes one route, and waits until it is served. Returns how long that took.
fn change(folder: &Path, number: usize, receiver: &Receiver<Instant>) -> Duration {
    std::thread::sleep(PAUSE);
    while receiver.try_recv().is_ok() {}
    let begun = Instant::now();
    write(folder, number % FILES, Some(number));
    let served = receiver.recv().expect("it is published");
    served - begun
}

/// Writes a file of routes; of a change, one of them has a path of its own.
fn write(folder: &Path, file: usize, change: Option<usize>) {
    let mut text = String::new();
    for number in 0..ROUTES {
        let path = match change {
            Some(change) if change % ROUTES == number => format!("/changed-{change}"),
            _ => "/api".to_owned(),
        };
        let route = ROUTE.replace("NAME", &format!("{file}-{number}"));
        text.write_str(&route.replace("PATH", &path))
            .expect("a string takes everything");
    }
    fs::write(folder.join(format!("routes-{file}.yaml")), text).expect("a file");
}

/// Resident memory of this process, in KiB.
struct Resident {
    total: f64,
    /// The part that is no file's: without the code of the program.
    anonymous: f64,
}

impl Resident {
    fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            number
                .and_then(|number| number.parse().ok())
                .expect("a number")
        };
        Self {
            total: field("VmRSS:"),
            anonymous: field("RssAnon:"),
        }
    }

    fn above(&self, before: &Self) -> Self {
        Self {
            total: self.total - before.total,
            anonymous: self.anonymous - before.anonymous,
        }
    }
}

impl fmt::Display for Resident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { total, anonymous } = self;
        write!(f, "{total} KiB resident ({anonymous} anonymous)")
    }
}

const GATEWAY: &str = include_str!("../tests/data/gateway.yaml");

/// A route with its Service and EndpointSlice; NAME and PATH are replaced.
const ROUTE: &str = include_str!("../tests/data/route.yaml");
