//! Upstreams: endpoints, load balancing, health, retries, sessions.
//!
//! `balance`, `health`, `retry`, `attempts` and `session` compute on a shard's own state, with time and
//! randomness passed in; `connect`, `pool`, `connection_limit`,
//! `endpoint_limit` and `h2` hold the connections. A gRPC
//! `call` or an HTTP `subrequest` is sent by the shard itself, such as to an authorization server.

pub(crate) mod attempts;
pub mod balance;
pub(crate) mod both_ways;
pub(crate) mod call;
pub(crate) mod connect;
pub(crate) mod connection_limit;
pub(crate) mod endpoint_limit;
pub(crate) mod h2;
pub mod health;
mod locality;
pub(crate) mod picker;
pub(crate) mod pool;
mod reach;
pub mod retry;
pub mod session;
mod shares;
pub(crate) mod subrequest;

use std::rc::Rc;
use std::time::Instant;

use rand::RngExt;

use crate::config::{Cluster, Hashed, Protocol, Snapshot};
use crate::http2::Memory;
use crate::limits::{FULL_ENDPOINTS, SEARCHED_ENDPOINTS};
use crate::names::Interned;
use crate::policy::hash_key::RequestKey;
use crate::shard::Shard;

use self::endpoint_limit::EndpointLimits;
use self::h2::H2Connections;
use self::health::EndpointStates;
use self::pool::Pool;

/// The per-shard state of upstreams.
pub(crate) struct Upstreams {
    pub(crate) shard: Rc<Shard>,
    /// Idle connections to endpoints.
    pub(crate) pool: Pool,
    /// Shared HTTP/2 connections to endpoints.
    pub(crate) sessions: H2Connections,
    /// What HTTP/2 connections share, those of clients too.
    pub(crate) http2_memory: Rc<Memory>,
    /// Endpoints whose connections are limited.
    pub(crate) endpoint_limits: Rc<EndpointLimits>,
    /// Health and load of endpoints and services.
    pub(crate) endpoints: EndpointStates,
}

impl Upstreams {
    pub(crate) fn new(shard: Rc<Shard>) -> Self {
        Self {
            endpoint_limits: EndpointLimits::new(&shard),
            shard,
            pool: Pool::default(),
            sessions: H2Connections::default(),
            http2_memory: Rc::default(),
            endpoints: EndpointStates::default(),
        }
    }

    /// Selects an endpoint of a cluster by load balancing, as [`EndpointStates::choose`]: one that a request
    /// need not wait for, if connections to each are limited and there is one.
    pub(crate) fn choose(
        &self,
        cluster: &Cluster,
        tried: &[Interned],
        now: Instant,
    ) -> Option<Interned> {
        let choose = |tried: &[_]| {
            (self.shard).with_rng(|rng| self.endpoints.choose(&cluster.set, tried, now, rng))
        };
        let chosen = choose(tried)?;
        if cluster.endpoint_connections.is_none() || self.has_connection(cluster, chosen) {
            return Some(chosen);
        }
        let mut passed = [tried, &[chosen]].concat();
        for _ in 0..FULL_ENDPOINTS {
            match choose(&passed).filter(|other| !passed.contains(other)) {
                Some(other) if self.has_connection(cluster, other) => return Some(other),
                Some(other) => passed.push(other),
                None => return Some(chosen),
            }
        }
        // Most are full.
        let serving = cluster.set.serving();
        let start = (self.shard).with_rng(|rng| rng.random_range(0..serving.len().max(1)));
        let around = serving.iter().enumerate().cycle().skip(start);
        let around = around.take(serving.len()).take(SEARCHED_ENDPOINTS);
        let strict = cluster.set.locality().filter(|it| it.is_strict());
        let is_near = |position| strict.is_none_or(|it| it.distance(position) == Some(0));
        let around = around.filter(|(position, _)| is_near(*position));
        let mut around = around.map(|(_, endpoint)| endpoint.id);
        let free = around.find(|id| {
            !tried.contains(id)
                && self.has_connection(cluster, *id)
                && self.endpoints.in_service(*id, now)
                && !cluster
                    .endpoint(*id)
                    .is_some_and(|it| cluster.is_probed_out(it))
        });
        free.or(Some(chosen))
    }

    /// Selects an endpoint of a cluster for a key, as [`EndpointStates::choose_by_hash`]. A request waits for one of the
    /// connections of its endpoint, as one of a session does.
    pub(crate) fn choose_by_hash(
        &self,
        (cluster, hashed): (&Cluster, &Hashed),
        key: RequestKey,
        tried: &[Interned],
        now: Instant,
    ) -> Option<Interned> {
        let set = (&cluster.set, hashed);
        let (chosen, result) = self.endpoints.choose_by_hash(set, key, tried, now)?;
        self.shard.counters.hashes.count(result);
        Some(chosen)
    }

    /// Whether a request can be sent to an endpoint without waiting for one of its connections.
    fn has_connection(&self, cluster: &Cluster, endpoint: Interned) -> bool {
        !self.is_full(cluster, endpoint)
            || match cluster.protocol {
                Protocol::Http1 => self.pool.has_idle(endpoint),
                Protocol::Http2 => self.sessions.has_room(endpoint),
            }
    }

    /// Whether an endpoint has as many connections as it may have, or requests wait for one.
    fn is_full(&self, cluster: &Cluster, endpoint: Interned) -> bool {
        let limits = &self.endpoint_limits;
        let is_full = |max| limits.is_full(endpoint, max);
        cluster.endpoint_connections.is_some_and(is_full)
    }

    /// Lets requests that wait for a connection use what a new configuration allows more.
    pub(crate) fn change_limits(&self, snapshot: &Snapshot) {
        self.pool.change_limits(snapshot);
        self.endpoint_limits.change(snapshot);
    }

    /// Closes the idle connections to endpoints that health checks have put out of service.
    pub(crate) fn close_probed_out(&self, snapshot: &Snapshot) {
        for cluster in snapshot.checked_clusters() {
            let endpoints = cluster.endpoints.iter();
            for endpoint in endpoints.filter(|it| cluster.is_probed_out(it)) {
                while self.pool.close_idle(endpoint.id) {}
                self.sessions.close_all_idle(endpoint.id);
            }
        }
    }

    /// Closes an idle connection to an endpoint if a request waits for one.
    pub(crate) fn free_endpoint(&self, endpoint: Interned) {
        if self.endpoint_limits.is_wanted(endpoint) && !self.pool.close_idle(endpoint) {
            self.sessions.close_idle(endpoint);
        }
    }
}
