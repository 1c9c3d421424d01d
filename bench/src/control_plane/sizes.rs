//! The sizes of the cases.

use serde::{Deserialize, Serialize};

/// The number of objects, changes and replicas of each case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sizes {
    pub(crate) attached: usize,
    pub(crate) probes: usize,
    pub(crate) namespaces: usize,
    pub(crate) routes: usize,
    pub(crate) probes_at_scale: usize,
    pub(crate) churn: u32,
    pub(crate) change_seconds: u64,
    pub(crate) sets: usize,
    pub(crate) routes_per_set: usize,
    pub(crate) replicas: usize,
    pub(crate) endpoints: usize,
}
