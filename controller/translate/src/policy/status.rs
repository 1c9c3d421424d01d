//! The status of a policy.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::{fmt, slice};

use serde::Serialize;
use xds::model::ObjectName;

use super::api::PolicyTargetReference;
use crate::backend::x_backend::LoweredXBackend;
use crate::objects::kinds::ObjectKind;
use crate::objects::object_ref::ObjectRef;
use crate::status::problem::Problem;
use crate::status::{Condition, ConditionStatus, ConditionType as Type, Conditions, Reason};

/// The status of a policy: our entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub struct PolicyStatus {
    /// One entry for each target, in the order of the spec.
    pub ancestors: Vec<PolicyAncestorStatus>,
}

/// The status of a policy at one target.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAncestorStatus {
    /// Reference to the target.
    pub ancestor_ref: AncestorReference,
    /// Name of this controller, by which it finds its entries among others'.
    pub controller_name: String,
    /// Conditions at this target.
    pub conditions: Vec<Condition>,
}

/// A target of a policy, with explicit namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AncestorReference {
    /// API group of the target.
    pub group: String,
    /// Kind of the target.
    pub kind: String,
    /// Namespace of the target.
    pub namespace: String,
    /// Name of the target.
    pub name: String,
    /// Listener of a Gateway, rule of a route or port of a Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

impl AncestorReference {
    /// Refers to a Gateway as a whole.
    pub(crate) fn gateway(name: &ObjectName) -> Self {
        Self {
            group: ObjectKind::Gateway.group().to_owned(),
            kind: ObjectKind::Gateway.name().to_owned(),
            namespace: name.namespace.to_string(),
            name: name.name.to_string(),
            section_name: None,
        }
    }

    /// A target of a policy in `namespace`.
    pub(crate) fn target(namespace: &str, target: &PolicyTargetReference) -> Self {
        Self {
            group: target.group.clone(),
            kind: target.kind.clone(),
            namespace: namespace.to_owned(),
            name: target.name.clone(),
            section_name: target.section_name.clone(),
        }
    }
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

/// The Gateways that a policy's status has no room for.
#[derive(Debug, Default)]
pub(crate) struct LeftOut(pub(crate) BTreeSet<ObjectName>);

impl LeftOut {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The Gateways that cannot reach a backend because of the BackendTLSPolicy of it, or of its endpoint
/// picker.
#[derive(Debug)]
pub(crate) struct LeftOutByTls<'a> {
    pub(crate) policy: &'a ObjectName,
    pub(crate) gateways: LeftOut,
}

impl LeftOutByTls<'_> {
    /// Why the backend cannot be reached from this Gateway, if it cannot.
    pub(crate) fn problem(&self, gateway: &ObjectName, backend: &str) -> Option<Problem> {
        let Self { policy, gateways } = self;
        let message = format!(
            "the status of BackendTLSPolicy {policy} lists at most 16 ancestors and has no room for \
             this Gateway, so its requests to {backend} get status 500"
        );
        let problem = Problem::new(Reason::PolicyAncestorLimitReached, "", message);
        gateways.0.contains(gateway).then_some(problem)
    }
}

/// Why a Gateway cannot reach a backend, if it cannot.
pub(crate) type WhyNot<'a> = &'a dyn Fn(&ObjectName) -> Option<Problem>;

/// Tells the owner of a Gateway that a policy leaves it out.
pub(crate) fn left_out_of(policy: &ObjectRef) -> Problem {
    let effect = if policy.kind == ObjectKind::BackendTlsPolicy {
        "so its requests to the policy's targets, and to InferencePools whose endpoint picker is one, get \
         status 500"
    } else {
        "so the policy does not apply to its requests"
    };
    let message = format!(
        "the status of {policy} lists at most 16 ancestors and has no room for this Gateway, {effect}: \
         have its routes use another backend, with a policy of its own"
    );
    Problem::new(Reason::PolicyAncestorLimitReached, "", message)
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, gateway) in self.0.iter().take(NAMED).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{gateway}")?;
        }
        match self.0.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Number of Gateways named in a message.
const NAMED: usize = 4;

/// What a policy loses at a target to others that take precedence over it.
#[derive(Debug, Default)]
pub(crate) struct Overridden {
    /// Each field with the policy that overrides it.
    pub(crate) problems: Vec<Problem>,
    /// Whether that is all that it sets.
    pub(crate) is_all: bool,
}

pub(crate) static NONE_OVERRIDDEN: Overridden = Overridden {
    problems: Vec::new(),
    is_all: false,
};

/// That fields of a policy do nothing at a target.
pub(crate) const NO_EFFECT: &str = "some fields have no effect here";

/// That a policy rewrites paths, and is invalid.
pub(crate) const INVALID_REWRITE: &str = "requests get status 500 (bad_rewrite)";

/// The result of a policy at one target.
pub(crate) struct TargetOutcome<'a> {
    pub(crate) reference: &'a PolicyTargetReference,
    /// Why the policy is rejected here.
    pub(crate) refusal: Option<&'a Problem>,
    /// The fields taken by older policies.
    pub(crate) lost: &'a [Problem],
    /// What it loses to policies that take precedence.
    pub(crate) overridden: &'a Overridden,
    /// The fields that do not apply to the target.
    pub(crate) inapplicable: Cow<'a, [Problem]>,
    /// What these are, before they are named.
    pub(crate) inapplicable_are: &'static str,
    /// The effect, where there is more to say of it.
    pub(crate) effect: Option<Cow<'static, str>>,
    /// Whether any of its settings remain.
    pub(crate) is_left: bool,
    /// Whether they refuse every request.
    pub(crate) refuses_all: bool,
    /// Whether the remaining settings have an effect.
    pub(crate) in_use: bool,
}

impl PolicyStatus {
    /// The status of a `TrafficPolicy` in this generation. `refs` are unresolved references, of a
    /// policy that has some.
    pub(crate) fn of(
        (name, generation): (&ObjectName, i64),
        refs: (bool, &[Problem]),
        targets: &[TargetOutcome<'_>],
        controller_name: &str,
    ) -> Self {
        let ancestors = targets.iter().map(|target| PolicyAncestorStatus {
            ancestor_ref: AncestorReference::target(&name.namespace, target.reference),
            controller_name: controller_name.to_owned(),
            conditions: conditions(generation, refs, target),
        });
        Self {
            ancestors: ancestors.collect(),
        }
    }
}

impl PolicyStatus {
    /// Of an XBackend of this generation that these Gateways send something to. `why_not` says why one of them
    /// cannot reach it.
    pub(crate) fn of_x_backend(
        generation: i64,
        backend: &LoweredXBackend,
        (gateways, why_not): (&[ObjectName], WhyNot<'_>),
        controller_name: &str,
    ) -> Self {
        let ancestors = gateways.iter().map(|gateway| PolicyAncestorStatus {
            ancestor_ref: AncestorReference::gateway(gateway),
            controller_name: controller_name.to_owned(),
            conditions: backend_conditions(generation, backend, why_not(gateway)),
        });
        Self {
            ancestors: ancestors.collect(),
        }
    }
}

fn backend_conditions(
    generation: i64,
    backend: &LoweredXBackend,
    left_out: Option<Problem>,
) -> Vec<Condition> {
    let refusals: Vec<Problem> = backend.refusals.iter().cloned().chain(left_out).collect();
    let conditions = Conditions::of(generation);
    let conditions = match &*refusals {
        [] => conditions.normal(Type::Accepted, Reason::Accepted, "the backend is valid"),
        refusals => conditions.abnormal(Type::Accepted, refusals),
    };
    conditions.certificates(&backend.expiries.problems).done()
}

fn conditions(
    generation: i64,
    (has_refs, refs): (bool, &[Problem]),
    target: &TargetOutcome<'_>,
) -> Vec<Condition> {
    let conditions = Conditions::of(generation);
    let conditions = match target.refusal {
        None => conditions.normal(Type::Accepted, Reason::Accepted, "the policy is valid"),
        Some(problem) => {
            let conditions = conditions.abnormal(Type::Accepted, slice::from_ref(problem));
            // The last condition reports fields lost to another policy.
            match target.lost {
                [] => conditions,
                _ => conditions.that_follows(),
            }
        }
    };
    let conditions = attached(conditions, target);
    let overridden = &target.overridden.problems;
    let conditions = if target.overridden.is_all {
        let without_effect = overridden.iter().chain(&*target.inapplicable).cloned();
        let without_effect: Vec<Problem> = without_effect.collect();
        conditions.abnormal(Type::Programmed, &without_effect)
    } else if overridden.is_empty() {
        conditions.partially_programmed(target.inapplicable_are, &target.inapplicable)
    } else {
        let without_effect = target.inapplicable.iter().chain(overridden).cloned();
        let without_effect: Vec<Problem> = without_effect.collect();
        conditions.partially_programmed(NO_EFFECT, &without_effect)
    };
    let conditions = match refs {
        _ if !has_refs => conditions,
        [] => conditions.normal(
            Type::ResolvedRefs,
            Reason::ResolvedRefs,
            "all references are resolved",
        ),
        refs => conditions.abnormal(Type::ResolvedRefs, refs),
    };
    conditions.abnormal(Type::Conflicted, target.lost).done()
}

fn attached(conditions: Conditions, target: &TargetOutcome<'_>) -> Conditions {
    match (target.is_left, target.refusal) {
        (true, refusal) if target.in_use => {
            let effect = match (refusal, &target.effect) {
                (None, _) if target.overridden.is_all => "other policies override all of it".into(),
                (None, Some(effect)) => effect.clone(),
                (None, None) => "the policy has an effect".into(),
                (Some(_), _) if target.refuses_all => {
                    "every request of the target is refused".into()
                }
                (Some(problem), _) if problem.reason == Reason::GatewayFull => {
                    "the policy has an effect at other Gateways".into()
                }
                (Some(_), Some(effect)) if *effect == INVALID_REWRITE => effect.clone(),
                (Some(_), _) => "only the policy's access restrictions have an effect".into(),
            };
            let status = ConditionStatus::True;
            conditions.with(Type::Attached, status, Reason::Attached, effect, None)
        }
        (false, Some(problem)) => conditions
            .abnormal(Type::Attached, slice::from_ref(problem))
            .that_follows(),
        _ => {
            let message = "the target carries no traffic: see its own conditions";
            let unused = Problem::new(Reason::NotInUse, "", message);
            conditions.abnormal(Type::Attached, &[unused])
        }
    }
}
