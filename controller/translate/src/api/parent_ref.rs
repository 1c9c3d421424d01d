//! References from a route to its parents.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::GATEWAY_GROUP;

/// The parent that a route attaches to, which its status repeats.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    #[serde(default = "gateway_group")]
    pub group: String,
    #[serde(default = "gateway")]
    pub kind: String,
    /// Namespace; the route's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZeroU16>,
}

/// Whether a Gateway takes routes that do not name it, and whether a route is one of these (GEP-3793).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum DefaultScope {
    All,
    #[default]
    None,
}

fn gateway_group() -> String {
    GATEWAY_GROUP.to_owned()
}

fn gateway() -> String {
    "Gateway".to_owned()
}
