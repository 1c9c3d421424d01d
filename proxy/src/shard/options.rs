//! Parameters of a shard.

use std::sync::Arc;

use super::endpoint_counts::EndpointCounts;
use super::open_connections::OpenConnections;
use super::peers::Peers;
use crate::config::Published;
use crate::machine::memory::MemoryUse;
use crate::observe::counters::ShardCounters;
#[cfg(any(test, feature = "test-hooks"))]
use crate::observe::log_writer::LogQueue;
use crate::observe::log_writer::LogSink;

/// The parameters of a shard.
pub struct ShardOptions {
    /// Number of the shard, from 0.
    pub id: u16,
    /// Limit of its sockets, to clients and endpoints together.
    pub descriptors: u32,
    /// Memory usage of the process.
    pub memory: Arc<MemoryUse>,
    /// Where the shard reads the current configuration.
    pub published: Published,
    /// The shards of the process.
    pub peers: Arc<Peers>,
    /// Open connections of clients, over all shards.
    pub client_connections: Arc<OpenConnections>,
    /// Open connections to endpoints, over all shards.
    pub endpoint_connections: Arc<EndpointCounts>,
    /// Counters that the shard writes, and the admin server reads.
    pub counters: Arc<ShardCounters>,
    /// Queue for lines of the access log.
    pub log: LogSink,
}

#[cfg(any(test, feature = "test-hooks"))]
impl ShardOptions {
    /// A shard without a supervisor, for tests.
    pub(crate) fn standalone() -> Self {
        Self {
            peers: Arc::new(Peers::new(&[])),
            client_connections: Arc::new(OpenConnections::new(64)),
            endpoint_connections: Arc::new(EndpointCounts::new(64, 1)),
            id: 0,
            descriptors: 64,
            memory: Arc::default(),
            published: Arc::default(),
            counters: Arc::default(),
            log: LogSink::new(LogQueue::new()),
        }
    }
}
