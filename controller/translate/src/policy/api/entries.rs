//! The status of a policy, as far as it matters to translation: the list of ancestors is shared with
//! other controllers, and bounded.

use serde::{Deserialize, Serialize};

/// The entries of a policy's status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PolicyEntries {
    /// An entry for each pair of controller and ancestor.
    #[serde(default)]
    pub ancestors: Vec<PolicyEntry>,
}

/// An entry of a policy's status.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyEntry {
    /// The controller whose entry it is.
    #[serde(default)]
    pub controller_name: String,
}

impl PolicyEntries {
    /// Number of entries that the API allows for this controller.
    #[must_use]
    pub fn room_for(&self, controller_name: &str) -> usize {
        let others = self.ancestors.iter();
        let others = others.filter(|entry| entry.controller_name != controller_name);
        Self::MAX.saturating_sub(others.count())
    }

    /// The `maxItems` of Gateway API.
    pub const MAX: usize = 16;
}
