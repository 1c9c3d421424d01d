//! The published views, and notification of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::{Notify, watch};
use xds::delta::{Derived, Publication, Views};
use xds::model::ObjectName;

use super::locked;

/// The views of all Gateways, with the subscribers of each.
#[derive(Debug, Default)]
pub struct Published {
    views: Mutex<Views>,
    followers: Mutex<BTreeMap<ObjectName, watch::Sender<()>>>,
    /// Gateways whose views have changed since [`Published::changed`] last took them.
    changed: Mutex<BTreeSet<ObjectName>>,
    notify: Notify,
}

impl Published {
    /// Publishes a change and wakes the streams of the affected Gateways. The first publication
    /// completes the views and wakes all streams.
    pub fn publish(&self, publication: Publication) -> BTreeSet<ObjectName> {
        let mut views = self.views();
        let is_first = !views.is_complete();
        let changed = views.publish(publication);
        drop(views);
        locked(&self.followers).retain(|gateway, follower| {
            if is_first || changed.contains(gateway) {
                follower.send_replace(());
            }
            !follower.is_closed()
        });
        locked(&self.changed).extend(changed.iter().cloned());
        self.notify.notify_one();
        changed
    }

    /// Prepares the first publication, by a part of it.
    pub fn stage(&self, publication: Publication) {
        self.views().stage(publication);
    }

    /// Installs what was derived, and wakes the streams that wait for it.
    pub fn install(&self, derived: Derived) {
        let gateway = derived.gateway().clone();
        self.views().install(derived);
        self.wake(&gateway);
    }

    /// Wakes the streams of a Gateway.
    pub(super) fn wake(&self, gateway: &ObjectName) {
        if let Some(follower) = locked(&self.followers).get(gateway) {
            follower.send_replace(());
        }
    }

    /// The views. Hold the lock briefly: never across an `await`.
    pub fn views(&self) -> MutexGuard<'_, Views> {
        locked(&self.views)
    }

    /// Subscribes to the view of a Gateway: the receiver is notified after each publication that
    /// affects it.
    #[must_use]
    pub fn follow(&self, gateway: &ObjectName) -> watch::Receiver<()> {
        let mut followers = locked(&self.followers);
        followers.entry(gateway.clone()).or_default().subscribe()
    }

    /// For one task: waits until views have changed, and takes the names of their Gateways.
    pub async fn changed(&self) -> BTreeSet<ObjectName> {
        loop {
            let changed = std::mem::take(&mut *locked(&self.changed));
            if !changed.is_empty() {
                return changed;
            }
            self.notify.notified().await;
        }
    }

    /// Drops the notifier of a Gateway that nothing subscribes to any more.
    pub(super) fn remove_if_unused(&self, gateway: &ObjectName) {
        let mut followers = locked(&self.followers);
        if followers.get(gateway).is_some_and(watch::Sender::is_closed) {
            followers.remove(gateway);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use xds::delta::{Encoded, Member};
    use xds::model::{Resource, Service, ServiceKey, SessionAffinity};

    use super::*;

    fn publication(gateway: &ObjectName, service: &str) -> Publication {
        let service = Service {
            key: ServiceKey::new(&ObjectName::new("a", service)),
            vips: Vec::new(),
            ports: Vec::new(),
            session_affinity: SessionAffinity::None,
        };
        let encoded = Arc::new(Encoded::new(&Resource::from(service)));
        let key = encoded.key.clone();
        Publication {
            resources: vec![(key.clone(), Some(encoded))],
            members: vec![(gateway.clone(), key, Member::Joined)],
        }
    }

    #[tokio::test]
    async fn what_is_staged_is_reported_once_it_is_published() {
        let published = Published::default();
        let gateway = ObjectName::new("a", "one");
        let stream = published.follow(&gateway);
        published.stage(publication(&gateway, "s"));
        assert!(!stream.has_changed().expect("open"));
        assert!(locked(&published.changed).is_empty());
        published.publish(Publication::default());
        assert!(stream.has_changed().expect("open"));
        assert_eq!(published.changed().await, [gateway].into());
    }

    #[tokio::test]
    async fn later_publications_wake_only_affected_streams() {
        let published = Published::default();
        let (one, other) = (ObjectName::new("a", "one"), ObjectName::new("a", "other"));
        let (mut of_one, mut of_other) = (published.follow(&one), published.follow(&other));
        published.publish(publication(&one, "s"));
        assert!(of_one.has_changed().expect("open") && of_other.has_changed().expect("open"));
        assert_eq!(published.changed().await, [one.clone()].into());
        of_one.mark_unchanged();
        of_other.mark_unchanged();
        published.publish(publication(&other, "t"));
        assert!(!of_one.has_changed().expect("open"));
        assert!(of_other.has_changed().expect("open"));
        assert_eq!(published.changed().await, [other.clone()].into());
        drop(of_one);
        published.remove_if_unused(&one);
        published.remove_if_unused(&other);
        assert!(locked(&published.followers).contains_key(&other));
        assert!(!locked(&published.followers).contains_key(&one));
    }
}
