//! The status of a policy.

use std::fmt;
use std::slice;

use serde::Serialize;

use super::{Condition, ConditionType as Type, Conditions, Reason};
use crate::lower::in_use::InUse;
use crate::problem::Problem;
use crate::resolve::policy::{ResolvedPolicy, ResolvedTarget};

/// The status of a policy: our entries of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PolicyStatus {
    /// One entry for each target, in the order of the spec.
    pub ancestors: Vec<PolicyAncestorStatus>,
}

/// What became of a policy at one target.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAncestorStatus {
    /// The target.
    pub ancestor_ref: AncestorReference,
    /// Signed by us.
    pub controller_name: String,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// A target of a policy, its namespace written out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AncestorReference {
    /// Group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Listener or rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

impl fmt::Display for AncestorReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)?;
        match &self.section_name {
            Some(section) => write!(f, " {section}"),
            None => Ok(()),
        }
    }
}

impl PolicyStatus {
    pub(crate) fn of(
        policy: &ResolvedPolicy<'_>,
        controller_name: &str,
        in_use: &InUse<'_>,
    ) -> Self {
        let ancestors = policy.targets.iter().map(|target| PolicyAncestorStatus {
            ancestor_ref: AncestorReference {
                group: target.reference.group.clone(),
                kind: target.reference.kind.clone(),
                namespace: policy.name.namespace.to_string(),
                name: target.reference.name.clone(),
                section_name: target.reference.section_name.clone(),
            },
            controller_name: controller_name.to_owned(),
            conditions: conditions(policy, target, in_use),
        });
        Self {
            ancestors: ancestors.collect(),
        }
    }
}

fn conditions(
    policy: &ResolvedPolicy<'_>,
    target: &ResolvedTarget<'_>,
    in_use: &InUse<'_>,
) -> Vec<Condition> {
    let conditions = Conditions::of(policy.object.metadata.generation);
    let conditions = match &target.refusal {
        None => conditions.happy(Type::Accepted, Reason::Accepted, "the policy is valid"),
        Some(problem) => {
            let conditions = conditions.unhappy(Type::Accepted, slice::from_ref(problem));
            // What was lost to another policy, the last condition says.
            match &*target.lost {
                [] => conditions,
                _ => conditions.that_follows(),
            }
        }
    };
    let conditions = attached(conditions, target, in_use);
    let conditions = match &*policy.refs {
        _ if policy.object.spec.jwt.is_none() => conditions,
        [] => conditions.happy(
            Type::ResolvedRefs,
            Reason::ResolvedRefs,
            "every reference leads somewhere",
        ),
        refs => conditions.unhappy(Type::ResolvedRefs, refs),
    };
    conditions.unhappy(Type::Conflicted, &target.lost).done()
}

fn attached(conditions: Conditions, target: &ResolvedTarget<'_>, in_use: &InUse<'_>) -> Conditions {
    match (&target.policy, &target.refusal) {
        (Some(policy), refusal) if in_use.has(&policy.target) => {
            let effect = match refusal {
                None => "the policy has an effect",
                Some(_) => "what the policy says of tokens has an effect, and nothing else",
            };
            conditions.happy(Type::Attached, Reason::Attached, effect)
        }
        (None, Some(problem)) => conditions
            .unhappy(Type::Attached, slice::from_ref(problem))
            .that_follows(),
        _ => {
            let message = "the target carries no traffic: see its own conditions";
            let unused = Problem::new(Reason::NotInUse, "", message);
            conditions.unhappy(Type::Attached, &[unused])
        }
    }
}
