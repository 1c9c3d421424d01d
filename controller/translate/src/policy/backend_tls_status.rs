//! Statuses of BackendTLSPolicies: one entry for each Gateway that sends requests to a target, or
//! fetches keys from it.

use std::collections::BTreeSet;

use xds::model::ObjectName;

use super::api::BackendTlsPolicy;
use super::backend_tls::ResolvedBackendTls;
use super::status::{AncestorReference, LeftOut, PolicyAncestorStatus, PolicyStatus};
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::{Condition, ConditionType as Type, Conditions, Reason, problem};

/// The status of a policy used by these Gateways. On one machine also of unused ones with problems:
/// nothing else would report them. `None` without anything to report.
pub(crate) fn status(
    reader: &Reader<'_>,
    (name, object): (&ObjectName, &BackendTlsPolicy),
    policy: &ResolvedBackendTls,
    refusals: &[Problem],
    (gateways, left_out): (&BTreeSet<ObjectName>, &LeftOut),
) -> Option<PolicyStatus> {
    let generation = object.metadata.generation();
    let entry = |ancestor_ref, conditions| PolicyAncestorStatus {
        ancestor_ref,
        controller_name: reader.options().controller_name.clone(),
        conditions,
    };
    // A policy of which no target exists applies to nothing.
    let has_target = policy.targets.iter().any(|target| !target.is_closed);
    let none_exist = policy.missing.iter().filter(|_| !has_target);
    let problems: Vec<Problem> = none_exist.chain(refusals).cloned().collect();
    let used = gateways.iter().map(|gateway| {
        let ancestor = AncestorReference::gateway(gateway);
        entry(
            ancestor,
            conditions(generation, policy, &problems, left_out),
        )
    });
    let ancestors: Vec<_> = used.collect();
    if !ancestors.is_empty() {
        return Some(PolicyStatus { ancestors });
    }
    let problems: Vec<Problem> = policy.missing.iter().chain(refusals).cloned().collect();
    let is_well =
        problems.is_empty() && policy.refs.is_empty() && policy.expiries.problems.is_empty();
    if !reader.is_machine() || is_well {
        return None;
    }
    let target = object.spec.target_refs.first()?;
    let target = AncestorReference::target(&name.namespace, target);
    let conditions = conditions(generation, policy, &problems, left_out);
    let ancestors = vec![entry(target, conditions)];
    Some(PolicyStatus { ancestors })
}

fn conditions(
    generation: i64,
    policy: &ResolvedBackendTls,
    refusals: &[Problem],
    left_out: &LeftOut,
) -> Vec<Condition> {
    let conditions = Conditions::of(generation);
    let conditions = match refusals {
        [] if left_out.is_empty() && policy.missing.is_empty() => {
            conditions.normal(Type::Accepted, Reason::Accepted, "the policy is valid")
        }
        [] if left_out.is_empty() => {
            let missing = problem::join(policy.missing.iter());
            let message = format!("the policy is valid, but not all targets exist: {missing}");
            conditions.normal_with_message(Type::Accepted, Reason::Accepted, message)
        }
        [] => {
            let message = format!(
                "the policy is valid, but a status holds 16 ancestors: these further Gateways \
                 cannot send requests to its targets: {left_out}"
            );
            conditions.normal_with_message(Type::Accepted, Reason::Accepted, message)
        }
        refusals => conditions.abnormal(Type::Accepted, refusals),
    };
    let conditions = match &*policy.refs {
        [] => conditions.normal(
            Type::ResolvedRefs,
            Reason::ResolvedRefs,
            "all references are resolved",
        ),
        refs => conditions.abnormal(Type::ResolvedRefs, refs),
    };
    let conditions = conditions.certificates(&policy.expiries.problems);
    let conditions = match refusals {
        [] => conditions.partially_programmed("not all targets exist", &policy.missing),
        _ => conditions,
    };
    conditions.done()
}
