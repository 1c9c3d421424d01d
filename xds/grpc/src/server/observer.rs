//! Events of connected proxies, for the caller.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use xds::delta::{Fact, Refusal, Symptom, Version};
use xds::model::{Kind, ObjectName, ResourceKey};

use crate::NodeId;

/// Receives the events of streams. Called on the server's tasks: it must not block.
pub trait Observer: Send + Sync + 'static {
    /// Called for each event on the stream of this proxy.
    fn observe(&self, proxy: &Proxy, event: &Event<'_>);

    /// Called when a stream of a proxy of this Gateway has ended because its requests are too large. A proxy
    /// that reports what it holds sends them again, so it will not be served.
    fn too_large(&self, gateway: &ObjectName);

    /// Called when a stream of a proxy of this Gateway has ended because the proxy is of the release before, and
    /// its Gateway has more rules than such proxies can be sent: it has to be upgraded.
    fn outdated(&self, gateway: &ObjectName);
}

/// A proxy with an open stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The Gateway and the proxy's name.
    pub node: NodeId,
    /// The proxy's socket address.
    pub address: SocketAddr,
    /// The number of the stream; each reconnection has a new one.
    pub stream: u64,
}

/// An event on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The stream was opened.
    Connected,
    /// A response was passed to the connection.
    Sent {
        /// The kind of its resources.
        kind: Kind,
        /// Size of the response in bytes.
        bytes: usize,
    },
    /// The proxy has applied a response.
    Accepted {
        /// Time since the batch was started.
        after: Duration,
    },
    /// The proxy has rejected resources of a response.
    Refused {
        /// The rejected resources, with reasons.
        refusals: &'a [Refusal],
        /// Time since the batch was started.
        after: Duration,
    },
    /// The proxy told what it sees ([`AckSummary::symptoms`]).
    Symptoms,
    /// The stream ended, or its connection.
    Disconnected {
        /// The reason, as sent to the proxy.
        reason: &'a str,
    },
}

/// The acknowledgements of a Gateway's connected proxies for the current configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AckSummary {
    /// Number of connected proxies.
    pub connected: usize,
    /// The current version of each resource.
    pub versions: BTreeMap<ResourceKey, Version>,
    /// How many proxies have applied a resource; resources that none has applied are absent.
    pub accepted: BTreeMap<ResourceKey, usize>,
    /// Resources that a proxy has rejected in their current version, with one proxy's reason.
    pub refused: BTreeMap<ResourceKey, (Version, String)>,
    /// What proxies see of resources of the Gateway.
    pub symptoms: BTreeMap<(ResourceKey, Fact), SeenSymptom>,
    /// The version of the session keys, and how many proxies have applied it, for a caller that adds it
    /// ([`Server::applied_by`](super::Server::applied_by)).
    pub session_keys: Option<(Version, usize)>,
}

/// What proxies see of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenSymptom {
    /// Number of proxies that see it.
    pub proxies: usize,
    /// Since when one of them does.
    pub since: SystemTime,
    /// Details from the one that has seen it longest.
    pub text: String,
}

impl AckSummary {
    /// Counts that this many proxies have applied these resources.
    pub(super) fn accept(&mut self, applied: Vec<ResourceKey>, proxies: usize) {
        for key in applied {
            let count = self.accepted.entry(key).or_insert(0);
            *count = count.saturating_add(proxies);
        }
    }

    /// Adds what one proxy sees. `time` maps times of this process to those of the clock.
    pub(super) fn add_symptoms(
        &mut self,
        symptoms: Vec<Symptom>,
        time: impl Fn(Instant) -> SystemTime,
    ) {
        for Symptom {
            key,
            fact,
            since,
            text,
        } in symptoms
        {
            let since = time(since);
            let new = || SeenSymptom {
                proxies: 0,
                since,
                text: text.clone(),
            };
            let seen = self.symptoms.entry((key, fact)).or_insert_with(new);
            seen.proxies = seen.proxies.saturating_add(1);
            if since < seen.since {
                (seen.since, seen.text) = (since, text);
            }
        }
    }
}
