//! Traffic policies at a target: which settings apply, and which policy wins a field.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use xds::model::{AuthorizationPolicy, JwtMode, JwtPolicy, ObjectName, PolicySpec, PolicyTarget};

use super::policy_fields::{FIELDS, RESTRICTIONS};
use crate::api::{self, Resource as _};
use crate::problem::Problem;
use crate::reason::Reason;

/// A policy at a target, before conflicts are resolved.
#[derive(Debug, PartialEq)]
pub(crate) struct TargetedPolicy {
    pub(crate) target: Arc<PolicyTarget>,
    pub(crate) spec: Arc<PolicySpec>,
    /// Why the policy is rejected here. Only its access restrictions remain then.
    pub(crate) refusal: Option<Problem>,
}

/// The order at a target: phase, creation time, name.
pub(crate) type ClaimRank = (Phase, i64, ObjectName);

/// The order in which policies take fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// Settings of policies for their targets.
    Configured,
    /// Rejection of every request, because the target may be that of an access-restricting policy.
    /// Last: a target with its own restriction keeps that.
    Denied,
}

/// The remaining settings of a policy at a target.
#[derive(Debug, PartialEq)]
pub(crate) struct ClaimedPolicy {
    pub(crate) spec: Arc<PolicySpec>,
    /// The fields taken by older policies.
    pub(crate) lost: Vec<Problem>,
}

/// Applies a policy's `spec` to a target. `refusal` is a problem of the policy itself.
pub(crate) fn apply_to_target(
    target: PolicyTarget,
    spec: &PolicySpec,
    refusal: Option<&Problem>,
) -> TargetedPolicy {
    let refusal = refusal.cloned();
    let refusal = refusal.or_else(|| check_reach(&target, spec).err());
    let mut spec = spec.clone();
    if refusal.is_some() {
        keep_restrictions(&target, &mut spec);
    }
    TargetedPolicy {
        target: Arc::new(target),
        spec: Arc::new(spec),
        refusal,
    }
}

/// Assigns each field to the first policy that sets it, and removes it from the others.
pub(crate) fn assign_fields(
    claims: &BTreeMap<ClaimRank, Arc<PolicySpec>>,
) -> BTreeMap<ClaimRank, ClaimedPolicy> {
    let mut owners = HashMap::new();
    let mut settled = BTreeMap::new();
    for (rank, spec) in claims {
        let (phase, _, name) = rank;
        let spec = match phase {
            Phase::Configured => Arc::clone(spec),
            Phase::Denied => unclaimed(spec, &owners),
        };
        if *phase == Phase::Configured || FIELDS.iter().any(|field| (field.is_set)(&spec)) {
            settled.insert(rank.clone(), leave(name, &spec, &mut owners));
        }
    }
    settled
}

fn leave<'a>(
    name: &'a ObjectName,
    spec: &Arc<PolicySpec>,
    owners: &mut HashMap<&'static str, &'a ObjectName>,
) -> ClaimedPolicy {
    let mut left = Arc::clone(spec);
    let mut lost = Vec::new();
    for field in FIELDS.iter().filter(|field| (field.is_set)(spec)) {
        let owner = *owners.entry(field.name).or_insert(name);
        if owner != name {
            lost.push(conflicted(&field.path(spec), owner));
            (field.clear)(Arc::make_mut(&mut left));
        }
    }
    ClaimedPolicy { spec: left, lost }
}

/// Without the fields that are taken. Even by the same policy, since its own setting is as strict.
fn unclaimed(
    spec: &Arc<PolicySpec>,
    owners: &HashMap<&'static str, &ObjectName>,
) -> Arc<PolicySpec> {
    let mut spec = Arc::clone(spec);
    for field in FIELDS
        .iter()
        .filter(|field| owners.contains_key(field.name))
    {
        (field.clear)(Arc::make_mut(&mut spec));
    }
    spec
}

/// The settings for a target that rejects every request, with the restrictions of a policy that may
/// have meant it.
pub(crate) fn deny_all(restrictions: &PolicySpec) -> PolicySpec {
    PolicySpec {
        jwt: restrictions.jwt.is_some().then(|| JwtPolicy {
            mode: JwtMode::Strict,
            realm: None,
            providers: Vec::new(),
        }),
        authorization: (restrictions.authorization.is_some()).then(AuthorizationPolicy::deny_all),
        ..PolicySpec::default()
    }
}

/// Access restrictions apply even if the rest of the policy is rejected: without them everything
/// would be allowed.
fn keep_restrictions(target: &PolicyTarget, spec: &mut PolicySpec) {
    for field in FIELDS {
        if !RESTRICTIONS.contains(&field.name) || !field.reach.holds(target) {
            (field.clear)(spec);
        }
    }
}

fn conflicted(field: &str, owner: &ObjectName) -> Problem {
    let message = format!(
        "the older TrafficPolicy {owner} sets this for the same target: remove it from one of them"
    );
    Problem::new(Reason::Conflicted, field, message)
}

fn check_reach(target: &PolicyTarget, spec: &PolicySpec) -> Result<(), Problem> {
    let mut set = FIELDS.iter().filter(|field| (field.is_set)(spec));
    match set.find(|field| !field.reach.holds(target)) {
        None => Ok(()),
        Some(field) => Err(Problem::new(
            Reason::Invalid,
            field.path(spec),
            format!(
                "this does not apply to such a target: target {} instead",
                field.reach.targets()
            ),
        )),
    }
}

/// The target as text, for keys.
pub(crate) fn target_key(target: &PolicyTarget) -> String {
    match target {
        PolicyTarget::Gateway(name) => format!("{}/{name}", api::Gateway::KIND),
        PolicyTarget::ListenerSet(name) => format!("ListenerSet/{name}"),
        PolicyTarget::Listener(key) => key.to_string(),
        PolicyTarget::Route { kind, object } => format!("{kind}/{object}"),
        PolicyTarget::Rule { kind, object, rule } => format!("{kind}/{object}/{rule}"),
        PolicyTarget::Service(key) => key.to_string(),
        PolicyTarget::Backend(key) => key.to_string(),
    }
}

/// What happens to requests while an access-restricting policy has an unidentifiable target.
pub(crate) const REJECTED_UNTIL_THEN: &str =
    "; until then every request that it may apply to is rejected";
