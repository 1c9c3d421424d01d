//! What one changed route costs a translator, whatever the number of the others, and what all of them
//! cost it at first.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use serde_json::{Value, json};
use translate::ObjectKind;
use translate::files::admit_value;
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
    let all = world(40_000, 2_500);
    for size in [10, 100, 1_000, all.len()] {
        let name = format!("40000 routes on 2500 ListenerSets, in batches of {size}");
        let batches: Vec<Vec<Event>> = all.chunks(size).map(<[Event]>::to_vec).collect();
        group.bench_function(&name, |bencher| {
            bencher.iter_batched(
                || batches.clone(),
                |batches| {
                    let mut translator = Translator::new(Options::cluster());
                    let apply = |batch| translator.apply(batch, NOW);
                    let deltas: Vec<_> = batches.into_iter().map(apply).collect();
                    (translator, deltas)
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// Prints once the memory of a translator of that size, and of its objects: the growth of what the
/// process has resident, once the delta is dropped. It runs before the others, whose free memory would
/// be used.
#[expect(clippy::print_stdout, reason = "the number is what the bench is for")]
fn memory(_: &mut Criterion) {
    let before = resident_kib();
    let batch = world(40_000, 2_500);
    return_freed();
    let objects = resident_kib().saturating_sub(before);
    let mut translator = Translator::new(Options::cluster());
    drop(translator.apply(batch, NOW));
    return_freed();
    let all = resident_kib().saturating_sub(before);
    println!(
        "resident: {} MiB for 40000 routes on 2500 ListenerSets, of which objects {} MiB",
        all / 1024,
        objects / 1024
    );
    drop(translator);
}

/// As the controller does every few seconds.
#[expect(unsafe_code, reason = "a call of the allocator's")]
fn return_freed() {
    // SAFETY: it only affects the allocator's own free memory, on any thread.
    unsafe { libmimalloc_sys::mi_collect(true) };
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
    let mut objects = vec![gateway()];
    objects.extend((0..sets).map(listener_set));
    objects.extend((0..routes).map(service));
    let mut batch: Vec<Event> = objects.into_iter().map(Event::Upsert).collect();
    // The list of routes is the last one to end.
    batch.push(Event::Start);
    let routes = (0..routes).map(|number| route(number, number % sets, "one"));
    batch.extend(routes.map(Event::Upsert));
    batch
}

fn gateway() -> Object {
    let value = json!({
        "metadata": {"namespace": "default", "name": "gateway"},
        "spec": {
            "gatewayClassName": "gateway",
            "allowedListeners": {"namespaces": {"from": "All"}},
            "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
        },
    });
    admitted(GATEWAY_API, "Gateway", value)
}

fn listener_set(number: usize) -> Object {
    let value = json!({
        "metadata": {"namespace": "default", "name": format!("set-{number}")},
        "spec": {
            "parentRef": {"name": "gateway"},
            "listeners": [{
                "name": "http",
                "port": 8080,
                "protocol": "HTTP",
                "hostname": format!("*.set-{number}.example.com"),
            }],
        },
    });
    admitted(GATEWAY_API, "ListenerSet", value)
}

fn service(number: usize) -> Object {
    let value = json!({
        "metadata": {"namespace": "default", "name": format!("service-{number}")},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "http", "port": 80}]},
    });
    admitted("", "Service", value)
}

fn route(number: usize, set: usize, version: &str) -> Object {
    let value = json!({
        "metadata": {
            "namespace": "default",
            "name": format!("route-{number}"),
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "generation": 1,
        },
        "spec": {
            "parentRefs": [{
                "group": GATEWAY_API,
                "kind": "ListenerSet",
                "name": format!("set-{set}"),
            }],
            "hostnames": [format!("host-{number}.set-{set}.example.com")],
            "rules": [{
                "matches": [{
                    "path": {"type": "PathPrefix", "value": "/api"},
                    "headers": [{"name": "version", "value": version}],
                }],
                "filters": [{
                    "type": "RequestHeaderModifier",
                    "requestHeaderModifier": {"set": [{"name": "x-a", "value": "b"}]},
                }],
                "backendRefs": [{"name": format!("service-{number}"), "port": 80}],
            }],
        },
    });
    admitted(GATEWAY_API, "HTTPRoute", value)
}

/// As the controller admits an object from a watch.
fn admitted(group: &str, kind: &str, value: Value) -> Object {
    let Value::Object(fields) = value else {
        panic!("{kind} is not an object");
    };
    let admitted = admit_value(ObjectKind::find(group, kind).expect("a kind"), fields)
        .expect("a kind that is read");
    let findings = admitted.findings;
    admitted
        .object
        .unwrap_or_else(|| panic!("{kind} is invalid: {findings:?}"))
}

const GATEWAY_API: &str = "gateway.networking.k8s.io";

criterion_group!(benches, memory, one_route, cold);
criterion_main!(benches);
