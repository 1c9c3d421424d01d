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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use proxy::config::compile::{CompileOptions, Compiler};
use proxy::config::dns::Resolved;
use proxy::config::in_force::InForce;
use translate::admit::{Configuration, Listed, Source, UnknownFields};
use translate::{Event, Options, Translator};
use xds::model::{Kind, Resource};
use xds::{decode, encode};

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

/// What file mode holds for its configuration.
struct Held {
    configuration: Configuration,
    translator: Translator,
    compiler: Compiler,
    in_force: InForce,
}

impl Held {
    fn load() -> Self {
        let mut held = Self {
            configuration: Configuration::new(UnknownFields::Refuse),
            translator: Translator::new(Options::machine()),
            compiler: Compiler::default(),
            in_force: InForce::default(),
        };
        let mut events = held.configuration.reload(&sources()).events;
        events.push(Event::Synced);
        let clusters = held.apply(events);
        assert_eq!(clusters, FILES * ROUTES);
        held
    }

    /// Writes one file again, with this path for one of its routes.
    fn change(&mut self, file: usize, route: usize, path: &str) {
        let listed = std::iter::once("gateway.yaml".to_owned()).chain((0..FILES).map(name_of));
        let listed = listed.map(|name| {
            if name == name_of(file) {
                Listed::Read(source(file, Some((route, path))))
            } else {
                Listed::Unchanged(name)
            }
        });
        let events = self.configuration.update(listed.collect()).events;
        assert!(!events.is_empty(), "a route has changed");
        self.apply(events);
    }

    /// Returns the number of clusters that are in force then.
    fn apply(&mut self, events: Vec<Event>) -> usize {
        let applied = self.translator.apply(events, Timestamp::UNIX_EPOCH);
        let changes = applied.resources;
        self.compiler.take(&changes);
        let options = CompileOptions::new(NonZeroU32::MIN);
        let snapshot = self.compiler.snapshot(&Resolved::default(), &options);
        let clusters = snapshot.clusters.len();
        self.in_force.publish(changes, Arc::new(snapshot), 0);
        clusters
    }
}

#[test]
fn a_route_uses_little_memory() {
    let _alone = ALONE.lock();
    let held = Held::load();
    // Shared values count for the last of their holders.
    let measured = [
        ("model in force", freed_by(held.in_force), 61),
        ("model and compiled parts", freed_by(held.compiler), 2_050),
        ("translator", freed_by(held.translator), 2_610),
        ("documents", freed_by(held.configuration), 2_000),
    ];
    for (holder, bytes, bar) in measured {
        println!("{holder}: {bytes} bytes a route");
        assert!(bytes <= bar, "{holder}: {bytes} bytes a route, bar {bar}");
    }
}

#[test]
fn a_thousand_changes_add_at_most_a_tenth() {
    let _alone = ALONE.lock();
    let before = live();
    let mut held = Held::load();
    let loaded = live() - before;
    for number in 0..1_000 {
        held.change(
            number % FILES,
            number % ROUTES,
            &format!("/changed-{number}"),
        );
    }
    let changed = live() - before;
    println!("{loaded} bytes loaded, {changed} after the changes");
    assert!(
        changed <= loaded + loaded / 10,
        "{loaded} bytes became {changed}"
    );
    drop(held);
}

/// As a proxy in a cluster receives them.
#[test]
fn received_resources_take_no_more_than_translated_ones() {
    let _alone = ALONE.lock();
    let mut configuration = Configuration::new(UnknownFields::Refuse);
    let mut events = configuration.reload(&sources()).events;
    events.push(Event::Synced);
    let mut translator = Translator::new(Options::machine());
    let changes = translator.apply(events, Timestamp::UNIX_EPOCH).resources;
    let translated: Vec<Resource> = changes.into_iter().filter_map(|change| change.1).collect();
    drop((translator, configuration));
    let encoded: Vec<(Kind, Vec<u8>)> = (translated.iter())
        .map(|resource| (resource.kind(), encode::resource(resource)))
        .collect();
    let received: Vec<Resource> = (encoded.iter())
        .map(|(kind, bytes)| decode::resource(*kind, bytes).expect("what was encoded"))
        .collect();
    assert!(received == translated, "nothing is lost on the way");

    let (translated, received) = (freed_by(translated), freed_by(received));
    println!("received: {received} bytes a route, translated: {translated}");
    // Translated resources share names with each other.
    assert!(
        received <= translated * 5 / 4,
        "{received} bytes a route, {translated} where it was translated"
    );
}

/// The tests count all of the process's memory.
static ALONE: Mutex<()> = Mutex::new(());

fn sources() -> Vec<Source> {
    let gateway = Source::new("gateway.yaml", GATEWAY);
    let files = (0..FILES).map(|file| source(file, None));
    std::iter::once(gateway).chain(files).collect()
}

fn name_of(file: usize) -> String {
    format!("routes-{file}.yaml")
}

/// A file of routes; `changed` has another path than the others.
fn source(file: usize, changed: Option<(usize, &str)>) -> Source {
    let mut text = String::new();
    for number in 0..ROUTES {
        let path = match changed {
            Some((route, path)) if route == number => path,
            _ => "/api",
        };
        let route = ROUTE.replace("NAME", &format!("{file}-{number}"));
        text.write_str(&route.replace("PATH", path))
            .expect("a string takes everything");
    }
    Source::new(name_of(file), text)
}

const GATEWAY: &str = include_str!("data/gateway.yaml");

/// A route with its Service and EndpointSlice; NAME and PATH are replaced.
const ROUTE: &str = include_str!("data/route.yaml");
