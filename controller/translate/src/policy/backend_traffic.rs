//! Resolves `XBackendTrafficPolicies`, and finds the session persistence of an upstream.

use std::sync::Arc;

use xds::model::{ObjectName, PolicyTarget, RetryConstraint, SessionPersistence};

use super::api::{PolicyTargetReference, XBackendTrafficPolicy};
use super::retry_constraint;
use crate::backend::upstream::Upstream;
use crate::objects::kinds::{ObjectKind, WrittenKind};
use crate::objects::reader::Reader;
use crate::route::{api, session};
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// A resolved policy, with its problems.
#[derive(Debug, PartialEq)]
pub(crate) struct ResolvedBackendTraffic {
    /// When it was created, as [`crate::objects::api::ObjectMeta::created`] says.
    pub(crate) created: i64,
    pub(crate) constraint: Option<RetryConstraint>,
    /// Why it is rejected, so that it has no effect.
    pub(crate) refusals: Vec<Problem>,
    /// Missing targets, by their number.
    pub(crate) missing: Vec<(usize, Problem)>,
    pub(crate) targets: Vec<BackendTrafficTarget>,
}

/// An existing target of a policy.
#[derive(Debug, PartialEq)]
pub(crate) struct BackendTrafficTarget {
    pub(crate) upstream: Upstream,
    /// The number of its reference.
    pub(crate) index: usize,
    /// The policy's session persistence there.
    pub(crate) session: Option<Arc<SessionPersistence>>,
}

impl ResolvedBackendTraffic {
    pub(crate) fn resolve(
        reader: &Reader<'_>,
        name: &ObjectName,
        object: &XBackendTrafficPolicy,
    ) -> Self {
        let spec = &object.spec;
        let mut refusals = Vec::new();
        let mut keep = |problem: Problem| refusals.push(problem.under("spec"));
        let constraint = spec.retry_constraint.as_ref().map(retry_constraint::lower);
        let constraint = constraint.transpose().unwrap_or_else(|problem| {
            keep(problem.under("retryConstraint"));
            None
        });
        if let Some(Err(problem)) = spec
            .session_persistence
            .as_ref()
            .map(|it| session_of(it, name))
        {
            keep(problem);
        }
        let (mut missing, mut targets) = (Vec::new(), Vec::new());
        for (index, reference) in spec.target_refs.iter().enumerate() {
            match find(reader, &name.namespace, reference) {
                Ok(upstream) => targets.push(BackendTrafficTarget {
                    session: session_at(reference, spec.session_persistence.as_ref(), name),
                    upstream,
                    index,
                }),
                Err(problem) => missing.push((index, problem.under(field(index)))),
            }
        }
        Self {
            created: object.metadata.created(),
            constraint,
            refusals,
            missing,
            targets,
        }
    }
}

/// The field of a target reference.
pub(crate) fn field(index: usize) -> String {
    format!("spec.targetRefs[{index}]")
}

/// Why a policy does not apply to a target.
pub(crate) fn conflicted(winner: &ObjectName, index: usize) -> Problem {
    let message = format!(
        "the older XBackendTrafficPolicy {winner} has the same target: remove it from one of them"
    );
    Problem::new(Reason::Conflicted, field(index), message)
}

/// The target in the model.
pub(crate) fn policy_target(upstream: &Upstream) -> PolicyTarget {
    match upstream {
        Upstream::Service(key) => PolicyTarget::Service(key.clone()),
        Upstream::Backend(key) => PolicyTarget::Backend(key.clone()),
    }
}

/// A cookie or header without a name has one of its target.
fn session_at(
    target: &PolicyTargetReference,
    spec: Option<&api::SessionPersistence>,
    policy: &ObjectName,
) -> Option<Arc<SessionPersistence>> {
    let name = format!("{}.{}", target.name, target.kind.to_lowercase());
    let owner = ObjectName::new(&policy.namespace, &name);
    session_of(spec?, &owner).ok().map(Arc::new)
}

fn session_of(
    spec: &api::SessionPersistence,
    owner: &ObjectName,
) -> Result<SessionPersistence, Problem> {
    session::lower(spec, owner, 0).map_err(|problem| Problem {
        reason: Reason::Invalid,
        ..problem
    })
}

/// Finds an existing target.
fn find(
    reader: &Reader<'_>,
    namespace: &str,
    reference: &PolicyTargetReference,
) -> Result<Upstream, Problem> {
    let PolicyTargetReference { group, kind, .. } = reference;
    let name = ObjectName::new(namespace, &reference.name);
    let known = ObjectKind::find(group, kind);
    let upstream = known.and_then(|kind| Upstream::of_object(kind, &name));
    let (Some(known), Some(upstream)) = (known, upstream) else {
        let written = WrittenKind { group, kind };
        let message = format!(
            "{written} cannot be a target: use Service, XBackend, InferencePool or Backend"
        );
        return Err(Problem::new(Reason::Invalid, "kind", message));
    };
    if reader.exists(known, &name) {
        return Ok(upstream);
    }
    let message = format!("{kind} {name} does not exist: create it");
    Err(Problem::new(Reason::TargetNotFound, "name", message))
}
