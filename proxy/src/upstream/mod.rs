//! Upstreams: endpoints, load balancing, health, retries, sessions.
//!
//! `balance`, `health`, `retry`, `attempts` and `session` compute on a shard's own state, with time and
//! randomness passed in; `connect`, `pool`, `connection_limit` and `h2` hold the connections. A gRPC
//! `call` or an HTTP `subrequest` is sent by the shard itself, such as to an authorization server.

pub(crate) mod attempts;
pub mod balance;
pub(crate) mod both_ways;
pub(crate) mod call;
pub(crate) mod connect;
pub(crate) mod connection_limit;
pub(crate) mod h2;
pub mod health;
pub(crate) mod picker;
pub(crate) mod pool;
mod reach;
pub mod retry;
pub mod session;
pub(crate) mod subrequest;

use std::rc::Rc;

use crate::http2::Memory;
use crate::shard::Shard;

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
    /// Health and load of endpoints and services.
    pub(crate) endpoints: EndpointStates,
}

impl Upstreams {
    pub(crate) fn new(shard: Rc<Shard>) -> Self {
        Self {
            shard,
            pool: Pool::default(),
            sessions: H2Connections::default(),
            http2_memory: Rc::default(),
            endpoints: EndpointStates::default(),
        }
    }
}
