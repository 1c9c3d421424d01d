//! The clusters of services and backends, by the keys that routes refer to, and the Gateways that use
//! them.

use std::collections::HashMap;
use std::sync::Arc;

use xds::model::{BackendTls, Certificate, InvalidBackend, Model, ObjectName, Target, Transport};
use xds::small_map::SmallMap;

use super::ids::Slots;
use super::policy::Policies;
use crate::config::ClusterIndex;

/// Where services and backends are among the clusters.
#[derive(Debug, Default)]
pub(super) struct Targets {
    by_key: HashMap<Arc<str>, Vec<TargetCluster>>,
    pub(super) slots: Slots,
    /// The distinct client credentials of the Gateways, for backends that use TLS.
    shown: Vec<ClientCredential>,
    by_gateway: HashMap<ObjectName, usize>,
}

/// A cluster of a service or backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TargetCluster {
    /// The port of a service.
    pub(super) port: Option<Port>,
    /// Index of the client credential that is presented to it; 0 without TLS.
    pub(super) shown: usize,
    pub(super) index: ClusterIndex,
}

/// Transport and number of a service's port.
pub(super) type Port = (Transport, u16);

/// The credentials of connections to a cluster, so that Gateways with different certificates
/// share none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientCredential {
    pub(super) certificate: Option<Certificate>,
    /// The first Gateway that presents it; `None` for the first of all.
    pub(super) gateway: Option<ObjectName>,
}

/// How the clusters of a service or backend changed.
#[derive(Debug, Default)]
pub(super) struct TargetChange {
    /// The clusters that exist already.
    pub(super) places: Vec<TargetCluster>,
    /// Clusters that no longer exist.
    pub(super) gone: Vec<ClusterIndex>,
    /// Whether routes find other clusters than before.
    pub(super) is_other: bool,
}

impl Targets {
    /// Updates the client certificates of the Gateways. Returns whether they changed.
    pub(super) fn show(&mut self, model: &Model, policies: &Policies) -> bool {
        let (mut all, mut by_gateway) = (Vec::<ClientCredential>::new(), HashMap::new());
        for gateway in model.binds.values().map(|bind| &bind.gateway) {
            let own = policies.of_gateway(gateway);
            let certificate = own.field(|spec| spec.client_certificate.as_ref());
            let mut known = all.iter();
            let known = known.position(|shown| shown.certificate.as_ref() == certificate);
            let position = known.unwrap_or_else(|| {
                all.push(ClientCredential {
                    certificate: certificate.cloned(),
                    gateway: (!all.is_empty()).then(|| gateway.clone()),
                });
                all.len() - 1
            });
            by_gateway.insert(gateway.clone(), position);
        }
        let is_other = self.shown != all || self.by_gateway != by_gateway;
        (self.shown, self.by_gateway) = (all, by_gateway);
        is_other
    }

    /// Assigns clusters to the ports of a service, or to a backend: with TLS, one for each client
    /// credential. Clusters that remain keep their index.
    pub(super) fn assign(&mut self, key: &Arc<str>, model: &Model) -> TargetChange {
        let mut pairs: Vec<(Option<Port>, usize)> = Vec::new();
        let mut add_place = |port, tls: Option<&BackendTls>| {
            let differing = if tls.is_some() { self.shown.len() } else { 1 };
            let places = (0..differing.max(1)).map(|shown| (port, shown));
            pairs.extend(places);
        };
        if let Some(service) = model.services.get(&**key) {
            for port in &service.ports {
                add_place(Some((port.transport, port.port.get())), port.tls.as_deref());
            }
        }
        if let Some(backend) = model.backends.get(&**key) {
            add_place(None, backend.tls.as_ref());
        }
        let mut before = self.by_key.remove(key).unwrap_or_default();
        let mut replaced = TargetChange::default();
        for (port, shown) in pairs {
            let is_same = |place: &TargetCluster| (place.port, place.shown) == (port, shown);
            if replaced.places.iter().any(is_same) {
                continue;
            }
            let place = before.iter().position(is_same).map(|at| before.remove(at));
            replaced.is_other |= place.is_none();
            replaced.places.push(place.unwrap_or_else(|| TargetCluster {
                port,
                shown,
                index: ClusterIndex(self.slots.take()),
            }));
        }
        replaced.is_other |= !before.is_empty();
        for place in before {
            self.slots.remove_reference(place.index.0);
            replaced.gone.push(place.index);
        }
        if !replaced.places.is_empty() {
            self.by_key.insert(Arc::clone(key), replaced.places.clone());
        }
        replaced
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.shown.is_empty()
    }

    /// The client credential that is presented to a cluster over TLS.
    pub(super) fn shown(&self, place: TargetCluster) -> Option<&ClientCredential> {
        self.shown.get(place.shown)
    }

    /// Where the target of a Gateway's route is; of a service, a port of this transport.
    pub(super) fn find(
        &self,
        target: &Target,
        transport: Transport,
        gateway: &ObjectName,
    ) -> Result<ClusterIndex, InvalidBackend> {
        let (key, port) = match target {
            Target::Service { service, port } => (service.as_str(), Some((transport, *port))),
            Target::Backend(key) => (key.as_str(), None),
            Target::Invalid { why, .. } => return Err(*why),
        };
        let places = self.by_key.get(key).map_or(&[][..], Vec::as_slice);
        let find = |shown| {
            let mut places = places.iter();
            places.find(|place| (place.port, place.shown) == (port, shown))
        };
        // Without TLS no certificate is presented, so one cluster is enough.
        let shown = self.by_gateway.get(gateway).copied().unwrap_or_default();
        let found = find(shown).or_else(|| find(0));
        found
            .map(|place| place.index)
            .ok_or(InvalidBackend::NotFound)
    }
}

/// Which Gateways send requests to each cluster, according to the rules.
#[derive(Debug, Default)]
pub(super) struct ClusterUsers(HashMap<usize, SmallMap<ObjectName, u32>>);

impl ClusterUsers {
    /// Records a use. Returns whether it is the Gateway's first one.
    pub(super) fn add(&mut self, cluster: ClusterIndex, gateway: &ObjectName) -> bool {
        let gateways = self.0.entry(cluster.0).or_default();
        let Some(uses) = gateways.get_mut(gateway) else {
            gateways.insert(gateway.clone(), 1);
            return true;
        };
        *uses += 1;
        false
    }

    /// Ends a use. Returns whether it was the Gateway's last one.
    pub(super) fn remove(&mut self, cluster: ClusterIndex, gateway: &ObjectName) -> bool {
        let Some(gateways) = self.0.get_mut(&cluster.0) else {
            return false;
        };
        let Some(uses) = gateways.get_mut(gateway) else {
            return false;
        };
        *uses -= 1;
        let is_last = *uses == 0;
        if is_last {
            gateways.remove(gateway);
        }
        if gateways.is_empty() {
            self.0.remove(&cluster.0);
        }
        is_last
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The Gateways that send requests to a cluster, by name.
    pub(super) fn of(&self, cluster: ClusterIndex) -> impl Iterator<Item = &ObjectName> {
        self.0.get(&cluster.0).into_iter().flat_map(SmallMap::keys)
    }

    /// The clusters that a Gateway sends requests to.
    pub(super) fn clusters_of(&self, gateway: &ObjectName) -> impl Iterator<Item = ClusterIndex> {
        let clusters = self.0.iter();
        clusters
            .filter(move |(_, gateways)| gateways.get(gateway).is_some())
            .map(|(index, _)| ClusterIndex(*index))
    }
}
