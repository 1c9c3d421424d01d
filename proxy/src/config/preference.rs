//! Why some endpoints of a service come before others.

/// Why some endpoints come before others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preference {
    /// None does.
    #[default]
    Nothing,
    /// Their hints name the node of the proxy.
    NodeHints,
    /// Their hints name the zone of the proxy.
    ZoneHints,
    /// They are in the zone of the proxy.
    Zone,
    /// They are on the node of the proxy, or in its zone.
    Node,
}

impl Preference {
    /// Its name in the dump.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::NodeHints => "node hints",
            Self::ZoneHints => "zone hints",
            Self::Zone => "zone",
            Self::Node => "node",
        }
    }
}
