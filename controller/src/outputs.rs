//! What the parts of the controller hand to each other. Each value has one writer and one follower.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;
use translate::api::GatewayAddress;
use translate::status::Status;
use translate::{Infrastructure, ObjectRef};
use xds::delta::{Publication, Views};
use xds::model::{ObjectName, ResourceKey};

use crate::board::Board;
use crate::deploy::ports::Port;
use crate::status::Deployment;

/// Everything that is handed over.
#[derive(Debug, Default)]
pub struct Outputs {
    /// What proxies are sent: from translation to the xDS server.
    pub published: Published,
    /// What statuses should say, our own entries of them: from translation to the status writer.
    pub statuses: Board<ObjectRef, Arc<Status>>,
    /// Whether translation has handed over the first complete result. Until then, an object without a
    /// status is one that nobody has judged yet.
    pub translated: watch::Sender<bool>,
    /// What stands in the cluster, of objects that have a status: from the watches to the status writer.
    pub observed: Board<ObjectRef, Arc<Observed>>,
    /// Objects that are refused because they are invalid, and why: from the watches to the status writer.
    /// Their last valid version, if there was one, stays in force.
    pub invalid: Board<ObjectRef, Arc<str>>,
    /// What each Gateway is to run on: from translation to the deployer.
    pub infrastructure: Board<ObjectName, Arc<Infrastructure>>,
    /// `spec` of each `GatewayParameters` object: from the watches to the deployer.
    pub parameters: Board<ObjectName, Arc<Value>>,
    /// The addresses of each Gateway: from the deployer to translation.
    pub addresses: Board<ObjectName, Vec<GatewayAddress>>,
    /// The UID of each Gateway that is there and not being deleted: from the watches to the deployer.
    pub gateways: Board<ObjectName, Arc<str>>,
    /// The ports that the proxies of each Gateway listen on: from translation to the deployer.
    pub ports: Board<ObjectName, BTreeSet<Port>>,
    /// Whether the deployer knows the addresses of all Gateways. Until then, a Gateway without one may
    /// have lost nothing.
    pub addresses_known: watch::Sender<bool>,
    /// How far the deployment of each Gateway is: from the deployer to the status writer.
    pub deployments: Board<ObjectName, Deployment>,
    /// What the proxies of each Gateway have put into force: from the xDS server to the status writer.
    pub acknowledgements: Board<ObjectName, Arc<Acknowledgements>>,
    /// The certificate authorities that proxies are to trust (PEM), which the deployer puts beside each
    /// proxy: from the xDS server. Empty where it speaks no TLS, and until they are known.
    pub authorities: watch::Sender<Arc<str>>,
}

/// An object as it stands in the cluster, as far as a write to its status needs it. It is no part of
/// what is translated: a write of ours would otherwise cause a translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// Its UID.
    pub uid: String,
    /// Its version, for a write that must not overwrite another's.
    pub resource_version: String,
    /// The generation of its spec.
    pub generation: i64,
    /// The API version by which it is watched, such as `gateway.networking.k8s.io/v1`.
    pub api_version: String,
    /// Whether it is being deleted.
    pub is_deleted: bool,
    /// Its `status` in JSON, with the entries of others; empty where it has none.
    pub status: Box<str>,
}

/// What the connected proxies of a Gateway say of their configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledgements {
    /// How many proxies are connected.
    pub connected: usize,
    /// Of each listener of the Gateway in its current version, by its key: how many proxies have it in
    /// force.
    pub listeners: BTreeMap<ResourceKey, usize>,
    /// Resources of any kind that a proxy refuses in their current version, and why.
    pub refused: BTreeMap<ResourceKey, String>,
}

/// The views of all Gateways, and who waits for changes of each.
#[derive(Debug, Default)]
pub struct Published {
    views: Mutex<Views>,
    followers: Mutex<BTreeMap<ObjectName, watch::Sender<u64>>>,
}

impl Published {
    /// Publishes a change, and wakes the streams of the Gateways that it concerns. The first one makes
    /// the views complete, and wakes all.
    pub fn publish(&self, publication: Publication) -> BTreeSet<ObjectName> {
        let mut views = self.views();
        let is_first = !views.is_complete();
        let changed = views.publish(publication);
        drop(views);
        let mut followers = self.followers();
        followers.retain(|gateway, follower| {
            if is_first || changed.contains(gateway) {
                follower.send_modify(|count| *count += 1);
            }
            !follower.is_closed()
        });
        changed
    }

    /// The views. The lock is for moments: never hold it over an `await`.
    pub fn views(&self) -> MutexGuard<'_, Views> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the view of a Gateway: the receiver sees a change after each publication that concerns
    /// it.
    #[must_use]
    pub fn follow(&self, gateway: &ObjectName) -> watch::Receiver<u64> {
        let mut followers = self.followers();
        let follower = followers.entry(gateway.clone());
        follower
            .or_insert_with(|| watch::Sender::new(0))
            .subscribe()
    }

    fn followers(&self) -> MutexGuard<'_, BTreeMap<ObjectName, watch::Sender<u64>>> {
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use xds::delta::{Encoded, Member};
    use xds::model::{Resource, Service, ServiceKey};

    use super::*;

    fn publication(gateway: &ObjectName, service: &str) -> Publication {
        let service = Service {
            key: ServiceKey::new(&ObjectName::new("a", service)),
            vips: Vec::new(),
            ports: Vec::new(),
        };
        let encoded = Arc::new(Encoded::new(&Resource::from(service)));
        let key = encoded.key.clone();
        Publication {
            resources: vec![(key.clone(), Some(encoded))],
            members: vec![(gateway.clone(), key, Member::Joined)],
        }
    }

    #[test]
    fn the_first_publication_wakes_all_and_later_ones_whom_they_concern() {
        let published = Published::default();
        let (one, other) = (ObjectName::new("a", "one"), ObjectName::new("a", "other"));
        let (mut of_one, mut of_other) = (published.follow(&one), published.follow(&other));
        published.publish(publication(&one, "s"));
        assert!(of_one.has_changed().expect("open") && of_other.has_changed().expect("open"));
        of_one.mark_unchanged();
        of_other.mark_unchanged();
        published.publish(publication(&other, "t"));
        assert!(!of_one.has_changed().expect("open"));
        assert!(of_other.has_changed().expect("open"));
    }
}
