//! What a shard answers to the admin server: its tasks, its upstreams, and that it traces.

use std::rc::Rc;
use std::time::Instant;

use admin::Ask;
use admin::ask::{EndpointState, UpstreamId, Upstreams};
use admin::live::Connections;

use super::Shard;
use super::interned::Interned;

impl From<Interned> for UpstreamId {
    fn from(id: Interned) -> Self {
        Self {
            index: id.index,
            generation: id.generation,
        }
    }
}

/// Answers. Whoever asked may have given up waiting, which is no matter.
pub(super) fn answer(shard: &Rc<Shard>, ask: Ask) {
    match ask {
        Ask::Tasks(reply) => drop(reply.send(shard.report_tasks())),
        Ask::Upstreams(reply) => drop(reply.send(upstreams(shard))),
        Ask::Trace(watch, armed) => {
            shard.watches.arm(watch);
            let _ = armed.send(());
        }
    }
}

fn upstreams(shard: &Shard) -> Upstreams {
    let now = Instant::now();
    let mut endpoints = Vec::new();
    shard.endpoints.for_each(|id, state| {
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
    shard.pool.for_each(|id, connections: Connections| {
        clusters.push((id.into(), connections));
    });
    Upstreams {
        endpoints,
        clusters,
    }
}
