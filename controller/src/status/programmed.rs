//! `Programmed` of a Gateway, a ListenerSet and their listeners: composed from the translator's
//! result (valid, with an address), the deployment, and the acknowledgements of proxies. Pure.
//!
//! The status in the cluster is part of the input: a controller that has just started or become
//! leader knows no proxies yet, and must not revoke anything because of that.

use std::collections::BTreeMap;

use serde_json::Value;
use translate::status::shortened;
use translate::status::{
    Blame, Condition, ConditionStatus, ConditionType, ListenerStatus, Reason, Status,
};

/// The acknowledgements of a Gateway's proxies for the current version of something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AckCount {
    /// Number of connected proxies.
    pub connected: usize,
    /// Number of those that have applied it.
    pub accepted: usize,
    /// Why a proxy rejected it, if one did.
    pub refused: Option<String>,
}

/// The deployment state of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Deployment {
    /// The objects have not been applied since the start.
    #[default]
    Unknown,
    /// All objects are applied.
    Done,
    /// It cannot be applied; with advice.
    Refused(String),
}

/// The inputs of `Programmed` besides the translation.
#[derive(Debug, Clone, Copy)]
pub struct ProgrammedInputs<'a> {
    /// Deployment of the listeners' Gateway.
    pub deployment: &'a Deployment,
    /// Acknowledgements of the object's listeners, and of its ListenerSets for a Gateway: by name
    /// for its own, by key for others.
    pub listeners: &'a BTreeMap<String, AckCount>,
    /// The status in the cluster.
    pub present: &'a Value,
}

/// Adds the inputs to the status of a Gateway or ListenerSet; leaves others unchanged.
pub fn compose(status: &mut Status, inputs: ProgrammedInputs<'_>) {
    let (conditions, listeners) = match status {
        Status::Gateway(status) => (&mut status.conditions, &mut status.listeners),
        Status::ListenerSet(status) => (&mut status.conditions, &mut status.listeners),
        _ => return,
    };
    for listener in listeners.iter_mut() {
        compose_listener(listener, inputs);
    }
    let before = PreviousCondition::of(inputs.present);
    // For a Gateway whose own listeners are all invalid, those of its sets count.
    let whole = best(inputs.listeners.values());
    for condition in &mut *conditions {
        evaluate(condition, inputs.deployment, &whole, before.as_ref());
    }
}

fn compose_listener(listener: &mut ListenerStatus, inputs: ProgrammedInputs<'_>) {
    let none = AckCount::default();
    let acks = inputs.listeners.get(&listener.name).unwrap_or(&none);
    let listeners = inputs.present.get("listeners").and_then(Value::as_array);
    let present = listeners.into_iter().flatten().find(|it| {
        let name = it.get("name").and_then(Value::as_str);
        name == Some(&*listener.name)
    });
    let before = present.and_then(PreviousCondition::of);
    for condition in &mut listener.conditions {
        evaluate(condition, inputs.deployment, acks, before.as_ref());
    }
}

/// One working listener makes a Gateway programmed: the others report their own problems.
fn best<'a>(tallies: impl Iterator<Item = &'a AckCount>) -> AckCount {
    let rank = |it: &&AckCount| (it.refused.is_none(), it.accepted, it.connected);
    tallies.max_by_key(rank).cloned().unwrap_or_default()
}

/// Decides whether the translator's `Programmed=True` holds.
fn evaluate(
    condition: &mut Condition,
    deployment: &Deployment,
    acks: &AckCount,
    before: Option<&PreviousCondition>,
) {
    if condition.kind != ConditionType::Programmed {
        return;
    }
    if let (Deployment::Refused(why), Reason::AddressNotAssigned) = (deployment, condition.reason) {
        // It is the cause of the missing address, and has advice.
        return set(
            condition,
            ConditionStatus::False,
            Reason::Invalid,
            why.clone(),
        );
    }
    if condition.is_problem() {
        return;
    }
    let AckCount {
        connected,
        accepted,
        refused,
    } = acks;
    let of_all = |count: usize| match connected {
        1 => format!("{count} of 1 proxy"),
        _ => format!("{count} of {connected} proxies"),
    };
    if let Some(why) = refused {
        let text = format!("a proxy rejected this version and keeps the previous one: {why}");
        return set(condition, ConditionStatus::False, Reason::Invalid, text);
    }
    if *accepted > 0 {
        condition.message = format!("requests are served by {}", of_all(*accepted)).into();
        return;
    }
    // First, since a Gateway that could not be deployed never worked.
    if let Deployment::Refused(why) = deployment {
        set(
            condition,
            ConditionStatus::False,
            Reason::Invalid,
            why.clone(),
        );
        condition.blame = Blame::Own;
        return;
    }
    if let Some(before) = before.filter(|it| it.holds_for(condition.observed_generation)) {
        condition.message = before.message.clone().into();
        return;
    }
    let text = match (deployment, connected) {
        (Deployment::Unknown, 0) => "the workload is being deployed".to_owned(),
        (_, 0) => "no proxy is connected yet: see the pods of the Gateway".to_owned(),
        _ => format!("{} have this version", of_all(0)),
    };
    set(condition, ConditionStatus::False, Reason::Pending, text);
}

fn set(condition: &mut Condition, status: ConditionStatus, reason: Reason, message: String) {
    condition.status = status;
    condition.reason = reason;
    condition.message = shortened(message.into());
}

/// `Programmed=True` as it is in the cluster.
struct PreviousCondition {
    generation: i64,
    message: String,
}

impl PreviousCondition {
    fn of(status: &Value) -> Option<Self> {
        let mut conditions = status.get("conditions")?.as_array()?.iter();
        let text = |it: &Value, field: &str| Some(it.get(field)?.as_str()?.to_owned());
        let found = conditions.find(|it| text(it, "type").as_deref() == Some("Programmed"))?;
        let is_true = text(found, "status").as_deref() == Some("True");
        is_true.then_some(Self {
            generation: found.get("observedGeneration")?.as_i64()?,
            message: text(found, "message")?,
        })
    }

    /// A changed object has to be acknowledged again.
    fn holds_for(&self, generation: i64) -> bool {
        self.generation == generation
    }
}

#[cfg(test)]
mod tests;
