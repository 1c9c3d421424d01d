//! References from a route to what serves it.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::HttpRouteFilter;

/// An object that serves requests.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct BackendObjectReference {
    /// Group; core by default.
    #[serde(default)]
    pub group: String,
    /// Kind.
    #[serde(default = "service")]
    pub kind: String,
    /// Namespace; the route's by default.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// Port; must be there for a Service.
    #[serde(default)]
    pub port: Option<NonZeroU16>,
}

fn service() -> String {
    "Service".to_owned()
}

/// A backend of an HTTP rule.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct HttpBackendRef {
    /// Group; core by default.
    #[serde(default)]
    pub group: String,
    /// Kind.
    #[serde(default = "service")]
    pub kind: String,
    /// Namespace; the route's by default.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// Port; must be there for a Service.
    #[serde(default)]
    pub port: Option<NonZeroU16>,
    /// Its share of the requests.
    #[serde(default = "one")]
    pub weight: u32,
    /// Filters of this backend alone.
    #[serde(default)]
    pub filters: Vec<HttpRouteFilter>,
}

fn one() -> u32 {
    1
}
