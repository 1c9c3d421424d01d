//! What the caller learns of connected proxies.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use xds::delta::{Refusal, Version};
use xds::model::{Kind, ResourceKey};

use crate::NodeId;

/// Is told what happens on streams. Called on the server's tasks: it may not block.
pub trait Observer: Send + Sync + 'static {
    /// Something happened on the stream of this proxy.
    fn observe(&self, proxy: &Proxy, event: &Event<'_>);
}

/// A proxy with a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Its Gateway and its name.
    pub node: NodeId,
    /// Where it connects from.
    pub address: SocketAddr,
    /// The number of the stream: a proxy that reconnects has another.
    pub stream: u64,
}

/// What happened on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// It began.
    Connected,
    /// A response was given to the connection.
    Sent {
        /// Of resources of this kind.
        kind: Kind,
        /// Its size.
        bytes: usize,
    },
    /// The proxy has put a response into force, so long after the batch was begun.
    Accepted {
        /// Since then.
        after: Duration,
    },
    /// The proxy has refused something of a response, so long after the batch was begun.
    Refused {
        /// What, and why.
        refusals: &'a [Refusal],
        /// Since then.
        after: Duration,
    },
    /// It ended.
    Disconnected {
        /// Why, as the proxy is told.
        reason: &'a str,
    },
}

/// What the connected proxies of a Gateway say of the current version of its resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// How many are connected.
    pub connected: usize,
    /// The current version of each resource.
    pub versions: BTreeMap<ResourceKey, Version>,
    /// How many have a resource in force; of those that none has, nothing.
    pub accepted: BTreeMap<ResourceKey, usize>,
    /// What one of them refuses, and why.
    pub refused: BTreeMap<ResourceKey, String>,
}
