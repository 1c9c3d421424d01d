//! What users are told about their objects: the statuses of Kubernetes, in its JSON form.
//!
//! `resolve` finds out what is wrong, these types say so. A condition has no `lastTransitionTime`:
//! whoever writes it to a cluster knows what stood there before.

mod backend;
mod backend_tls;
mod condition;
mod gateway;
mod listener_set;
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
use crate::resolve::policy::ResolvedPolicy;
use crate::resolve::route::Route;
use crate::store::ObjectRef;

pub use backend::BackendStatus;
pub(crate) use condition::Conditions;
pub use condition::{Blame, Condition, ConditionStatus, ConditionType, Reason};
pub use gateway::{GatewayStatus, ListenerStatus};
pub use listener_set::ListenerSetStatus;
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
    /// Of ListenerSets.
    #[serde(serialize_with = "by_text")]
    pub listener_sets: BTreeMap<ObjectName, ListenerSetStatus>,
    /// Of routes of every kind.
    #[serde(serialize_with = "by_text")]
    pub routes: BTreeMap<ObjectRef, RouteStatus>,
    /// Of our backends.
    #[serde(serialize_with = "by_text")]
    pub backends: BTreeMap<ObjectName, BackendStatus>,
    /// Of our traffic policies.
    #[serde(serialize_with = "by_text")]
    pub traffic_policies: BTreeMap<ObjectName, PolicyStatus>,
    /// Of BackendTLSPolicy objects.
    #[serde(serialize_with = "by_text")]
    pub backend_tls_policies: BTreeMap<ObjectName, PolicyStatus>,
}

impl Statuses {
    pub(crate) fn of(
        world: &World<'_>,
        gateways: &Gateways<'_>,
        routes: &[Route<'_>],
        policies: &[ResolvedPolicy<'_>],
        model: &Model,
    ) -> Self {
        let controller_name = &world.options.controller_name;
        let in_use = LazyCell::new(|| InUse::of(model));
        let routes = routes.iter().map(|route| {
            let status = RouteStatus::of(route, controller_name);
            (route.object_ref(), status)
        });
        let policies = policies.iter().filter(|policy| !policy.targets.is_empty());
        let policies = policies.map(|policy| {
            let status = PolicyStatus::of(policy, controller_name, &in_use);
            (policy.name.clone(), status)
        });
        let backends = world.backends.0.iter().map(|(name, backend)| {
            let object = &world.store.backends[*name];
            let generation = object.metadata.generation;
            let status = BackendStatus::of(generation, backend);
            ((*name).clone(), status)
        });
        let sets = gateways.sets.iter();
        let listener_sets = sets
            .map(|set| (set.name.clone(), ListenerSetStatus::of(set, gateways)))
            .collect();
        Self {
            gateways: gateway_statuses(world, gateways, &listener_sets),
            listener_sets,
            routes: routes.collect(),
            backends: backends.collect(),
            traffic_policies: policies.collect(),
            backend_tls_policies: backend_tls::statuses(world, model),
        }
    }
}

/// On one machine, Gateways of other classes too: nobody else would tell the user.
fn gateway_statuses(
    world: &World<'_>,
    gateways: &Gateways<'_>,
    sets: &BTreeMap<ObjectName, ListenerSetStatus>,
) -> BTreeMap<ObjectName, GatewayStatus> {
    let mut attached = vec![0; gateways.list.len()];
    for set in &gateways.sets {
        if let Ok(gateway) = set.gateway
            && sets[set.name].is_accepted()
        {
            attached[gateway] += 1;
        }
    }
    let ours = gateways.list.iter().zip(attached);
    let mut statuses: BTreeMap<_, _> = ours
        .map(|(gateway, attached)| {
            let status = GatewayStatus::of(gateway, attached);
            (gateway.name.clone(), status)
        })
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

fn by_text<S, K, T>(map: &BTreeMap<K, T>, serializer: S) -> Result<S::Ok, S::Error>
where
    S: serde::Serializer,
    K: ToString,
    T: Serialize,
{
    serializer.collect_map(map.iter().map(|(name, status)| (name.to_string(), status)))
}
