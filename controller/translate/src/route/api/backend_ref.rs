//! References from HTTP and gRPC rules to backends.

use serde::{Deserialize, Serialize};

use super::HttpRouteFilter;
use crate::backend::api::references;

references! {
    /// A backend of an HTTP or gRPC rule.
    HttpBackendRef: {
        /// Its share of the requests.
        #[serde(default = "crate::backend::api::one")]
        weight: u32,
        /// Filters of this backend alone.
        #[serde(default)]
        filters: Vec<HttpRouteFilter>,
    }
}
