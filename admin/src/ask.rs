//! What the admin thread asks of a shard, through its inbox.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::handles::ShardHandle;
use crate::limits::SHARD_PATIENCE;
use crate::live::Connections;
use crate::watch::Watch;

/// Asks all shards at once, and waits for them together: `None` of one that gives no answer within
/// [`SHARD_PATIENCE`].
pub(crate) async fn all<T>(
    shards: &[ShardHandle],
    question: impl Fn(oneshot::Sender<T>) -> Ask,
) -> Vec<Option<T>> {
    let until = Instant::now() + SHARD_PATIENCE;
    let ask = |shard: &ShardHandle| {
        let (reply, answer) = oneshot::channel();
        (shard.ask)(question(reply));
        answer
    };
    let asked: Vec<_> = shards.iter().map(ask).collect();
    let mut answers = Vec::with_capacity(asked.len());
    for answer in asked {
        // Too late, or the shard is gone.
        answers.push(timeout_at(until, answer).await.ok().and_then(Result::ok));
    }
    answers
}

/// A question to a shard. It answers in its own time, or never.
#[derive(Debug)]
pub enum Ask {
    /// What it is at.
    Tasks(oneshot::Sender<TaskReports>),
    /// How its upstreams fare.
    Upstreams(oneshot::Sender<Upstreams>),
    /// To trace requests for a watcher; it answers when it does.
    Trace(Arc<Watch>, oneshot::Sender<()>),
}

/// The tasks of one shard.
#[derive(Debug, Clone, Default)]
pub struct TaskReports {
    /// Its tasks, in no order.
    pub tasks: Vec<TaskReport>,
    /// Those that were too many.
    pub omitted: u64,
}

/// A task, as its shard has it.
#[derive(Debug, Clone)]
pub struct TaskReport {
    /// Its number on its shard.
    pub id: u64,
    /// The task that began it, which may be over.
    pub parent: u64,
    /// What it is for.
    pub kind: &'static str,
    /// What it is at.
    pub state: &'static str,
    /// For how long.
    pub since: Duration,
    /// How often it was run.
    pub polls: u64,
    /// Whom it serves.
    pub detail: TaskDetail,
}

/// Whom a task serves.
#[derive(Debug, Clone, Default)]
pub enum TaskDetail {
    /// The shard itself.
    #[default]
    Shard,
    /// A client.
    Client(SocketAddr),
    /// Whoever has this name.
    Named(Arc<str>),
}

/// How the upstreams of one shard fare.
#[derive(Debug, Clone, Default)]
pub struct Upstreams {
    /// The endpoints that it has asked.
    pub endpoints: Vec<(UpstreamId, EndpointState)>,
    /// Services and backends that it has connections to.
    pub clusters: Vec<(UpstreamId, Connections)>,
}

/// The id by which all shards know an endpoint, service or backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UpstreamId {
    /// Index into the shards' tables.
    pub index: u32,
    /// How many owners the index had before.
    pub generation: u32,
}

/// How an endpoint fares on one shard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndpointState {
    /// From 0 (failing) to 1 (healthy).
    pub health: f64,
    /// Average time to the response's head; `None` before the first.
    pub latency: Option<Duration>,
    /// Requests so far.
    pub requests: u64,
    /// Requests now.
    pub in_flight: u32,
    /// Failures since the last success.
    pub consecutive_failures: u32,
    /// For how much longer it is put aside.
    pub ejected_for: Option<Duration>,
    /// Requests of the last seconds: older ones count less and less.
    pub recent: f64,
}
