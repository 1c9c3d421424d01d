//! A shard's replies to queries of the admin server.

use std::time::Instant;

use admin::ShardQuery;
use admin::shard::{Connections, EndpointState, UpstreamId, Upstreams};

use crate::exchange::Proxy;
use crate::names::Interned;

impl From<Interned> for UpstreamId {
    fn from(id: Interned) -> Self {
        Self {
            index: id.index,
            generation: id.generation,
        }
    }
}

/// Replies. The querier may have timed out, which is harmless.
pub(super) fn reply(proxy: &Proxy, query: ShardQuery) {
    match query {
        ShardQuery::Tasks(reply) => drop(reply.send(proxy.shard.report_tasks())),
        ShardQuery::Upstreams(reply) => drop(reply.send(upstreams(proxy))),
        ShardQuery::Trace(watch, armed) => {
            proxy.watches.arm(watch);
            let _ = armed.send(());
        }
    }
}

fn upstreams(proxy: &Proxy) -> Upstreams {
    let now = Instant::now();
    let mut endpoints = Vec::new();
    proxy.upstreams.endpoints.for_each(|id, state| {
        let report = state.report(now);
        let state = EndpointState {
            health: report.health,
            latency: report.latency,
            requests: report.requests,
            in_flight: report.in_flight,
            consecutive_failures: report.consecutive_failures,
            ejected_for: report.ejected_for,
            recent: report.recent,
        };
        endpoints.push((id.into(), state));
    });
    let mut clusters = Vec::new();
    proxy
        .upstreams
        .pool
        .for_each(|id, connections: Connections| {
            clusters.push((id.into(), connections));
        });
    Upstreams {
        endpoints,
        clusters,
    }
}
