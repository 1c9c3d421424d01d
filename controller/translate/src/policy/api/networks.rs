//! `TrafficPolicy.spec.networks`: which client addresses are accepted.

use serde::{Deserialize, Serialize};

/// Networks of clients. An address in `deny` or a list of `denyFrom` is refused; if there is an `allow` or an
/// `allowFrom`, every address that is in neither is refused too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworksSpec {
    /// Networks such as `10.0.0.0/8`.
    #[serde(default)]
    pub deny: Option<Vec<String>>,
    #[serde(default)]
    pub allow: Option<Vec<String>>,
    /// ConfigMaps with a network or address on each line.
    #[serde(default)]
    pub deny_from: Option<Vec<NetworkListRef>>,
    #[serde(default)]
    pub allow_from: Option<Vec<NetworkListRef>>,
}

impl NetworksSpec {
    /// All references to lists.
    pub fn lists(&self) -> impl Iterator<Item = &NetworkListRef> {
        let lists = [&self.deny_from, &self.allow_from];
        lists.into_iter().flatten().flatten()
    }
}

/// An entry of a ConfigMap in the namespace of the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct NetworkListRef {
    /// Name of the ConfigMap.
    pub name: String,
    /// Name of its entry.
    pub key: String,
}
