//! Objects that are made to do harm: each is as large, as slow or as wrong as the API server lets
//! pass.

use serde_json::{Value, json};

use crate::test::control_plane::random::Random;
use crate::test::tls;

/// One kind of attack.
pub(super) struct Attack {
    /// The prefix of its objects' names.
    pub(super) name: &'static str,
    /// Objects that it keeps at the same time: written again and again under as many names.
    pub(super) objects: usize,
    /// Makes the object of a number. `owner` is the namespace of the shared Gateways.
    pub(super) make: fn(&mut Random, usize, &str) -> Value,
}

/// All of them. Those of the same kind refer to each other's objects by their names.
pub(super) const ATTACKS: &[Attack] = &[
    attack("expressions", 8, expressions),
    attack("rules", 40, rules),
    attack("broken", 20, broken_references),
    attack("listeners", 40, listeners),
    attack("socket", 8, socket_settings),
    attack("slow-keys", 8, keys_that_hang),
    attack("dangling", 30, dangling_policy),
    attack("overlay", 4, overlay),
    attack("gateway", 4, gateway),
    attack("service", 8, service),
    attack("endpoints", 8, endpoints),
    attack("ports", 4, endpoints_of_many_ports),
    attack("tls", 8, backend_tls),
    attack("certificate", 4, certificate),
    attack("large", 4, large),
];

const fn attack(
    name: &'static str,
    objects: usize,
    make: fn(&mut Random, usize, &str) -> Value,
) -> Attack {
    Attack {
        name,
        objects,
        make,
    }
}

/// The shared Gateways, as parents.
fn parents(owner: &str) -> Value {
    json!([{"name": "edge", "namespace": owner}, {"name": "epoll", "namespace": owner}])
}

fn object(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn route(name: &str, number: usize, owner: &str, rules: &Value) -> Value {
    let spec = json!({
        "parentRefs": parents(owner), "hostnames": [format!("h{number}.hostile.example")],
        "rules": rules,
    });
    object("gateway.networking.k8s.io/v1", "HTTPRoute", name, &spec)
}

/// Expressions that are short and compile to much.
fn expressions(random: &mut Random, number: usize, owner: &str) -> Value {
    let pieces = [r"\w{20}", r"\pL{30}", "(a|b|cd){40}", r"[^x]{50}"];
    let matches = (0..64).map(|nth| {
        let headers = (0..16).map(|header| {
            let value = format!("{}{nth}x{header}", random.one_of(&pieces));
            json!({"type": "RegularExpression", "name": format!("x-{header}"), "value": value})
        });
        json!({"headers": headers.collect::<Vec<_>>()})
    });
    let rules = json!([{"matches": matches.collect::<Vec<_>>()}]);
    route(&format!("expressions-{number}"), number, owner, &rules)
}

/// As many rules as a route may have, each of them large, for all listeners.
fn rules(random: &mut Random, number: usize, owner: &str) -> Value {
    let text = "v".repeat(200 + random.below(800));
    let rules = (0..16).map(|nth| {
        let edits = (0..16).map(|n| json!({"name": format!("x-{n}"), "value": text}));
        json!({
            "matches": [{"path": {"value": format!("/{number}/{nth}")}}],
            "filters": [{"type": "RequestHeaderModifier",
                         "requestHeaderModifier": {"set": edits.collect::<Vec<_>>()}}],
            "backendRefs": [{"name": format!("service-{}", nth % 8), "port": 80}],
        })
    });
    let rules = json!(rules.collect::<Vec<_>>());
    route(&format!("rules-{number}"), number, owner, &rules)
}

/// References to nothing, whose messages would be long.
fn broken_references(random: &mut Random, number: usize, owner: &str) -> Value {
    let missing = "m".repeat(60 + random.below(190));
    let rules = (0..16).map(|nth| {
        let backends = (0..16).map(|n| {
            json!({"name": format!("{}{nth}", &missing[..50]), "namespace": format!("n{n}"),
                   "port": 80, "kind": "Backend", "group": "gateway-system.io"})
        });
        json!({"name": format!("rule-{nth}"), "backendRefs": backends.collect::<Vec<_>>()})
    });
    let rules = json!(rules.collect::<Vec<_>>());
    route(&format!("broken-{number}"), number, owner, &rules)
}

/// Listeners on ports of their own, with host names of others.
fn listeners(random: &mut Random, number: usize, owner: &str) -> Value {
    let gateway = random.one_of(&["edge", "epoll"]);
    let listeners = (0..64).map(|nth| {
        let port = 10_000 + number * 64 + nth;
        let hostname = random.one_of(&["*.example.com", "shop.example.com", "h1.hostile.example"]);
        json!({"name": format!("l{nth}"), "port": port, "protocol": "HTTP", "hostname": hostname})
    });
    let spec = json!({
        "parentRef": {"name": gateway, "namespace": owner},
        "listeners": listeners.collect::<Vec<_>>(),
    });
    let name = format!("listeners-{number}");
    object("gateway.networking.k8s.io/v1", "ListenerSet", &name, &spec)
}

/// Settings of the port that a ListenerSet shares with others.
fn socket_settings(random: &mut Random, number: usize, _: &str) -> Value {
    let mut spec = json!({
        "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "ListenerSet",
                        "name": format!("listeners-{number}")}],
        "proxyProtocol": {"in": "Required"},
        "limits": {"headTimeout": "1ms", "keepAliveTimeout": "1ms", "http2Streams": 1},
        "accessLog": {"disabled": true},
    });
    if random.chance(50) {
        spec["trustedSources"] = json!(["0.0.0.0/0", "::/0"]);
    } else {
        spec["trustedHops"] = json!(4);
    }
    own("TrafficPolicy", &format!("socket-{number}"), &spec)
}

/// Keys that no one ever sends: at an address that drops packets.
fn keys_that_hang(random: &mut Random, number: usize, _: &str) -> Value {
    let spec = json!({
        "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute",
                        "name": format!("rules-{number}")}],
        "jwt": {"providers": [{
            "name": "slow", "issuer": "https://issuer.example",
            "jwks": {"remote": {"url": format!("http://10.255.255.1:{}/", 1 + random.below(60_000))}},
        }]},
    });
    own("TrafficPolicy", &format!("slow-keys-{number}"), &spec)
}

/// Policies of nothing, and of what exists only half.
fn dangling_policy(random: &mut Random, number: usize, _: &str) -> Value {
    let kind = random.one_of(&["HTTPRoute", "GRPCRoute", "ListenerSet", "Gateway"]);
    let name = random.one_of(&["missing", "rules-1", "listeners-2", "gateway-0", "broken-3"]);
    let spec = json!({
        "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": kind, "name": name,
                        "sectionName": "missing"}],
        "authorization": {"allow": [{"when": "request.headers['x'].matches('(a+)+$')"}]},
    });
    own("TrafficPolicy", &format!("dangling-{number}"), &spec)
}

/// Overlays of wrong types, and with fields that no object has.
fn overlay(random: &mut Random, number: usize, _: &str) -> Value {
    let overlays = [
        json!({"deployment": {"metadata": {"labels": "app"}}}),
        json!({"deployment": {"spec": {"template": {"spec": {"containers": "none"}}}}}),
        json!({"deployment": {"spec": {"tepmlate": {"spec": {}}}}}),
        json!({"deployment": {"labels": "app"}, "service": {"spec": {"ports": "all"}}}),
        json!({"serviceAccount": {"metadata": {"annotations": ["a"]}}}),
        json!({"service": {"spec": {"ports": [{"name": "metrics", "port": 1}]}}}),
    ];
    let spec = json!({"overlays": overlays[random.below(overlays.len())]});
    own("GatewayParameters", &format!("overlay-{number}"), &spec)
}

/// Gateways of the tenant's own, whose deployments fail.
fn gateway(random: &mut Random, number: usize, _: &str) -> Value {
    let spec = json!({
        "gatewayClassName": "gateway",
        "listeners": [{"name": "l", "port": 1 + random.below(60_000), "protocol": "HTTP"}],
        "infrastructure": {"parametersRef": {
            "group": "gateway-system.io", "kind": "GatewayParameters",
            "name": format!("overlay-{number}")}},
    });
    let name = format!("gateway-{number}");
    object("gateway.networking.k8s.io/v1", "Gateway", &name, &spec)
}

/// Services without a selector: their endpoints are the tenant's to write. Each endpoint counts for each port.
fn service(_: &mut Random, number: usize, _: &str) -> Value {
    let others = (1..PORTS).map(|nth| json!({"name": format!("p{nth}"), "port": 80 + nth}));
    let ports = std::iter::once(json!({"name": "http", "port": 80})).chain(others);
    let spec = json!({"ports": ports.collect::<Vec<_>>()});
    object("v1", "Service", &format!("service-{number}"), &spec)
}

/// Endpoints that come and go, at addresses that drop packets.
fn endpoints(random: &mut Random, number: usize, _: &str) -> Value {
    let third = random.below(250);
    let endpoints = (0..1_000).map(|nth| {
        let address = format!("10.255.{}.{}", third + nth / 250, 1 + nth % 250);
        json!({"addresses": [address], "conditions": {"ready": random.chance(90)}})
    });
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("endpoints-{number}"),
                     "labels": {"kubernetes.io/service-name": format!("service-{number}")}},
        "addressType": "IPv4",
        "endpoints": endpoints.collect::<Vec<_>>(), "ports": [{"name": "http", "port": 80}],
    })
}

/// A hundred endpoints, each at as many ports as its Service has.
fn endpoints_of_many_ports(random: &mut Random, number: usize, _: &str) -> Value {
    let endpoints = (0..100).map(|nth| {
        let address = format!("10.254.{number}.{}", 1 + nth);
        json!({"addresses": [address], "conditions": {"ready": random.chance(90)}})
    });
    let ports = (1..PORTS).map(|nth| json!({"name": format!("p{nth}"), "port": 8_000 + nth}));
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("ports-{number}"),
                     "labels": {"kubernetes.io/service-name": format!("service-{number}")}},
        "addressType": "IPv4",
        "endpoints": endpoints.collect::<Vec<_>>(), "ports": ports.collect::<Vec<_>>(),
    })
}

/// Ports of a Service; an EndpointSlice has at most 100.
const PORTS: usize = 60;

fn backend_tls(random: &mut Random, number: usize, _: &str) -> Value {
    let spec = json!({
        "targetRefs": [
            {"group": "", "kind": "Service", "name": format!("service-{number}"),
             "sectionName": random.one_of(&["http", "missing"])},
            {"group": "", "kind": "Service", "name": "missing"},
        ],
        "validation": {
            "hostname": "a.test",
            "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "large-0"}],
        },
    });
    let name = format!("tls-{number}");
    object(
        "gateway.networking.k8s.io/v1",
        "BackendTLSPolicy",
        &name,
        &spec,
    )
}

/// Certificates for the quiet tenant's host name, good ones and others.
fn certificate(random: &mut Random, number: usize, _: &str) -> Value {
    let made = tls::certificate("shop.example.com");
    let mut secret = made.map_or(Value::Null, |(secret, _)| secret);
    secret["metadata"]["name"] = json!(format!("certificate-{number}"));
    if random.chance(30) {
        secret["stringData"] = json!({"tls.crt": "none", "tls.key": "none"});
        secret["data"] = Value::Null;
    }
    secret
}

/// Objects that nobody refers to, nearly as large as the API server takes them.
fn large(random: &mut Random, number: usize, _: &str) -> Value {
    let kind = random.one_of(&["ConfigMap", "Secret"]);
    let field = if kind == "Secret" {
        "stringData"
    } else {
        "data"
    };
    let mut object = json!({
        "apiVersion": "v1", "kind": kind, "metadata": {"name": format!("large-{number}")}});
    object[field] = json!({"blob": "x".repeat(700_000), "number": random.below(1_000).to_string()});
    object
}

fn own(kind: &str, name: &str, spec: &Value) -> Value {
    object("gateway-system.io/v1alpha1", kind, name, spec)
}
