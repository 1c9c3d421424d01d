//! Live bytes of a large configuration, for each route with its Service and EndpointSlice, by holder.
//!
//! Loads the objects as file mode does: admission keeps what it parsed, the translator its units and
//! facts, and the rest is the model and its compiled snapshot. Counts come from the allocator, so they
//! hardly vary: a bar is 2 % above what was measured.
//!
//! `cargo test -p proxy --test configuration_memory -- --nocapture` prints them.

#![expect(clippy::print_stdout, reason = "the numbers are of interest")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use proxy::config::compile::{CompileOptions, Compiler};
use proxy::config::dns::Resolved;
use proxy::config::in_force::InForce;
use translate::admit::{Configuration, Source, UnknownFields};
use translate::{Event, Options, Translator};

const FILES: usize = 50;
const ROUTES: usize = 100;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

#[expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait; this one only counts"
)]
// SAFETY: every call goes to `System` unchanged, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the memory came from `System` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// Bytes that dropping a value frees, for each route.
fn freed_by<T>(value: T) -> usize {
    let before = live();
    drop(value);
    (before - live()) / (FILES * ROUTES)
}

#[test]
fn a_route_takes_few_bytes() {
    let mut configuration = Configuration::new(UnknownFields::Refuse);
    let mut translator = Translator::new(Options::machine());
    let mut compiler = Compiler::default();
    let in_force = InForce::default();

    let mut events = configuration.reload(&sources()).events;
    events.push(Event::Synced);
    let changes = translator.apply(events, Timestamp::UNIX_EPOCH).resources;
    compiler.take(&changes);
    let options = CompileOptions::new(NonZeroU32::MIN);
    let snapshot = compiler.snapshot(&Resolved::default(), &options);
    assert_eq!(snapshot.clusters.len(), FILES * ROUTES);
    in_force.publish(changes, Arc::new(snapshot), 0);

    // Shared values count for the last of their holders.
    let measured = [
        ("model in force", freed_by(in_force), 150),
        ("model and compiled parts", freed_by(compiler), 2_510),
        ("translator", freed_by(translator), 2_950),
        ("documents", freed_by(configuration), 2_480),
    ];
    for (holder, bytes, bar) in measured {
        println!("{holder}: {bytes} bytes a route");
        assert!(bytes <= bar, "{holder}: {bytes} bytes a route, bar {bar}");
    }
}

fn sources() -> Vec<Source> {
    let files = (0..FILES).map(|file| {
        let mut text = String::new();
        for number in 0..ROUTES {
            let route = ROUTE.replace("NAME", &format!("{file}-{number}"));
            text.write_str(&route.replace("PATH", "/api"))
                .expect("a string takes everything");
        }
        Source::new(format!("routes-{file}.yaml"), text)
    });
    let gateway = Source::new("gateway.yaml", GATEWAY);
    std::iter::once(gateway).chain(files).collect()
}

const GATEWAY: &str = include_str!("data/gateway.yaml");

/// A route with its Service and EndpointSlice; NAME and PATH are replaced.
const ROUTE: &str = include_str!("data/route.yaml");
