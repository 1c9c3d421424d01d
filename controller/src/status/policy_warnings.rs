//! Policies that name something that does not exist, or have parts without effect. What such a policy
//! should protect may be open, so it is not left to its status alone: an Event, and a metric for an alert.

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
        while self.recent.front().is_some_and(|at| *at + PERIOD <= now) {
            self.recent.pop_front();
        }
        if self.reported.get(object) == Some(&text) || self.recent.len() >= PER_PERIOD {
            return None;
        }
        self.reported.insert(object.clone(), text.clone());
        self.recent.push_back(now);
        Some(Warning { reason, text })
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
}
