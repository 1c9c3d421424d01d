//! Connections to endpoints, and requests that wait for one, over all shards.

use std::sync::atomic::{AtomicU32, Ordering};

use super::open_connections::OpenConnections;

/// Connections to endpoints, and requests that wait for one, over all shards.
#[derive(Debug)]
pub struct EndpointCounts {
    pub(crate) open: OpenConnections,
    pub(crate) waiting: OpenConnections,
    /// How many requests of each shard wait for any endpoint.
    pub(crate) waiting_by_shard: Box<[AtomicU32]>,
}

impl EndpointCounts {
    /// Counts of at most this many connections of these shards.
    #[must_use]
    pub fn new(connections: usize, shards: usize) -> Self {
        Self {
            open: OpenConnections::new(connections),
            waiting: OpenConnections::new(connections),
            waiting_by_shard: (0..shards).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Whether requests of a shard wait for any endpoint.
    pub(crate) fn has_waiting(&self, shard: u16) -> bool {
        let waiting = self.waiting_by_shard.get(usize::from(shard));
        waiting.is_some_and(|waiting| waiting.load(Ordering::SeqCst) > 0)
    }
}
