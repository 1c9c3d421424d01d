//! Policies that name something that does not exist, or have parts without effect. What such a policy
//! should protect may be open, so it is not left to its status alone: an Event, and a metric for an alert.
//! What is too much for a minute waits for the next. A flood must not hide the mistake of another tenant: a
//! namespace leaves room for others, and those that wait take turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use translate::ObjectKind;
use translate::ObjectRef;
use translate::status::{ProblemCondition, Reason, Status};

/// The warnings about all policies, each reported once, and a flood of them slowly.
#[derive(Debug, Default)]
pub(super) struct PolicyWarnings {
    /// What was reported of each object.
    reported: BTreeMap<ObjectRef, String>,
    missing: BTreeSet<ObjectRef>,
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
    pub(super) reason: String,
    pub(super) text: String,
}

impl PolicyWarnings {
    /// Takes the latest status of an object, and what only proxies see of it. Returns a warning to report now.
    pub(super) fn observe(
        &mut self,
        object: &ObjectRef,
        status: Option<&Status>,
        seen: Option<Warning>,
        now: Instant,
    ) -> Option<Warning> {
        let is_policy = |it: &&Status| matches!(it, Status::Policy(_)) && object.kind.is_policy();
        let problems = status
            .filter(is_policy)
            .map(|it| it.problem_conditions(object));
        let mut problems = problems.unwrap_or_default();
        problems.retain(|it| WARNED.contains(&it.reason));
        if problems.iter().any(|it| is_missing(object, it)) {
            self.missing.insert(object.clone());
        } else {
            self.missing.remove(object);
        }
        let reason = problems.first().map(|first| first.reason.to_string());
        let Some(reason) = reason.or_else(|| Some(seen.as_ref()?.reason.clone())) else {
            self.reported.remove(object);
            return None;
        };
        let texts: BTreeSet<String> = problems.iter().map(text).collect();
        let mut texts: Vec<String> = texts.into_iter().collect();
        // How many proxies see something, and their errors, may change all the time.
        let kinds = seen.iter().map(|it| it.reason.clone());
        let known: Vec<String> = texts.iter().cloned().chain(kinds).collect();
        let known = known.join("; ");
        texts.extend(seen.map(|it| it.text));
        let text = texts.join("; ");
        if self.reported.get(object) == Some(&known) {
            return None;
        }
        self.forget(now);
        if !self.has_room(&object.name.namespace) {
            self.postpone(object);
            return None;
        }
        self.reported.insert(object.clone(), known);
        let namespace = Arc::clone(&object.name.namespace);
        self.recent.push_back((now, namespace));
        Some(Warning { reason, text })
    }

    /// Reports an object later, in the state that it has then.
    pub(super) fn postpone(&mut self, object: &ObjectRef) {
        self.reported.remove(object);
        if self.is_waiting.insert(object.clone()) {
            let namespace = Arc::clone(&object.name.namespace);
            let line = self.waiting.entry(namespace).or_default();
            line.push_back(object.clone());
        }
    }

    /// When to call [`PolicyWarnings::take_waiting`]; `None` if nothing waits.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        self.waiting.first_key_value()?;
        if self.waiting.keys().any(|it| self.has_room(it)) {
            return Some(now);
        }
        let (oldest, _) = self.recent.front()?;
        Some(*oldest + PERIOD)
    }

    /// The objects to look at again now, at most one of each namespace.
    pub(super) fn take_waiting(&mut self, now: Instant) -> Vec<ObjectRef> {
        self.forget(now);
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

fn text(problem: &ProblemCondition<'_>) -> String {
    match problem.field {
        Some(field) if !problem.message.contains(field) => format!("{field}: {}", problem.message),
        _ => problem.message.to_owned(),
    }
}

/// Whether a target does not exist. Of a BackendTLSPolicy, which applies to the others then, no other
/// part is without effect.
fn is_missing(policy: &ObjectRef, problem: &ProblemCondition<'_>) -> bool {
    problem.reason == Reason::TargetNotFound
        || problem.reason == Reason::PartiallyProgrammed
            && policy.kind == ObjectKind::BackendTlsPolicy
}

/// The reasons that are worth an Event: not that a policy is not in use, or less old than another.
const WARNED: [Reason; 3] = [
    Reason::TargetNotFound,
    Reason::PartiallyProgrammed,
    Reason::Invalid,
];
/// Most events per [`PERIOD`]: 30.
const PER_PERIOD: usize = 30;
/// See [`PER_PERIOD`]: 60 s.
const PERIOD: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests;
