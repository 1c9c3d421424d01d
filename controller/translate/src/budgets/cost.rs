//! What a policy, backend or Service adds to the view of each Gateway that uses it.

use std::collections::BTreeMap;
use std::sync::Arc;

use xds::encode;
use xds::model::{
    BackendKey, NetworkPolicy, ObjectName, PathRewrite, PolicySpec, PolicyTarget, Resource,
    ServiceKey,
};

use super::fair_share::sum;
use super::rooms::{Holder, HolderCosts, HolderKind, RoomCost};
use crate::backend::api::{Backend, InferencePool, Service, XBackend};
use crate::backend::own::with_tls;
use crate::backend::upstream::Upstream;
use crate::backend::x_backend_unit::client_certificate;
use crate::backend::{pool, service, x_backend};
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::policy::api::TrafficPolicy;
use crate::policy::fields::is_without_effect;
use crate::policy::precedence::{ClaimedPolicy, Phase};
use crate::policy::tokens::gateways;
use crate::policy::traffic::ResolvedPolicy;
use crate::units::{CostUnit, RoomUnit};

/// What a holder takes.
#[derive(Debug, PartialEq)]
pub(crate) struct HolderCost {
    created: i64,
    /// At each Gateway.
    costs: Box<[(ObjectName, RoomCost)]>,
}

impl Unit for CostUnit {
    type Output = HolderCost;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<HolderCost> {
        let Holder { kind, name } = &self.0;
        let cost = match kind {
            HolderKind::TrafficPolicy => of_policy(reader, name, cost_at_target),
            HolderKind::Networks => of_policy(reader, name, networks_at_target),
            HolderKind::RateTables => of_policy(reader, name, rate_tables_at_target),
            HolderKind::Answers => of_policy(reader, name, answers_at_target),
            HolderKind::PathRewrite => of_policy(reader, name, path_rewrite_at_target),
            HolderKind::HashTables => of_policy(reader, name, hash_tables_at_target),
            HolderKind::Backend => of_backend(reader, name),
            HolderKind::XBackend => of_x_backend(reader, name),
            HolderKind::Pool => of_pool(reader, name),
            HolderKind::Service => of_service(reader, name),
        };
        cost.filter(|it| !it.costs.is_empty())
    }

    fn publish(
        &self,
        old: Option<&HolderCost>,
        new: Option<&HolderCost>,
        changes: &mut Changes<'_>,
    ) {
        let rooms = &mut changes.claims.rooms;
        for gateway in rooms.replace(&self.0, costs(old), costs(new)) {
            changes.run(RoomUnit(gateway, self.0.kind.room()));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        let (store, name) = (&state.objects.store, &self.0.name);
        match self.0.kind {
            HolderKind::TrafficPolicy
            | HolderKind::Networks
            | HolderKind::RateTables
            | HolderKind::Answers
            | HolderKind::PathRewrite
            | HolderKind::HashTables => store.traffic_policies.contains_key(name),
            HolderKind::Backend => store.backends.contains_key(name),
            HolderKind::XBackend => store.x_backends.contains_key(name),
            HolderKind::Pool => store.inference_pools.contains_key(name),
            HolderKind::Service => store.services.contains_key(name),
        }
    }
}

fn costs(cost: Option<&HolderCost>) -> Option<HolderCosts<'_>> {
    cost.map(|it| (it.created, &*it.costs))
}

/// The same at each Gateway.
fn at_each(created: i64, users: &[ObjectName], cost: RoomCost) -> HolderCost {
    let costs = users.iter().map(|gateway| (gateway.clone(), cost));
    HolderCost {
        created,
        costs: costs.collect(),
    }
}

fn bytes(resource: &Resource) -> u64 {
    encode::resource(resource).len() as u64
}

/// What a policy takes at one more target, beside what it takes at others.
type AtTarget = fn(
    &UnitReader<'_>,
    (&ObjectName, &PolicyTarget),
    &ClaimedPolicy,
    Option<RoomCost>,
) -> Option<RoomCost>;

/// What a policy takes at its targets, as `cost` says for each.
fn of_policy(reader: &UnitReader<'_>, name: &ObjectName, cost: AtTarget) -> Option<HolderCost> {
    reader.object::<TrafficPolicy>(name)?;
    let policy = reader.policy(name)?;
    let mut costs: BTreeMap<ObjectName, RoomCost> = BTreeMap::new();
    for (target, claimed) in claimed(reader, name, policy) {
        if is_without_effect(&claimed.spec) && !claimed.lost.is_empty() {
            continue;
        }
        let users = gateways(reader, &target);
        if users.is_empty() {
            continue;
        }
        for gateway in &*users {
            let before = costs.get(gateway).copied();
            if let Some(cost) = cost(reader, (name, &target), claimed, before) {
                costs.insert(gateway.clone(), cost);
            }
        }
    }
    Some(HolderCost {
        created: policy.created,
        costs: costs.into_iter().collect(),
    })
}

/// What a policy takes at a target and others, without its networks and bodies.
#[expect(
    clippy::unnecessary_wraps,
    reason = "as that of networks, which not all policies have"
)]
fn cost_at_target(
    _: &UnitReader<'_>,
    (name, target): (&ObjectName, &PolicyTarget),
    claimed: &ClaimedPolicy,
    before: Option<RoomCost>,
) -> Option<RoomCost> {
    let all = bytes(&claimed.at(name, target).into());
    let networks = claimed.spec.networks.as_ref();
    let networks = networks.map_or(0, NetworkPolicy::encoded_bytes) as u64;
    let [_, bodies] = bodies(&claimed.spec);
    let own = [1, all.saturating_sub(networks).saturating_sub(bodies)];
    Some(sum(before.unwrap_or_default(), own))
}

/// The networks of a policy, which are the same at all targets: each is sent them, and proxies keep them once.
fn networks_at_target(
    _: &UnitReader<'_>,
    _: (&ObjectName, &PolicyTarget),
    claimed: &ClaimedPolicy,
    before: Option<RoomCost>,
) -> Option<RoomCost> {
    let networks = claimed.spec.networks.as_ref()?;
    let sent = networks.encoded_bytes() as u64;
    let kept = networks.listed_bytes() + networks.range_bytes();
    let [len, bytes] = before.unwrap_or([networks.len() as u64, kept as u64]);
    Some([len, bytes + sent])
}

/// The rules of rate limits, and the bytes of their keys: each target has its own.
fn rate_tables_at_target(
    _: &UnitReader<'_>,
    _: (&ObjectName, &PolicyTarget),
    claimed: &ClaimedPolicy,
    before: Option<RoomCost>,
) -> Option<RoomCost> {
    let rules = claimed.spec.rate_limit.as_ref()?.rules.iter();
    let tables = rules.map(|rule| [1, rule.table_bytes()]);
    Some(tables.fold(before.unwrap_or_default(), sum))
}

/// The bodies of answers: over xDS, each target has its own.
fn answers_at_target(
    _: &UnitReader<'_>,
    _: (&ObjectName, &PolicyTarget),
    claimed: &ClaimedPolicy,
    before: Option<RoomCost>,
) -> Option<RoomCost> {
    let own = bodies(&claimed.spec);
    (own != [0, 0]).then(|| sum(before.unwrap_or_default(), own))
}

/// The number of the bodies of a policy's answers and pages, and their bytes.
fn bodies(spec: &PolicySpec) -> RoomCost {
    let answer = spec.respond.iter().map(|it| it.content.bytes());
    let pages = spec.error_pages.iter().flatten();
    let pages = pages
        .flat_map(|page| page.content.bodies())
        .map(|it| it.body.len());
    let bodies = answer.chain(pages).filter(|bytes| *bytes > 0);
    bodies.map(|bytes| [1, bytes as u64]).fold([0, 0], sum)
}

/// The rewrite of paths, which proxies compile for each target.
fn path_rewrite_at_target(
    _: &UnitReader<'_>,
    _: (&ObjectName, &PolicyTarget),
    claimed: &ClaimedPolicy,
    before: Option<RoomCost>,
) -> Option<RoomCost> {
    let PathRewrite::Rule(rule) = claimed.spec.path_rewrite.as_ref()? else {
        return before;
    };
    let own = [1, rule.compiled_bytes() as u64];
    Some(sum(before.unwrap_or_default(), own))
}

/// The tables of endpoints, which proxies have for each port of a Service that routes use.
fn hash_tables_at_target(
    reader: &UnitReader<'_>,
    (_, target): (&ObjectName, &PolicyTarget),
    claimed: &ClaimedPolicy,
    before: Option<RoomCost>,
) -> Option<RoomCost> {
    let hash = claimed.spec.balance.hash.as_ref()?;
    let tables = match target {
        PolicyTarget::Service(key) => reader.ports_in_use(key).len() as u64,
        _ => 1,
    };
    let own = [tables, tables * hash.table_bytes()];
    Some(sum(before.unwrap_or_default(), own))
}

/// What a policy has at each of its targets.
fn claimed<'a>(
    reader: &UnitReader<'a>,
    name: &ObjectName,
    policy: &ResolvedPolicy,
) -> Vec<(Arc<PolicyTarget>, &'a ClaimedPolicy)> {
    let targeted = policy.targets.iter();
    let targeted = targeted.filter_map(|it| it.targeted.as_ref().ok());
    let targeted = targeted.map(|it| (Phase::Configured, Arc::clone(&it.target)));
    let refused = policy.refused.iter();
    let refused = refused.map(|it| (Phase::Configured, Arc::new(it.clone())));
    let denied = policy.denied.iter();
    let denied = denied.map(|it| (Phase::Denied(policy.restricts), Arc::new(it.clone())));
    let all = targeted.chain(refused).chain(denied);
    let all = all.filter_map(|(phase, target)| {
        let claimed = reader.claimed_policy(&target, (phase, policy.created, name))?;
        Some((target, claimed))
    });
    all.collect()
}

fn of_backend(reader: &UnitReader<'_>, name: &ObjectName) -> Option<HolderCost> {
    let object = reader.object::<Backend>(name)?;
    let users = reader.users(&Upstream::Backend(BackendKey::new(name)));
    if users.is_empty() {
        return None;
    }
    let lowered = reader.lowered_backend(name)?;
    let backend = (*lowered.lowered).as_ref().ok()?;
    let cost = [1, bytes(&with_tls(reader, backend).into())];
    Some(at_each(object.metadata.created(), &users, cost))
}

fn of_x_backend(reader: &UnitReader<'_>, name: &ObjectName) -> Option<HolderCost> {
    let users = reader.users(&Upstream::Backend(BackendKey::of_x_backend(name)));
    if users.is_empty() {
        return None;
    }
    let object = reader.object::<XBackend>(name)?;
    let lowered = x_backend::lower(reader, name, object);
    // The certificate is a policy of its own.
    let certificate = lowered.certificate;
    let certificate = certificate.map(|it| bytes(&client_certificate(name, it).into()));
    let cost = [
        1,
        bytes(&lowered.backend.into()) + certificate.unwrap_or_default(),
    ];
    Some(at_each(object.metadata.created(), &users, cost))
}

fn of_pool(reader: &UnitReader<'_>, name: &ObjectName) -> Option<HolderCost> {
    let users = reader.users(&Upstream::Backend(BackendKey::of_pool(name)));
    if users.is_empty() {
        return None;
    }
    let object = reader.object::<InferencePool>(name)?;
    let pool = pool::lower(reader, name, object);
    let cost = [1, bytes(&pool.backend.into())];
    Some(at_each(object.metadata.created(), &users, cost))
}

fn of_service(reader: &UnitReader<'_>, name: &ObjectName) -> Option<HolderCost> {
    let key = ServiceKey::new(name);
    let ports = reader.ports_in_use(&key);
    let users = reader.users(&Upstream::Service(key));
    if users.is_empty() {
        return None;
    }
    let object = reader.object::<Service>(name)?;
    let cost = service::cost(reader, name, object, &ports);
    Some(at_each(object.metadata.created(), &users, cost))
}
