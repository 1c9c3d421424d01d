//! The endpoints of a cluster, as the dump shows them.

use std::collections::HashMap;
use std::time::Instant;

use admin::shard::UpstreamId;
use admin_types::dump::{
    Endpoint, EndpointCheck, EndpointCheckState, EndpointHealth, EndpointStats,
};
use xds::model::Health;

use super::key_and_port;
use crate::config::{Cluster, Endpoint as ClusterEndpoint, Locality, Preference, Standing};
use crate::names::Interned;

/// The endpoints of a cluster, without what shards know of them.
pub(super) fn shown(cluster: &Cluster) -> Vec<(UpstreamId, Endpoint)> {
    let (_, port) = key_and_port(&cluster.name);
    let now = Instant::now();
    let preferences = Preferences::of(cluster, now);
    let warming = cluster.set.warming();
    let endpoints = cluster.endpoints.iter().map(|endpoint| {
        let percent = warming.and_then(|warming| warming.percent(endpoint.id, now));
        let (preferred, preference) = preferences.of_endpoint(endpoint.id).unzip();
        let shown = Endpoint {
            name: endpoint.name.to_string(),
            port,
            weight: endpoint.weight.get(),
            status: match endpoint.health {
                Health::Ready => EndpointHealth::Ready,
                Health::Draining => EndpointHealth::Draining,
                Health::NotReady => EndpointHealth::NotReady,
            },
            zone: endpoint.zone.as_ref().map(ToString::to_string),
            preferred,
            preference,
            warming_percent: percent,
            health_check: endpoint_check(cluster, endpoint),
            live: EndpointStats::default(),
        };
        (endpoint.id.into(), shown)
    });
    endpoints.collect()
}

/// Which of the endpoints come before others.
struct Preferences {
    /// The distance of each that serves.
    distances: HashMap<Interned, usize>,
    /// What is said of each distance.
    texts: Vec<String>,
}

impl Preferences {
    fn of(cluster: &Cluster, now: Instant) -> Self {
        let locality = cluster.set.locality();
        let locality = locality.filter(|it| it.preference() != Preference::Nothing);
        let Some(locality) = locality else {
            return Self {
                distances: HashMap::new(),
                texts: Vec::new(),
            };
        };
        let serving = cluster.set.serving().iter().enumerate();
        let distances = serving
            .filter_map(|(position, endpoint)| Some((endpoint.id, locality.distance(position)?)));
        Self {
            distances: distances.collect(),
            texts: texts(cluster, locality, now),
        }
    }

    fn of_endpoint(&self, id: Interned) -> Option<(bool, String)> {
        let distance = *self.distances.get(&id)?;
        Some((distance == 0, self.texts.get(distance)?.clone()))
    }
}

fn texts(cluster: &Cluster, locality: &Locality, now: Instant) -> Vec<String> {
    let warming = cluster.set.warming();
    let part = |id| warming.map_or(1.0, |warming| warming.part(id, None, now));
    let in_service = cluster.set.tiers_in_service(locality, part);
    let name = locality.preference().name();
    let parts = locality.parts(in_service, now);
    let parts = parts.into_iter().take(locality.tiers().len());
    let parts = parts.map(|part| format!("{name}: {:.0} % of the requests", part * 100.0));
    parts.collect()
}

/// What the health check of an endpoint says.
fn endpoint_check(cluster: &Cluster, endpoint: &ClusterEndpoint) -> Option<EndpointCheck> {
    let state = &endpoint.probe.as_ref()?.state;
    let panics = { cluster.health_check.as_ref() }.is_some_and(|it| it.endpoints.panics());
    Some(EndpointCheck {
        state: match state.standing() {
            Standing::Untried => EndpointCheckState::Untried,
            Standing::Waiting => EndpointCheckState::Waiting,
            Standing::Healthy => EndpointCheckState::Healthy,
            Standing::Unhealthy if panics => EndpointCheckState::Ignored,
            Standing::Unhealthy => EndpointCheckState::Unhealthy,
        },
        reason: state.failure().map(|why| why.to_string()),
    })
}
