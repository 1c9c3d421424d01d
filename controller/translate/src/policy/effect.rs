//! A `TrafficPolicy` at its targets: the carried settings, and its status.

use std::borrow::Cow;
use std::sync::Arc;

use xds::model::{ObjectName, PolicyTarget, Precedence, RateLimitRule, Resource};

use super::api::{PolicyTargetReference, TrafficPolicy};
use super::beside_filters::{BesideFilters, beside_filters};
use super::fields::is_without_effect;
use super::precedence::{ClaimedPolicy, Phase, TargetedPolicy};
use super::status::{NO_EFFECT, NONE_OVERRIDDEN, Overridden, PolicyStatus, TargetOutcome};
use super::tokens::gateways;
use super::traffic::{PolicyReference, ResolvedPolicy};
use super::unexpected::effect_of;
use super::unprobed::unprobed;
use crate::budgets::Budget;
use crate::budgets::room::FullGateways;
use crate::budgets::rooms::HolderKind;
use crate::engine::emitted::Emitted;
use crate::engine::outcome::Gateways;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::object_ref::ObjectRef;
use crate::objects::owner;
use crate::objects::owner::Owner;
use crate::status::Status;
use crate::status::problem::Problem;
use crate::status::reason::Reason;
use crate::units::EffectUnit;

/// What proxies get for a policy.
#[derive(Default)]
struct Effect {
    resources: Vec<(Resource, Gateways)>,
    closed_at: Vec<ObjectName>,
}

/// A policy for proxies, and its status.
#[derive(Debug, PartialEq)]
pub(crate) struct EffectivePolicy {
    emitted: Emitted,
    /// The Gateway of each policy that stands in for it.
    closed_at: Box<[ObjectName]>,
    /// `None` if no target belongs to this controller.
    status: Option<PolicyStatus>,
}

impl Unit for EffectUnit {
    type Output = EffectivePolicy;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<EffectivePolicy> {
        let policy = reader.policy(&self.0)?;
        let mut effect = Effect::default();
        let overridden = self.overridden(reader, policy);
        let targets = policy.targets.iter();
        let no_room: Vec<Option<Problem>> = targets
            .map(|target| self.no_room(reader, policy, target))
            .collect();
        let beside: Vec<Option<BesideFilters>> = { policy.targets.iter() }
            .map(|target| self.beside_filters(reader, policy, target))
            .collect();
        let why_not = { no_room.iter().zip(&beside) }.map(|(no_room, beside)| WhyNot {
            no_room: no_room.as_ref(),
            beside: beside.as_ref(),
        });
        let targets = policy.targets.iter().zip(why_not).zip(&overridden);
        let outcomes: Vec<TargetOutcome<'_>> = targets
            .map(|((target, why_not), overridden)| TargetOutcome {
                overridden,
                ..self.outcome(reader, policy, (target, why_not), &mut effect)
            })
            .collect();
        let refused = policy.refused.iter().map(|it| (Phase::Configured, it));
        let phase = Phase::Denied(policy.restricts);
        let denied = policy.denied.iter().map(|it| (phase, it));
        for (phase, target) in refused.chain(denied) {
            let target = Arc::new(target.clone());
            let rank = (phase, policy.created, &self.0);
            if let Some(claimed_policy) = reader.claimed_policy(&target, rank) {
                self.carry(reader, &target, claimed_policy, &mut effect);
            }
        }
        let controller = &reader.options().controller_name;
        let status = PolicyStatus::of(
            (&self.0, policy.generation),
            (policy.has_refs, &policy.refs),
            &outcomes,
            controller,
        );
        Some(EffectivePolicy {
            emitted: Emitted::new(effect.resources),
            closed_at: effect.closed_at.into(),
            status: (!outcomes.is_empty()).then_some(status),
        })
    }

    fn publish(
        &self,
        old: Option<&EffectivePolicy>,
        new: Option<&EffectivePolicy>,
        changes: &mut Changes<'_>,
    ) {
        let emitted = |it: Option<&EffectivePolicy>| it.map(|it| it.emitted.clone());
        Emitted::publish(
            emitted(old).as_ref(),
            emitted(new).as_ref(),
            changes.outcome,
        );
        let closed_at = |it: Option<&'_ EffectivePolicy>| it.map(|it| it.closed_at.clone());
        let (before, after) = (closed_at(old), closed_at(new));
        changes.closing_policies(
            before.as_deref().unwrap_or_default(),
            after.as_deref().unwrap_or_default(),
        );
        let status = |it: Option<&EffectivePolicy>| it.and_then(|it| it.status.clone());
        if status(old) != status(new) {
            let object = ObjectRef::of::<TrafficPolicy>(&self.0);
            changes.status(object, status(new).map(Status::Policy));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        let policies = &state.objects.store.traffic_policies;
        policies.contains_key(&self.0)
    }
}

impl EffectUnit {
    fn outcome<'a>(
        &self,
        reader: &UnitReader<'a>,
        policy: &ResolvedPolicy,
        (target, WhyNot { no_room, beside }): (&'a PolicyReference, WhyNot<'a>),
        effect: &mut Effect,
    ) -> TargetOutcome<'a> {
        let reference = &target.reference;
        let targeted = match &target.targeted {
            Ok(targeted) => targeted,
            Err(problem) => return without_target(reference, problem),
        };
        let rank = (Phase::Configured, policy.created, &self.0);
        let claimed_policy = reader.claimed_policy(&targeted.target, rank);
        let lost = claimed_policy.map_or(&[][..], |claimed_policy| &claimed_policy.lost);
        let nothing_left = claimed_policy.is_none_or(|it| is_without_effect(&it.spec));
        let too_large = claimed_policy.and_then(|it| it.too_large.as_ref());
        let ambiguous = beside.and_then(BesideFilters::refusal);
        let own = targeted.refusal.as_ref().or(too_large);
        let mut refusal = own.or(no_room).or(ambiguous);
        if nothing_left {
            refusal = refusal.or_else(|| lost.first());
        }
        let mut is_left = refusal.is_none() || !nothing_left;
        let mut in_use = false;
        if is_left && let Some(claimed_policy) = claimed_policy {
            in_use = self.carry(reader, &targeted.target, claimed_policy, effect);
            is_left = in_use || no_room.is_none();
        }
        let is_closed =
            no_room.is_some() && claimed_policy.is_some_and(ClaimedPolicy::is_restricting);
        let mut inapplicable = Cow::Borrowed(&*targeted.inapplicable);
        let mut inapplicable_are = NO_EFFECT;
        if let Some(problem) = claimed_policy.and_then(|it| self.few_keys(reader, targeted, it)) {
            if inapplicable.is_empty() {
                inapplicable_are = FEW_KEYS;
            }
            inapplicable.to_mut().push(problem);
        }
        let connections = claimed_policy.and_then(|it| beside_connections(reader, targeted, it));
        if let Some(problem) = connections {
            inapplicable.to_mut().push(problem);
        }
        let unprobed = claimed_policy.and_then(|it| unprobed(reader, &targeted.target, &it.spec));
        if let Some(problem) = unprobed {
            inapplicable.to_mut().push(problem);
        }
        if let Some(problem) = beside.and_then(BesideFilters::inapplicable) {
            inapplicable.to_mut().push(problem.clone());
        }
        TargetOutcome {
            reference,
            refusal,
            lost,
            overridden: &NONE_OVERRIDDEN,
            inapplicable,
            inapplicable_are,
            effect: claimed_policy.and_then(|it| effect_of(&it.spec)),
            is_left,
            refuses_all: targeted.spec.is_invalid
                || too_large.is_some()
                || is_closed
                || ambiguous.is_some(),
            in_use,
        }
    }

    /// What filters of a target's rules mean for the rewrite of its paths.
    fn beside_filters(
        &self,
        reader: &UnitReader<'_>,
        policy: &ResolvedPolicy,
        target: &PolicyReference,
    ) -> Option<BesideFilters> {
        let targeted = target.targeted.as_ref().ok()?;
        let rank = (Phase::Configured, policy.created, &self.0);
        let claimed = reader.claimed_policy(&targeted.target, rank)?;
        claimed.spec.path_rewrite.as_ref()?;
        beside_filters(reader, &targeted.target)
    }

    /// What the policy loses at each of its targets to policies that take precedence.
    fn overridden(&self, reader: &UnitReader<'_>, policy: &ResolvedPolicy) -> Vec<Overridden> {
        let targets = policy.targets.iter();
        let overridden = targets.map(|target| {
            let Ok(targeted) = &target.targeted else {
                return Overridden::default();
            };
            let rank = (Phase::Configured, policy.created, &self.0);
            let Some(claimed) = reader.claimed_policy(&targeted.target, rank) else {
                return Overridden::default();
            };
            reader.overridden(&self.0, &targeted.target, &claimed.spec)
        });
        overridden.collect()
    }

    /// The Gateways that have no room for the policy at a target: for its networks, its answers, the number of its
    /// rules of rate limits, or the tables of its hash, which only Services and Backends have.
    fn full(
        &self,
        reader: &UnitReader<'_>,
        target: &PolicyTarget,
        gateways: &Gateways,
    ) -> FullGateways {
        let of = |kind| reader.full_gateways(kind, &self.0, gateways);
        let rate_rules = of(HolderKind::RateTables).of(Budget::GatewayRateRules);
        let policy = of(HolderKind::TrafficPolicy);
        let is_destination = matches!(target, PolicyTarget::Service(_) | PolicyTarget::Backend(_));
        let tables = is_destination.then_some(HolderKind::HashTables);
        let parts = [
            HolderKind::Networks,
            HolderKind::Answers,
            HolderKind::PathRewrite,
        ];
        let parts = parts.into_iter().chain(tables).map(of);
        parts.fold(policy.and(rate_rules), FullGateways::and)
    }

    /// The Gateways that have no room for the keys of its rate limits.
    fn full_of_keys(&self, reader: &UnitReader<'_>, gateways: &Gateways) -> FullGateways {
        let full = reader.full_gateways(HolderKind::RateTables, &self.0, gateways);
        full.of(Budget::GatewayRateTables)
    }

    /// Why the Gateways of a target do not have the policy's settings, if they have no room for them.
    fn no_room(
        &self,
        reader: &UnitReader<'_>,
        policy: &ResolvedPolicy,
        target: &PolicyReference,
    ) -> Option<Problem> {
        let targeted = target.targeted.as_ref().ok()?;
        let gateways = gateways(reader, &targeted.target);
        let full = self.full(reader, &targeted.target, &gateways);
        if full.is_empty() {
            return None;
        }
        let rank = (Phase::Configured, policy.created, &self.0);
        let claimed = reader.claimed_policy(&targeted.target, rank)?;
        let effect = if claimed.is_restricting() {
            "Every request of the target gets status 503 (policy_invalid) there"
        } else {
            "It has no effect there"
        };
        reader.room_problem(&full, "policy", effect)
    }

    /// That Gateways of a target have no room for the keys of the policy's rate limits.
    fn few_keys(
        &self,
        reader: &UnitReader<'_>,
        targeted: &TargetedPolicy,
        claimed: &ClaimedPolicy,
    ) -> Option<Problem> {
        claimed.spec.rate_limit.as_ref()?;
        let gateways = gateways(reader, &targeted.target);
        let full = self.full_of_keys(reader, &gateways);
        let least = RateLimitRule::LEAST_KEYS;
        let effect = format!(
            "Each of its rules keeps {least} keys there, and forgets those of more clients: set a smaller maxKeys"
        );
        let problem = reader.room_problem(&full, "policy's keys", &effect)?;
        Some(problem.under("spec.rateLimit"))
    }

    /// Carries the remaining settings at a target, if that carries traffic. Where a Gateway has no room for
    /// them, the target refuses every request if they restrict access. That is one small policy for each
    /// target and restriction, and other budgets limit the targets, so it always has room: without it the
    /// target would be open.
    fn carry(
        &self,
        reader: &UnitReader<'_>,
        target: &Arc<PolicyTarget>,
        claimed_policy: &ClaimedPolicy,
        effect: &mut Effect,
    ) -> bool {
        let gateways = gateways(reader, target);
        if gateways.is_empty() {
            return false;
        }
        let full = self.full(reader, target, &gateways);
        let (with_room, without) = full.split(gateways);
        let mut in_use = false;
        if !with_room.is_empty() {
            in_use = true;
            let full = self.full_of_keys(reader, &with_room);
            let (with_tables, few_keys) = full.split(with_room);
            if !with_tables.is_empty() {
                let policy = claimed_policy.at(&self.0, target);
                effect.resources.push((policy.into(), with_tables));
            }
            if !few_keys.is_empty() {
                let policy = claimed_policy.with_few_keys(&self.0, target);
                effect.resources.push((policy.into(), few_keys));
            }
        }
        if !without.is_empty() && claimed_policy.is_restricting() {
            in_use = true;
            if !claimed_policy.is_closed_by_older {
                let closing = claimed_policy.closing(&self.0, target);
                effect.closed_at.extend(without.iter().cloned());
                effect.resources.push((closing.into(), without));
            }
        }
        in_use
    }
}

/// That what a policy enforces for requests does not hold for the connections and datagrams of listeners of its
/// target, whose owner may expect it to.
fn beside_connections(
    reader: &UnitReader<'_>,
    targeted: &TargetedPolicy,
    claimed: &ClaimedPolicy,
) -> Option<Problem> {
    let spec = &claimed.spec;
    let fields = [
        ("jwt", spec.jwt.is_some()),
        ("basicAuth", spec.basic_auth.is_some()),
        ("apiKeys", spec.api_keys.is_some()),
        ("authorization", spec.authorization.is_some()),
        ("rateLimit", spec.rate_limit.is_some()),
        ("respond", spec.respond.is_some()),
    ];
    let fields = fields.into_iter().filter(|(_, is_set)| *is_set);
    let fields: Vec<&str> = fields.map(|(name, _)| name).collect();
    let first = fields
        .first()
        .filter(|_| spec.precedence == Precedence::Overrides)?;
    let (owner, only) = match &*targeted.target {
        PolicyTarget::Gateway(gateway) => (Owner::Gateway(gateway.clone()), None),
        PolicyTarget::ListenerSet(set) => (Owner::ListenerSet(set.clone()), None),
        PolicyTarget::Listener(listener) => (owner::of_listener(listener)?, Some(listener)),
        PolicyTarget::Route { .. }
        | PolicyTarget::Rule { .. }
        | PolicyTarget::Service(_)
        | PolicyTarget::Backend(_) => return None,
    };
    // Whoever may add listeners to a Gateway may add such ones.
    let sets = match &owner {
        Owner::Gateway(gateway) if only.is_none() => Some(reader.sets(gateway)),
        Owner::Gateway(_) | Owner::ListenerSet(_) => None,
    };
    let sets = sets.into_iter().flatten();
    let owners = std::iter::once(owner.clone()).chain(sets.cloned().map(Owner::ListenerSet));
    let mut named = Vec::new();
    for each in owners {
        let of_set = match &each {
            Owner::ListenerSet(set) if each != owner => format!(" of ListenerSet {set}"),
            Owner::Gateway(_) | Owner::ListenerSet(_) => String::new(),
        };
        let listeners = reader.offers(&each).map(|it| &it.listeners);
        let listeners = listeners.into_iter().flatten();
        let listeners = listeners.filter(|it| only.is_none_or(|only| *only == it.key));
        let of_bytes = listeners.filter(|it| !["HTTP", "HTTPS"].contains(&&*it.protocol));
        named.extend(of_bytes.map(|it| format!("{} ({}){of_set}", it.name, it.protocol)));
    }
    let (some, others) = named.split_at(named.len().min(MOST_NAMED));
    if some.is_empty() {
        return None;
    }
    let more = match others.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "connections and datagrams of these listeners are no requests, and pass without {}: {}{more}. Set networks, \
         and limits of connections, for them",
        fields.join(", "),
        some.join(", "),
    );
    Some(Problem::new(
        Reason::Invalid,
        format!("spec.{first}"),
        message,
    ))
}

/// The outcome where the target is none.
fn without_target<'a>(
    reference: &'a PolicyTargetReference,
    problem: &'a Problem,
) -> TargetOutcome<'a> {
    TargetOutcome {
        reference,
        refusal: Some(problem),
        lost: &[],
        overridden: &NONE_OVERRIDDEN,
        inapplicable: Cow::Borrowed(&[]),
        inapplicable_are: NO_EFFECT,
        effect: None,
        is_left: false,
        refuses_all: false,
        in_use: false,
    }
}

/// Listeners that a message names.
const MOST_NAMED: usize = 4;

/// Why a policy has no effect at a target, beside what was found with the target itself.
#[derive(Clone, Copy)]
struct WhyNot<'a> {
    no_room: Option<&'a Problem>,
    beside: Option<&'a BesideFilters>,
}

/// What rate limits are where there is no room for their keys.
const FEW_KEYS: &str = "rate limits keep fewer keys here";
