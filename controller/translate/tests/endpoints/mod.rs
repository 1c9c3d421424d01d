//! Which addresses of EndpointSlices are used.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use translate::budgets::{Budget, Limits};
use translate::{Delta, Event, Object, Options, Translator};
use xds::model::{Resource, Service, Transport, Workload};

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

/// A proxy has a list of endpoints for each port that it gets.
#[test]
fn endpoints_count_for_each_port_in_use_of_their_service() {
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
    let all = ["10.0.0.1", "10.0.1.1", "2001:db8::1"];
    assert_eq!(addresses(&delta), all, "one port is in use");
    let both = Event::Upsert(route_to(&[json!({"name": "shop", "port": 80})], &[81]));
    let delta = translator.apply(vec![both], Timestamp::UNIX_EPOCH);
    // The two others have one of the ports each; with two of this one, they would be four.
    let removed = delta.resources.iter().filter(|(_, it)| it.is_none());
    let removed: Vec<String> = removed.map(|(key, _)| key.to_string()).collect();
    assert_eq!(
        removed,
        ["Workload `EndpointSlice/app/newest/10.0.1.1`"],
        "{delta:?}"
    );
}

/// Each port that a proxy gets is a cluster, whose endpoints every shard of it keeps.
#[test]
fn only_ports_that_something_refers_to_are_sent() {
    let mut translator = Translator::new(Options::cluster());
    let names = (0..99).map(|number| (format!("port-{number}"), 8000 + number, "TCP"));
    let names = names.chain([("dns".to_owned(), 8000, "UDP")]);
    let ports: Vec<Value> = names
        .map(|(name, port, protocol)| json!({"name": name, "port": port, "protocol": protocol}))
        .collect();
    let service = json!({
        "metadata": {"namespace": "app", "name": "shop"},
        "spec": {"clusterIP": "10.1.0.1", "ports": ports},
    });
    let slice = json!({
        "metadata": {
            "namespace": "app", "name": "all", "labels": {"kubernetes.io/service-name": "shop"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": ports,
    });
    let backends = [
        json!({"name": "shop", "port": 8000}),
        json!({"name": "shop", "port": 8001}),
    ];
    let objects = [
        gateway(1),
        admitted("", "Service", service),
        admitted("discovery.k8s.io", "EndpointSlice", slice),
        route_to(&backends, &[8002]),
    ];
    let batch = objects.into_iter().map(Event::Upsert).chain([Event::Start]);
    let delta = translator.apply(batch.collect(), Timestamp::UNIX_EPOCH);
    assert_eq!(
        sent(&delta),
        [vec![8000, 8001, 8002], vec![8000, 8001, 8002]]
    );
    // A Service, and its endpoint at each port.
    assert_used(&mut translator, 1.0 + 3.0);

    let of_server = Event::Upsert(policy_with_keys_at(8003));
    let delta = translator.apply(vec![of_server], Timestamp::UNIX_EPOCH);
    let all = vec![8000, 8001, 8002, 8003];
    assert_eq!(sent(&delta), [all.clone(), all]);

    let narrowed = Event::Upsert(route_to(&backends[..1], &[]));
    let delta = translator.apply(vec![narrowed], Timestamp::UNIX_EPOCH);
    assert_eq!(sent(&delta), [vec![8000, 8003], vec![8000, 8003]]);
    let gone = Event::Delete(policy_with_keys_at(8003).object_ref());
    let delta = translator.apply(vec![gone], Timestamp::UNIX_EPOCH);
    assert_eq!(sent(&delta), [vec![8000], vec![8000]]);
    assert_used(&mut translator, 1.0 + 1.0);
}

/// The ports of the Service, and those that its workload serves, as far as they are sent: all of TCP.
fn sent(delta: &Delta) -> [Vec<u16>; 2] {
    let mut ports = [Vec::new(), Vec::new()];
    for (_, resource) in &delta.resources {
        match resource {
            Some(Resource::Service(service)) => {
                let Service { ports: all, .. } = &**service;
                assert!(all.iter().all(|it| it.transport == Transport::Tcp));
                ports[0].extend(all.iter().map(|it| it.port.get()));
            }
            Some(Resource::Workload(workload)) => {
                let Workload { serves, .. } = &**workload;
                assert!(serves.iter().all(|it| it.transport == Transport::Tcp));
                ports[1].extend(serves.iter().map(|it| it.port.get()));
            }
            _ => {}
        }
    }
    ports
}

/// What is used of the room of the Gateway for endpoints.
#[track_caller]
fn assert_used(translator: &mut Translator, expected: f64) {
    let uses = translator.take_budget_changes().into_iter();
    let mut uses = uses.filter(|((budget, _), _)| *budget == Budget::GatewayEndpoints);
    let (_, used) = uses.next().expect("it is counted");
    let used = used.expect("it is in use").share * 131_072.0;
    assert!((used - expected).abs() < 0.01, "{used}");
}

/// A policy of the route that fetches keys from a port of the Service.
fn policy_with_keys_at(port: u16) -> Object {
    let remote = json!({"backendRef": {"name": "shop", "port": port}, "path": "/keys"});
    let jwks = json!({"remote": remote});
    let value = json!({
        "metadata": {"namespace": "app", "name": "tokens"},
        "spec": {
            "targetRefs": [{"group": GATEWAY_API, "kind": "HTTPRoute", "name": "shop"}],
            "jwt": {"providers": [{"name": "idp", "issuer": "https://idp.example.com", "jwks": jwks}]},
        },
    });
    admitted("gateway-system.io", "TrafficPolicy", value)
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
    route_to(&[json!({"name": "shop", "port": 80})], &[])
}

/// A route to these backends, that mirrors requests to these ports of the Service.
fn route_to(backends: &[Value], mirrored: &[u16]) -> Object {
    let filters = mirrored.iter().map(|port| {
        let to = json!({"name": "shop", "port": port});
        json!({"type": "RequestMirror", "requestMirror": {"backendRef": to}})
    });
    let rule = json!({"backendRefs": backends, "filters": filters.collect::<Vec<Value>>()});
    let value = json!({
        "metadata": {"namespace": "app", "name": "shop"},
        "spec": {
            "parentRefs": [{"namespace": "infra", "name": "edge"}],
            "rules": [rule],
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
