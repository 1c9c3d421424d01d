//! Backends, Services and endpoints beyond what a Gateway has room for.

use serde_json::json;
use translate::Object;
use translate::budgets::Budget;
use xds::model::Resource;

use super::{apply, keys, message, metadata, refused, route, route_to, translator, used};
use crate::support::{admitted, gateway};

#[test]
fn backends_beyond_the_budget_of_a_gateway_are_refused() {
    let mut translator = translator(Budget::GatewayBackends, 3);
    let mut objects = vec![gateway(1)];
    for number in 0..6 {
        objects.push(route("noisy", number));
        objects.push(backend("noisy", number));
    }
    objects.push(route("quiet", 99));
    objects.push(backend("quiet", 99));
    let delta = apply(&mut translator, objects);
    let full = (2..6).map(|number| format!("noisy/b-{number:02}"));
    assert_eq!(refused(&delta), full.collect());
    let sent = keys(&delta, |it| match it {
        Resource::Backend(backend) => Some(backend.key.to_string()),
        _ => None,
    });
    assert_eq!(sent.len(), 3, "{sent:?}");
    assert!(sent.iter().any(|it| it.contains("quiet/b-99")), "{sent:?}");
    let message = message(&delta, "Backend", "b-05");
    assert!(
        message.contains("Requests to it get status 500"),
        "{message}"
    );
    assert_eq!(used(&mut translator, Budget::GatewayBackends), 4);
}

/// A Service counts with its endpoints, so that many small ones are as bounded as a large one.
#[test]
fn services_beyond_the_endpoints_of_a_gateway_are_not_sent() {
    let mut translator = translator(Budget::GatewayEndpoints, 9);
    let mut objects = vec![gateway(1)];
    for number in 0..6 {
        objects.push(route_to_service("noisy", number));
        objects.extend(service("noisy", number));
    }
    objects.push(route_to_service("quiet", 99));
    objects.extend(service("quiet", 99));
    let delta = apply(&mut translator, objects);
    let sent = keys(&delta, |it| match it {
        Resource::Service(service) => Some(service.key.to_string()),
        _ => None,
    });
    let expected = ["noisy/s-00", "noisy/s-01", "quiet/s-99"];
    assert_eq!(sent, expected.map(|it| format!("Service/{it}")).into());
    let workloads = keys(&delta, |it| match it {
        Resource::Workload(workload) => Some(workload.key.to_string()),
        _ => None,
    });
    assert_eq!(workloads.len(), 6, "{workloads:?}");
    let warned = delta.service_warnings.iter();
    let warned: Vec<_> = warned
        .filter_map(|(name, text)| Some((name.to_string(), text.as_deref()?)))
        .collect();
    assert_eq!(warned.len(), 4);
    for (service, text) in warned {
        assert!(service.starts_with("noisy/s-0"), "{service}");
        assert!(text.contains("has no room for this Service"), "{text}");
    }
    assert_eq!(used(&mut translator, Budget::GatewayEndpoints), 4);
}

/// The CA certificates of a BackendTLSPolicy are sent with each Service, and count there.
#[test]
fn bytes_of_services_count_with_their_names() {
    let mut translator = translator(Budget::GatewayEndpointBytes, 1_000);
    let mut objects = vec![gateway(1)];
    for number in 0..6 {
        objects.push(route_to_service("noisy", number));
        objects.extend(service("noisy", number));
    }
    let delta = apply(&mut translator, objects);
    let sent = keys(&delta, |it| match it {
        Resource::Service(service) => Some(service.key.to_string()),
        _ => None,
    });
    assert!((1..5).contains(&sent.len()), "{sent:?}");
    assert!(used(&mut translator, Budget::GatewayEndpointBytes) > 0);
}

fn route_to_service(namespace: &str, number: usize) -> Object {
    route_to(
        namespace,
        number,
        &json!({"name": format!("s-{number:02}"), "port": 80}),
    )
}

fn backend(namespace: &str, number: usize) -> Object {
    let value = json!({
        "metadata": metadata(namespace, &format!("b-{number:02}"), number),
        "spec": {"protocol": "HTTP", "addresses": [{"host": format!("203.0.113.{number}"), "port": 80}]},
    });
    admitted("gateway-system.io", "Backend", value)
}

/// A Service with two endpoints.
fn service(namespace: &str, number: usize) -> [Object; 2] {
    let ports = json!([{"name": "http", "port": 80, "protocol": "TCP"}]);
    let name = format!("s-{number:02}");
    let service = json!({
        "metadata": metadata(namespace, &name, number),
        "spec": {"clusterIP": format!("10.1.0.{number}"), "ports": ports},
    });
    let mut of_slice = metadata(namespace, &name, number);
    of_slice["labels"] = json!({"kubernetes.io/service-name": name});
    let slice = json!({
        "metadata": of_slice,
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [format!("10.2.{number}.1")]}, {"addresses": [format!("10.2.{number}.2")]},
        ],
        "ports": ports,
    });
    [
        admitted("", "Service", service),
        admitted("discovery.k8s.io", "EndpointSlice", slice),
    ]
}
