//! Statuses of `XBackendTrafficPolicies`: an entry for each Gateway that sends requests to a target, and
//! one for each target that does not exist.

use std::collections::BTreeSet;
use std::slice;

use xds::model::ObjectName;

use super::policy::{AncestorReference, LeftOut, PolicyAncestorStatus, PolicyStatus};
use super::{Condition, ConditionType as Type, Conditions, Reason};
use crate::api::{PolicyTargetReference, XBackendTrafficPolicy};
use crate::problem::Problem;
use crate::reader::Reader;

/// The status of a policy used by these Gateways. On one machine also of an unused one with problems:
/// nothing else would report them. `None` without anything to report.
pub(crate) fn status(
    reader: &Reader<'_>,
    (name, object): (&ObjectName, &XBackendTrafficPolicy),
    missing: &[(usize, Problem)],
    refusals: &[Problem],
    (gateways, left_out): (&BTreeSet<ObjectName>, &LeftOut),
) -> Option<PolicyStatus> {
    let generation = object.metadata.generation;
    let entry = |ancestor_ref, problems: &[Problem]| PolicyAncestorStatus {
        ancestor_ref,
        controller_name: reader.options().controller_name.clone(),
        conditions: conditions(generation, problems, left_out),
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

fn conditions(generation: i64, problems: &[Problem], left_out: &LeftOut) -> Vec<Condition> {
    let conditions = Conditions::of(generation);
    let conditions = match problems {
        [] if left_out.is_empty() => {
            conditions.happy(Type::Accepted, Reason::Accepted, "the policy is valid")
        }
        [] => {
            let message = format!(
                "the policy is valid, but a status holds 16 ancestors: it does not apply to \
                 requests of these further Gateways: {left_out}"
            );
            conditions.happy_about(Type::Accepted, Reason::Accepted, message)
        }
        problems => conditions.unhappy(Type::Accepted, problems),
    };
    conditions.done()
}
