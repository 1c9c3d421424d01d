//! The proxy as client of a controller: published resources are served, unusable ones are rejected
//! by name, and no request is affected if either side is unavailable.

#[expect(
    dead_code,
    unused_imports,
    reason = "each test crate speaks a part of the language"
)]
#[path = "../support/mod.rs"]
mod support;

mod absence;
mod certificates;
mod closed_hosts;
mod credentials;
mod health_checks;
mod keys;
mod memory;
mod refusals;
mod routes;
mod server;
mod sessions;
mod substitutes;
mod usage;

use serde_json::Value;

use support::Gateway;

/// The JSON of an admin endpoint.
#[track_caller]
fn admin_json(gateway: &Gateway, target: &str) -> Value {
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = gateway.client_of("admin").sends(request).reads();
    assert_eq!(answer.status(), 200, "{answer}");
    serde_json::from_str(&answer.text()).expect("JSON")
}

/// The `source` of its dump.
#[track_caller]
fn source(gateway: &Gateway) -> Value {
    admin_json(gateway, "/config_dump?type=runtime")["source"].clone()
}

/// The state of a resource type, according to the source.
#[track_caller]
fn type_state(gateway: &Gateway, name: &str) -> Value {
    let source = source(gateway);
    let types = source["types"].as_array().expect("a list");
    let found = types.iter().find(|it| it["type"] == name);
    found
        .unwrap_or_else(|| panic!("no {name}: {source}"))
        .clone()
}

/// Whether its readiness probe succeeds.
#[track_caller]
fn is_ready(gateway: &Gateway) -> bool {
    let mut client = gateway.client_of("readiness");
    client.sends("GET /healthz/ready HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.reads().status() == 200
}
