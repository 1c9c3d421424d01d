//! Statuses of `XBackendTrafficPolicies`: an entry for each Gateway that sends requests to a target, and
//! one for each target that does not exist.

use std::collections::BTreeSet;
use std::slice;

use xds::model::ObjectName;

use super::api::{PolicyTargetReference, XBackendTrafficPolicy};
use super::status::{AncestorReference, LeftOut, PolicyAncestorStatus, PolicyStatus};
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::{Condition, ConditionType as Type, Conditions, Reason, problem};

/// The status of a policy used by these Gateways. On one machine also of an unused one with problems:
/// nothing else would report them. `None` without anything to report. `spare` is the number of entries
/// for missing targets that there is room for; the conditions of the others' name the rest.
pub(crate) fn status(
    reader: &Reader<'_>,
    (name, object): (&ObjectName, &XBackendTrafficPolicy),
    (missing, spare): (&[(usize, Problem)], usize),
    refusals: &[Problem],
    (gateways, left_out): (&BTreeSet<ObjectName>, &LeftOut),
) -> Option<PolicyStatus> {
    let (missing, unlisted) = missing.split_at(spare.min(missing.len()));
    let generation = object.metadata.generation();
    let entry = |ancestor_ref, problems: &[Problem]| PolicyAncestorStatus {
        ancestor_ref,
        controller_name: reader.options().controller_name.clone(),
        conditions: conditions(generation, problems, left_out, unlisted),
    };
    let target =
        |target: &PolicyTargetReference| AncestorReference::target(&name.namespace, target);
    let targets = &object.spec.target_refs;
    let used = gateways.iter().map(AncestorReference::gateway);
    let mut ancestors: Vec<_> = used.map(|gateway| entry(gateway, refusals)).collect();
    if ancestors.is_empty() && reader.is_machine() && !refusals.is_empty() {
        ancestors.extend(targets.first().map(|it| entry(target(it), refusals)));
    }
    for (index, problem) in missing {
        let missing = targets.get(*index).map(target);
        ancestors.extend(missing.map(|it| entry(it, slice::from_ref(problem))));
    }
    (!ancestors.is_empty()).then_some(PolicyStatus { ancestors })
}

fn conditions(
    generation: i64,
    problems: &[Problem],
    left_out: &LeftOut,
    unlisted: &[(usize, Problem)],
) -> Vec<Condition> {
    let conditions = Conditions::of(generation);
    let conditions = match problems {
        [] if left_out.is_empty() && unlisted.is_empty() => {
            conditions.normal(Type::Accepted, Reason::Accepted, "the policy is valid")
        }
        [] => conditions.normal_with_message(
            Type::Accepted,
            Reason::Accepted,
            beyond_the_limit(left_out, unlisted),
        ),
        problems => conditions.abnormal(Type::Accepted, problems),
    };
    conditions.done()
}

/// The message of a valid policy whose status has no room for all of its ancestors.
fn beyond_the_limit(left_out: &LeftOut, unlisted: &[(usize, Problem)]) -> String {
    let mut message = "the policy is valid, but a status holds 16 ancestors".to_owned();
    if !left_out.is_empty() {
        let gateways =
            format!(": it does not apply to requests of these further Gateways: {left_out}");
        message.push_str(&gateways);
    }
    if !unlisted.is_empty() {
        let problems = problem::join(unlisted.iter().map(|(_, problem)| problem));
        let targets = format!("; it has no entries for targets that do not exist: {problems}");
        message.push_str(&targets);
    }
    message
}
