//! The backends that the settings of a `TrafficPolicy` name (sources of keys for tokens, page servers), by the
//! Gateways whose requests it covers. Their Services are carried for that alone, before the policies of those
//! Services are evaluated.

use std::collections::BTreeSet;
use std::sync::Arc;

use xds::model::{ObjectName, PolicyTarget, Transport};

use super::precedence::Phase;
use crate::backend::upstream::{Destination, Upstream};
use crate::engine::outcome::Gateways;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::owner::Owner;
use crate::route::name::{RouteKind, RouteName};
use crate::units::TokensUnit;

impl Unit for TokensUnit {
    type Output = BTreeSet<(Destination, ObjectName)>;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<Self::Output> {
        let policy = reader
            .policy(&self.0)
            .filter(|policy| policy.names_backends)?;
        let mut users = BTreeSet::new();
        for target in &policy.targets {
            let Ok(targeted) = &target.targeted else {
                continue;
            };
            let rank = (Phase::Configured, policy.created, &self.0);
            let claimed_policy = reader.claimed_policy(&targeted.target, rank);
            let claimed = claimed_policy.into_iter();
            let named = claimed.flat_map(|claimed| claimed.spec.named_backends());
            let named = named.filter_map(|it| Destination::of(it, Transport::Tcp));
            let named: Vec<Destination> = named.collect();
            if named.is_empty() || is_upstream(&targeted.target) {
                continue;
            }
            for gateway in &*gateways(reader, &targeted.target) {
                let named = named.iter().cloned();
                users.extend(named.map(|backend| (backend, gateway.clone())));
            }
        }
        Some(users)
    }

    fn publish(
        &self,
        old: Option<&Self::Output>,
        new: Option<&Self::Output>,
        changes: &mut Changes<'_>,
    ) {
        let none = BTreeSet::new();
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        changes.users(old.iter(), new.iter());
    }

    fn is_alive(&self, state: &State) -> bool {
        let policies = &state.objects.store.traffic_policies;
        policies.contains_key(&self.0)
    }
}

fn is_upstream(target: &PolicyTarget) -> bool {
    matches!(target, PolicyTarget::Service(_) | PolicyTarget::Backend(_))
}

/// The Gateways that carry a target; empty if it carries no traffic.
pub(crate) fn gateways(reader: &UnitReader<'_>, target: &PolicyTarget) -> Gateways {
    match target {
        PolicyTarget::Gateway(gateway) => {
            let carried = reader.is_carried(gateway).then(|| gateway.clone());
            carried.into_iter().collect()
        }
        PolicyTarget::ListenerSet(set) => {
            let owner = Owner::ListenerSet(set.clone());
            let gateway = gateway_of(reader, &owner);
            let carried = gateway.filter(|gateway| reader.carries_set(gateway, set));
            carried.cloned().into_iter().collect()
        }
        PolicyTarget::Listener(listener) => {
            let Some(owner) = crate::objects::owner::of_listener(listener) else {
                return Gateways::default();
            };
            let gateway = gateway_of(reader, &owner);
            let carried = gateway.filter(|it| reader.carries_listener(it, listener));
            carried.cloned().into_iter().collect()
        }
        PolicyTarget::Route { kind, object } => of_route(reader, kind, object, None),
        PolicyTarget::Rule { kind, object, rule } => of_route(reader, kind, object, Some(rule)),
        PolicyTarget::Service(key) => reader.users(&Upstream::Service(key.clone())),
        PolicyTarget::Backend(key) => reader.users(&Upstream::Backend(key.clone())),
    }
}

/// The Gateway of a listener's owner.
pub(crate) fn gateway_of<'a>(reader: &UnitReader<'a>, owner: &Owner) -> Option<&'a ObjectName> {
    reader.offers(owner)?.gateway.as_ref().ok()
}

fn of_route(
    reader: &UnitReader<'_>,
    kind: &str,
    object: &ObjectName,
    rule: Option<&String>,
) -> Gateways {
    let route = RouteKind::named(kind).map(|kind| RouteName {
        kind,
        name: object.clone(),
    });
    let carried = route.and_then(|route| reader.carried_route(route));
    let carried = carried.filter(|carried| rule.is_none_or(|it| carried.rules.contains(&**it)));
    carried.map_or_else(Gateways::default, |carried| Arc::clone(&carried.gateways))
}
