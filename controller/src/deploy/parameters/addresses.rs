//! Which addresses a Gateway reports.

use serde::Deserialize;
use translate::api::LabelSelector;

use crate::deploy::addresses::NodeAddressType;

/// The addresses in the status of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AddressParameters {
    /// Whose they are.
    pub from: Option<AddressesFrom>,
    /// Of nodes: their type.
    #[serde(rename = "type")]
    pub kind: Option<NodeAddressType>,
    /// Of nodes: which ones.
    pub selector: Option<LabelSelector>,
}

/// Whose addresses a Gateway reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum AddressesFrom {
    /// Its Service's.
    Service,
    /// Those of the nodes with a proxy.
    Nodes,
}

impl AddressParameters {
    /// With those of the class as defaults.
    pub(super) fn or(self, class: Self) -> Self {
        Self {
            from: self.from.or(class.from),
            kind: self.kind.or(class.kind),
            selector: self.selector.or(class.selector),
        }
    }
}
