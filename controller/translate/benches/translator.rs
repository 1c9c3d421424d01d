//! What one changed route costs a translator, whatever the number of the others, and what all of them
//! cost it at first.

use std::fmt::Write as _;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use translate::api::{Gateway, HttpRoute, ListenerSet, Service};
use translate::{Event, Object, Options, Translator};

/// As in the binaries.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn one_route(criterion: &mut Criterion) {
    for (routes, sets) in [(500, 1), (5_000, 1), (40_000, 2_500)] {
        let name = format!("one route among {routes} on {sets} ListenerSets");
        let mut translator = translator(routes, sets);
        let versions = [route(7, 7 % sets, "two"), route(7, 7 % sets, "three")];
        let mut turn = 0;
        criterion.bench_function(&name, |bencher| {
            bencher.iter_batched(
                || {
                    turn += 1;
                    vec![Event::Upsert(versions[turn % 2].clone())]
                },
                |batch| {
                    let delta = translator.apply(batch, NOW);
                    assert_eq!(delta.resources.len(), 1);
                    delta
                },
                BatchSize::SmallInput,
            );
        });
    }
}

fn cold(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("from nothing");
    group.sample_size(10);
    let batch = world(40_000, 2_500);
    group.bench_function("40000 routes on 2500 ListenerSets", |bencher| {
        bencher.iter_batched(
            || batch.clone(),
            |batch| {
                let mut translator = Translator::new(Options::cluster());
                let delta = translator.apply(batch, NOW);
                (translator, delta)
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// Says once what a translator of that size keeps in memory, its objects included: the growth of
/// what the process has resident, once the delta is gone.
#[expect(clippy::print_stdout, reason = "the number is what the bench is for")]
fn memory(_: &mut Criterion) {
    let before = resident_kib();
    let mut translator = Translator::new(Options::cluster());
    drop(translator.apply(world(40_000, 2_500), NOW));
    let grown = resident_kib().saturating_sub(before);
    println!(
        "resident: {} MiB for 40000 routes on 2500 ListenerSets",
        grown / 1024
    );
    drop(translator);
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

fn translator(routes: usize, sets: usize) -> Translator {
    let mut translator = Translator::new(Options::cluster());
    translator.apply(world(routes, sets), NOW);
    translator
}

/// A Gateway with ListenerSets, and routes with a host and a Service each, spread over the sets.
fn world(routes: usize, sets: usize) -> Vec<Event> {
    let mut text = GATEWAY.to_owned();
    for number in 0..sets {
        text += &SET.replace("NUMBER", &number.to_string());
    }
    for number in 0..routes {
        let numbered = SERVICE.replace("NUMBER", &number.to_string());
        text.write_str(&numbered)
            .expect("a string takes everything");
    }
    let mut batch: Vec<Event> = objects(&text).into_iter().map(Event::Upsert).collect();
    batch.extend((0..routes).map(|number| Event::Upsert(route(number, number % sets, "one"))));
    batch.push(Event::Synced);
    batch
}

fn route(number: usize, set: usize, version: &str) -> Object {
    let text = ROUTE
        .replace("NUMBER", &number.to_string())
        .replace("SET", &set.to_string())
        .replace("VERSION", version);
    let object: HttpRoute = serde_json::from_str(&text).expect("a route");
    object.into()
}

/// Parsed only, for admission would take most of the time.
fn objects(text: &str) -> Vec<Object> {
    let lines = text.lines().filter(|line| !line.is_empty());
    let objects = lines.map(|line| match line.split_once(' ') {
        Some(("Gateway", json)) => serde_json::from_str::<Gateway>(json).map(Object::from),
        Some(("ListenerSet", json)) => serde_json::from_str::<ListenerSet>(json).map(Object::from),
        Some(("Service", json)) => serde_json::from_str::<Service>(json).map(Object::from),
        _ => panic!("{line}"),
    });
    objects.map(|object| object.expect("an object")).collect()
}

const GATEWAY: &str = r#"Gateway {"metadata": {"namespace": "default", "name": "gateway"}, "spec": {"gatewayClassName": "gateway", "allowedListeners": {"namespaces": {"from": "All"}}, "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}}
"#;

const SET: &str = r#"ListenerSet {"metadata": {"namespace": "default", "name": "set-NUMBER"}, "spec": {"parentRef": {"name": "gateway"}, "listeners": [{"name": "http", "port": 8080, "protocol": "HTTP", "hostname": "*.set-NUMBER.example.com"}]}}
"#;

const SERVICE: &str = r#"Service {"metadata": {"namespace": "default", "name": "service-NUMBER"}, "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "http", "port": 80}]}}
"#;

const ROUTE: &str = r#"{
    "metadata": {"namespace": "default", "name": "route-NUMBER", "creationTimestamp": "2024-01-01T00:00:00Z", "generation": 1},
    "spec": {
        "parentRefs": [{"group": "gateway.networking.k8s.io", "kind": "ListenerSet", "name": "set-SET"}],
        "hostnames": ["host-NUMBER.set-SET.example.com"],
        "rules": [{
            "matches": [{"path": {"type": "PathPrefix", "value": "/api"}, "headers": [{"name": "version", "value": "VERSION"}]}],
            "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x-a", "value": "b"}]}}],
            "backendRefs": [{"name": "service-NUMBER", "port": 80}]
        }]
    }
}"#;

criterion_group!(benches, one_route, cold, memory);
criterion_main!(benches);
