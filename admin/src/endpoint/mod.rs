//! The endpoints of the servers. A new one is a file here and an entry in one of the tables below.

pub(crate) mod config_dump;
mod context;
pub(crate) mod cpu_profile;
mod handler;
mod heap_profile;
mod logging;
mod memory;
mod metrics;
mod page;
mod quit;
mod readiness;
pub(crate) mod tasks;
pub(crate) mod trace;

pub(crate) use context::Context;
pub(crate) use handler::{Endpoint, EndpointRequest};

/// Endpoints of the admin server.
pub(crate) const ADMIN: &[Endpoint] = &[
    config_dump::ENDPOINT,
    cpu_profile::ENDPOINT,
    heap_profile::ENDPOINT,
    logging::ENDPOINT,
    memory::ENDPOINT,
    quit::ENDPOINT,
    tasks::ENDPOINT,
    trace::ENDPOINT,
];

/// Endpoints of the admin server of a process other than the proxy.
pub(crate) const PROCESS: &[Endpoint] =
    &[cpu_profile::ENDPOINT, logging::ENDPOINT, memory::ENDPOINT];

/// Endpoints of the server for probes of a process other than the proxy.
pub(crate) const PROBES: &[Endpoint] = &[readiness::LIVENESS, readiness::PROCESS_READINESS];

/// The files of the admin server's page.
pub(crate) const PAGE: &[Endpoint] = page::ENDPOINTS;

/// Endpoints of the metrics server.
pub(crate) const METRICS: &[Endpoint] = &[metrics::ENDPOINT];

/// Endpoints of the readiness server.
pub(crate) const READINESS: &[Endpoint] = &[readiness::ENDPOINT];
