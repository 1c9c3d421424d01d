//! `Programmed` of a Gateway, a ListenerSet and their listeners: composed of what the translator says
//! (valid, and with an address), of the deployment, and of what connected proxies acknowledged. Pure.
//!
//! What stands in the cluster already is part of the input: a controller that has just started, or has
//! just become leader, knows of no proxies yet, and takes nothing back for that.

use std::collections::BTreeMap;

use serde_json::Value;
use translate::status::{
    Blame, Condition, ConditionStatus, ConditionType, ListenerStatus, Reason, Status,
};

/// What the connected proxies of a Gateway say of the current version of something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Proxies that are connected.
    pub connected: usize,
    /// Those of them that have it in force.
    pub accepted: usize,
    /// Why it is refused, where one of them refuses it.
    pub refused: Option<String>,
}

/// How far the deployment of a Gateway is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Deployment {
    /// Nothing is known of it yet.
    #[default]
    Unknown,
    /// All objects are applied.
    Done,
    /// It cannot be applied: why, and what to do.
    Refused(String),
}

/// What `Programmed` depends on, beside the translation.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Of the Gateway that the listeners belong to.
    pub deployment: &'a Deployment,
    /// Of the listeners of the object, and of its ListenerSets where it is a Gateway: by the name of its
    /// own, and by key of others.
    pub listeners: &'a BTreeMap<String, Tally>,
    /// The status that stands in the cluster.
    pub present: &'a Value,
}

/// Puts the evidence into the status of a Gateway or ListenerSet; leaves others as they are.
pub fn compose(status: &mut Status, evidence: Evidence<'_>) {
    let (conditions, listeners) = match status {
        Status::Gateway(status) => (&mut status.conditions, &mut status.listeners),
        Status::ListenerSet(status) => (&mut status.conditions, &mut status.listeners),
        _ => return,
    };
    for listener in listeners.iter_mut() {
        compose_listener(listener, evidence);
    }
    let before = Before::of(evidence.present);
    // Of a Gateway whose listeners are all refused by the translator, or in its sets.
    let whole = best(evidence.listeners.values());
    for condition in &mut *conditions {
        judge(condition, evidence.deployment, &whole, before.as_ref());
    }
}

fn compose_listener(listener: &mut ListenerStatus, evidence: Evidence<'_>) {
    let none = Tally::default();
    let tally = evidence.listeners.get(&listener.name).unwrap_or(&none);
    let listeners = evidence.present.get("listeners").and_then(Value::as_array);
    let present = listeners.into_iter().flatten().find(|it| {
        let name = it.get("name").and_then(Value::as_str);
        name == Some(&*listener.name)
    });
    let before = present.and_then(Before::of);
    for condition in &mut listener.conditions {
        judge(condition, evidence.deployment, tally, before.as_ref());
    }
}

/// One listener that works makes a Gateway work: what is wrong with others, they say themselves.
fn best<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Tally {
    let rank = |it: &&Tally| (it.refused.is_none(), it.accepted, it.connected);
    tallies.max_by_key(rank).cloned().unwrap_or_default()
}

/// The translator's `Programmed=True` is a claim; this says whether it holds.
fn judge(
    condition: &mut Condition,
    deployment: &Deployment,
    tally: &Tally,
    before: Option<&Before>,
) {
    if condition.kind != ConditionType::Programmed {
        return;
    }
    if let (Deployment::Refused(why), Reason::AddressNotAssigned) = (deployment, condition.reason) {
        // There is no address because of that, and it says what to do.
        return set(
            condition,
            ConditionStatus::False,
            Reason::Invalid,
            why.clone(),
        );
    }
    if condition.is_unhappy() {
        return;
    }
    let Tally {
        connected,
        accepted,
        refused,
    } = tally;
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
    // Before the question whether it was: what could not be deployed never worked.
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
    condition.message = message.into();
}

/// `Programmed=True` as it stands in the cluster.
struct Before {
    generation: i64,
    message: String,
}

impl Before {
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

    /// A changed object has to be acknowledged anew.
    fn holds_for(&self, generation: i64) -> bool {
        self.generation == generation
    }
}

#[cfg(test)]
mod tests;
