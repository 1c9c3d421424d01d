//! Computes the write for one object: pure, from the object in the cluster and the current
//! knowledge.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Map, Value, json};
use translate::ObjectRef;
use translate::api::{Resource as _, XBackend};
use translate::status::{Condition, ConditionStatus, ConditionType, Reason, Status, shortened};

use super::merge::{Author, Comparison, DesiredStatus, Entries, compare};
use super::programmed::{self, AckCount, Deployment, ProgrammedInputs};
use crate::outputs::Observed;

/// The inputs of an object's status.
#[derive(Debug)]
pub struct StatusInputs<'a> {
    /// The object in the cluster.
    pub observed: &'a Observed,
    /// The translator's result, if the object is ours.
    pub translated: Option<&'a Status>,
    /// The deployment of the Gateway that it is, or belongs to.
    pub deployment: Deployment,
    /// Counts of its listeners, by name.
    pub listeners: BTreeMap<String, AckCount>,
    /// Why a proxy rejects the resources of the object, if one does.
    pub refused: Option<String>,
    /// Why the object is invalid, if so: the translator's result is for an earlier version.
    pub invalid: Option<Arc<str>>,
}

/// A write to the status of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// API resource of the object.
    pub resource: ApiResource,
    /// A JSON merge patch, which applies only to one version of the object.
    pub patch: Value,
    /// Identifies the desired content, independent of the present one.
    pub desired: u64,
    /// Number of our entries that did not fit.
    pub left_out: usize,
}

/// The write that brings a status to the desired one, if needed.
#[must_use]
pub fn plan(object: &ObjectRef, inputs: &StatusInputs<'_>, author: Author<'_>) -> Option<Write> {
    let observed = inputs.observed;
    if observed.is_deleted {
        return None;
    }
    let present = serde_json::from_str(&observed.status).unwrap_or(Value::Null);
    let desired = desired(object, inputs, &present)?;
    let Comparison::Differs { fields, left_out } = compare(&present, &desired, author) else {
        return None;
    };
    let mut hasher = DefaultHasher::new();
    format!("{desired:?}").hash(&mut hasher);
    Some(Write {
        resource: resource(object, &observed.api_version),
        patch: json!({
            "metadata": {"resourceVersion": observed.resource_version},
            "status": fields,
        }),
        desired: hasher.finish(),
        left_out,
    })
}

/// The desired status in JSON, including the state of proxies and deployment.
fn desired(
    object: &ObjectRef,
    inputs: &StatusInputs<'_>,
    present: &Value,
) -> Option<DesiredStatus> {
    let Some(status) = inputs.translated else {
        return released(object);
    };
    let mut status = status.clone();
    let evidence = ProgrammedInputs {
        deployment: &inputs.deployment,
        listeners: &inputs.listeners,
        present,
    };
    programmed::compose(&mut status, evidence);
    if let Some(why) = &inputs.refused {
        // For listeners, `Programmed` reports it.
        if !matches!(status, Status::Gateway(_) | Status::ListenerSet(_)) {
            let what = "a proxy rejected this version and keeps the previous one";
            deny(&mut status, (what, why), None);
        }
    }
    if let Some(why) = &inputs.invalid {
        let what = "this version is invalid; the previous one stays in effect";
        deny(&mut status, (what, why), Some(inputs.observed.generation));
    }
    status.shorten();
    let entries = |value: Value, field| match value {
        Value::Object(mut fields) => match fields.remove(field) {
            Some(Value::Array(entries)) => entries,
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    let desired = match status {
        Status::GatewayClass(status) => DesiredStatus::Whole(fields(&status)),
        Status::Gateway(status) => DesiredStatus::Whole(fields(&status)),
        Status::ListenerSet(status) => DesiredStatus::Whole(fields(&status)),
        Status::Backend(status) => DesiredStatus::Whole(fields(&status)),
        Status::Route(status) => {
            let list = entries(Value::Object(fields(&status)), "parents");
            DesiredStatus::Entries(Entries::Parents, list)
        }
        Status::Policy(status) => {
            let list = entries(Value::Object(fields(&status)), "ancestors");
            DesiredStatus::Entries(ancestors_of(&object.kind), list)
        }
    };
    Some(desired)
}

fn fields(status: &impl serde::Serialize) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        // Plain data with text keys always converts to JSON.
        _ => Map::new(),
    }
}

/// The desired status of an object that is no longer ours: no entries in lists. If the whole status
/// was ours, the next owner replaces it.
fn released(object: &ObjectRef) -> Option<DesiredStatus> {
    let list = match &*object.kind {
        "TrafficPolicy" | "XBackendTrafficPolicy" | "BackendTLSPolicy" | "XBackend" => {
            ancestors_of(&object.kind)
        }
        "InferencePool" => Entries::Parents,
        kind if kind.ends_with("Route") => Entries::Parents,
        _ => return None,
    };
    Some(DesiredStatus::Entries(list, Vec::new()))
}

/// The list of ancestors in the status of this kind of object.
fn ancestors_of(kind: &str) -> Entries {
    if kind == XBackend::KIND {
        Entries::BackendAncestors
    } else {
        Entries::Ancestors
    }
}

/// Sets that this generation of the object is not accepted. What keeps the object from being accepted
/// anyway, of the previous version or because there is none, stays and gets the reason.
fn deny(status: &mut Status, (what, why): (&str, &str), generation: Option<i64>) {
    for condition in conditions(status) {
        if let Some(generation) = generation {
            condition.observed_generation = generation;
        }
        if condition.kind != ConditionType::Accepted {
            continue;
        }
        if condition.is_problem() {
            condition.message = format!("{}; {why}", condition.message).into();
        } else {
            condition.status = ConditionStatus::False;
            condition.reason = Reason::UnsupportedValue;
            condition.message = format!("{what}: {why}").into();
        }
        let message = std::mem::take(&mut condition.message);
        condition.message = shortened(message);
    }
}

/// The conditions of the object, or of each of its entries.
fn conditions(status: &mut Status) -> Vec<&mut Condition> {
    let lists: Vec<&mut Vec<Condition>> = match status {
        Status::GatewayClass(status) => vec![&mut status.conditions],
        Status::Gateway(status) => vec![&mut status.conditions],
        Status::ListenerSet(status) => vec![&mut status.conditions],
        Status::Backend(status) => vec![&mut status.conditions],
        Status::Route(status) => {
            let parents = status.parents.iter_mut();
            parents.map(|it| &mut it.conditions).collect()
        }
        Status::Policy(status) => {
            let ancestors = status.ancestors.iter_mut();
            ancestors.map(|it| &mut it.conditions).collect()
        }
    };
    lists.into_iter().flatten().collect()
}

/// The API resource of an object.
fn resource(object: &ObjectRef, api_version: &str) -> ApiResource {
    let version = api_version.rsplit('/').next().unwrap_or(api_version);
    ApiResource::from_gvk(&GroupVersionKind::gvk(&object.group, version, &object.kind))
}

#[cfg(test)]
mod tests;
