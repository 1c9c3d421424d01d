//! The response of `/config_dump`: the loaded configuration with the state of endpoints.
//!
//! It consists of flat lists whose entries reference their parent by key. The proxy writes the types of
//! the model, one resource at a time; these are to read them. A test of `gwctl` ensures that nothing is
//! lost between.

mod about;
mod backend;
mod filter;
mod listener;
mod matching;
mod policy;
mod route;
mod tls;
mod workload;

use serde::{Deserialize, Serialize};

pub use about::{
    BindDown, Certificate, HealthCheckLimit, KeysMissing, LimitedHealthCheck, Problem, Runtime,
    Shard, Source, SourceKind, TypeState, Version,
};
pub use backend::{
    Backend, Endpoint, EndpointCheck, EndpointCheckState, EndpointHealth, EndpointStats, Host,
    Hosts,
};
pub use filter::{
    Cors, ExternalAuth, Filters, Fraction, HeaderEdit, HeaderLine, Mirror, PathEdit, Redirect,
    Rewrite,
};
pub use listener::{Bind, Listener};
pub use matching::{HttpMatch, MatchKind, PathKind, PathMatch, ValueMatch};
pub use policy::{Policy, PolicyTarget};
pub use route::{
    Order, Retry, Route, RouteBackend, SessionPersistence, SessionToken, Target, Timeouts,
};
pub use tls::{BackendTls, ListenerTls, SecretUse};
pub use workload::{Serves, Service, ServicePort, TopologyHints, Workload};

/// A complete dump, as `/config_dump` responds with it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Dump {
    /// Versions of the proxy and of the dump format.
    pub version: Version,
    /// State of the process; None where the dump was not written by a running proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
    /// Source of the configuration.
    #[serde(default)]
    pub source: Source,
    /// Certificates served to clients or presented to backends, without private keys.
    #[serde(default)]
    pub certificates: Vec<Certificate>,
    /// Listening sockets, each shared by the listeners on its port.
    #[serde(default)]
    pub binds: Vec<Bind>,
    /// Listeners, each on a bind.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// Route rules, one entry per rule and listener.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// `Backend`, InferencePool and XBackend resources.
    #[serde(default)]
    pub backends: Vec<Backend>,
    /// Addresses that serve services.
    #[serde(default)]
    pub workloads: Vec<Workload>,
    /// Services with their ports and endpoints.
    #[serde(default)]
    pub services: Vec<Service>,
    /// Policies, one entry per policy and target.
    #[serde(default)]
    pub policies: Vec<Policy>,
}
