//! The objects that cases write.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

/// The name of every Gateway. Its proxies are found by that name in all namespaces.
pub(crate) const GATEWAY: &str = "bench";

const API: &str = "gateway.networking.k8s.io/v1";

/// A Gateway for routes and ListenerSets of all namespaces, with a listener for HTTP on port 80.
pub(crate) fn gateway(namespace: &str, class: &str) -> Value {
    json!({
        "apiVersion": API, "kind": "Gateway",
        "metadata": {"name": GATEWAY, "namespace": namespace},
        "spec": {
            "gatewayClassName": class,
            "allowedListeners": {"namespaces": {"from": "All"}},
            "listeners": [{
                "name": "http", "port": 80, "protocol": "HTTP",
                "allowedRoutes": {"namespaces": {"from": "All"}},
            }],
        },
    })
}

/// The parent of a route.
#[derive(Debug, Clone)]
pub(crate) struct Parent {
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A route of one path of a host to a Service, in the namespace of both.
pub(crate) struct Route<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) parent: &'a Parent,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) service: &'a str,
}

impl Route<'_> {
    pub(crate) fn object(&self) -> Value {
        let Parent {
            kind,
            namespace,
            name,
        } = self.parent;
        json!({
            "apiVersion": API, "kind": "HTTPRoute",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "hostnames": [self.host],
                "parentRefs": [{"group": "gateway.networking.k8s.io", "kind": kind,
                                "namespace": namespace, "name": name}],
                "rules": [{
                    "matches": [{"path": {"type": "PathPrefix", "value": self.path}}],
                    "backendRefs": [{"name": self.service, "port": 80}],
                }],
            },
        })
    }

    /// The same with header filters, and a second rule with a missing Service, as in the public
    /// probe.
    pub(crate) fn with_broken_rest(&self) -> Value {
        let mut object = self.object();
        let add = |name: &str| json!({"add": [{"name": name, "value": "value"}]});
        let filters = json!([
            {"type": "RequestHeaderModifier", "requestHeaderModifier": add("x-request")},
            {"type": "ResponseHeaderModifier", "responseHeaderModifier": add("x-response")},
        ]);
        object["spec"]["rules"][0]["filters"] = filters.clone();
        let rest = json!({
            "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
            "filters": filters, "backendRefs": [{"name": "missing", "port": 80}],
        });
        if let Some(rules) = object["spec"]["rules"].as_array_mut() {
            rules.push(rest);
        }
        object
    }
}

/// A Service without pods, and without an address of its own: nothing in the cluster but the
/// implementation has to follow it. Port 8080 has the same target as port 80.
pub(crate) fn service(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "clusterIP": "None",
            "ports": [{"name": "http", "port": 80}, {"name": "other", "port": 8080}],
        },
    })
}

/// A part of the endpoints of a Service.
pub(crate) fn slice(
    namespace: &str,
    service: &str,
    number: usize,
    addresses: &[Ipv4Addr],
    port: u16,
) -> Value {
    let endpoint =
        |address: &Ipv4Addr| json!({"addresses": [address], "conditions": {"ready": true}});
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}-{number}"), "namespace": namespace,
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": port}, {"name": "other", "port": port}],
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

/// A Secret of type `kubernetes.io/tls`, named `certificate`.
pub(crate) fn certificate(namespace: &str, chain: &str, key: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "certificate", "namespace": namespace},
        "stringData": {"tls.crt": chain, "tls.key": key},
    })
}

/// A ListenerSet of the Gateway with one HTTPS listener.
pub(crate) fn listener_set(namespace: &str, name: &str, host: &str, gateway: &Parent) -> Value {
    json!({
        "apiVersion": API, "kind": "ListenerSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway",
                          "namespace": gateway.namespace, "name": gateway.name},
            "listeners": [{
                "name": "https", "port": 443, "protocol": "HTTPS", "hostname": host,
                "tls": {"mode": "Terminate", "certificateRefs": [{"name": "certificate"}]},
            }],
        },
    })
}

/// The nth address of a range.
pub(crate) fn address(range: Ipv4Addr, number: usize) -> Ipv4Addr {
    // The first and last address of a /16 are not used for endpoints.
    let number = u32::try_from(number % 65_000).unwrap_or_default() + 1;
    Ipv4Addr::from(u32::from(range) + number)
}
