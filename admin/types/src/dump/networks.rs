//! Networks of clients in a dump.

use serde::{Deserialize, Serialize};

/// Which client addresses a policy accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NetworkPolicy {
    /// A list that the policy refers to was never read: every client is refused.
    ListMissing,
    /// The networks.
    #[serde(untagged)]
    Lists {
        /// Networks whose clients are refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deny: Option<NetworkList>,
        /// If there is a list, only clients in it are accepted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allow: Option<NetworkList>,
    },
}

/// Networks in the order of their addresses, without those inside others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkList {
    /// Number of networks.
    pub count: usize,
    /// The first of them, at most 1024.
    pub first: Vec<String>,
}
