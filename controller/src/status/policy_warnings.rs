//! Policies that name something that does not exist, or have parts without effect. What such a policy
//! should protect may be open, so it is not left to its status alone: an Event, and a metric for an alert.
//! What is too much for a minute waits for the next: a flood must not hide the mistake of another tenant.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use translate::ObjectRef;
use translate::api::{BackendTlsPolicy, Resource as _, XBackend};
use translate::status::{ProblemCondition, Reason, Status};

/// The warnings about all policies, each reported once, and a flood of them slowly.
#[derive(Debug, Default)]
pub(super) struct PolicyWarnings {
    reported: BTreeMap<ObjectRef, String>,
    missing: BTreeSet<ObjectRef>,
    recent: VecDeque<Instant>,
    /// Objects to look at again once there is room, in order, each once.
    waiting: VecDeque<ObjectRef>,
    is_waiting: BTreeSet<ObjectRef>,
}

/// An Event to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Warning {
    pub(super) reason: String,
    pub(super) text: String,
}

impl PolicyWarnings {
    /// Takes the latest status of an object. Returns a warning to report now.
    pub(super) fn observe(
        &mut self,
        object: &ObjectRef,
        status: Option<&Status>,
        now: Instant,
    ) -> Option<Warning> {
        let is_policy =
            |it: &&Status| matches!(it, Status::Policy(_)) && object.kind != XBackend::KIND;
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
        let Some(first) = problems.first() else {
            self.reported.remove(object);
            return None;
        };
        let reason = first.reason.to_string();
        let texts: BTreeSet<String> = problems.iter().map(text).collect();
        let text = texts.into_iter().collect::<Vec<_>>().join("; ");
        if self.reported.get(object) == Some(&text) {
            return None;
        }
        if self.room(now) == 0 {
            self.postpone(object);
            return None;
        }
        self.reported.insert(object.clone(), text.clone());
        self.recent.push_back(now);
        Some(Warning { reason, text })
    }

    /// Reports an object later, in the state that it has then.
    pub(super) fn postpone(&mut self, object: &ObjectRef) {
        self.reported.remove(object);
        if self.is_waiting.insert(object.clone()) {
            self.waiting.push_back(object.clone());
        }
    }

    /// When to call [`PolicyWarnings::take_waiting`]; `None` if nothing waits.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        self.waiting.front()?;
        let oldest = self.recent.front().copied();
        let is_full = self.recent.len() >= PER_PERIOD;
        Some(oldest.filter(|_| is_full).map_or(now, |at| at + PERIOD))
    }

    /// The objects to look at again now.
    pub(super) fn take_waiting(&mut self, now: Instant) -> Vec<ObjectRef> {
        let count = self.room(now).min(self.waiting.len());
        let objects: Vec<_> = self.waiting.drain(..count).collect();
        for object in &objects {
            self.is_waiting.remove(object);
        }
        objects
    }

    /// How many warnings may be reported now.
    fn room(&mut self, now: Instant) -> usize {
        while self.recent.front().is_some_and(|at| *at + PERIOD <= now) {
            self.recent.pop_front();
        }
        PER_PERIOD.saturating_sub(self.recent.len())
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
        || problem.reason == Reason::PartiallyProgrammed && policy.kind == BackendTlsPolicy::KIND
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
mod tests {
    use translate::api::TrafficPolicy;
    use translate::status::{
        AncestorReference, Blame, Condition, ConditionStatus, ConditionType, PolicyAncestorStatus,
        PolicyStatus,
    };
    use xds::model::ObjectName;

    use super::*;

    fn policy(name: &str) -> ObjectRef {
        ObjectRef::of::<TrafficPolicy>(&ObjectName::new("app", name))
    }

    fn status(reason: Reason, message: &'static str) -> Status {
        let is_true = [Reason::Accepted, Reason::PartiallyProgrammed].contains(&reason);
        let condition = Condition {
            kind: ConditionType::Accepted,
            status: if is_true {
                ConditionStatus::True
            } else {
                ConditionStatus::False
            },
            reason,
            message: message.into(),
            observed_generation: 1,
            field: None,
            blame: Blame::Own,
        };
        Status::Policy(PolicyStatus {
            ancestors: vec![PolicyAncestorStatus {
                ancestor_ref: AncestorReference {
                    group: String::new(),
                    kind: "HTTPRoute".to_owned(),
                    namespace: "app".to_owned(),
                    name: "gone".to_owned(),
                    section_name: None,
                },
                controller_name: "a/b".to_owned(),
                conditions: vec![condition],
            }],
        })
    }

    #[test]
    fn a_missing_target_is_reported_once_and_counted_until_it_exists() {
        let (mut warnings, now) = (PolicyWarnings::default(), Instant::now());
        let object = policy("tokens");
        let missing = status(Reason::TargetNotFound, "HTTPRoute app/gone does not exist");
        let warning = warnings.observe(&object, Some(&missing), now);
        assert_eq!(warning.expect("one").reason, "TargetNotFound");
        assert_eq!(warnings.observe(&object, Some(&missing), now), None);
        assert_eq!(warnings.missing(), 1);
        let accepted = status(Reason::Accepted, "the policy is valid");
        assert_eq!(warnings.observe(&object, Some(&accepted), now), None);
        assert_eq!(warnings.missing(), 0);
        assert!(warnings.observe(&object, Some(&missing), now).is_some());
        assert_eq!(warnings.observe(&object, None, now), None);
        assert_eq!(warnings.missing(), 0);
    }

    #[test]
    fn fields_without_effect_are_reported_and_unused_policies_are_not() {
        let (mut warnings, now) = (PolicyWarnings::default(), Instant::now());
        let partly = status(
            Reason::PartiallyProgrammed,
            "some fields have no effect here",
        );
        assert!(warnings.observe(&policy("a"), Some(&partly), now).is_some());
        let unused = status(Reason::NotInUse, "the target carries no traffic");
        assert_eq!(warnings.observe(&policy("b"), Some(&unused), now), None);
        assert_eq!(warnings.missing(), 0);
    }

    #[test]
    fn a_flood_of_warnings_is_limited() {
        let (mut warnings, now) = (PolicyWarnings::default(), Instant::now());
        let missing = status(Reason::TargetNotFound, "it does not exist");
        let mut warn = |number: usize, now| {
            let object = policy(&format!("p{number}"));
            warnings.observe(&object, Some(&missing), now).is_some()
        };
        assert_eq!((0..100).filter(|it| warn(*it, now)).count(), PER_PERIOD);
        assert!(!warn(99, now) && warn(99, now + PERIOD));
        assert_eq!(warnings.missing(), 100);
    }

    #[test]
    fn what_is_too_much_for_a_minute_is_reported_later_in_its_newest_state() {
        let (mut warnings, mut now) = (PolicyWarnings::default(), Instant::now());
        let missing = status(Reason::TargetNotFound, "it does not exist");
        let accepted = status(Reason::Accepted, "the policy is valid");
        let corrected = policy("p50");
        assert_eq!(warnings.next_at(now), None);
        let mut reported = BTreeSet::new();
        for number in 0..100 {
            let object = policy(&format!("p{number}"));
            // Each waits once.
            for _ in 0..3 {
                let warning = warnings.observe(&object, Some(&missing), now);
                reported.extend(warning.map(|_| object.clone()));
            }
        }
        assert_eq!(warnings.observe(&corrected, Some(&accepted), now), None);
        while let Some(at) = warnings.next_at(now) {
            assert!(at == now || at == now + PERIOD);
            now = at;
            for object in warnings.take_waiting(now) {
                let status = if object == corrected {
                    &accepted
                } else {
                    &missing
                };
                let warning = warnings.observe(&object, Some(status), now);
                reported.extend(warning.map(|_| object.clone()));
            }
        }
        assert_eq!(reported.len(), 99);
        assert!(!reported.contains(&corrected));
    }
}
