//! The authorization servers of a listener and its pages for errors, with the clusters that they name.

use std::sync::Arc;

use xds::model::{Listener, ObjectName, Transport};

use super::targets::{ClusterUsers, Targets};
use crate::config::{ClusterIndex, ExternalAuth, PagesInForce};

/// The servers of a listener, and the clusters that these are.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) list: Arc<[ExternalAuth]>,
    /// Pages in the place of the contents of errors, of requests that no rule serves.
    pub(super) pages: Option<PagesInForce>,
    pub(super) gateway: ObjectName,
    clusters: Vec<ClusterIndex>,
}

impl Servers {
    pub(super) fn compile(
        listener: &Listener,
        targets: &Targets,
        pages: Option<PagesInForce>,
    ) -> Self {
        let gateway = &listener.gateway;
        let servers = listener.external_auth.iter();
        let list: Arc<[ExternalAuth]> = servers
            .map(|auth| {
                let cluster = targets.find(&auth.target, Transport::Tcp, gateway);
                ExternalAuth::compile(auth, cluster)
            })
            .collect();
        let clusters = list.iter().filter_map(|server| server.cluster.ok());
        let of_pages = pages.iter().flat_map(PagesInForce::clusters);
        Self {
            clusters: clusters.chain(of_pages).collect(),
            pages,
            gateway: gateway.clone(),
            list,
        }
    }

    /// Counts the references. Returns clusters that the Gateway did not use before.
    pub(super) fn count_references(&self, users: &mut ClusterUsers) -> Vec<ClusterIndex> {
        let mut clusters = self.clusters.clone();
        clusters.retain(|cluster| users.add(*cluster, &self.gateway));
        clusters
    }

    /// Releases the references. Returns clusters that the Gateway no longer uses.
    pub(super) fn remove_reference(self, users: &mut ClusterUsers) -> Vec<ClusterIndex> {
        let mut clusters = self.clusters;
        clusters.retain(|cluster| users.remove(*cluster, &self.gateway));
        clusters
    }
}
