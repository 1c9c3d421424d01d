//! Getting a connection to an endpoint: an idle one, or a new one.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::config::{Address, Cluster, Endpoint};
use crate::failure::{Failure, FailureKind};
use crate::net::Stream;
use crate::shard::Shard;

use super::pool::Connection;
use super::room::{Counted, Granted};

/// Connects to an endpoint, in `timeout` at most. Where the service has as many connections as it
/// may, waits for one to come free; that can be a used one.
///
/// # Errors
/// None came free, too many wait already, or connecting failed or took too long.
pub(crate) async fn connect(
    shard: &Rc<Shard>,
    cluster: &Cluster,
    endpoint: &Endpoint,
    timeout: Option<Duration>,
) -> Result<Connection, Failure> {
    let until = timeout.map(|timeout| Instant::now() + timeout);
    let counted = match enter(shard, cluster) {
        Some(counted) => counted,
        // Few requests wait, and those that do not are better off with a small future.
        None => match Box::pin(wait(shard, cluster, endpoint, timeout)).await? {
            Granted::Place(counted) => counted,
            Granted::Connection(connection) => return Ok(connection),
        },
    };
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    // A connect under way may be dropped: its operation holds no buffer and no bytes.
    match within(left, dial(&endpoint.address)).await {
        Some(Ok(stream)) => Ok(Connection::new(shard, stream, counted)),
        Some(Err(_)) => Err(FailureKind::ConnectFailed.into()),
        None => Err(FailureKind::ConnectTimeout.into()),
    }
}

/// A place for one more connection; one that is idle and leads elsewhere makes room.
fn enter(shard: &Shard, cluster: &Cluster) -> Option<Counted> {
    let room = shard.pool.room(cluster.id);
    let most = cluster.connections_per_shard.get();
    let endpoints = cluster.endpoints.iter().map(|endpoint| endpoint.id);
    room.enter(most)
        .or_else(|| shard.pool.evict(endpoints).then(|| room.enter(most))?)
}

async fn wait(
    shard: &Shard,
    cluster: &Cluster,
    endpoint: &Endpoint,
    timeout: Option<Duration>,
) -> Result<Granted, Failure> {
    let room = shard.pool.room(cluster.id);
    let waiting = room
        .wait(endpoint.id, cluster.pending_per_shard.get())
        .ok_or(FailureKind::UpstreamFull)?;
    let granted = within(timeout, waiting).await;
    granted.ok_or_else(|| FailureKind::UpstreamFull.into())
}

/// What a future comes to, unless that takes too long.
async fn within<F: Future>(timeout: Option<Duration>, future: F) -> Option<F::Output> {
    match timeout {
        Some(timeout) => monoio::time::timeout(timeout, future).await.ok(),
        None => Some(future.await),
    }
}

async fn dial(address: &Address) -> std::io::Result<Stream> {
    match address {
        Address::Tcp(address) => Stream::connect_tcp(*address).await,
        Address::Unix(path) => Stream::connect_unix(path).await,
    }
}
