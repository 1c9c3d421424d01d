//! The answer of `/config_dump`: what the proxy is told, and how it fares.
//!
//! Seven flat lists, children naming their parent by key. The model's own types convert into these,
//! one resource at a time, so that a dump can be streamed.

mod about;
mod backend;
mod filter;
mod jwt;
mod listener;
mod matching;
mod policy;
mod route;
mod tls;
mod workload;

use serde::{Deserialize, Serialize};

pub use about::{BindDown, Certificate, Runtime, Shard, Source, SourceKind, TypeState, Version};
pub use backend::{Backend, Endpoint, EndpointHealth, Host, Hosts, Live};
pub use filter::{
    Cors, Filters, Fraction, HeaderEdit, HeaderLine, Mirror, PathEdit, Redirect, Rewrite,
};
pub use jwt::{Jwt, JwtKeys, JwtProvider};
pub use listener::{Bind, Listener};
pub use matching::{HttpMatch, MatchKind, PathKind, PathMatch, ValueMatch};
pub use policy::{
    AccessLog, AccessLogFilter, Ejection, Limits, PathOptions, Policy, PolicySpec, PolicyTarget,
    ProxyProtocol, RetryBudget, Trust,
};
pub use route::{
    Order, Retry, Route, RouteBackend, SessionPersistence, SessionToken, Target, Timeouts,
};
pub use tls::{BackendTls, ListenerTls};
pub use workload::{Serves, Service, ServicePort, Workload};

/// A whole dump.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Dump {
    /// What wrote it.
    pub version: Version,
    /// How the proxy runs; nothing in a dump of the configuration alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// Where its configuration comes from.
    #[serde(default)]
    pub source: Source,
    /// The certificates it serves and presents; never their keys.
    #[serde(default)]
    pub certificates: Vec<Certificate>,
    /// Sockets it listens on.
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// Listeners, each of a bind.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// Route rules, each of a listener.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Backends outside of services.
    #[serde(default)]
    pub backends: Vec<Backend>,
    /// Workloads, each of services.
    #[serde(default)]
    pub workloads: Vec<Workload>,
    /// Services.
    #[serde(default)]
    pub services: Vec<Service>,
    /// Policies, each with its target.
    #[serde(default)]
    pub policies: Vec<Policy>,
}
