//! Computes the write for one object: pure, from the object in the cluster and the current
//! knowledge.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use kube::core::ApiResource;
use serde_json::{Map, Value, json};
use translate::api::ParentReference;
use translate::diagnosis::Diagnosis;
use translate::objects::kinds::StatusForm;
use translate::status::{
    Blame, Condition, ConditionStatus, ConditionType, Reason, Status, shortened,
};
use translate::{Level, ObjectKind, ObjectRef};
use xds::model::ObjectName;

use super::merge::{Author, Comparison, DesiredStatus, Entries, compare};
use super::programmed::{self, AckCount, Deployment, ProgrammedInputs};
use super::symptoms::{self, SymptomInputs};
use crate::deploy::{WorkloadProblem, report_workload};
use crate::outputs::Observed;
use crate::session_keys::SessionKeyProblem;

/// The inputs of an object's status.
#[derive(Debug)]
pub struct StatusInputs<'a> {
    /// The object in the cluster.
    pub observed: &'a Observed,
    /// The translator's result, if the object is ours.
    pub translated: Option<&'a Status>,
    /// The deployment of the Gateway that it is, or belongs to.
    pub deployment: Deployment,
    /// Whether no proxy of that Gateway has been connected for long.
    pub are_proxies_gone: bool,
    /// Counts of its listeners, by name.
    pub listeners: BTreeMap<String, AckCount>,
    /// Why a proxy rejects the resources of the object, by Gateway.
    pub refused: &'a BTreeMap<ObjectName, String>,
    /// What is wrong with the session keys of the Gateway that it is.
    pub session_keys: Option<SessionKeyProblem>,
    /// What of the parameters of the Gateway that it is has no effect; `None` if that is not known yet.
    pub workload: Option<Arc<[WorkloadProblem]>>,
    /// What only proxies see of the object.
    pub symptoms: SymptomInputs<'a>,
    /// The Gateways of ListenerSets that the status names.
    pub gateways_of_sets: BTreeMap<ObjectName, ObjectName>,
    /// What does not work although all its references are resolved.
    pub diagnoses: Option<Arc<[Diagnosis]>>,
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
        are_proxies_gone: inputs.are_proxies_gone,
        listeners: &inputs.listeners,
        present,
    };
    programmed::compose(&mut status, evidence);
    degrade(&mut status, inputs.diagnoses.as_deref().unwrap_or_default());
    if !inputs.refused.is_empty() {
        deny_refused(&mut status, &object.name.namespace, inputs);
    }
    report_workload(inputs.workload.as_deref(), &mut status, present);
    if let Some(problem) = &inputs.session_keys {
        problem.report(&mut status);
    }
    symptoms::report(
        &mut status,
        inputs.symptoms,
        &inputs.gateways_of_sets,
        present,
    );
    if let Some(why) = &inputs.invalid {
        let what = "this version is invalid; the previous one stays in effect";
        for condition in conditions(&mut status) {
            condition.observed_generation = inputs.observed.generation;
            deny(condition, (what, why));
        }
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
            DesiredStatus::Entries(entries_of(object.kind)?, list)
        }
        Status::Policy(status) => {
            let list = entries(Value::Object(fields(&status)), "ancestors");
            DesiredStatus::Entries(entries_of(object.kind)?, list)
        }
    };
    Some(desired)
}

/// Adds what does not work although all references are resolved, to each entry: the worst decides the reason.
fn degrade(status: &mut Status, diagnoses: &[Diagnosis]) {
    let mut found: Vec<&Diagnosis> = diagnoses
        .iter()
        .filter(|it| it.level > Level::Note)
        .collect();
    found.sort_by_key(|it| std::cmp::Reverse(it.level));
    let Some(worst) = found.first() else {
        return;
    };
    let texts = found.iter().map(|it| format!("{}: {}", it.field, it.text));
    let message = texts.collect::<Vec<_>>().join("; ");
    for conditions in condition_lists(status) {
        let generation = conditions.first().map(|it| it.observed_generation);
        conditions.push(Condition {
            kind: ConditionType::Degraded,
            status: ConditionStatus::True,
            reason: worst.reason,
            message: shortened(message.clone().into()),
            observed_generation: generation.unwrap_or_default(),
            field: None,
            blame: Blame::Own,
        });
    }
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
    Some(DesiredStatus::Entries(entries_of(object.kind)?, Vec::new()))
}

/// The list of entries in the status of this kind of object; `None` if it has none.
fn entries_of(kind: ObjectKind) -> Option<Entries> {
    match kind.definition().status {
        StatusForm::Parents => Some(Entries::Parents),
        StatusForm::Ancestors => Some(Entries::Ancestors),
        StatusForm::BackendAncestors => Some(Entries::BackendAncestors),
        StatusForm::None | StatusForm::Whole => None,
    }
}

/// Reports rejections by proxies: in the entry of their Gateway, so that one Gateway's proxies say
/// nothing about another's. For listeners, `Programmed` reports it.
fn deny_refused(status: &mut Status, namespace: &str, inputs: &StatusInputs<'_>) {
    let refused = inputs.refused;
    let of_any = || {
        refused
            .iter()
            .next()
            .map(|(gateway, why)| refusal(gateway, why))
    };
    let at = |parent: ParentObject<'_>| {
        let name = ObjectName::new(parent.namespace.unwrap_or(namespace), parent.name);
        let gateway = match ObjectKind::named(parent.kind) {
            Some(ObjectKind::Gateway) => Some(&name),
            Some(ObjectKind::ListenerSet) => inputs.gateways_of_sets.get(&name),
            // A route or Service, which several Gateways may serve.
            _ => return of_any(),
        };
        let gateway = gateway?;
        refused.get(gateway).map(|why| refusal(gateway, why))
    };
    match status {
        Status::Gateway(_) | Status::ListenerSet(_) => {}
        Status::Route(status) => {
            for entry in &mut status.parents {
                let why = at(ParentObject {
                    kind: &entry.parent_ref.kind,
                    namespace: entry.parent_ref.namespace.as_deref(),
                    name: &entry.parent_ref.name,
                });
                if let Some(why) = why {
                    entry
                        .conditions
                        .iter_mut()
                        .for_each(|it| deny(it, (&why.0, why.1)));
                }
            }
        }
        Status::Policy(status) => {
            for entry in &mut status.ancestors {
                let why = at(ParentObject {
                    kind: &entry.ancestor_ref.kind,
                    namespace: Some(&entry.ancestor_ref.namespace),
                    name: &entry.ancestor_ref.name,
                });
                if let Some(why) = why {
                    entry
                        .conditions
                        .iter_mut()
                        .for_each(|it| deny(it, (&why.0, why.1)));
                }
            }
        }
        // They have no entries by Gateway.
        Status::GatewayClass(_) | Status::Backend(_) => {
            if let Some(why) = of_any() {
                for condition in conditions(status) {
                    deny(condition, (&why.0, why.1));
                }
            }
        }
    }
}

/// What happened, and why.
fn refusal<'w>(gateway: &ObjectName, why: &'w str) -> (String, &'w str) {
    let what = format!(
        "a proxy of Gateway {gateway} rejected this version; the previous one, if any, stays"
    );
    (what, why)
}

/// The object that an entry of a status is about.
struct ParentObject<'a> {
    kind: &'a str,
    namespace: Option<&'a str>,
    name: &'a str,
}

/// The ListenerSets that the entries of a status name.
#[must_use]
pub fn listener_sets_in(status: &Status, namespace: &str) -> Vec<ObjectName> {
    match status {
        Status::Route(status) => {
            let parents = status.parents.iter().map(|it| &it.parent_ref);
            let sets = parents.filter(|it| &*it.kind == ObjectKind::ListenerSet.name());
            let namespace_of =
                |it: &ParentReference| it.namespace.as_deref().unwrap_or(namespace).to_owned();
            sets.map(|it| ObjectName::new(&namespace_of(it), &it.name))
                .collect()
        }
        Status::Policy(status) => {
            let ancestors = status.ancestors.iter().map(|it| &it.ancestor_ref);
            let sets = ancestors.filter(|it| it.kind == ObjectKind::ListenerSet.name());
            sets.map(|it| ObjectName::new(&it.namespace, &it.name))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Sets that the object is not accepted. What keeps it from being accepted anyway, of the previous
/// version or because there is none, stays and gets the reason.
fn deny(condition: &mut Condition, (what, why): (&str, &str)) {
    if condition.kind != ConditionType::Accepted {
        return;
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

/// The conditions of the object, or of each of its entries.
fn conditions(status: &mut Status) -> Vec<&mut Condition> {
    condition_lists(status).into_iter().flatten().collect()
}

/// The lists of conditions of the object, or of each of its entries.
fn condition_lists(status: &mut Status) -> Vec<&mut Vec<Condition>> {
    match status {
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
    }
}

/// The API resource of an object.
fn resource(object: &ObjectRef, api_version: &str) -> ApiResource {
    let version = api_version.rsplit('/').next().unwrap_or(api_version);
    crate::watch::resource(object.kind, version)
}

#[cfg(test)]
mod tests;
