//! `gwctl status`: what it finds in a cluster, and how it exits.

use serde_json::{Value, json};

use super::{Cluster, GATEWAY_API, condition, gateway, pod};

/// A backend that is no concern of these tests.
fn backend() -> Value {
    json!({"group": "gateway-system.io", "kind": "Backend", "name": "shop"})
}

fn good(kind: &str) -> Value {
    condition(kind, "True", kind, "")
}

/// A cluster whose Gateway `default/edge` works.
fn working() -> Cluster {
    let cluster = Cluster::start();
    let mut edge = gateway("default", "edge");
    edge["spec"]["listeners"] = json!([{"name": "http", "port": 80, "protocol": "HTTP",
        "allowedRoutes": {"namespaces": {"from": "All"}}}]);
    edge["status"] = json!({"conditions": [good("Accepted"), good("Programmed")]});
    cluster.api.put(GATEWAY_API, "gateways", edge);
    let class = json!({"metadata": {"name": "gateway"}, "spec": {"controllerName": "a/b"},
        "status": {"conditions": [good("Accepted")]}});
    cluster.api.put(GATEWAY_API, "gatewayclasses", class);
    let mut other = pod("edge-a", "ready");
    other["metadata"]["labels"] = json!({});
    cluster.api.put("v1", "pods", other);
    cluster
}

/// Puts an accepted route, with these parents and rules.
fn route(cluster: &Cluster, (namespace, name): (&str, &str), parent: &Value, rules: &Value) {
    let route = json!({"metadata": {"name": name, "namespace": namespace},
        "spec": {"parentRefs": [parent], "rules": rules},
        "status": {"parents": [{"parentRef": parent,
            "conditions": [good("Accepted"), good("ResolvedRefs")]}]}});
    cluster.api.put(GATEWAY_API, "httproutes", route);
}

/// Asserts how a command exits, and what it prints.
fn assert_status(cluster: &Cluster, line: &str, code: i32, expected: &[&str]) {
    let (actual, text, err) = cluster.gwctl(line);
    assert_eq!(actual, Some(code), "{line}: {err}{text}");
    for part in expected {
        assert!(text.contains(part), "{line}: no `{part}` in {text}");
    }
}

#[test]
fn without_problems_there_is_nothing_to_say() {
    let cluster = working();
    let parent = json!({"name": "edge"});
    let rules = json!([{"backendRefs": [backend()]}]);
    route(&cluster, ("default", "shop"), &parent, &rules);
    let (code, text, err) = cluster.gwctl("status");
    assert_eq!(code, Some(0), "{err}{text}");
    assert!(!text.contains("Problems"), "{text}");
}

#[test]
fn a_service_without_endpoints_is_an_error() {
    let cluster = working();
    let parent = json!({"name": "edge"});
    let rules = json!([{"backendRefs": [{"name": "shop", "port": 80}]}]);
    route(&cluster, ("default", "shop"), &parent, &rules);
    let service = json!({"metadata": {"name": "shop", "namespace": "default"},
        "spec": {"ports": [{"port": 80}]}});
    cluster.api.put("v1", "services", service);
    let problem = "error    HTTPRoute default/shop spec.rules[0].backendRefs[0]: Service default/shop has no \
                   endpoint that is ready: it has no EndpointSlice";
    assert_status(&cluster, "status", 1, &["Problems", problem]);
    let slice = json!({"metadata": {"name": "shop-1", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "shop"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 8080}]});
    cluster
        .api
        .put("discovery.k8s.io/v1", "endpointslices", slice);
    assert_status(&cluster, "status", 0, &[]);
}

#[test]
fn a_route_whose_gateway_does_not_exist_is_found() {
    let cluster = working();
    let rules = json!([{"backendRefs": [backend()]}]);
    let lost = json!({"metadata": {"name": "lost", "namespace": "shop"},
        "spec": {"parentRefs": [{"name": "egde"}], "rules": rules}});
    cluster.api.put(GATEWAY_API, "httproutes", lost);
    let problem = "error    HTTPRoute shop/lost spec.parentRefs[0].name: Gateway shop/egde does not exist (did you \
                   mean `edge` of namespace `default`?)";
    assert_status(&cluster, "status -n shop", 1, &["Namespace shop", problem]);
    // It is no concern of this one.
    assert_status(&cluster, "status edge", 0, &[]);
}

#[test]
fn a_grant_that_permits_nothing_is_found() {
    let cluster = working();
    let grant = json!({"metadata": {"name": "others", "namespace": "default"}, "spec": {
        "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "web"}],
        "to": [{"group": "core", "kind": "Service"}]}});
    let version = "gateway.networking.k8s.io/v1beta1";
    cluster.api.put(version, "referencegrants", grant);
    let problem = "error    ReferenceGrant default/others spec.to[0]: nothing is permitted by it: there is no kind \
                   `Service` in group `core`";
    assert_status(&cluster, "status", 1, &["Problems", problem]);
}

#[test]
fn a_namespace_without_gateways_has_a_status_of_its_own() {
    let cluster = working();
    let parent = json!({"name": "edge", "namespace": "default"});
    let rules = json!([{"backendRefs": [backend()]}]);
    route(&cluster, ("shop", "cart"), &parent, &rules);
    let expected = [
        "Namespace shop",
        "parents     Gateway/default/edge",
        "HTTPRoute shop/cart",
    ];
    assert_status(&cluster, "status -n shop", 0, &expected);
    let policy = json!({"metadata": {"name": "tokens", "namespace": "shop"}, "spec": {"targetRefs": []},
        "status": {"ancestors": [{"controllerName": "a/b",
            "ancestorRef": {"kind": "HTTPRoute", "namespace": "shop", "name": "crat"},
            "conditions": [condition("Accepted", "False", "TargetNotFound",
                "HTTPRoute shop/crat does not exist: create it")]}]}});
    let version = "gateway-system.io/v1alpha1";
    cluster.api.put(version, "trafficpolicies", policy);
    let problem = "error    TrafficPolicy shop/tokens: Accepted=False (TargetNotFound): HTTPRoute shop/crat does not \
                   exist (did you mean `cart`?): create it";
    assert_status(&cluster, "status -n shop", 1, &[problem]);
}

#[test]
fn warnings_fail_if_asked_for() {
    let cluster = working();
    let parent = json!({"name": "edge"});
    let rules = json!([{"matches": [{"path": {"type": "PathPrefix", "value": "/api/*"}}],
        "backendRefs": [backend()]}]);
    route(&cluster, ("default", "shop"), &parent, &rules);
    let problem = "warning  HTTPRoute default/shop spec.rules[0].matches[0].path.value: `*` stands for itself";
    assert_status(&cluster, "status", 0, &["Problems", problem]);
    assert_status(&cluster, "status --strict", 1, &[problem]);
}

#[test]
fn pods_that_cannot_be_made_are_an_error() {
    let cluster = working();
    let message = "pods \"edge-x\" is forbidden: exceeded quota: small";
    let deployment = json!({"metadata": {"name": "edge", "namespace": "default"},
        "spec": {"selector": {}, "template": {}},
        "status": {"conditions": [
            {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}]}});
    cluster.api.put("apps/v1", "deployments", deployment);
    let problem =
        format!("error    not all proxies run: {message}; raise the quota of the namespace");
    assert_status(&cluster, "status edge", 1, &[&problem]);
}

/// Only Events say why.
#[test]
fn pods_of_a_daemon_set_that_cannot_be_made_are_an_error() {
    let cluster = working();
    let daemon_set = json!({"metadata": {"name": "edge", "namespace": "default"},
        "spec": {"selector": {}, "template": {}},
        "status": {"desiredNumberScheduled": 3, "currentNumberScheduled": 2}});
    cluster.api.put("apps/v1", "daemonsets", daemon_set);
    let problem =
        "error    not all proxies run: pods exist on 2 of 3 nodes; kubectl describe daemonset";
    assert_status(&cluster, "status edge", 1, &[problem]);
    let event = |name: &str, about: &str, message: &str| {
        json!({"metadata": {"name": name, "namespace": "default"}, "reason": "FailedCreate",
            "message": message, "lastTimestamp": "2026-12-01T00:00:00Z",
            "involvedObject": {"kind": "DaemonSet", "name": about}})
    };
    let message =
        "Error creating: pods \"edge-\" is forbidden: violates PodSecurity \"restricted\"";
    cluster
        .api
        .put("v1", "events", event("edge.1", "edge", message));
    cluster
        .api
        .put("v1", "events", event("other.1", "other", "another one"));
    let problem = "error    not all proxies run: pods exist on 2 of 3 nodes: pods \"edge-\" is forbidden: \
                   violates PodSecurity \"restricted\"; remove from the Gateway's GatewayParameters";
    assert_status(&cluster, "status edge", 1, &[problem]);
}

#[test]
fn what_cannot_be_read_fails() {
    let cluster = working();
    cluster.api.forbid("/portforward");
    let problem = "error    proxy edge-b could not be asked, so part of the status is unknown: ";
    assert_status(&cluster, "status edge", 1, &[problem]);
    cluster.api.forbid("/httproutes");
    let problem = "error    part of the status is unknown: you may not list httproutes";
    assert_status(&cluster, "status edge", 1, &[problem]);
}

#[test]
fn the_status_lists_the_problems() {
    let cluster = Cluster::start();
    let mut edge = gateway("default", "edge");
    edge["spec"]["listeners"] = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    edge["status"] = json!({
        "addresses": [{"type": "IPAddress", "value": "192.0.2.1"}],
        "conditions": [good("Accepted"), good("Programmed")],
        "listeners": [{"name": "http", "attachedRoutes": 2, "conditions": [good("Accepted")]}],
    });
    cluster.api.put(GATEWAY_API, "gateways", edge);
    let class = json!({"metadata": {"name": "gateway"}, "spec": {"controllerName": "a/b"},
        "status": {"conditions": [good("Accepted")]}});
    cluster.api.put(GATEWAY_API, "gatewayclasses", class);
    let route = |name: &str, resolved: Value| {
        json!({"metadata": {"name": name, "namespace": "default"},
            "spec": {"parentRefs": [{"name": "edge"}], "rules": [{"backendRefs": [backend()]}]},
            "status": {"parents": [{"parentRef": {"name": "edge"},
                "conditions": [good("Accepted"), resolved]}]}})
    };
    let good_route = route("good", good("ResolvedRefs"));
    cluster.api.put(GATEWAY_API, "httproutes", good_route);
    cluster.api.put("v1", "pods", {
        let mut pod = pod("edge-a", "ready");
        pod["metadata"]["labels"] = json!({});
        pod
    });

    let (code, text, err) = cluster.gwctl("status edge");
    // A pod that is terminating makes room for another.
    assert_eq!(code, Some(0), "{err}{text}");
    assert!(text.contains("edge-b  one   ready"), "{text}");
    assert!(
        text.contains("HTTPRoute default/good  *         *          ok"),
        "{text}"
    );

    let reason = condition(
        "ResolvedRefs",
        "False",
        "BackendNotFound",
        "no Service shop",
    );
    let bad_route = route("bad", reason);
    cluster.api.put(GATEWAY_API, "httproutes", bad_route);
    let (code, text, _) = cluster.gwctl("status");
    assert_eq!(code, Some(1));
    let problem = "HTTPRoute default/bad: ResolvedRefs=False (BackendNotFound): no Service shop";
    assert!(text.contains(problem), "{text}");
    let (code, json, _) = cluster.gwctl("status -o json");
    assert_eq!(code, Some(1));
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        json[0]["proxies"][0]["own"]["version"],
        env!("CARGO_PKG_VERSION")
    );
    let (code, _, err) = cluster.gwctl("status -n empty");
    assert_eq!(code, Some(1));
    assert!(err.contains("other namespaces have: default/edge"), "{err}");
}

#[test]
fn the_status_lists_policies_without_effect() {
    let cluster = Cluster::start();
    let mut edge = gateway("default", "edge");
    edge["status"] = json!({"conditions": [good("Accepted"), good("Programmed")]});
    cluster.api.put(GATEWAY_API, "gateways", edge);
    let class = json!({"metadata": {"name": "gateway"}, "spec": {"controllerName": "a/b"},
        "status": {"conditions": [good("Accepted")]}});
    cluster.api.put(GATEWAY_API, "gatewayclasses", class);
    let policy = |namespace: &str, name: &str, target: Value, conditions: Value| {
        let status = json!({"ancestors": [
            {"ancestorRef": target, "controllerName": "a/b", "conditions": conditions}]});
        let metadata = json!({"name": name, "namespace": namespace});
        let policy = json!({"metadata": metadata, "spec": {"targetRefs": []}, "status": status});
        let version = "gateway-system.io/v1alpha1";
        cluster.api.put(version, "trafficpolicies", policy);
    };
    let missing = |namespace: &str| {
        let text = "HTTPRoute gone does not exist";
        let conditions = json!([condition("Accepted", "False", "TargetNotFound", text)]);
        let target = json!({"kind": "HTTPRoute", "namespace": namespace, "name": "gone"});
        policy(namespace, "tokens", target, conditions);
    };
    missing("default");
    // There is nothing of this Gateway that it could mean.
    missing("elsewhere");
    let text = "some fields have no effect here: spec.trustedHops";
    let partly = condition("Programmed", "True", "PartiallyProgrammed", text);
    let target = json!({"kind": "Gateway", "namespace": "default", "name": "edge"});
    let conditions = json!([good("Accepted"), partly]);
    policy("default", "limits", target.clone(), conditions);
    let text = "2 of 2 proxies cannot fetch keys of provider `idp`";
    let unavailable = condition("DependencyUnavailable", "True", "KeysNotFetched", text);
    let conditions = json!([good("Accepted"), unavailable]);
    policy("default", "keys", target, conditions);

    let (code, text, _) = cluster.gwctl("status edge");
    assert_eq!(code, Some(1));
    for problem in [
        "TrafficPolicy default/tokens: Accepted=False (TargetNotFound): HTTPRoute gone does not exist",
        "TrafficPolicy default/limits: Programmed=True (PartiallyProgrammed): some fields have no effect",
        "TrafficPolicy default/keys: DependencyUnavailable=True (KeysNotFetched): 2 of 2 proxies cannot fetch keys",
    ] {
        assert!(text.contains(problem), "{text}");
    }
    assert!(!text.contains("elsewhere"), "{text}");
}
