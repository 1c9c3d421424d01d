//! Connects to an endpoint of a cluster for a call or subrequest of the shard itself.

use std::time::Instant;

use super::Upstreams;
use super::connect::{self, ConnectTime, ConnectionRequirements};
use super::health::{EndpointUse, Outcome};
use super::pool::Connection;
use crate::config::{Cluster, Endpoint, Protocol};
use crate::failure::{Failure, FailureKind, Retry};
use crate::limits::{CALL_CONNECT_TIMEOUT, CALL_TRIES};
use crate::names::Interned;

/// A connection to an endpoint for a call or subrequest, which reports the outcome.
pub(super) struct EndpointConnection<'a> {
    upstreams: &'a Upstreams,
    cluster: &'a Cluster,
    pub(super) endpoint: &'a Endpoint,
    endpoint_use: EndpointUse,
    /// When the attempt to connect began.
    pub(super) begun: Instant,
    pub(super) connection: Box<Connection>,
}

/// Connects to an endpoint of the cluster, and to another one if that fails, until `until`; one to which connecting
/// takes longer than that has the outcome `late`. `avoided` comes last: it has just refused the same call.
///
/// # Errors
///
/// No endpoint could be reached.
pub(super) async fn reach<'a>(
    upstreams: &'a Upstreams,
    cluster: &'a Cluster,
    protocol: Protocol,
    avoided: Option<Interned>,
    (until, late): (Instant, Option<Outcome>),
) -> Result<EndpointConnection<'a>, Failure> {
    let states = &upstreams.endpoints;
    let mut tried = Vec::from_iter(avoided);
    let most = tried.len() + CALL_TRIES.min(cluster.set.serving().len());
    loop {
        let begun = Instant::now();
        let chosen = upstreams.choose(cluster, &tried, begun);
        let endpoint = chosen.and_then(|id| cluster.endpoint(id));
        let endpoint = endpoint.ok_or(FailureKind::NoEndpoint)?;
        tried.push(endpoint.id);
        let endpoint_use = states.start(&cluster.set, endpoint.id);
        match connect(upstreams, (cluster, endpoint), protocol, (begun, until)).await {
            Ok(connection) => {
                return Ok(EndpointConnection {
                    upstreams,
                    cluster,
                    endpoint,
                    endpoint_use,
                    begun,
                    connection,
                });
            }
            Err(failure) => {
                let is_late =
                    failure.kind == FailureKind::ConnectTimeout && Instant::now() >= until;
                let outcome = Outcome::failed(failure);
                let outcome = if is_late { outcome.and(late) } else { outcome };
                if let Some(outcome) = outcome {
                    endpoint_use.report(states, &cluster.set, outcome, Instant::now());
                }
                let again = failure.kind.retry() == Retry::Safe
                    && tried.len() < most
                    && Instant::now() < until;
                if !again {
                    return Err(failure);
                }
            }
        }
    }
}

async fn connect(
    upstreams: &Upstreams,
    (cluster, endpoint): (&Cluster, &Endpoint),
    protocol: Protocol,
    (begun, until): (Instant, Instant),
) -> Result<Box<Connection>, Failure> {
    let pooled = match protocol {
        Protocol::Http1 => upstreams.pool.take(endpoint.id, None),
        Protocol::Http2 => None,
    };
    if let Some(connection) = pooled {
        return Ok(connection);
    }
    let requirements = ConnectionRequirements {
        is_hurried: until.saturating_duration_since(begun) < CALL_CONNECT_TIMEOUT,
        ..ConnectionRequirements::default()
    };
    let requirements = (protocol, requirements);
    let time = ConnectTime {
        each: Some(CALL_CONNECT_TIMEOUT),
        until: Some(until),
    };
    connect::open(upstreams, cluster, endpoint, requirements, time).await
}

impl EndpointConnection<'_> {
    /// Reports the outcome to the endpoint's health.
    pub(super) fn report(&self, outcome: Outcome) {
        let (states, set) = (&self.upstreams.endpoints, &self.cluster.set);
        self.endpoint_use
            .report(states, set, outcome, Instant::now());
    }

    /// Returns a connection to the pool; its last exchange must be complete.
    pub(super) fn put_back(self) {
        let Upstreams { pool, shard, .. } = self.upstreams;
        if !shard.draining.get() {
            pool.put(self.endpoint.id, self.connection, shard);
        }
    }
}
