//! Selects a backend of a rule by weight, and an endpoint of the backend by load balancing, for
//! requests, mirrored requests, connections and datagrams alike.

use std::net::IpAddr;
use std::time::Instant;

use xds::model::InvalidBackend;

use crate::config::{Cluster, ClusterIndex, Draw, Endpoint, L4Backend, RuleBackend};
use crate::failure::{Failure, FailureKind};
use crate::names::Interned;
use crate::observe::hashes::HashResult;
use crate::policy::hash_key::{HashKeys, RequestKey};
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

/// Selects a backend of a rule by weight, for the same key always the same. Fails for a rule without backends, and for the share of a
/// reference that does not resolve (Gateway API, `HTTPRouteRule.backendRefs`).
pub(crate) fn draw<'a, S: Share>(
    shard: &Shard,
    (draw, backends): (&Draw, &'a [S]),
    key: Option<RequestKey>,
    trace: Option<&Tracer>,
) -> Result<(&'a S, ClusterIndex), Failure> {
    let destination = match key {
        Some(key) => draw.of(key),
        None => shard.with_rng(|rng| draw.draw(rng)),
    };
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
/// endpoint, or the one chosen by the key that the cluster hashes, or by load balancing.
pub(crate) fn choose<'a>(
    upstreams: &Upstreams,
    cluster: &'a Cluster,
    pinned: Option<&'a Endpoint>,
    key: Option<RequestKey>,
    tried: &mut Vec<Interned>,
    trace: Option<&mut Tracer>,
    now: Instant,
) -> Result<(&'a Endpoint, EndpointUse), Failure> {
    let states = &upstreams.endpoints;
    let endpoint = pinned.or_else(|| {
        let chosen = match (cluster.hashed.as_deref(), key) {
            (Some(hashed), Some(key)) => {
                upstreams.choose_by_hash((cluster, hashed), key, tried, now)?
            }
            _ => upstreams.choose(cluster, tried, now)?,
        };
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
    let endpoint_use = states.start(&cluster.set, endpoint.id);
    let loads = cluster.hashed.as_deref();
    let loads = loads.and_then(|hashed| hashed.loads.as_ref());
    let endpoint_use = match loads {
        Some(loads) => endpoint_use.with_load(loads.begin(endpoint.id)),
        None => endpoint_use,
    };
    Ok((endpoint, endpoint_use))
}

/// The key of a connection or of datagrams, by which a backend or an endpoint is chosen.
pub(crate) fn key_of_address(
    shard: &Shard,
    keys: Option<&HashKeys>,
    client: IpAddr,
) -> Option<RequestKey> {
    let key = keys?.of_address(client);
    if key.is_none() {
        shard.counters.hashes.count(HashResult::NoKey);
    }
    key.map(|(key, _)| key)
}
