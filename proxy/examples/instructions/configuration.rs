//! A change of one route among many, each with a host and a Service of its own on one listener: its
//! translation, and its compilation. What either costs does not depend on the number of routes.

use std::hint::black_box;
use std::num::NonZeroU32;

use jiff::Timestamp;
use proxy::config::compile::{CompileOptions, Compiler};
use proxy::config::dns::Resolved;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use translate::api::{Gateway, HttpRoute, Service};
use translate::{Event, Object, Options, Translator};
use xds::model::Change;

/// A translator of so many routes, and the resources of all.
fn translator(routes: usize) -> (Translator, Vec<Change>) {
    let mut translator = Translator::new(Options::machine());
    let mut batch = vec![Event::Upsert(gateway())];
    for number in 0..routes {
        batch.extend([service(number), route(number, "/api")].map(Event::Upsert));
    }
    batch.push(Event::Start);
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    (translator, delta.resources)
}

/// Two versions of the route in the middle.
fn versions(routes: usize) -> [Object; 2] {
    ["/one", "/other"].map(|path| route(routes / 2, path))
}

fn change(translator: &mut Translator, version: Object) -> Vec<Change> {
    let delta = translator.apply(vec![Event::Upsert(version)], Timestamp::UNIX_EPOCH);
    assert_eq!(delta.resources.len(), 1, "one rule has changed");
    delta.resources
}

/// Translates a change of one among so many routes.
pub(super) fn translate_changes(times: u64, routes: usize) {
    let (mut translator, _) = translator(routes);
    let versions = versions(routes);
    for (_, version) in (0..times).zip(versions.iter().cycle()) {
        black_box(change(&mut translator, black_box(version).clone()));
    }
}

/// Compiles a change of one among so many routes.
pub(super) fn compile_changes(times: u64, routes: usize) {
    let (mut translator, resources) = translator(routes);
    let changes = versions(routes).map(|version| change(&mut translator, version));
    let (mut compiler, resolved) = (Compiler::default(), Resolved::default());
    let options = CompileOptions::new(NonZeroU32::MIN);
    compiler.take(&resources);
    let mut published = compiler.snapshot(&resolved, &options);
    assert_eq!(published.clusters.len(), routes);
    for (_, change) in (0..times).zip(changes.iter().cycle()) {
        compiler.take(black_box(change));
        published = black_box(compiler.snapshot(&resolved, &options));
    }
    drop(published);
}

fn gateway() -> Object {
    object::<Gateway>(json!({
        "metadata": {"namespace": "default", "name": "gateway"},
        "spec": {
            "gatewayClassName": "gateway",
            "listeners": [{"name": "http", "port": 8080, "protocol": "HTTP"}],
        },
    }))
}

fn service(number: usize) -> Object {
    object::<Service>(json!({
        "metadata": {"namespace": "default", "name": format!("service-{number}")},
        "spec": {"ports": [{"name": "http", "port": 80}]},
    }))
}

fn route(number: usize, path: &str) -> Object {
    object::<HttpRoute>(json!({
        "metadata": {"namespace": "default", "name": format!("route-{number}")},
        "spec": {
            "parentRefs": [{"name": "gateway"}],
            "hostnames": [format!("host-{number}.example.com")],
            "rules": [{
                "matches": [{"path": {"type": "PathPrefix", "value": path}}],
                "backendRefs": [{"name": format!("service-{number}"), "port": 80}],
            }],
        },
    }))
}

fn object<T: DeserializeOwned + Into<Object>>(value: Value) -> Object {
    let object: T = serde_json::from_value(value).expect("an object of this kind");
    object.into()
}
