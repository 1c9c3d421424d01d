//! Live bytes of a large configuration, for each route with its Service and EndpointSlice, by holder.
//!
//! Loads the objects as file mode does: admission keeps what it parsed, the translator its units and
//! facts, and the rest is the model and its compiled snapshot. Counts come from the allocator, so they
//! hardly vary: a bar is 2 % above what was measured.
//!
//! `cargo test -p proxy --test configuration_memory -- --nocapture` prints them.

#![expect(clippy::print_stdout, reason = "the numbers are of interest")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use prost::Message as _;
use proxy::config::compile::{CompileOptions, Compiler};
use proxy::config::dns::Resolved;
use proxy::config::in_force::InForce;
use translate::files::{Configuration, Listed, Source, UnknownFields};
use translate::{Event, Options, Translator};
use xds::delta::{Client, Encoded};
use xds::discovery::{self, Any, DeltaDiscoveryResponse};
use xds::model::{Kind, Resource, Route};
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
        events.push(Event::Start);
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
        ("model and compiled parts", freed_by(held.compiler), 2_205),
        ("translator", freed_by(held.translator), 3_570),
        ("documents", freed_by(held.configuration), 2_040),
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
    events.push(Event::Start);
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

/// What a proxy in a cluster holds for its configuration.
struct HeldOfController {
    client: Client,
    compiler: Compiler,
    in_force: InForce,
}

impl HeldOfController {
    /// Receives the resources of one route after the other.
    fn receive(responses: &[Vec<u8>]) -> Self {
        let mut held = Self {
            client: Client::new("default/web/pod".to_owned()),
            compiler: Compiler::default(),
            in_force: InForce::default(),
        };
        for response in responses {
            held.apply(DeltaDiscoveryResponse::decode(&**response).expect("what was encoded"));
        }
        held
    }

    fn apply(&mut self, response: DeltaDiscoveryResponse) {
        let received = self.client.receive(response).expect("a valid response");
        let mut received = received.expect("it has one part");
        let changes = std::mem::take(&mut received.changes);
        self.compiler.take(&changes);
        let options = CompileOptions::new(NonZeroU32::MIN);
        let snapshot = self.compiler.snapshot(&Resolved::default(), &options);
        self.compiler.release(snapshot.version, &[]);
        self.in_force.publish(changes, Arc::new(snapshot), 0);
        let _ = self.client.acknowledge(received, Vec::new());
    }
}

/// Routes as those of `bench control-plane`: a Service of each has two ports and two endpoints.
#[test]
fn a_received_route_uses_little_memory() {
    let _alone = ALONE.lock();
    let responses = responses();
    let held = HeldOfController::receive(&responses);
    let measured = [
        ("model in force", freed_by(held.in_force), 80),
        ("model and compiled parts", freed_by(held.compiler), 3_560),
        // And at which listeners each rule is, so that one that is rejected later leaves none of them open.
        ("versions", freed_by(held.client), 720),
    ];
    for (holder, bytes, bar) in measured {
        println!("received, {holder}: {bytes} bytes a route");
        assert!(bytes <= bar, "{holder}: {bytes} bytes a route, bar {bar}");
    }
}

/// The rules of routes at a Gateway with many listeners: what they take on the wire, and in a proxy beyond the
/// listeners. In the form of the release before, a rule is a resource for each listener.
#[test]
fn a_rule_at_many_listeners_uses_memory_once() {
    let _alone = ALONE.lock();
    let resources = resources_at_many_listeners();
    let (mut former, mut listeners) = (Vec::new(), Vec::new());
    for resource in &resources {
        match resource {
            Resource::Route(route) => former.extend(route.at_listeners().map(|at| {
                Resource::from(Route {
                    key: at.key(),
                    attachments: at.attachment.clone().into(),
                    ..Route::clone(route)
                })
            })),
            other => listeners.push(other.clone()),
        }
    }
    former.extend(listeners.iter().cloned());
    let [(none, without), (count, current), (former_count, before)] =
        [&listeners, &resources, &former].map(|it| held_by_proxy(it));
    assert_eq!(none, 0);
    let placed = SHARED_RULES * LISTENERS;
    assert_eq!((count, former_count), (SHARED_RULES, placed));
    for (form, rules, measured) in [("once", count, current), ("each", former_count, before)] {
        let bytes = measured.wire - without.wire;
        let held = measured.held - without.held;
        println!("rules {form}: {rules} of {bytes} bytes, {held} bytes in a proxy");
    }
    let held = (current.held - without.held) / placed;
    println!("{held} bytes in a proxy for a rule at a listener");
    assert!(held <= 420, "{held} bytes for a rule at a listener");
    assert!(
        current.wire * 8 < before.wire,
        "{} bytes on the wire",
        current.wire
    );
    assert!(
        current.held * 3 < before.held,
        "{} of {} bytes",
        current.held,
        before.held
    );
}

/// What a proxy holds of resources, and their bytes on the wire.
#[derive(Clone, Copy)]
struct Measured {
    wire: usize,
    held: usize,
}

/// Receives resources as one batch. Returns the number of rules.
fn held_by_proxy(resources: &[Resource]) -> (usize, Measured) {
    let mut wire = 0;
    let responses = Kind::ALL.map(|kind| {
        let of_kind = resources.iter().filter(|it| it.kind() == kind);
        let of_kind: Vec<Resource> = of_kind.cloned().collect();
        let response = response(kind, &of_kind);
        wire += response.len();
        response
    });
    let before = live();
    let held = HeldOfController::receive(&responses);
    let rules = held.compiler.model().routes.len();
    let measured = Measured {
        wire,
        held: live() - before,
    };
    drop(held);
    (rules, measured)
}

/// Routes with 16 rules each at a Gateway with 64 listeners.
fn resources_at_many_listeners() -> Vec<Resource> {
    let listeners = (0..LISTENERS).map(|number| {
        let port = 8_000 + number;
        format!("    - {{name: listener-{number}, port: {port}, protocol: HTTP}}\n")
    });
    let gateway = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: web}}\nspec:\n  \
         gatewayClassName: gateway\n  listeners:\n{}",
        listeners.collect::<String>()
    );
    let routes = (0..SHARED_RULES / 16).map(|number| {
        let rules = (0..16).map(|rule| {
            format!(
                "    - {{matches: [{{path: {{value: /{number}/{rule}}}}}], backendRefs: [{{name: shop, port: 80}}]}}\n"
            )
        });
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: route-{number}}}\n\
             spec:\n  parentRefs: [{{name: web}}]\n  rules:\n{}",
            rules.collect::<String>()
        )
    });
    let mut configuration = Configuration::new(UnknownFields::Refuse);
    let sources = [
        Source::new("gateway.yaml", gateway),
        Source::new("routes.yaml", routes.collect::<String>()),
    ];
    let mut events = configuration.reload(&sources).events;
    events.push(Event::Start);
    let mut translator = Translator::new(Options::machine());
    let changes = translator.apply(events, Timestamp::UNIX_EPOCH).resources;
    changes.into_iter().filter_map(|change| change.1).collect()
}

const LISTENERS: usize = 64;
/// A tenth of what the budgets test of `translate` has: it takes a tenth of the time.
const SHARED_RULES: usize = 26 * 16;

/// A response for each route and kind, as a controller sends them when routes are created one by one.
fn responses() -> Vec<Vec<u8>> {
    let mut configuration = Configuration::new(UnknownFields::Refuse);
    let routes = (0..FILES * ROUTES).map(|number| {
        let route = FLEET_ROUTE.replace("NAME", &number.to_string());
        let route = route.replace("HIGH", &(number / 250).to_string());
        route.replace("LOW", &(number % 250 + 1).to_string())
    });
    let sources = [
        Source::new("gateway.yaml", GATEWAY),
        Source::new("routes.yaml", routes.collect::<String>()),
    ];
    let mut events = configuration.reload(&sources).events;
    events.push(Event::Start);
    let mut translator = Translator::new(Options::machine());
    let changes = translator.apply(events, Timestamp::UNIX_EPOCH).resources;
    let mut by_route: BTreeMap<(String, Kind), Vec<Resource>> = BTreeMap::new();
    for resource in changes.into_iter().filter_map(|change| change.1) {
        let key = resource.resource_key();
        let route = key.key.split('/').find(|part| part.starts_with("app-"));
        let route = route.unwrap_or_default().split(':').next();
        let route = route.unwrap_or_default().to_owned();
        by_route
            .entry((route, key.kind))
            .or_default()
            .push(resource);
    }
    by_route
        .into_iter()
        .map(|((_, kind), resources)| response(kind, &resources))
        .collect()
}

fn response(kind: Kind, resources: &[Resource]) -> Vec<u8> {
    let resources = resources.iter().map(|resource| {
        let encoded = Encoded::new(resource);
        discovery::Resource {
            name: encoded.key.key.to_string(),
            version: encoded.version.to_string(),
            resource: Some(Any {
                type_url: kind.type_url().to_owned(),
                value: encoded.bytes,
            }),
        }
    });
    let response = DeltaDiscoveryResponse {
        type_url: kind.type_url().to_owned(),
        system_version_info: "1/1/1".to_owned(),
        nonce: "1".to_owned(),
        resources: resources.collect(),
        ..DeltaDiscoveryResponse::default()
    };
    response.encode_to_vec()
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

/// A route with a Service of two ports and two endpoints; NAME, HIGH and LOW are replaced.
const FLEET_ROUTE: &str = include_str!("data/fleet-route.yaml");
