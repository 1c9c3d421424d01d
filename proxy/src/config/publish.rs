//! Publishes snapshots to the shards, and frees them once no shard holds them.
//!
//! A shard never frees a snapshot, or what its requests hold of one: the last reference is kept here,
//! so that the configuration thread does the work of freeing 100 000 rules.

use std::sync::Arc;

use super::held::{Held, HeldQueue};
use super::{Published, Snapshot};

/// The only writer of the published pointer.
#[derive(Debug)]
pub struct Publisher {
    published: Published,
    /// Replaced snapshots that may still be in use.
    replaced: Vec<Arc<Snapshot>>,
    /// What shards hold beyond their snapshot.
    held: Vec<Held>,
    /// Where they report it.
    reported: HeldQueue,
}

impl Publisher {
    /// Publishes through this pointer from now on.
    #[must_use]
    pub fn new(published: Published) -> Self {
        Self {
            published,
            replaced: Vec::new(),
            held: Vec::new(),
            reported: HeldQueue::default(),
        }
    }

    /// Makes a snapshot the one that new requests use.
    pub fn publish(&mut self, mut snapshot: Snapshot) {
        snapshot.held = HeldQueue::clone(&self.reported);
        let replaced = self.published.swap(Arc::new(snapshot));
        self.replaced.push(replaced);
    }

    /// Frees the snapshots, and the parts of snapshots, without other holders. Returns the version of the
    /// oldest one in use: ids of older ones can be reused, unless a part that is [held](Self::held) has them.
    pub fn sweep(&mut self) -> u64 {
        self.held.extend(std::iter::from_fn(|| self.reported.pop()));
        self.held.retain(Held::is_in_use);
        // A replaced snapshot can be cloned only by its holders, so a count of one stays one.
        self.replaced
            .retain(|snapshot| Arc::strong_count(snapshot) > 1);
        let replaced = self.replaced.iter().map(|snapshot| snapshot.version);
        let in_force = self.published.load().version;
        replaced.fold(in_force, u64::min)
    }

    /// What shards hold beyond their snapshot, as of the last sweep.
    #[must_use]
    pub fn held(&self) -> &[Held] {
        &self.held
    }

    /// Whether replaced snapshots, or parts of some, may still be in use.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.replaced.is_empty() || !self.held.is_empty()
    }

    /// Number of replaced snapshots that are still in use.
    #[must_use]
    pub fn replaced(&self) -> usize {
        self.replaced.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arc_swap::{ArcSwap, Cache};

    use super::Publisher;
    use crate::config::Snapshot;

    fn snapshot(version: u64) -> Snapshot {
        Snapshot {
            version,
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_snapshot_is_freed_when_the_last_shard_releases_it() {
        let pointer = Arc::new(ArcSwap::from_pointee(Snapshot::default()));
        let mut publisher = Publisher::new(Arc::clone(&pointer));
        let mut busy = Cache::new(Arc::clone(&pointer));
        let mut idle = Cache::new(Arc::clone(&pointer));
        publisher.publish(snapshot(1));
        assert_eq!(busy.load().version, 1);
        assert_eq!(idle.load().version, 1);
        assert_eq!(publisher.sweep(), 1);
        assert!(!publisher.waits());

        let first = Arc::downgrade(busy.load());
        let request = Arc::clone(busy.load());
        publisher.publish(snapshot(2));
        assert_eq!(busy.load().version, 2);
        assert_eq!(publisher.sweep(), 1, "the idle shard and a request have it");
        assert_eq!(idle.load().version, 2);
        publisher.publish(snapshot(3));
        assert_eq!(publisher.sweep(), 1, "the request has it");
        drop(request);
        assert!(
            first.upgrade().is_some(),
            "a shard's last reference frees nothing"
        );
        assert_eq!(publisher.sweep(), 2, "the shards have not looked since");
        assert!(first.upgrade().is_none());
        assert_eq!((busy.load().version, idle.load().version), (3, 3));
        assert_eq!(publisher.sweep(), 3);
        assert!(!publisher.waits());
    }
}
