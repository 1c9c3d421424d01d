//! Getting a connection to an endpoint: an idle one, or a new one.

use std::rc::Rc;
use std::time::Duration;

use crate::config::{Address, Cluster, Endpoint};
use crate::failure::{Failure, FailureKind};
use crate::net::Stream;
use crate::shard::Shard;

use super::pool::Connection;

/// Connects to an endpoint.
///
/// # Errors
/// The service has as many connections as it may, or connecting failed or took too long.
pub(crate) async fn connect(
    shard: &Rc<Shard>,
    cluster: &Cluster,
    endpoint: &Endpoint,
    timeout: Option<Duration>,
) -> Result<Connection, Failure> {
    let counted = shard
        .pool
        .count(cluster.id, cluster.connections_per_shard.get());
    let counted = counted.ok_or(FailureKind::UpstreamFull)?;
    // A connect under way may be dropped: its operation holds no buffer and no bytes.
    let connecting = dial(&endpoint.address);
    let connected = match timeout {
        Some(timeout) => monoio::time::timeout(timeout, connecting).await,
        None => Ok(connecting.await),
    };
    match connected {
        Ok(Ok(stream)) => Ok(Connection::new(shard, stream, counted)),
        Ok(Err(_)) => Err(FailureKind::ConnectFailed.into()),
        Err(_) => Err(FailureKind::ConnectTimeout.into()),
    }
}

async fn dial(address: &Address) -> std::io::Result<Stream> {
    match address {
        Address::Tcp(address) => Stream::connect_tcp(*address).await,
        Address::Unix(path) => Stream::connect_unix(path).await,
    }
}
