//! What the user is told about his objects: the statuses of Kubernetes, in its JSON form.
//!
//! `resolve` finds out what is wrong, these types say so. A condition has no `lastTransitionTime`:
//! whoever writes it to a cluster knows what stood there before.

mod backend;
mod condition;
mod gateway;
mod policy;
mod route;
mod unhappy;

use std::cell::LazyCell;
use std::collections::BTreeMap;

use serde::Serialize;
use xds::model::{Model, ObjectName};

use crate::lower::in_use::InUse;
use crate::options::Place;
use crate::resolve::World;
use crate::resolve::gateway::Gateways;
use crate::resolve::http_route::HttpRoute;
use crate::resolve::policy::ResolvedPolicy;

pub use backend::BackendStatus;
pub(crate) use condition::Conditions;
pub use condition::{Blame, Condition, ConditionStatus, ConditionType, Reason};
pub use gateway::{GatewayStatus, ListenerStatus};
pub use policy::{AncestorReference, PolicyAncestorStatus, PolicyStatus};
pub use route::{RouteParentStatus, RouteStatus};
pub use unhappy::Unhappy;

/// The statuses of all objects that are ours, by kind and name.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Statuses {
    /// Of Gateways.
    #[serde(serialize_with = "by_text")]
    pub gateways: BTreeMap<ObjectName, GatewayStatus>,
    /// Of HTTPRoute objects.
    #[serde(serialize_with = "by_text")]
    pub http_routes: BTreeMap<ObjectName, RouteStatus>,
    /// Of our backends.
    #[serde(serialize_with = "by_text")]
    pub backends: BTreeMap<ObjectName, BackendStatus>,
    /// Of our traffic policies.
    #[serde(serialize_with = "by_text")]
    pub traffic_policies: BTreeMap<ObjectName, PolicyStatus>,
}

impl Statuses {
    pub(crate) fn of(
        world: &World<'_>,
        gateways: &Gateways<'_>,
        routes: &[HttpRoute<'_>],
        policies: &[ResolvedPolicy<'_>],
        model: &Model,
    ) -> Self {
        let controller_name = &world.options.controller_name;
        let in_use = LazyCell::new(|| InUse::of(model));
        let routes = routes.iter().map(|route| {
            let status = RouteStatus::of(route, controller_name);
            (route.name.clone(), status)
        });
        let policies = policies.iter().filter(|policy| !policy.targets.is_empty());
        let policies = policies.map(|policy| {
            let status = PolicyStatus::of(policy, controller_name, &in_use);
            (policy.name.clone(), status)
        });
        let backends = world.backends.0.iter().map(|(name, lowered)| {
            let object = &world.store.backends[*name];
            let generation = object.metadata.generation;
            let status = BackendStatus::of(generation, lowered.as_ref().err());
            ((*name).clone(), status)
        });
        Self {
            gateways: gateway_statuses(world, gateways),
            http_routes: routes.collect(),
            backends: backends.collect(),
            traffic_policies: policies.collect(),
        }
    }
}

/// On one machine, Gateways of other classes too: nobody else would tell the user.
fn gateway_statuses(
    world: &World<'_>,
    gateways: &Gateways<'_>,
) -> BTreeMap<ObjectName, GatewayStatus> {
    let ours = gateways.list.iter();
    let mut statuses: BTreeMap<_, _> = ours
        .map(|gateway| (gateway.name.clone(), GatewayStatus::of(gateway)))
        .collect();
    if let Place::Machine { .. } = world.options.place {
        for (name, gateway) in &world.store.gateways {
            let classes = &world.options.classes;
            let foreign = || GatewayStatus::of_foreign(gateway, classes);
            statuses.entry(name.clone()).or_insert_with(foreign);
        }
    }
    statuses
}

fn by_text<S, T>(map: &BTreeMap<ObjectName, T>, serializer: S) -> Result<S::Ok, S::Error>
where
    S: serde::Serializer,
    T: Serialize,
{
    serializer.collect_map(map.iter().map(|(name, status)| (name.to_string(), status)))
}
