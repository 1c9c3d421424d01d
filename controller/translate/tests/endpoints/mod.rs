//! Which addresses of EndpointSlices are used.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use translate::budgets::{Budget, Limits};
use translate::{Delta, Event, Object, Options, Translator};
use xds::model::Resource;

use crate::support::{GATEWAY_API, admitted, gateway};

#[test]
fn addresses_of_the_proxy_and_its_node_are_left_out_of_slices() {
    let refused = [
        "127.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
    ];
    let refused_v6 = [
        "::1",
        "fe80::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "::ffff:a9fe:a9fe",
    ];
    let mut translator = Translator::new(Options::cluster());
    let delta = translator.apply(batch(&refused, &refused_v6), Timestamp::UNIX_EPOCH);
    assert_eq!(addresses(&delta), ["10.0.0.1", "2001:db8::1"]);
    let [(service, Some(warning))] = &delta.service_warnings[..] else {
        panic!("one Service is named: {:?}", delta.service_warnings);
    };
    assert_eq!(service.to_string(), "app/shop");
    for part in ["10 addresses", "0.0.0.0 for one", "who may write"] {
        assert!(warning.contains(part), "{warning}");
    }
    // The warning ends with the last of them.
    let good = [slice("v4", "IPv4", &[]), slice("v6", "IPv6", &[])];
    let delta = translator.apply(good.map(Event::Upsert).into(), Timestamp::UNIX_EPOCH);
    assert_eq!(delta.service_warnings.len(), 1);
    assert_eq!(delta.service_warnings[0].1, None);
}

#[test]
fn endpoints_beyond_the_limit_of_a_service_are_left_out_with_the_newest_slices() {
    let options = Options {
        budgets: Limits::default().with(Budget::ServiceEndpoints, 5),
        ..Options::cluster()
    };
    let mut translator = Translator::new(options);
    let mut objects = batch(&["10.0.0.2"], &["2001:db8::2"]);
    let newest = slice_of("v4-0", "IPv4", &["10.0.1.1"], "1970-01-01T00:01:00Z");
    objects.insert(0, Event::Upsert(newest));
    let delta = translator.apply(objects, Timestamp::UNIX_EPOCH);
    let used = ["10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2"];
    assert_eq!(addresses(&delta), used);
    let warning = delta.service_warnings[0].1.as_deref().expect("it has more");
    assert!(warning.contains("more than 5 endpoints"), "{warning}");
    let uses = translator.take_budget_changes();
    let (_, used) = { uses.iter() }
        .find(|((budget, _), _)| *budget == Budget::ServiceEndpoints)
        .expect("it is counted");
    assert_eq!(used.expect("it is in use").refused, 1);
}

/// A proxy has a list of endpoints for each port.
#[test]
fn endpoints_count_for_each_port_of_their_service() {
    let options = Options {
        budgets: Limits::default().with(Budget::ServiceEndpoints, 3),
        ..Options::cluster()
    };
    let mut translator = Translator::new(options);
    let ports = json!([
        {"name": "http", "port": 80, "protocol": "TCP"},
        {"name": "admin", "port": 81, "protocol": "TCP"},
    ]);
    let of_service = json!({
        "metadata": {"namespace": "app", "name": "shop"},
        "spec": {"clusterIP": "10.1.0.1", "ports": ports},
    });
    let newest = json!({
        "metadata": {
            "namespace": "app", "name": "newest", "creationTimestamp": "1970-01-01T00:01:00Z",
            "labels": {"kubernetes.io/service-name": "shop"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.1.1"]}],
        "ports": ports,
    });
    let mut objects = batch(&[], &[]);
    objects.insert(
        0,
        Event::Upsert(admitted("discovery.k8s.io", "EndpointSlice", newest)),
    );
    objects.insert(
        objects.len() - 1,
        Event::Upsert(admitted("", "Service", of_service)),
    );
    let delta = translator.apply(objects, Timestamp::UNIX_EPOCH);
    // The two others have one of the ports each; with two of this one, they would be four.
    assert_eq!(addresses(&delta), ["10.0.0.1", "2001:db8::1"]);
}

/// Who writes the files of one machine may name any address.
#[test]
fn files_may_name_any_endpoint() {
    let mut translator = Translator::new(Options::machine());
    let delta = translator.apply(batch(&["127.0.0.1"], &["::1"]), Timestamp::UNIX_EPOCH);
    let all = ["10.0.0.1", "127.0.0.1", "2001:db8::1", "::1"];
    assert_eq!(addresses(&delta), all);
    assert_eq!(delta.service_warnings, []);
}

/// The addresses of all workloads, sorted as text.
fn addresses(delta: &Delta) -> Vec<String> {
    let workloads = delta.resources.iter().filter_map(|(_, it)| match it {
        Some(Resource::Workload(workload)) => Some(workload.address.to_string()),
        _ => None,
    });
    workloads.collect::<BTreeSet<_>>().into_iter().collect()
}

/// A Service in use, with two slices that have a good address each beside these.
fn batch(v4: &[&str], v6: &[&str]) -> Vec<Event> {
    let objects = [
        gateway(1),
        service(),
        route(),
        slice("v4", "IPv4", v4),
        slice("v6", "IPv6", v6),
    ];
    objects
        .into_iter()
        .map(Event::Upsert)
        .chain([Event::Start])
        .collect()
}

fn service() -> Object {
    let value = json!({
        "metadata": {"namespace": "app", "name": "shop"},
        "spec": {"clusterIP": "10.1.0.1", "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
    });
    admitted("", "Service", value)
}

fn route() -> Object {
    let value = json!({
        "metadata": {"namespace": "app", "name": "shop"},
        "spec": {
            "parentRefs": [{"namespace": "infra", "name": "edge"}],
            "rules": [{"backendRefs": [{"name": "shop", "port": 80}]}],
        },
    });
    admitted(GATEWAY_API, "HTTPRoute", value)
}

fn slice(name: &str, family: &str, addresses: &[&str]) -> Object {
    slice_of(name, family, addresses, "1970-01-01T00:00:00Z")
}

fn slice_of(name: &str, family: &str, addresses: &[&str], created: &str) -> Object {
    let good = if family == "IPv4" {
        "10.0.0.1"
    } else {
        "2001:db8::1"
    };
    let endpoints = addresses.iter().copied().chain([good]);
    let endpoints = endpoints.map(|it| json!({"addresses": [it]}));
    let value = json!({
        "metadata": {
            "namespace": "app", "name": name, "creationTimestamp": created,
            "labels": {"kubernetes.io/service-name": "shop"},
        },
        "addressType": family,
        "endpoints": endpoints.collect::<Vec<Value>>(),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    });
    admitted("discovery.k8s.io", "EndpointSlice", value)
}
