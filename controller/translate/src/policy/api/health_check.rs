//! The field `healthCheck` of policies: what endpoints are asked, to find out whether they can serve.

use std::num::{NonZeroU16, NonZeroU32};

use serde::{Deserialize, Serialize};

/// The health check of the endpoints of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HealthCheckSpec {
    /// What is asked.
    #[serde(rename = "type")]
    pub kind: HealthCheckType,
    /// Path of requests; `/` if unset. Of HTTP only.
    pub path: Option<String>,
    /// Their `Host`. Of HTTP and GRPC.
    pub host: Option<String>,
    /// The statuses of healthy endpoints; 200 if unset. Of HTTP only.
    pub expect: Option<Vec<String>>,
    /// The service that is asked about. Of GRPC only.
    pub service: Option<String>,
    /// Where to ask, if not at the port of requests.
    pub port: Option<NonZeroU16>,
    /// From one probe of an endpoint to the next.
    pub interval: Option<String>,
    /// For the whole answer.
    pub timeout: Option<String>,
    /// Failures in a row.
    pub unhealthy_after: Option<NonZeroU32>,
    /// Successes in a row.
    pub healthy_after: Option<NonZeroU32>,
    /// What holds of an endpoint before its first verdict.
    pub initial: InitialHealthSpec,
    /// The share of endpoints in service below which probes are ignored, in percent.
    pub panic_percent: Option<u32>,
}

/// What a health check asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HealthCheckType {
    /// A GET request.
    #[default]
    Http,
    /// The health service of gRPC.
    Grpc,
    /// A connection.
    Tcp,
}

/// What holds of an endpoint before its first verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum InitialHealthSpec {
    /// It is in service.
    #[default]
    Healthy,
    /// It is not.
    Unhealthy,
}
