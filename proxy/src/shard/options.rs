//! Parameters of a shard.

use std::sync::Arc;

use super::peers::Peers;
use crate::config::Published;
use crate::machine::memory::MemoryUse;
use crate::observe::counters::ShardCounters;
#[cfg(any(test, feature = "test-hooks"))]
use crate::observe::log_writer::LogQueue;
use crate::observe::log_writer::LogSink;

/// What a shard is started with.
pub struct ShardOptions {
    /// Its number, from 0.
    pub id: u16,
    /// Sockets it may have, of clients and of endpoints.
    pub descriptors: u32,
    /// What the process uses of its memory.
    pub memory: Arc<MemoryUse>,
    /// The published configuration.
    pub published: Published,
    /// It and the others.
    pub peers: Arc<Peers>,
    /// Where it counts.
    pub counters: Arc<ShardCounters>,
    /// Where its access log goes.
    pub log: LogSink,
}

#[cfg(any(test, feature = "test-hooks"))]
impl ShardOptions {
    /// A shard of no supervisor's, for tests of what runs on one.
    pub(crate) fn alone() -> Self {
        Self {
            peers: Arc::new(Peers::new(&[])),
            id: 0,
            descriptors: 64,
            memory: Arc::default(),
            published: Arc::default(),
            counters: Arc::default(),
            log: LogSink::new(LogQueue::new()),
        }
    }
}
