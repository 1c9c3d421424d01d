//! Objects of the tests, and the model and statuses expected of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use translate::ObjectKind;
use translate::files::admit_value;
use translate::status::{GatewayClassStatus, Installed, Release, Status};
use translate::{Event, ObjectRef, Options, Translator};
use xds::model::{Model, ObjectName};

use controller::selectors::Selectors;

pub(crate) fn class() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": {"name": "gateway", "generation": 1},
        "spec": {"controllerName": "gateway-system.io/controller"},
    })
}

/// The definition of GatewayClass in a release of Gateway API.
pub(crate) fn definition(version: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gatewayclasses.gateway.networking.k8s.io", "annotations": {
            "gateway.networking.k8s.io/bundle-version": version,
            "gateway.networking.k8s.io/channel": "experimental",
        }},
    })
}

pub(crate) fn namespace(name: &str, team: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"team": team}},
    })
}

pub(crate) fn gateway(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": name, "namespace": namespace, "uid": "u", "generation": 1},
        "spec": {"gatewayClassName": "gateway", "listeners": [
            {"name": "http", "port": 8080, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}},
            {"name": "udp", "port": 5300, "protocol": "UDP"},
        ]},
    })
}

pub(crate) fn route(namespace: &str, name: &str, gateway: (&str, &str), path: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {
            "parentRefs": [{"namespace": gateway.0, "name": gateway.1, "sectionName": "http"}],
            "rules": [{
                "matches": [{"path": {"value": path}}],
                "backendRefs": [{"name": "web", "port": 80}],
            }],
        },
    })
}

pub(crate) fn udp_route(namespace: &str, name: &str, gateway: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1alpha2", "kind": "UDPRoute",
        "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {
            "parentRefs": [{"name": gateway, "sectionName": "udp"}],
            "rules": [{"backendRefs": [{"name": "web", "port": 80}]}],
        },
    })
}

pub(crate) fn service(namespace: &str, name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 80, "targetPort": port}]},
    })
}

pub(crate) fn slice(namespace: &str, service: &str, address: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}-1"), "namespace": namespace,
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
    })
}

pub(crate) fn reference(object: &Value) -> ObjectRef {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let metadata = &object["metadata"];
    let kind = ObjectKind::find(group, &text(&object["kind"])).expect("a kind that is read");
    let name = ObjectName::new(&text(&metadata["namespace"]), &text(&metadata["name"]));
    ObjectRef::new(kind, &name)
}

/// The expected result of objects: the model of each Gateway, and the statuses.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) models: BTreeMap<ObjectName, Model>,
    pub(crate) statuses: BTreeMap<ObjectRef, Status>,
}

/// Translates objects from scratch.
pub(crate) fn from_scratch(objects: &[Value], selectors: &Selectors) -> Outcome {
    let options = Options {
        classes: [].into(),
        ..Options::cluster()
    };
    let mut batch = Vec::new();
    let mut outcome = Outcome::default();
    let definition = objects.iter().find(|it| it["kind"] == DEFINITION);
    let release = definition.and_then(|it| {
        Release::of_annotations(|name| it["metadata"]["annotations"][name].as_str())
    });
    for object in objects {
        let name = reference(object);
        if !is_selected(objects, selectors, &name.name.namespace) {
            continue;
        }
        if name.kind == ObjectKind::CustomResourceDefinition {
            continue;
        }
        if name.kind == ObjectKind::GatewayClass {
            batch.push(Event::Class(name.name.name.to_string(), true));
            let installed = Installed {
                release,
                trust_bundles: false,
            };
            let status = Status::GatewayClass(GatewayClassStatus::accepted(1, installed));
            outcome.statuses.insert(name, status);
            continue;
        }
        let fields: Map<String, Value> = object.as_object().cloned().unwrap_or_default();
        let admitted = admit_value(name.kind, fields).expect("a kind that is read");
        batch.push(Event::Upsert(admitted.object.expect("a valid object")));
    }
    batch.push(Event::Start);
    let delta = Translator::new(options).apply(batch, Timestamp::UNIX_EPOCH);
    for (gateway, view) in delta.views {
        let resources = delta.resources.iter();
        let own = resources
            .filter(|(key, _)| view.joined.contains(key))
            .cloned();
        outcome
            .models
            .entry(gateway)
            .or_default()
            .apply(own.collect::<Vec<_>>());
    }
    let statuses = delta.statuses.into_iter();
    let statuses = statuses.filter_map(|(object, status)| Some((object, status?)));
    outcome.statuses.extend(statuses);
    outcome
}

fn is_selected(objects: &[Value], selectors: &Selectors, namespace: &str) -> bool {
    if namespace.is_empty() || selectors.select_everything() {
        return true;
    }
    let mut namespaces = objects.iter().filter(|it| it["kind"] == "Namespace");
    let found = namespaces.find(|it| it["metadata"]["name"] == namespace);
    let labels = found.map(|it| it["metadata"]["labels"].clone());
    let labels = labels.and_then(|it| serde_json::from_value::<BTreeMap<_, _>>(it).ok());
    labels.is_some_and(|labels| selectors.select(&labels.into_iter().collect()))
}

const DEFINITION: &str = "CustomResourceDefinition";
