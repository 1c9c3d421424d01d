//! The protocols of listeners: the one place that says which of them the data plane carries.

use xds::model::{ListenerProtocol, Transport};

use crate::api::{GATEWAY_GROUP, RouteGroupKind};

/// A protocol that Gateway API names.
pub(crate) struct Protocol {
    name: &'static str,
    pub(crate) family: Family,
    /// What the data plane calls it; `None` where it does not carry it.
    pub(crate) carried: Option<ListenerProtocol>,
    /// Kinds of routes that it carries.
    kinds: &'static [&'static str],
}

/// What can share a port: listeners of one family, told apart by host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Plain HTTP, told apart by Host.
    Http,
    /// TLS in any form, told apart by SNI.
    Tls,
    /// TCP: one listener a port.
    Tcp,
    /// UDP: one listener a port.
    Udp,
}

impl Family {
    pub(crate) fn transport(self) -> Transport {
        match self {
            Self::Http | Self::Tls | Self::Tcp => Transport::Tcp,
            Self::Udp => Transport::Udp,
        }
    }

    pub(crate) fn has_hostnames(self) -> bool {
        matches!(self, Self::Http | Self::Tls)
    }
}

impl Protocol {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        PROTOCOLS.iter().find(|protocol| protocol.name == name)
    }

    /// The kinds of routes it carries; none where it is not carried itself.
    pub(crate) fn route_kinds(&self) -> impl Iterator<Item = RouteGroupKind> {
        let kinds = match self.carried {
            Some(_) => self.kinds,
            None => &[],
        };
        kinds.iter().map(|kind| RouteGroupKind {
            group: GATEWAY_GROUP.to_owned(),
            kind: (*kind).to_owned(),
        })
    }
}

/// The names of the protocols that are carried, for messages.
pub(crate) fn carried() -> String {
    let carried = PROTOCOLS.iter().filter(|p| p.carried.is_some());
    let names: Vec<&str> = carried.map(|protocol| protocol.name).collect();
    names.join(", ")
}

const PROTOCOLS: [Protocol; 5] = [
    Protocol {
        name: "HTTP",
        family: Family::Http,
        carried: Some(ListenerProtocol::Http),
        kinds: &["HTTPRoute"],
    },
    Protocol {
        name: "HTTPS",
        family: Family::Tls,
        carried: None,
        kinds: &["HTTPRoute"],
    },
    Protocol {
        name: "TLS",
        family: Family::Tls,
        carried: None,
        kinds: &[],
    },
    Protocol {
        name: "TCP",
        family: Family::Tcp,
        carried: None,
        kinds: &[],
    },
    Protocol {
        name: "UDP",
        family: Family::Udp,
        carried: None,
        kinds: &[],
    },
];
