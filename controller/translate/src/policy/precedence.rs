//! Traffic policies at a target: which settings apply, and which policy wins a field.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use xds::model::{
    ObjectName, Policy, PolicyKey, PolicySpec, PolicyTarget, Precedence, RateLimitRule,
};

use super::api::Restrictions;
use super::fields::{
    CREDENTIALS, FIELDS, Field, FieldScope, RESTRICTIONS, is_without_effect, stays_alone,
};
use crate::objects::kinds::ObjectKind;
use crate::route::name::RouteKind;
use crate::status::problem;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// A policy at a target, before conflicts are resolved.
#[derive(Debug, PartialEq)]
pub(crate) struct TargetedPolicy {
    pub(crate) target: Arc<PolicyTarget>,
    pub(crate) spec: Arc<PolicySpec>,
    /// Why the policy is rejected here. Only its access restrictions remain then.
    pub(crate) refusal: Option<Problem>,
    /// The fields that do not apply to the target, while the others do.
    pub(crate) inapplicable: Vec<Problem>,
}

impl TargetedPolicy {
    /// Whether the field at this path is among the settings that are left.
    pub(crate) fn has(&self, path: &str) -> bool {
        let mut set = FIELDS.iter().filter(|field| (field.is_set)(&self.spec));
        set.any(|field| field.path(&self.spec) == path)
    }
}

/// The order at a target: phase, creation time, name.
pub(crate) type ClaimRank = (Phase, i64, ObjectName);

/// The order in which policies take fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// Settings of policies for their targets.
    Configured,
    /// Refusal of every request, because the target may be that of a policy which restricts access in
    /// these ways. Last: a target with such restrictions of its own keeps those.
    Denied(Restrictions),
}

/// The remaining settings of a policy at a target.
#[derive(Debug, PartialEq)]
pub(crate) struct ClaimedPolicy {
    pub(crate) spec: Arc<PolicySpec>,
    /// The fields taken by older policies.
    pub(crate) lost: Vec<Problem>,
    /// That the settings are too large to be sent, so that the target refuses every request.
    pub(crate) too_large: Option<Problem>,
    /// Whether these settings refuse every client that they are for, as those of an older policy do.
    pub(crate) is_closed_by_older: bool,
}

impl ClaimedPolicy {
    /// Refuses every request of the target if the settings restrict access and take more than `limit`
    /// bytes: proxies would not get them, and allow everything. Other settings that are too large are
    /// left to their sender.
    pub(crate) fn check_size(&mut self, name: &ObjectName, target: &PolicyTarget, limit: u64) {
        if self.spec.is_invalid || !self.spec.restricts_access() {
            return;
        }
        let bytes = xds::encode::resource(&self.at(name, target).into()).len();
        if bytes as u64 <= limit {
            return;
        }
        let message = format!(
            "the policy takes {bytes} bytes, and the limit is {limit}: use smaller keys (a JWKS by its uri \
             instead of inline), fewer rules, or several policies{REFUSED_UNTIL_THEN}"
        );
        self.too_large = Some(Problem::new(Reason::UnsupportedValue, "spec", message));
        self.spec = Arc::new(self.spec.refusing_all());
    }

    /// Whether the settings restrict access.
    pub(crate) fn is_restricting(&self) -> bool {
        self.spec.restricts_access()
    }

    /// What refuses every request of the target in the place of these settings, at Gateways that have no room
    /// for them. It has a key of its own, since other Gateways may have the settings.
    pub(crate) fn closing(&self, name: &ObjectName, target: &PolicyTarget) -> Policy {
        let at = format!("closed/{}", target_key(target));
        Policy {
            key: PolicyKey::new(ObjectKind::TrafficPolicy.name(), name, &at),
            target: target.clone(),
            spec: self.spec.refusing_all(),
        }
    }

    /// The settings for Gateways that have no room for the keys of its rate limits, as proxies get them.
    pub(crate) fn with_few_keys(&self, name: &ObjectName, target: &PolicyTarget) -> Policy {
        let at = format!("few-keys/{}", target_key(target));
        let mut policy = self.at(name, target);
        policy.key = PolicyKey::new(ObjectKind::TrafficPolicy.name(), name, &at);
        let rate_limit = policy.spec.rate_limit.iter_mut();
        for rule in rate_limit.flat_map(|it| &mut it.rules) {
            rule.max_keys = RateLimitRule::LEAST_KEYS;
        }
        policy
    }

    /// The settings as proxies get them.
    pub(crate) fn at(&self, name: &ObjectName, target: &PolicyTarget) -> Policy {
        Policy {
            key: PolicyKey::new(ObjectKind::TrafficPolicy.name(), name, &target_key(target)),
            target: target.clone(),
            spec: PolicySpec::clone(&self.spec),
        }
    }
}

/// Applies a policy's `spec` to a target. `refusal` is a problem of the policy itself, and `owner` the
/// Gateway of a ListenerSet. A field that does not apply to the target is left out; if it restricts
/// access, the target refuses every request.
pub(crate) fn apply_to_target(
    target: PolicyTarget,
    spec: &PolicySpec,
    refusal: Option<&Problem>,
    owner: Option<&ObjectName>,
) -> TargetedPolicy {
    let mut left = spec.clone();
    let mut inapplicable = Vec::new();
    let mut is_unenforceable = false;
    let set = FIELDS.iter().filter(|field| (field.is_set)(spec));
    for field in set.filter(|field| !field.reach.holds(&target)) {
        is_unenforceable |= RESTRICTIONS.contains(&field.name);
        inapplicable.push((field.path(spec), does_not_apply(field, &target, owner)));
        (field.clear)(&mut left);
    }
    if let Some(problem) = no_failure_of_calls(&target, spec) {
        is_unenforceable = true;
        inapplicable.push(("spec.respond.status".to_owned(), problem));
    }
    if left.precedence == Precedence::Overrides && !may_override(&target) {
        left.precedence = Precedence::Defaults;
        let message = "only policies of Gateways, listeners and ListenerSets override others: leave it out, or \
                       target one of these";
        inapplicable.push(("spec.precedence".to_owned(), message.to_owned()));
    }
    let mut inapplicable = by_message(inapplicable);
    if is_unenforceable {
        left = spec.refusing_all();
    }
    left.closes_connections |= left.is_invalid && is_of_connections(&target);
    let mut refusal = refusal.cloned();
    if refusal.is_none() && (is_unenforceable || is_without_effect(&left)) {
        refusal = all_inapplicable(&inapplicable, is_unenforceable);
        inapplicable.clear();
    }
    if refusal.is_some() {
        keep_restrictions(&mut left);
    }
    TargetedPolicy {
        target: Arc::new(target),
        spec: Arc::new(left),
        refusal,
        inapplicable,
    }
}

/// Why calls of a GRPCRoute cannot be answered as a policy says: with a status that is no failure. A client would
/// wait for the messages of its call.
fn no_failure_of_calls(target: &PolicyTarget, spec: &PolicySpec) -> Option<String> {
    let (PolicyTarget::Route { kind, .. } | PolicyTarget::Rule { kind, .. }) = target else {
        return None;
    };
    let status = spec.respond.as_ref()?.status.code();
    let is_success = kind == ObjectKind::GrpcRoute.name() && status.as_u16() < 400;
    is_success.then(|| {
        format!(
            "{} is no failure, and calls of a GRPCRoute can only be answered with one: use 400 to 599",
            status.as_u16()
        )
    })
}

/// Assigns each field to the first policy that sets it, and removes it from the others. A refusal of
/// every request is nobody's to take.
pub(crate) fn assign_fields(
    claims: &BTreeMap<ClaimRank, Arc<PolicySpec>>,
) -> BTreeMap<ClaimRank, ClaimedPolicy> {
    let mut owners = HashMap::new();
    let mut settled: BTreeMap<ClaimRank, ClaimedPolicy> = BTreeMap::new();
    let mut is_closed = false;
    let mut is_closed_for_connections = false;
    for (rank, spec) in claims {
        let (phase, _, name) = rank;
        let is_dispensable = match phase {
            Phase::Configured => false,
            Phase::Denied(restrictions) => {
                let specs: Vec<&PolicySpec> = settled.values().map(|it| &*it.spec).collect();
                has_restrictions(&specs, *restrictions, spec.closes_connections)
            }
        };
        if !is_dispensable {
            let mut left = leave(name, spec, &mut owners);
            left.is_closed_by_older = is_closed
                && spec.is_invalid
                && (is_closed_for_connections || !spec.closes_connections);
            is_closed |= spec.is_invalid;
            is_closed_for_connections |= spec.is_invalid && spec.closes_connections;
            settled.insert(rank.clone(), left);
        }
    }
    settled
}

/// Whether the policies of a target restrict access in all of these ways, of connections too if they are to be
/// closed. One that refuses every request restricts connections only if it says so.
fn has_restrictions(specs: &[&PolicySpec], wanted: Restrictions, closes_connections: bool) -> bool {
    // What nearer targets can replace does not stand in for what they cannot.
    let stays = |spec: &PolicySpec| {
        spec.is_invalid || !wanted.overrides || spec.precedence == Precedence::Overrides
    };
    let any = |has: fn(&PolicySpec) -> bool| specs.iter().any(|spec| stays(spec) && has(spec));
    let is_closed = any(|spec| spec.is_invalid);
    let networks =
        any(|spec| spec.networks.is_some() || spec.is_invalid && spec.closes_connections);
    let lacking = wanted.beyond(Restrictions {
        jwt: is_closed || any(|spec| spec.jwt.is_some()),
        basic_auth: is_closed || any(|spec| spec.basic_auth.is_some()),
        api_keys: is_closed || any(|spec| spec.api_keys.is_some()),
        authorization: is_closed || any(|spec| spec.authorization.is_some()),
        networks,
        rate_limit: is_closed || any(|spec| spec.rate_limit.is_some()),
        respond: is_closed || any(|spec| spec.respond.is_some()),
        bounds: is_closed || any(PolicySpec::bounds_limits),
        overrides: wanted.overrides,
    });
    // Closing connections too changes nothing for requests that are refused anyway.
    let leaves_connections = is_closed && closes_connections && !networks;
    !lacking.any() && !leaves_connections
}

fn leave<'a>(
    name: &'a ObjectName,
    spec: &Arc<PolicySpec>,
    owners: &mut HashMap<(&'static str, Precedence), &'a ObjectName>,
) -> ClaimedPolicy {
    let mut left = Arc::clone(spec);
    let mut lost = Vec::new();
    for field in FIELDS.iter().filter(|field| (field.is_set)(spec)) {
        // What overrides others and what does not are apart. Credentials are one policy's: with those of another,
        // who has the weaker ones would be admitted.
        let unit = if field.is_of_credentials() {
            CREDENTIALS
        } else {
            field.name
        };
        let owner = *owners.entry((unit, spec.precedence)).or_insert(name);
        if owner != name {
            lost.push(conflicted(field, &field.path(spec), owner));
            (field.clear)(Arc::make_mut(&mut left));
        }
    }
    ClaimedPolicy {
        spec: left,
        lost,
        too_large: None,
        is_closed_by_older: false,
    }
}

/// Access restrictions apply even if the rest of the policy is rejected: without them everything
/// would be allowed. So does the rewrite of paths: without it backends would get others.
fn keep_restrictions(spec: &mut PolicySpec) {
    for field in FIELDS {
        if !stays_alone(field) {
            (field.clear)(spec);
        }
    }
}

fn conflicted(field: &Field, path: &str, owner: &ObjectName) -> Problem {
    let message = if field.is_of_credentials() {
        format!(
            "the older TrafficPolicy {owner} says for the same target how clients authenticate themselves: say it \
             in one of them"
        )
    } else {
        format!(
            "the older TrafficPolicy {owner} sets this for the same target: remove it from one of them"
        )
    };
    Problem::new(Reason::Conflicted, path, message)
}

/// Why a field has no effect at a target, and what to do instead.
fn does_not_apply(field: &Field, target: &PolicyTarget, owner: Option<&ObjectName>) -> String {
    let of_set = match target {
        PolicyTarget::ListenerSet(_) => true,
        PolicyTarget::Listener(key) => key.listener_set().is_some(),
        _ => false,
    };
    if of_set && field.reach == FieldScope::Socket {
        let gateway = owner.map_or_else(|| "the Gateway".to_owned(), |it| format!("Gateway {it}"));
        format!(
            "this belongs to the port, which listeners of others may share: ask the owner of \
             {gateway} to set it for the Gateway or one of its own listeners"
        )
    } else if is_of_connections(target)
        && matches!(field.reach, FieldScope::Request | FieldScope::Any)
    {
        "this does not apply to connections and datagrams, which have no requests: target an HTTPRoute or \
         GRPCRoute instead"
            .to_owned()
    } else {
        let targets = field.reach.targets();
        format!("this does not apply to such a target: target {targets} instead")
    }
}

/// Whether policies of such a target may take precedence over those of nearer ones.
fn may_override(target: &PolicyTarget) -> bool {
    match target {
        PolicyTarget::Gateway(_) | PolicyTarget::ListenerSet(_) | PolicyTarget::Listener(_) => true,
        PolicyTarget::Route { .. }
        | PolicyTarget::Rule { .. }
        | PolicyTarget::Service(_)
        | PolicyTarget::Backend(_) => false,
    }
}

/// What a policy loses to one that takes precedence at a wider target, or the same.
pub(crate) fn overridden(
    own: &PolicySpec,
    by: &ObjectName,
    at: &str,
    other: &PolicySpec,
) -> Vec<Problem> {
    let yielding = FIELDS.iter().filter(|field| (field.yields)(own, other));
    let message = format!("TrafficPolicy {by} of {at} overrides this: ask its owner");
    let problems =
        yielding.map(|field| Problem::new(Reason::Overridden, field.path(own), &message));
    problems.collect()
}

/// Whether others lose the same to both.
pub(crate) fn override_alike(one: &PolicySpec, other: &PolicySpec) -> bool {
    // What is evaluated in addition takes nothing from others, whether it is set or not. Of all else but limits it
    // matters only whether it is set.
    let takes = |spec: &PolicySpec, field: &Field| (field.yields)(spec, spec);
    one.limits == other.limits && FIELDS.iter().all(|it| takes(one, it) == takes(other, it))
}

/// Number of fields that a policy sets.
pub(crate) fn set_fields(spec: &PolicySpec) -> usize {
    FIELDS.iter().filter(|field| (field.is_set)(spec)).count()
}

/// The settings that refuse all clients of a target, of a policy that was meant for it.
pub(crate) fn refusing_at(target: &PolicyTarget, refusal: &Arc<PolicySpec>) -> Arc<PolicySpec> {
    if refusal.closes_connections || !is_of_connections(target) {
        return Arc::clone(refusal);
    }
    Arc::new(PolicySpec {
        closes_connections: true,
        ..PolicySpec::clone(refusal)
    })
}

/// Whether a target is a route of connections or datagrams.
pub(crate) fn is_of_connections(target: &PolicyTarget) -> bool {
    match target {
        PolicyTarget::Route { kind, .. } | PolicyTarget::Rule { kind, .. } => {
            !RouteKind::named(kind).is_some_and(RouteKind::is_of_requests)
        }
        _ => false,
    }
}

/// Fields with the same problem as one, which names all of them.
fn by_message(fields: Vec<(String, String)>) -> Vec<Problem> {
    let mut grouped: Vec<(String, Vec<String>)> = Vec::new();
    for (field, message) in fields {
        match grouped.iter_mut().find(|(known, _)| *known == message) {
            Some((_, fields)) => fields.push(field),
            None => grouped.push((message, vec![field])),
        }
    }
    let problems = grouped.into_iter().map(|(message, fields)| {
        let (first, others) = fields.split_first().expect("each message is of a field");
        let message = match others {
            [] => message,
            others => format!("{message}; the same holds for {}", others.join(", ")),
        };
        Problem::new(Reason::Invalid, first, message)
    });
    problems.collect()
}

/// That nothing of a policy applies to a target.
fn all_inapplicable(fields: &[Problem], is_unenforceable: bool) -> Option<Problem> {
    let first = fields.first()?;
    let mut message = match fields {
        [only] => only.message.clone(),
        all => problem::join(all.iter()),
    };
    if is_unenforceable {
        message += REFUSED_UNTIL_THEN;
    }
    Some(Problem {
        message,
        ..first.clone()
    })
}

/// The target as text, for keys.
pub(crate) fn target_key(target: &PolicyTarget) -> String {
    match target {
        PolicyTarget::Gateway(name) => format!("{}/{name}", ObjectKind::Gateway),
        PolicyTarget::ListenerSet(name) => format!("ListenerSet/{name}"),
        PolicyTarget::Listener(key) => key.to_string(),
        PolicyTarget::Route { kind, object } => format!("{kind}/{object}"),
        PolicyTarget::Rule { kind, object, rule } => format!("{kind}/{object}/{rule}"),
        PolicyTarget::Service(key) => key.to_string(),
        PolicyTarget::Backend(key) => key.to_string(),
    }
}

/// What happens at the target of a policy whose restrictions cannot be enforced.
pub(crate) const REFUSED_UNTIL_THEN: &str =
    "; until then every request of the target gets status 503 (policy_invalid)";

/// What happens while it is not known what an access-restricting policy applies to.
pub(crate) const PRESUMED_UNTIL_THEN: &str =
    "; until then every request that it may apply to gets status 503 (policy_invalid)";
