//! Connects to an endpoint of a rule.

use std::time::Instant;

use super::ConnectionRecord;
use crate::config::L4Rule;
use crate::config::held::HeldRule;
use crate::exchange::choice::{choose, draw, key_of_address};
use crate::exchange::{Client, Proxy};
use crate::failure::Failure;
use crate::upstream::attempts::Attempts;
use crate::upstream::connect::{ConnectTime, ConnectionRequirements, connect};
use crate::upstream::health::{EndpointUse, Outcome};
use crate::upstream::pool::Connection;
use crate::upstream::retry::{AttemptOutcome, Replay};

/// A connection to an endpoint, in use by a client's connection.
pub(super) struct ActiveConnection {
    pub(super) connection: Box<Connection>,
    pub(super) endpoint_use: EndpointUse,
}

/// Connects to an endpoint of a backend drawn by weight. Unreachable endpoints have received
/// nothing, so others are tried within the retry budget.
pub(super) async fn reach(
    proxy: &Proxy,
    client: &Client,
    held: &HeldRule<L4Rule>,
    record: &mut ConnectionRecord<'_>,
) -> Result<ActiveConnection, Failure> {
    let (shard, upstreams, rule) = (&proxy.shard, &proxy.upstreams, &*held.rule);
    let backends = (&rule.draw, rule.backends.as_slice());
    let address = client.hop.address();
    let key = key_of_address(shard, rule.hashed_draw.as_deref(), address);
    let (backend, index) = draw(shard, backends, key, record.trace.as_deref())?;
    let cluster = held.cluster(index);
    let hashed = cluster.hashed.as_deref();
    let key = key_of_address(shard, hashed.map(|hashed| &hashed.keys), address);
    record.cluster = Some((cluster.id, cluster.name.clone()));
    let requirements = ConnectionRequirements {
        proxied: client.proxied_to(cluster),
        fresh: true,
        ..ConnectionRequirements::default()
    };
    let time = ConnectTime {
        each: backend.connect_timeout,
        until: None,
    };
    let mut tries = Attempts::begin(&upstreams.endpoints, cluster, None);
    let mut tried = Vec::new();
    loop {
        let begun = Instant::now();
        let trace = record.trace.as_deref_mut();
        let (endpoint, endpoint_use) =
            choose(upstreams, cluster, None, key, &mut tried, trace, begun)?;
        record.endpoint = Some(endpoint.name.clone());
        let connected = connect(upstreams, cluster, endpoint, requirements.clone(), time).await;
        let now = Instant::now();
        let took = now.saturating_duration_since(begun);
        // The rule is held, so the id still belongs to it.
        shard.counters.routes.of(rule.id).connect.observe(took);
        let outcome = match &connected {
            Ok(_) => Some(Outcome::Success(took)),
            Err(failure) => Outcome::failed(*failure),
        };
        if let Some(outcome) = outcome {
            endpoint_use.report(&upstreams.endpoints, &cluster.set, outcome, now);
        }
        let failure = match connected {
            Ok(connection) => {
                record.connect_time = Some(took);
                if let Some(trace) = &record.trace {
                    trace.connected(endpoint, Some(took));
                }
                return Ok(ActiveConnection {
                    connection,
                    endpoint_use,
                });
            }
            Err(failure) => failure,
        };
        let reserved = tries.reserve_retry(AttemptOutcome::Failed(failure.kind), Replay::Possible);
        if let Some(trace) = &record.trace {
            trace.attempted(endpoint, None, Some(failure));
            trace.retry(failure.to_string(), reserved.err());
        }
        reserved.map_err(|_| failure)?;
        record.retries = tries.retries();
    }
}
