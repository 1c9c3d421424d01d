//! How endpoints fare, gathered from all shards and merged.

use std::collections::HashMap;
use std::time::Duration;

use admin_types::dump;
use xds::model::GatewayDuration;

use crate::ask::{self, Ask, EndpointState, UpstreamId, Upstreams};
use crate::handles::Handles;

/// How endpoints fare on the shards that answered.
#[derive(Debug, Default)]
pub struct Live {
    endpoints: HashMap<UpstreamId, Merged>,
    clusters: HashMap<UpstreamId, Connections>,
    /// Shards that answered.
    shards: u16,
    /// Those that gave no answer in time, by number.
    stuck: Vec<u16>,
}

/// Connections to a service or backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// Open ones.
    pub open: u64,
    /// Those of them that wait for a request.
    pub idle: u64,
    /// Requests that wait for one.
    pub waiting: u64,
}

/// Asks all shards.
pub(crate) async fn gather(handles: &Handles) -> Live {
    let answers = ask::all(&handles.shards, Ask::Upstreams).await;
    let mut live = Live::default();
    for (shard, answer) in (0..).zip(answers) {
        match answer {
            Some(upstreams) => live.add(&upstreams),
            None => live.stuck.push(shard),
        }
    }
    live
}

impl Live {
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

    /// Whether a shard was asked and gave no answer in time.
    #[must_use]
    pub fn is_stuck(&self, shard: u16) -> bool {
        self.stuck.contains(&shard)
    }

    /// How an endpoint fares.
    #[must_use]
    pub fn endpoint(&self, id: UpstreamId) -> dump::Live {
        let merged = self.endpoints.get(&id);
        let live = merged.map_or_else(dump::Live::default, Merged::shown);
        dump::Live {
            shards: self.shards,
            ..live
        }
    }

    /// The connections to a service or backend.
    #[must_use]
    pub fn connections(&self, id: UpstreamId) -> Connections {
        self.clusters.get(&id).copied().unwrap_or_default()
    }
}

/// What the shards say of one endpoint. Averages count by the shard's recent requests.
#[derive(Debug, Default)]
struct Merged {
    weight: f64,
    health: f64,
    /// Of those that have measured it.
    latency_weight: f64,
    latency: f64,
    requests: u64,
    in_flight: u64,
    consecutive_failures: u32,
    ejected_for: Option<Duration>,
    ejected_shards: u16,
}

impl Merged {
    fn add(&mut self, state: &EndpointState) {
        // A shard that has long been idle still counts for something, where all have.
        let weight = state.recent + LEAST_WEIGHT;
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

    fn shown(&self) -> dump::Live {
        let latency = self.latency / self.latency_weight;
        dump::Live {
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

/// Of a request.
const LEAST_WEIGHT: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Connections, Live};
    use crate::ask::{EndpointState, UpstreamId, Upstreams};

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
    fn averages_count_by_recent_requests_and_counts_are_summed() {
        let mut live = Live::default();
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
    fn what_nobody_asked_is_healthy() {
        let merged = Live::default().endpoint(ID);
        assert!((merged.health - 1.0).abs() < f64::EPSILON);
        assert_eq!((merged.requests, merged.ejected_for), (0, None));
    }
}
