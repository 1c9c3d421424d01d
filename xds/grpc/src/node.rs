//! The identity that a proxy states in the first request of a stream.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;
use xds::model::ObjectName;

/// A proxy: the Gateway that it serves, and its own name (of its pod). Written
/// `<namespace>/<gateway>/<proxy>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// The Gateway that the proxy serves.
    pub gateway: ObjectName,
    /// The proxy's own name: its pod's, in a cluster.
    pub proxy: Arc<str>,
}

/// A text that is not a valid node id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the node id `{0}` does not have the form `<namespace>/<gateway>/<proxy>`")]
pub struct InvalidNodeId(String);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.gateway, self.proxy)
    }
}

impl FromStr for NodeId {
    type Err = InvalidNodeId;

    fn from_str(text: &str) -> Result<Self, InvalidNodeId> {
        // The error quotes it in logs: limit it to the length of a valid id.
        let end = text.floor_char_boundary(NODE_ID_BYTES);
        let invalid = || InvalidNodeId(text.get(..end).unwrap_or_default().to_owned());
        let mut parts = text.split('/');
        let mut next = || parts.next().filter(|it| is_name(it)).ok_or_else(invalid);
        let (namespace, gateway, proxy) = (next()?, next()?, next()?);
        if parts.next().is_some() {
            return Err(invalid());
        }
        Ok(Self {
            gateway: ObjectName::new(namespace, gateway),
            proxy: proxy.into(),
        })
    }
}

/// Whether it is a valid name in Kubernetes, so that it is safe in a log and in a metric label.
fn is_name(text: &str) -> bool {
    let is_legal = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'.' | b'_');
    !text.is_empty() && text.len() <= NAME_BYTES && text.bytes().all(is_legal)
}

/// Longest name in Kubernetes (RFC 1123 subdomain).
const NAME_BYTES: usize = 253;

/// Three names and two separators.
const NODE_ID_BYTES: usize = 3 * NAME_BYTES + 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_id_round_trips() {
        let node = NodeId {
            gateway: ObjectName::new("infra", "web.example"),
            proxy: "web-7d9f-x2k".into(),
        };
        assert_eq!(node.to_string(), "infra/web.example/web-7d9f-x2k");
        assert_eq!(node.to_string().parse(), Ok(node));
    }

    #[test]
    fn malformed_node_ids_are_rejected() {
        let long = format!("a/b/{}", "x".repeat(NAME_BYTES + 1));
        for text in [
            "", "a", "a/b", "a/b/", "a//c", "/b/c", "a/b/c/d", "a/b/c\nd", &long,
        ] {
            assert!(text.parse::<NodeId>().is_err(), "{text}");
        }
    }

    #[test]
    fn errors_quote_a_bounded_part_of_the_id() {
        let text = "é".repeat(10_000);
        let error = text.parse::<NodeId>().expect_err("it has no parts");
        assert!(error.to_string().len() < 2 * NODE_ID_BYTES);
    }
}
