//! Filters of listeners (GEP-5224).

use serde::{Deserialize, Serialize};

use super::{ExternalAuthFilter, FilterType, LocalObjectReference};

/// Filters for requests before a route is selected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListenerFilters {
    #[serde(default)]
    pub requests: Vec<ListenerFilter>,
}

/// A filter: its type, and the field of that type.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerFilter {
    /// Which field is set.
    #[serde(rename = "type")]
    pub kind: FilterType,
    #[serde(default)]
    pub external_auth: Option<ExternalAuthFilter>,
    /// A filter of another kind.
    #[serde(default)]
    pub extension_ref: Option<LocalObjectReference>,
}
