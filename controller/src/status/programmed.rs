//! `Programmed` of a Gateway, a ListenerSet and their listeners: composed from the translator's
//! result (valid, with an address), the deployment, and the acknowledgements of proxies. Pure.
//!
//! The status in the cluster is part of the input: a controller that has just started or become
//! leader knows no proxies yet, and must not revoke anything because of that.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use translate::status::shortened;
use translate::status::{
    Blame, Condition, ConditionStatus, ConditionType, ListenerStatus, Reason, Status,
};
use translate::{NOT_ALL_RUN, Obstacle};

/// The acknowledgements of a Gateway's proxies for the current version of something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AckCount {
    /// Number of connected proxies.
    pub connected: usize,
    /// Number of those that have applied it.
    pub accepted: usize,
    /// Why a proxy rejected it, if one did.
    pub refused: Option<String>,
    /// Its port, if the Gateway's Service does not lead to it.
    pub missing_port: Option<u16>,
}

/// The deployment state of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Deployment {
    /// The objects have not been applied since the start.
    #[default]
    Unknown,
    /// All objects are applied; whether their pods run is not known yet.
    Applied,
    /// All objects are applied, and their pods run or are starting.
    Done,
    /// All objects are applied, and those of an earlier version still run; why.
    Unfinished(String),
    /// It cannot be applied; with advice.
    Refused(String),
    /// All objects are applied, and not all of their pods run; with advice.
    WithoutPods(Obstacle),
}

impl Deployment {
    /// Adds to the state of the objects what is known of their pods: why not all run, or that they do.
    #[must_use]
    pub fn with_pods(self, pods: Option<Option<Obstacle>>) -> Self {
        match (self, pods) {
            (Self::Done | Self::Unfinished(_), Some(Some(why))) => Self::WithoutPods(why),
            (Self::Done, None) => Self::Applied,
            (known, _) => known,
        }
    }

    /// Why the last changes are not in effect everywhere.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Refused(why) => Some(why),
            Self::WithoutPods(obstacle) => Some(&obstacle.why),
            Self::Unknown | Self::Applied | Self::Done | Self::Unfinished(_) => None,
        }
    }
}

/// The inputs of `Programmed` besides the translation.
#[derive(Debug, Clone, Copy)]
pub struct ProgrammedInputs<'a> {
    /// Deployment of the listeners' Gateway.
    pub deployment: &'a Deployment,
    /// Whether no proxy of the Gateway has been connected for [`ABSENCE`].
    pub are_proxies_gone: bool,
    /// Acknowledgements of the object's listeners, and of its ListenerSets for a Gateway: by name
    /// for its own, by key for others.
    pub listeners: &'a BTreeMap<String, AckCount>,
    /// The status in the cluster.
    pub present: &'a Value,
}

/// Adds the inputs to the status of a Gateway or ListenerSet; leaves others unchanged.
pub fn compose(status: &mut Status, inputs: ProgrammedInputs<'_>) {
    let is_gateway = matches!(status, Status::Gateway(_));
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
        evaluate(condition, inputs, &whole, before.as_ref());
    }
    if is_gateway {
        report_deployment(conditions, inputs);
    }
}

/// That the last changes are not deployed, whether or not requests are served without them. What is
/// not known yet stays as it was.
fn report_deployment(conditions: &mut Vec<Condition>, inputs: ProgrammedInputs<'_>) {
    let generation = conditions.first().map(|it| it.observed_generation);
    let generation = generation.unwrap_or_default();
    let before = || failure_of(inputs.present, generation);
    let why = match inputs.deployment {
        Deployment::Unknown => before(),
        Deployment::Applied => before().filter(|it| it.starts_with(NOT_ALL_RUN)),
        known => known.failure().map(str::to_owned),
    };
    let Some(why) = why else {
        return;
    };
    conditions.push(Condition {
        kind: ConditionType::DeploymentFailed,
        status: ConditionStatus::True,
        reason: Reason::DeploymentFailed,
        message: why.into(),
        observed_generation: generation,
        field: None,
        blame: Blame::Own,
    });
}

/// The failure in the status in the cluster, if it is of this generation.
fn failure_of(present: &Value, generation: i64) -> Option<String> {
    let mut conditions = present.get("conditions")?.as_array()?.iter();
    let kind = ConditionType::DeploymentFailed.to_string();
    let found = conditions.find(|it| it.get("type").and_then(Value::as_str) == Some(&kind))?;
    let is_current = found.get("observedGeneration")?.as_i64() == Some(generation);
    let why = found.get("message")?.as_str()?;
    is_current.then(|| why.to_owned())
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
        evaluate(condition, inputs, acks, before.as_ref());
    }
}

/// One working listener makes a Gateway programmed: the others report their own problems.
fn best<'a>(tallies: impl Iterator<Item = &'a AckCount>) -> AckCount {
    let rank = |it: &&AckCount| {
        let is_reachable = it.missing_port.is_none();
        (
            it.refused.is_none() && is_reachable,
            it.accepted,
            it.connected,
        )
    };
    tallies.max_by_key(rank).cloned().unwrap_or_default()
}

/// Decides whether the translator's `Programmed=True` holds.
fn evaluate(
    condition: &mut Condition,
    inputs: ProgrammedInputs<'_>,
    acks: &AckCount,
    before: Option<&PreviousCondition>,
) {
    if condition.kind != ConditionType::Programmed {
        return;
    }
    let failure = match inputs.deployment {
        Deployment::Refused(why) => Some(why),
        _ => None,
    };
    if let (Some(why), Reason::AddressNotAssigned) = (failure, condition.reason) {
        // It is the cause of the missing address, and has advice.
        return deny(condition, Reason::Invalid, why.clone());
    }
    if condition.is_problem() {
        return;
    }
    if let Some(why) = &acks.refused {
        let text = format!("a proxy rejected this version; the previous one, if any, stays: {why}");
        return deny(condition, Reason::Invalid, text);
    }
    if let Some(port) = acks.missing_port {
        let text = format!("the Gateway's Service does not have port {port}");
        return match failure {
            Some(why) => deny(condition, Reason::Invalid, format!("{text}: {why}")),
            None => deny(condition, Reason::Pending, format!("{text} yet")),
        };
    }
    let message = if acks.accepted > 0 {
        Some(format!(
            "requests are served by {}",
            acks.of_all(acks.accepted)
        ))
    } else {
        let before = before.filter(|it| it.holds_for(condition.observed_generation));
        let before = before.filter(|_| !inputs.are_proxies_gone);
        before.map(|it| it.without_note().to_owned())
    };
    if let Some(message) = message {
        let note = match inputs.deployment {
            Deployment::Refused(why) => format!("{NOT_DEPLOYED}{why}"),
            Deployment::Unfinished(why) | Deployment::WithoutPods(Obstacle { why, .. }) => {
                format!("{UNFINISHED}{why}")
            }
            Deployment::Unknown | Deployment::Applied | Deployment::Done => String::new(),
        };
        condition.message = format!("{message}{note}").into();
        return;
    }
    if let Some(why) = inputs.deployment.failure() {
        let reason = match inputs.deployment {
            Deployment::WithoutPods(_) => Reason::NoResources,
            _ => Reason::Invalid,
        };
        deny(condition, reason, why.to_owned());
        condition.blame = Blame::Own;
        return;
    }
    let (reason, text) = pending(inputs, acks);
    deny(condition, reason, text);
}

/// Why nothing is served yet, or any more.
fn pending(inputs: ProgrammedInputs<'_>, acks: &AckCount) -> (Reason, String) {
    match (inputs.deployment, acks.connected) {
        (_, 0) if inputs.are_proxies_gone => {
            let minutes = ABSENCE.as_secs() / 60;
            let text = format!(
                "no proxy has been connected for {minutes} minutes: see the pods of the Gateway"
            );
            (Reason::NoResources, text)
        }
        (Deployment::Unknown, 0) => (Reason::Pending, "the workload is being deployed".to_owned()),
        (_, 0) => {
            let text = "no proxy is connected yet: see the pods of the Gateway";
            (Reason::Pending, text.to_owned())
        }
        _ => (
            Reason::Pending,
            format!("{} have this version", acks.of_all(0)),
        ),
    }
}

impl AckCount {
    fn of_all(&self, count: usize) -> String {
        match self.connected {
            1 => format!("{count} of 1 proxy"),
            all => format!("{count} of {all} proxies"),
        }
    }
}

fn deny(condition: &mut Condition, reason: Reason, message: String) {
    set(condition, ConditionStatus::False, reason, message);
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

    /// The message without what it said about the deployment.
    fn without_note(&self) -> &str {
        let ends = [NOT_DEPLOYED, UNFINISHED].map(|note| self.message.find(note));
        let end = ends.into_iter().flatten().min();
        end.and_then(|it| self.message.get(..it))
            .unwrap_or(&self.message)
    }
}

/// How long no proxy is connected before a Gateway is not programmed any more: 5 min. Proxies start
/// within seconds, reconnect within a minute, and serve meanwhile.
pub const ABSENCE: Duration = Duration::from_mins(5);
/// Before the reason why the last changes are not deployed.
const NOT_DEPLOYED: &str = "; the last changes are not deployed: ";
/// Before what is still to be done.
const UNFINISHED: &str = "; ";

#[cfg(test)]
mod tests;
