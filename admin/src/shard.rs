//! Queries that the admin thread sends to shards through their inboxes, and the replies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::limits::SHARD_QUERY_TIMEOUT;
use crate::watch::Watch;

/// Queries all shards concurrently. The reply is None for a shard that does not respond within
/// [`SHARD_QUERY_TIMEOUT`].
pub(crate) async fn query_all<T>(
    shards: &[ShardHandle],
    query: impl Fn(oneshot::Sender<T>) -> ShardQuery,
) -> Vec<Option<T>> {
    let deadline = Instant::now() + SHARD_QUERY_TIMEOUT;
    let send = |shard: &ShardHandle| {
        let (sender, reply) = oneshot::channel();
        (shard.query)(query(sender));
        reply
    };
    let pending: Vec<_> = shards.iter().map(send).collect();
    let mut replies = Vec::with_capacity(pending.len());
    for reply in pending {
        // An error means that it timed out, or that the shard has ended.
        replies.push(timeout_at(deadline, reply).await.ok().and_then(Result::ok));
    }
    replies
}

/// A function that returns immediately and can be called on any thread.
pub type Call<T> = Box<dyn Fn() -> T + Send + Sync>;

/// The queue of one shard for queries.
pub struct ShardHandle {
    /// Puts a query into its inbox; does not wait.
    pub query: Box<dyn Fn(ShardQuery) + Send + Sync>,
    /// Time since the last iteration of its event loop.
    pub heartbeat: Call<Duration>,
}

/// A query to a shard, with the channel for its reply. A shard that is stuck never replies.
#[derive(Debug)]
pub enum ShardQuery {
    /// Requests the list of running tasks.
    Tasks(oneshot::Sender<TaskReports>),
    /// State of its endpoints and connection pools.
    Upstreams(oneshot::Sender<Upstreams>),
    /// Start reporting requests to a watch; the reply confirms it.
    Trace(Arc<Watch>, oneshot::Sender<()>),
}

/// The tasks of one shard.
#[derive(Debug, Clone, Default)]
pub struct TaskReports {
    /// In no particular order; at most [`MAX_TASKS`](crate::limits::MAX_TASKS).
    pub tasks: Vec<TaskReport>,
    /// Number of tasks left out beyond the limit.
    pub omitted: u64,
}

/// A task of a shard.
#[derive(Debug, Clone)]
pub struct TaskReport {
    /// Unique on its shard; ids of later tasks are larger.
    pub id: u64,
    /// Id of the task that spawned it, which may have ended.
    pub parent: u64,
    /// Kind of task, such as `connection`.
    pub kind: &'static str,
    /// State of the task, such as `idle`.
    pub state: &'static str,
    /// Time in this state.
    pub since: Duration,
    /// Number of times it was polled.
    pub polls: u64,
    /// The client or resource it serves.
    pub detail: TaskDetail,
}

/// The client or resource that a task serves.
#[derive(Debug, Clone, Default)]
pub enum TaskDetail {
    /// None: it serves the shard itself.
    #[default]
    Shard,
    /// Address of the client that the task serves.
    Client(SocketAddr),
    /// A resource by its key.
    Named(Arc<str>),
}

/// State of the upstreams of one shard.
#[derive(Debug, Clone, Default)]
pub struct Upstreams {
    /// Endpoints that it has sent requests to.
    pub endpoints: Vec<(UpstreamId, EndpointState)>,
    /// Services and backends with a connection pool.
    pub clusters: Vec<(UpstreamId, Connections)>,
}

/// Connection pool of a service or backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// All open connections, idle ones included.
    pub open: u64,
    /// Connections without a request.
    pub idle: u64,
    /// Requests queued for a connection.
    pub waiting: u64,
}

/// Id of an endpoint, service or backend, the same on all shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UpstreamId {
    /// Index into the shards' tables.
    pub index: u32,
    /// Distinguishes successive owners of the index.
    pub generation: u32,
}

/// State of an endpoint on one shard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndpointState {
    /// From 0 (failing) to 1 (healthy).
    pub health: f64,
    /// Moving average of the time to the response head; None before the first response.
    pub latency: Option<Duration>,
    /// Requests since the start.
    pub requests: u64,
    /// Number of requests in flight.
    pub in_flight: u32,
    /// Failures since the last success.
    pub consecutive_failures: u32,
    /// Remaining time of its ejection; None where it is not ejected.
    pub ejected_for: Option<Duration>,
    /// Requests of the last seconds, exponentially decaying.
    pub recent: f64,
}
