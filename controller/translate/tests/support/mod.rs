//! A Gateway with its objects, and what a translation refuses of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use translate::ObjectKind;
use translate::files::admit_value;
use translate::status::{Condition, ConditionType, Status};
use translate::{Delta, Object, ObjectRef};

/// The objects with a condition `Accepted=False`, each with its reason.
pub(crate) struct Refused(pub(crate) BTreeMap<ObjectRef, String>);

impl Refused {
    pub(crate) fn of(delta: &Delta) -> Self {
        let statuses = delta.statuses.iter();
        let refused = statuses.filter_map(|(object, status)| {
            let Some(Status::Route(status)) = status else {
                return None;
            };
            let conditions = status.parents.iter().flat_map(|it| &it.conditions);
            Some((object.clone(), reason(conditions)?))
        });
        Self(refused.collect())
    }

    /// The names of the objects that are refused for a reason.
    pub(crate) fn names(&self, reason: &str) -> BTreeSet<String> {
        let refused = self.0.iter().filter(|(_, it)| *it == reason);
        refused
            .map(|(object, _)| object.name.name.to_string())
            .collect()
    }
}

/// The reason of the first condition `Accepted=False`.
fn reason<'a>(mut conditions: impl Iterator<Item = &'a Condition>) -> Option<String> {
    let refused = conditions.find(|it| it.kind == ConditionType::Accepted && it.is_problem());
    refused.map(|it| it.reason.to_string())
}

/// The Gateway `infra/edge` with so many listeners, each on a port of its own.
pub(crate) fn gateway(listeners: usize) -> Object {
    let listeners = (0..listeners).map(|number| {
        json!({
            "name": format!("listener-{number:02}"), "port": 8000 + number, "protocol": "HTTP",
            "allowedRoutes": {"namespaces": {"from": "All"}},
        })
    });
    let value = json!({
        "metadata": {"namespace": "infra", "name": "edge"},
        "spec": {
            "gatewayClassName": "gateway",
            "allowedListeners": {"namespaces": {"from": "All"}},
            "listeners": listeners.collect::<Vec<_>>(),
        },
    });
    admitted(GATEWAY_API, "Gateway", value)
}

/// A ListenerSet of that Gateway in namespace `app`, with a host of its own on a port of the Gateway.
pub(crate) fn listener_set(number: usize) -> Object {
    let value = json!({
        "metadata": {"namespace": "app", "name": format!("set-{number}")},
        "spec": {
            "parentRef": {"namespace": "infra", "name": "edge"},
            "listeners": [{
                "name": "http", "port": 8000, "protocol": "HTTP",
                "hostname": format!("*.set-{number}.example.com"),
            }],
        },
    });
    admitted(GATEWAY_API, "ListenerSet", value)
}

/// As the controller admits an object from a watch.
pub(crate) fn admitted(group: &str, kind: &str, value: Value) -> Object {
    let Value::Object(fields) = value else {
        panic!("{kind} is not an object");
    };
    let admitted = admit_value(ObjectKind::find(group, kind).expect("a kind"), fields)
        .expect("a kind that is read");
    let findings = admitted.findings;
    let object = admitted.object;
    object.unwrap_or_else(|| panic!("{kind} is invalid: {findings:?}"))
}

pub(crate) const GATEWAY_API: &str = "gateway.networking.k8s.io";
