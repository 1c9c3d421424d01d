//! From a rule to a connection to one of its endpoints.

use std::rc::Rc;
use std::time::Instant;

use super::Record;
use crate::config::{Cluster, Endpoint, L4Backend, L4Rule, Snapshot};
use crate::downstream::connection::Client;
use crate::failure::{Failure, FailureKind};
use crate::shard::Shard;
use crate::shard::interned::Interned;
use crate::upstream::connect::{Wanted, connect};
use crate::upstream::health::{Exchange, Outcome};
use crate::upstream::pool::Connection;
use crate::upstream::retry::{Ending, Replay, RequestInFlight, may_retry};

/// A connection to an endpoint, and the note in its books that it is under way.
pub(super) struct Reached {
    pub(super) connection: Connection,
    pub(super) booking: Exchange,
}

/// Connects to an endpoint of the backend that the lot falls on. One that cannot be reached has
/// seen nothing of the client, so another one is tried where the service bears it.
pub(super) async fn reach(
    shard: &Rc<Shard>,
    client: &Client,
    snapshot: &Snapshot,
    rule: &L4Rule,
    record: &mut Record<'_>,
) -> Result<Reached, Failure> {
    let (backend, cluster) = draw(shard, rule, snapshot, record)?;
    record.cluster = Some((cluster.id, cluster.name.clone()));
    let wanted = Wanted {
        proxied: client.proxied_to(cluster),
        speaks: None,
        fresh: true,
    };
    let service = shard.endpoints.service(cluster.id);
    let _request = RequestInFlight::book(&service);
    let (mut tried, mut retry) = (Vec::new(), None);
    loop {
        let begun = Instant::now();
        let (endpoint, booking) = choose(shard, cluster, &mut tried, record, begun)?;
        let connected = connect(
            shard,
            cluster,
            endpoint,
            wanted.clone(),
            backend.connect_timeout,
        )
        .await;
        let now = Instant::now();
        let took = now.saturating_duration_since(begun);
        // The snapshot is held, so that the id is still the rule's.
        shard.counters.routes.of(rule.id).connect.observe(took);
        let outcome = match &connected {
            Ok(_) => Some(Outcome::Success(took)),
            Err(failure) => Outcome::failed(failure.kind),
        };
        if let Some(outcome) = outcome {
            booking.judge(&shard.endpoints, &cluster.set, outcome, now);
        }
        let failure = match connected {
            Ok(connection) => {
                record.connect_time = Some(took);
                if let Some(trace) = &record.trace {
                    trace.connected(endpoint, Some(took));
                }
                return Ok(Reached {
                    connection,
                    booking,
                });
            }
            Err(failure) => failure,
        };
        drop(retry.take());
        let (ending, budget) = (Ending::Failed(failure.kind), cluster.retry_budget);
        let replay = Replay::Possible;
        let booked = may_retry(None, ending, record.retries, replay, &service, budget);
        if let Some(trace) = &record.trace {
            trace.attempted(endpoint, None, Some(failure));
            trace.retry(failure.to_string(), booked.as_ref().err().copied());
        }
        retry = Some(booked.map_err(|_| failure)?);
        record.retries += 1;
    }
}

/// The backend that the lot falls on; the rule is of this snapshot.
pub(super) fn draw<'a>(
    shard: &Shard,
    rule: &'a L4Rule,
    snapshot: &'a Snapshot,
    record: &Record<'_>,
) -> Result<(&'a L4Backend, &'a Cluster), Failure> {
    let drawn = shard.with_rng(|rng| rule.draw.draw(rng));
    let backend = drawn.and_then(|at| rule.backends.get(at));
    let backend = backend.ok_or(FailureKind::NoValidBackend)?;
    let index = backend.cluster.map_err(|why| {
        if let Some(trace) = &record.trace {
            trace.unresolved(backend.unresolved.as_deref(), why);
        }
        FailureKind::NoValidBackend
    })?;
    Ok((backend, snapshot.cluster(index)))
}

/// An endpoint that was not tried yet, where there is one, with its booking.
pub(super) fn choose<'a>(
    shard: &Shard,
    cluster: &'a Cluster,
    tried: &mut Vec<Interned>,
    record: &mut Record<'_>,
    now: Instant,
) -> Result<(&'a Endpoint, Exchange), Failure> {
    let states = &shard.endpoints;
    let id = shard.with_rng(|rng| states.choose(&cluster.set, tried, now, rng));
    let endpoint = id.and_then(|id| cluster.endpoint(id));
    if let Some(trace) = &mut record.trace {
        trace.endpoint(shard, cluster, endpoint, tried);
        trace.attempt();
    }
    let endpoint = endpoint.ok_or(FailureKind::NoEndpoint)?;
    tried.push(endpoint.id);
    record.endpoint = Some(endpoint.name.clone());
    Ok((endpoint, states.start(&cluster.set, endpoint.id)))
}
