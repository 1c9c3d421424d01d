//! Where components run: on a node, or beside the nodes in the network that joins them.

use std::fmt;
use std::str::FromStr;

/// A network namespace with the components in it. A node has its own mount, process and other
/// namespaces as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NetworkNamespace {
    /// The network namespace of the cluster's clients, which connects the nodes.
    Client,
    /// The node of this number; number 0 has the control plane.
    Node(u8),
}

impl NetworkNamespace {
    /// The name of a node, which is also its host name.
    pub(crate) fn is_first_node(self) -> bool {
        self == Self::Node(0)
    }
}

impl fmt::Display for NetworkNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client => write!(f, "client"),
            Self::Node(number) => write!(f, "node-{number}"),
        }
    }
}

impl FromStr for NetworkNamespace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "client" {
            return Ok(Self::Client);
        }
        text.strip_prefix("node-")
            .and_then(|number| number.parse().ok())
            .map(Self::Node)
            .ok_or_else(|| format!("'{text}' is neither client nor a node such as node-0"))
    }
}
