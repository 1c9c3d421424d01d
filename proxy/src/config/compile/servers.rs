//! The authorization servers that a listener asks, and where they are.

use std::sync::Arc;

use xds::model::{Listener, ObjectName, Transport};

use super::targets::{ClusterUsers, Targets};
use crate::config::{ClusterIndex, ExternalAuth};

/// The servers of a listener, and the clusters that these are.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) list: Arc<[ExternalAuth]>,
    /// The listener's Gateway.
    pub(super) gateway: ObjectName,
    clusters: Vec<ClusterIndex>,
}

impl Servers {
    pub(super) fn compile(listener: &Listener, targets: &Targets) -> Self {
        let gateway = &listener.gateway;
        let servers = listener.external_auth.iter();
        let list: Arc<[ExternalAuth]> = servers
            .map(|auth| {
                let cluster = targets.find(&auth.target, Transport::Tcp, gateway);
                ExternalAuth::compile(auth, cluster)
            })
            .collect();
        let clusters = list.iter().filter_map(|server| server.cluster.ok());
        Self {
            clusters: clusters.collect(),
            gateway: gateway.clone(),
            list,
        }
    }

    /// Notes what it uses. Returns the clusters that its Gateway has not used before.
    pub(super) fn note(&self, users: &mut ClusterUsers) -> Vec<ClusterIndex> {
        let mut clusters = self.clusters.clone();
        clusters.retain(|cluster| users.add(*cluster, &self.gateway));
        clusters
    }

    /// Gives back what it uses. Returns the clusters that its Gateway uses no more.
    pub(super) fn give_back(self, users: &mut ClusterUsers) -> Vec<ClusterIndex> {
        let mut clusters = self.clusters;
        clusters.retain(|cluster| users.remove(*cluster, &self.gateway));
        clusters
    }
}
