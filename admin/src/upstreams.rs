//! State of endpoints and connection pools, merged over all shards.

use std::collections::HashMap;
use std::time::Duration;

use admin_types::dump;
use xds::model::GatewayDuration;

use crate::shard::{
    self, Connections, EndpointState, ShardHandle, ShardQuery, UpstreamId, Upstreams,
};

/// State of all upstreams, merged over the shards that replied.
#[derive(Debug, Default)]
pub struct UpstreamStats {
    endpoints: HashMap<UpstreamId, MergedState>,
    clusters: HashMap<UpstreamId, Connections>,
    /// Number of shards that replied.
    shards: u16,
    /// Ids of shards that did not reply in time.
    stuck: Vec<u16>,
}

pub(crate) async fn gather(shards: &[ShardHandle]) -> UpstreamStats {
    let replies = shard::query_all(shards, ShardQuery::Upstreams).await;
    let mut live = UpstreamStats::default();
    for (shard, reply) in (0..).zip(replies) {
        match reply {
            Some(upstreams) => live.add(&upstreams),
            None => live.stuck.push(shard),
        }
    }
    live
}

impl UpstreamStats {
    fn add(&mut self, upstreams: &Upstreams) {
        self.shards += 1;
        for (id, state) in &upstreams.endpoints {
            self.endpoints.entry(*id).or_default().add(state);
        }
        for (id, connections) in &upstreams.clusters {
            let sum = self.clusters.entry(*id).or_default();
            sum.open += connections.open;
            sum.idle += connections.idle;
            sum.waiting += connections.waiting;
        }
    }

    /// Whether the shard was queried and did not reply in time.
    #[must_use]
    pub fn is_stuck(&self, shard: u16) -> bool {
        self.stuck.contains(&shard)
    }

    /// The merged state of an endpoint.
    #[must_use]
    pub fn endpoint(&self, id: UpstreamId) -> dump::EndpointStats {
        let merged = self.endpoints.get(&id);
        let live = merged.map_or_else(dump::EndpointStats::default, MergedState::shown);
        dump::EndpointStats {
            shards: self.shards,
            ..live
        }
    }

    /// The connection pool of a service or backend, summed over the shards.
    #[must_use]
    pub fn connections(&self, id: UpstreamId) -> Connections {
        self.clusters.get(&id).copied().unwrap_or_default()
    }
}

/// State of one endpoint, merged. Averages are weighted by each shard's recent requests.
#[derive(Debug, Default)]
struct MergedState {
    weight: f64,
    health: f64,
    /// Sum of the weights of shards that have measured a latency.
    latency_weight: f64,
    latency: f64,
    requests: u64,
    in_flight: u64,
    consecutive_failures: u32,
    ejected_for: Option<Duration>,
    ejected_shards: u16,
}

impl MergedState {
    fn add(&mut self, state: &EndpointState) {
        // Keeps the sum above zero where all shards have been idle for long.
        let weight = state.recent + MIN_WEIGHT;
        self.weight += weight;
        self.health += weight * state.health;
        if let Some(latency) = state.latency {
            self.latency_weight += weight;
            self.latency += weight * latency.as_secs_f64();
        }
        self.requests = self.requests.wrapping_add(state.requests);
        self.in_flight += u64::from(state.in_flight);
        self.consecutive_failures = self.consecutive_failures.max(state.consecutive_failures);
        self.ejected_for = self.ejected_for.max(state.ejected_for);
        self.ejected_shards += u16::from(state.ejected_for.is_some());
    }

    fn shown(&self) -> dump::EndpointStats {
        let latency = self.latency / self.latency_weight;
        dump::EndpointStats {
            health: self.health / self.weight,
            latency_ms: if self.latency_weight > 0.0 {
                latency * 1e3
            } else {
                0.0
            },
            requests: self.requests,
            in_flight: self.in_flight,
            consecutive_failures: self.consecutive_failures,
            ejected_for: self
                .ejected_for
                .map(|left| GatewayDuration(left).to_string()),
            ejected_shards: self.ejected_shards,
            shards: 0,
        }
    }
}

/// Weight of a shard without recent requests, in requests.
const MIN_WEIGHT: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::UpstreamStats;
    use crate::shard::{Connections, EndpointState, UpstreamId, Upstreams};

    const ID: UpstreamId = UpstreamId {
        index: 3,
        generation: 1,
    };

    fn shard(recent: f64, health: f64, millis: u64, ejected: Option<u64>) -> Upstreams {
        let state = EndpointState {
            health,
            latency: Some(Duration::from_millis(millis)),
            requests: 10,
            in_flight: 1,
            consecutive_failures: 2,
            ejected_for: ejected.map(Duration::from_secs),
            recent,
        };
        let connections = Connections {
            open: 3,
            idle: 2,
            waiting: 1,
        };
        Upstreams {
            endpoints: vec![(ID, state)],
            clusters: vec![(ID, connections)],
        }
    }

    #[test]
    fn averages_are_weighted_by_recent_requests_and_counts_are_summed() {
        let mut live = UpstreamStats::default();
        live.add(&shard(3.0, 1.0, 10, None));
        live.add(&shard(1.0, 0.0, 50, Some(20)));
        let merged = live.endpoint(ID);
        assert!((merged.health - 0.75).abs() < 0.01, "{merged:?}");
        assert!((merged.latency_ms - 20.0).abs() < 0.1, "{merged:?}");
        assert_eq!((merged.requests, merged.in_flight), (20, 2));
        assert_eq!(merged.ejected_for.as_deref(), Some("20s"));
        assert_eq!((merged.ejected_shards, merged.shards), (1, 2));
        assert_eq!(live.connections(ID).open, 6);
    }

    #[test]
    fn an_unused_endpoint_is_healthy() {
        let merged = UpstreamStats::default().endpoint(ID);
        assert!((merged.health - 1.0).abs() < f64::EPSILON);
        assert_eq!((merged.requests, merged.ejected_for), (0, None));
    }
}
