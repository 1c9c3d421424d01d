//! Selects a backend of a rule by weight, and an endpoint of the backend by load balancing, for
//! requests, mirrored requests, connections and datagrams alike.

use std::time::Instant;

use xds::model::InvalidBackend;

use crate::config::{Cluster, ClusterIndex, Draw, Endpoint, L4Backend, RuleBackend};
use crate::failure::{Failure, FailureKind};
use crate::names::Interned;
use crate::shard::Shard;
use crate::trace::Tracer;
use crate::upstream::Upstreams;
use crate::upstream::health::EndpointUse;

/// A weighted backend of a rule.
pub(crate) trait Share {
    fn cluster(&self) -> Result<ClusterIndex, InvalidBackend>;

    /// The unresolved reference, if it is invalid.
    fn unresolved(&self) -> Option<&str>;
}

impl Share for RuleBackend {
    fn cluster(&self) -> Result<ClusterIndex, InvalidBackend> {
        self.cluster
    }

    fn unresolved(&self) -> Option<&str> {
        self.unresolved()
    }
}

impl Share for L4Backend {
    fn cluster(&self) -> Result<ClusterIndex, InvalidBackend> {
        self.cluster
    }

    fn unresolved(&self) -> Option<&str> {
        self.unresolved.as_deref()
    }
}

/// Selects a backend of a rule by weight. Fails for a rule without backends, and for the share of a
/// reference that does not resolve (Gateway API, `HTTPRouteRule.backendRefs`).
pub(crate) fn draw<'a, S: Share>(
    shard: &Shard,
    (draw, backends): (&Draw, &'a [S]),
    trace: Option<&Tracer>,
) -> Result<(&'a S, ClusterIndex), Failure> {
    let destination = shard.with_rng(|rng| draw.draw(rng));
    let backend = destination.and_then(|at| backends.get(at));
    let backend = backend.ok_or(FailureKind::NoValidBackend)?;
    let index = backend.cluster().map_err(|why| {
        if let Some(trace) = trace {
            trace.unresolved(backend.unresolved(), why);
        }
        FailureKind::NoValidBackend
    })?;
    Ok((backend, index))
}

/// Selects an endpoint, preferably one not tried yet, and registers the attempt: the pinned
/// endpoint, or the one chosen by load balancing.
pub(crate) fn choose<'a>(
    upstreams: &Upstreams,
    cluster: &'a Cluster,
    pinned: Option<&'a Endpoint>,
    tried: &mut Vec<Interned>,
    trace: Option<&mut Tracer>,
    now: Instant,
) -> Result<(&'a Endpoint, EndpointUse), Failure> {
    let states = &upstreams.endpoints;
    let endpoint = pinned.or_else(|| {
        let chosen = upstreams.choose(cluster, tried, now)?;
        cluster.endpoint(chosen)
    });
    if let Some(trace) = trace {
        trace.endpoint(states, cluster, endpoint, tried);
        if endpoint.is_some() {
            trace.attempt();
        }
    }
    let endpoint = endpoint.ok_or(FailureKind::NoEndpoint)?;
    tried.push(endpoint.id);
    Ok((endpoint, states.start(&cluster.set, endpoint.id)))
}
