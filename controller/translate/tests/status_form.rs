//! Statuses are written to Kubernetes as they are, so their JSON form is part of the contract.

use serde_json::json;
use translate::files::{Source, admit};
use translate::status::Status;
use translate::{ObjectKind, ObjectRef, Options, Store, translate};
use xds::model::ObjectName;

#[test]
fn statuses_serialize_like_kubernetes_conditions() {
    let admitted = admit(&[Source::new("case.yaml", CASE)]);
    assert!(admitted.findings.is_empty(), "{:?}", admitted.findings);
    let objects = admitted.objects.into_iter();
    let store: Store = objects.map(|(object, _)| object).collect();
    let statuses = translate(&store, &Options::machine()).statuses;
    let name = ObjectName::new("default", "web");
    let route = statuses.get(&ObjectRef::new(ObjectKind::HttpRoute, &name));
    let Some(Status::Route(route)) = route else {
        panic!("it has no status: {statuses:?}");
    };
    let expected = json!({"parents": [{
        "parentRef": {
            "group": "gateway.networking.k8s.io",
            "kind": "Gateway",
            "name": "gw",
            "sectionName": "http",
            "port": 8080,
        },
        "controllerName": "gateway-system.io/controller",
        "conditions": [
            {
                "type": "Accepted",
                "status": "True",
                "reason": "Accepted",
                "message": "the route is attached",
                "observedGeneration": 3,
            },
            {
                "type": "ResolvedRefs",
                "status": "True",
                "reason": "ResolvedRefs",
                "message": "all references are resolved",
                "observedGeneration": 3,
            },
        ],
    }]});
    assert_eq!(serde_json::to_value(route).expect("plain data"), expected);
    let name = ObjectName::new("default", "gw");
    let gateway = statuses.get(&ObjectRef::new(ObjectKind::Gateway, &name));
    let Some(Status::Gateway(gateway)) = gateway else {
        panic!("it has no status: {statuses:?}");
    };
    let gateway = serde_json::to_value(gateway).expect("plain data");
    let listener = &gateway["listeners"][0];
    assert_eq!(listener["name"], "http");
    assert_eq!(listener["attachedRoutes"], 1);
    let kind = |kind| json!({"group": "gateway.networking.k8s.io", "kind": kind});
    let kinds = json!([kind("HTTPRoute"), kind("GRPCRoute")]);
    assert_eq!(listener["supportedKinds"], kinds);
    let address = json!([{"type": "IPAddress", "value": "127.0.0.1", "routability": ""}]);
    assert_eq!(gateway["addresses"], address);
}

const CASE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: gateway
  addresses: [{value: 127.0.0.1}]
  listeners: [{name: http, port: 8080, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, generation: 3}
spec:
  parentRefs: [{name: gw, sectionName: http, port: 8080}]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}]
";
