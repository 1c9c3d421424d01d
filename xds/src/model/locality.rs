//! Which endpoints are preferred by where they are.

use serde::Serialize;

/// Which endpoints a proxy prefers by where they and it are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Locality {
    /// What decides.
    pub mode: LocalityMode,
    /// Whether the others get requests when few of the preferred ones are in service.
    #[serde(skip_serializing_if = "Spill::is_proportional")]
    pub spill: Spill,
}

/// What decides which endpoints a proxy prefers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
pub enum LocalityMode {
    /// Nothing: all endpoints are alike.
    Off,
    /// The hints of EndpointSlices, as kube-proxy follows them.
    #[default]
    Hints,
    /// Endpoints of the proxy's zone come first.
    PreferZone,
    /// Endpoints of the proxy's node come first, then those of its zone.
    PreferNode,
}

/// What happens when few of the preferred endpoints are in service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
pub enum Spill {
    /// The others get what would overload them.
    #[default]
    Proportional,
    /// The others get nothing, whatever happens.
    Never,
}

impl Spill {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_proportional(&self) -> bool {
        *self == Self::Proportional
    }
}
