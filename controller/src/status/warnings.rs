//! What does not work as it is written, as Events of the objects that their users can correct: what such an
//! object should protect may be open, so it is not left to its status alone. An Event for each new problem, one
//! when all of them are resolved, and a metric for policies without a target.
//!
//! What is too much for a minute waits for the next. A flood must not hide the mistake of another tenant: a
//! namespace leaves room for others, and those that wait take turns. What ends within seconds, as when the
//! objects of one `kubectl apply` arrive one by one, is no Event.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use translate::Level;
use translate::ObjectRef;
use translate::api::{BackendTlsPolicy, Resource as _, XBackend};
use translate::diagnosis::Diagnosis;
use translate::status::{ProblemCondition, Reason, Status};

use super::blamed::Fault;
use crate::deploy::WorkloadProblem;

/// The warnings about all objects, each reported once, and a flood of them slowly.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    /// What was reported of each object.
    reported: BTreeMap<ObjectRef, String>,
    missing: BTreeSet<ObjectRef>,
    /// Since when objects have a problem that is not reported yet, and may end by itself.
    settling: BTreeMap<ObjectRef, Instant>,
    /// When warnings were reported within the last [`PERIOD`], and the namespaces of their objects.
    recent: VecDeque<(Instant, Arc<str>)>,
    /// Objects to look at again once there is room, by namespace, in order, each once.
    waiting: BTreeMap<Arc<str>, VecDeque<ObjectRef>>,
    is_waiting: BTreeSet<ObjectRef>,
    /// The namespace that had the last turn among those that wait.
    last_turn: Option<Arc<str>>,
}

/// An Event to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Warning {
    pub(super) tone: Tone,
    pub(super) reason: String,
    pub(super) text: String,
}

/// The type of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Something is wrong.
    Warning,
    /// All problems are resolved.
    Normal,
}

/// What is known about an object.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Knowledge<'a> {
    pub(super) status: Option<&'a Status>,
    /// What does not work although all its references are resolved.
    pub(super) diagnoses: &'a [Diagnosis],
    /// Why its current version is invalid.
    pub(super) invalid: Option<&'a str>,
    /// Why it cannot be deployed.
    pub(super) undeployed: Option<&'a str>,
    /// What of its parameters has no effect.
    pub(super) workload: &'a [WorkloadProblem],
    /// Why a proxy rejects it.
    pub(super) refused: Option<&'a str>,
    /// What others that refer to it find wrong with it.
    pub(super) blamed: &'a [Fault],
    /// What only proxies see of it.
    pub(super) seen: Option<&'a Warning>,
}

/// A problem of an object.
struct Problem {
    reason: String,
    text: String,
    /// What of it distinguishes it from what was reported. How many endpoints are not ready, how many proxies see
    /// something and their errors, may change all the time.
    known: String,
    /// Whether it is reported at once.
    is_urgent: bool,
    is_missing: bool,
}

impl Warnings {
    /// Takes the latest state of an object. Returns what to report now.
    pub(super) fn observe(
        &mut self,
        object: &ObjectRef,
        knowledge: Knowledge<'_>,
        now: Instant,
    ) -> Option<Warning> {
        let problems = problems(object, knowledge);
        if problems.iter().any(|it| it.is_missing) {
            self.missing.insert(object.clone());
        } else {
            self.missing.remove(object);
        }
        let Some(first) = problems.first() else {
            self.settling.remove(object);
            return self.is_well(object, now);
        };
        let identity = identity(&problems);
        if self.reported.get(object) == Some(&identity) {
            self.settling.remove(object);
            return None;
        }
        let since = *self.settling.entry(object.clone()).or_insert(now);
        if !problems.iter().any(|it| it.is_urgent) && now < since + SETTLE {
            return None;
        }
        self.settling.remove(object);
        if !self.has_room_now(object, now) {
            self.postpone(object, Tone::Warning);
            return None;
        }
        self.reported.insert(object.clone(), identity);
        let texts: BTreeSet<&str> = problems.iter().map(|it| &*it.text).collect();
        Some(Warning {
            tone: Tone::Warning,
            reason: first.reason.clone(),
            text: texts.into_iter().collect::<Vec<_>>().join("; "),
        })
    }

    /// That all problems of an object are resolved, if any was reported.
    fn is_well(&mut self, object: &ObjectRef, now: Instant) -> Option<Warning> {
        self.reported.remove(object)?;
        if !self.has_room_now(object, now) {
            self.postpone(object, Tone::Normal);
            return None;
        }
        Some(Warning {
            tone: Tone::Normal,
            reason: RESOLVED.to_owned(),
            text: "what was reported before is resolved: the object works as it is written"
                .to_owned(),
        })
    }

    fn has_room_now(&mut self, object: &ObjectRef, now: Instant) -> bool {
        self.forget(now);
        self.has_room(&object.name.namespace)
    }

    /// Notes that an Event about an object is sent: only those take room.
    pub(super) fn sent(&mut self, object: &ObjectRef, now: Instant) {
        let namespace = Arc::clone(&object.name.namespace);
        self.recent.push_back((now, namespace));
    }

    /// Reports an object later, in the state that it has then.
    pub(super) fn postpone(&mut self, object: &ObjectRef, tone: Tone) {
        match tone {
            Tone::Warning => drop(self.reported.remove(object)),
            // Something was reported, whatever it was.
            Tone::Normal => drop(self.reported.insert(object.clone(), String::new())),
        }
        if self.is_waiting.insert(object.clone()) {
            let namespace = Arc::clone(&object.name.namespace);
            let line = self.waiting.entry(namespace).or_default();
            line.push_back(object.clone());
        }
    }

    /// Reports an object again as if its problem were new: it is not known yet.
    pub(super) fn await_object(&mut self, object: &ObjectRef, now: Instant) {
        self.reported.remove(object);
        self.settling.insert(object.clone(), now);
    }

    /// When to call [`Warnings::take_waiting`]; `None` if nothing waits.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        let settled = self.settling.values().min().map(|it| *it + SETTLE);
        let room = if self.waiting.keys().any(|it| self.has_room(it)) {
            Some(now)
        } else {
            let oldest = self.recent.front().filter(|_| !self.waiting.is_empty());
            oldest.map(|(at, _)| *at + PERIOD)
        };
        settled.into_iter().chain(room).min()
    }

    /// The objects to look at again now: those whose problem has lasted, and of those that had no room at most
    /// one of each namespace.
    pub(super) fn take_waiting(&mut self, now: Instant) -> Vec<ObjectRef> {
        self.forget(now);
        let lasting = self
            .settling
            .iter()
            .filter(|(_, since)| **since + SETTLE <= now);
        let lasting: Vec<ObjectRef> = lasting.map(|(object, _)| object.clone()).collect();
        let mut taken = Vec::new();
        for namespace in self.turns() {
            if taken.len() == PER_PERIOD || !self.has_room(&namespace) {
                continue;
            }
            let Some(line) = self.waiting.get_mut(&namespace) else {
                continue;
            };
            taken.extend(line.pop_front());
            if line.is_empty() {
                self.waiting.remove(&namespace);
            }
            self.last_turn = Some(namespace);
        }
        for object in &taken {
            self.is_waiting.remove(object);
        }
        taken.extend(lasting);
        taken
    }

    /// The namespaces that wait, that whose turn is next first.
    fn turns(&self) -> Vec<Arc<str>> {
        let Some(last) = &self.last_turn else {
            return self.waiting.keys().cloned().collect();
        };
        let after = (Bound::Excluded(Arc::clone(last)), Bound::Unbounded);
        let before = (Bound::Unbounded, Bound::Included(Arc::clone(last)));
        let turns = self.waiting.range::<Arc<str>, _>(after);
        let turns = turns.chain(self.waiting.range::<Arc<str>, _>(before));
        turns.map(|(namespace, _)| Arc::clone(namespace)).collect()
    }

    /// Drops what is no longer recent.
    fn forget(&mut self, now: Instant) {
        while { self.recent.front() }.is_some_and(|(at, _)| *at + PERIOD <= now) {
            self.recent.pop_front();
        }
    }

    /// Whether a warning of a namespace may be reported now: each takes at most half of what others have
    /// left, so that another one always finds room.
    fn has_room(&self, namespace: &Arc<str>) -> bool {
        let own = self.recent.iter().filter(|(_, it)| it == namespace);
        let room = PER_PERIOD.saturating_sub(self.recent.len());
        own.count() < room
    }

    /// Number of policies with a target that does not exist.
    pub(super) fn missing(&self) -> usize {
        self.missing.len()
    }
}

/// The problems that are worth an Event, the worst first.
fn problems(object: &ObjectRef, knowledge: Knowledge<'_>) -> Vec<Problem> {
    let mut all = Vec::new();
    if let Some(why) = knowledge.invalid {
        let text =
            format!("this version is invalid; the previous one, if any, stays in effect: {why}");
        all.push(lasting(Reason::UnsupportedValue, text));
    }
    if let Some(why) = knowledge.refused {
        let text = format!("a proxy rejected it; the previous version, if any, stays: {why}");
        all.push(Problem {
            reason: REFUSED.to_owned(),
            known: text.clone(),
            text,
            is_urgent: true,
            is_missing: false,
        });
    }
    let blamed = knowledge.blamed.iter();
    all.extend(blamed.map(|it| lasting(it.reason, it.text.clone())));
    if let Some(why) = knowledge.undeployed {
        all.push(lasting(Reason::DeploymentFailed, why.to_owned()));
    }
    let workload = knowledge.workload.iter();
    all.extend(workload.map(|it| lasting(it.reason, it.message.clone())));
    if let Some(status) = knowledge.status.filter(|_| object.kind != XBackend::KIND) {
        let found = status.problem_conditions(object);
        let found = found.iter().filter(|it| it.level() > Level::Note);
        let found = found.filter(|it| !UNREPORTED.contains(&it.reason));
        all.extend(found.map(|it| Problem {
            reason: it.reason.to_string(),
            known: text(it),
            text: text(it),
            is_urgent: URGENT.contains(&it.reason),
            is_missing: is_missing(object, it),
        }));
    }
    all.extend(knowledge.seen.map(|it| Problem {
        reason: it.reason.clone(),
        known: String::new(),
        text: it.text.clone(),
        // It has lasted already.
        is_urgent: true,
        is_missing: false,
    }));
    let is_ours = knowledge.status.is_some();
    let found = knowledge.diagnoses.iter();
    let found = found.filter(|it| it.level > Level::Note && (is_ours || it.is_probably_ours));
    all.extend(found.map(|it| {
        let problem = lasting(it.reason, format!("{}: {}", it.field, it.text));
        match it.reason {
            Reason::NoReadyEndpoints | Reason::NoEndpointSlice => Problem {
                known: it.field.clone(),
                ..problem
            },
            _ => problem,
        }
    }));
    all
}

fn lasting(reason: Reason, text: String) -> Problem {
    Problem {
        reason: reason.to_string(),
        known: text.clone(),
        text,
        is_urgent: false,
        is_missing: false,
    }
}

/// What distinguishes problems from those that were reported.
fn identity(problems: &[Problem]) -> String {
    let parts = problems
        .iter()
        .map(|it| format!("{} {}", it.reason, it.known));
    let parts: BTreeSet<String> = parts.collect();
    parts.into_iter().collect::<Vec<_>>().join("; ")
}

fn text(problem: &ProblemCondition<'_>) -> String {
    let text = match problem.field {
        Some(field) if !problem.message.contains(field) => {
            format!("{field}: {}", problem.message)
        }
        _ => problem.message.to_owned(),
    };
    match &problem.part {
        Some(part) if part.starts_with("listener ") => format!("{part}: {text}"),
        _ => text,
    }
}

/// Whether a target does not exist. Of a BackendTLSPolicy, which applies to the others then, no other
/// part is without effect.
fn is_missing(policy: &ObjectRef, problem: &ProblemCondition<'_>) -> bool {
    problem.reason == Reason::TargetNotFound
        || problem.reason == Reason::PartiallyProgrammed && policy.kind == BackendTlsPolicy::KIND
}

/// Reasons of mistakes in policies, which may leave something open: reported at once.
const URGENT: [Reason; 3] = [
    Reason::TargetNotFound,
    Reason::PartiallyProgrammed,
    Reason::Invalid,
];
/// Reasons that are no mistake: what is not in use, or on its way.
const UNREPORTED: [Reason; 4] = [
    Reason::NodesNotReadable,
    Reason::NotInUse,
    Reason::Pending,
    Reason::NotAssigned,
];
/// The reason of Events about what proxies reject.
const REFUSED: &str = "RefusedByProxy";
/// The reason of Events about what is corrected.
const RESOLVED: &str = "Resolved";
/// How long a problem lasts before it is reported: 2 s.
const SETTLE: Duration = Duration::from_secs(2);
/// Most events per [`PERIOD`]: 120.
const PER_PERIOD: usize = 120;
/// See [`PER_PERIOD`]: 60 s.
const PERIOD: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests;
