//! What `translate` cannot read off the objects: where the proxies run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use xds::model::ObjectName;

use crate::api::GatewayAddress;

/// Where the proxies run, and what is theirs.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Names of the `GatewayClass` objects that are ours.
    pub classes: BTreeSet<String>,
    /// Signs our entries in statuses.
    pub controller_name: String,
    /// A machine, or a cluster.
    pub place: Place,
    /// Ports that the proxy itself needs; listeners on them are refused.
    pub reserved_ports: BTreeSet<u16>,
    /// Added to ports under 1024, which need a privilege; 0 leaves them.
    pub port_offset: u16,
    /// What time it is; `None` where nothing is judged by it.
    pub now: Option<Timestamp>,
}

/// Where the proxies run.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// One machine. Every Gateway shares its addresses, nobody else answers for a Gateway, and
    /// what a controller would do (parameters, deployment) is ignored.
    Machine {
        /// Addresses that can be listened on, beside loopback and unspecified ones.
        addresses: BTreeSet<IpAddr>,
    },
    /// A cluster. Each Gateway has addresses of its own, and other controllers have theirs.
    Cluster {
        /// Addresses that were assigned to each Gateway so far.
        assigned: BTreeMap<ObjectName, AssignedAddresses>,
        /// The `GatewayParameters` objects that exist.
        parameters: BTreeSet<ObjectName>,
        /// Whether the API server has ClusterTrustBundle objects.
        has_trust_bundles: bool,
    },
}

impl Place {
    /// Takes in whether the API server has ClusterTrustBundle objects; returns whether that is
    /// news.
    pub(crate) fn set_trust_bundles(&mut self, new: bool) -> bool {
        match self {
            Self::Cluster {
                has_trust_bundles, ..
            } => std::mem::replace(has_trust_bundles, new) != new,
            Self::Machine { .. } => false,
        }
    }
}

/// The addresses that a cluster assigned to a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssignedAddresses {
    /// Those by which it is meant to be reached where nothing else is asked for.
    pub default: Vec<GatewayAddress>,
    /// The ClusterIPs of its Service, which are the default too where that has no load balancer.
    pub cluster: Vec<GatewayAddress>,
}

impl AssignedAddresses {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.default.is_empty() && self.cluster.is_empty()
    }
}

impl Options {
    /// One machine without a cluster: class `gateway`, no offset.
    #[must_use]
    pub fn machine() -> Self {
        Self {
            classes: BTreeSet::from([DEFAULT_CLASS.to_owned()]),
            controller_name: CONTROLLER_NAME.to_owned(),
            place: Place::Machine {
                addresses: BTreeSet::new(),
            },
            reserved_ports: RESERVED_PORTS.into(),
            port_offset: 0,
            now: None,
        }
    }

    /// A cluster in which nothing has been assigned yet.
    #[must_use]
    pub fn cluster() -> Self {
        Self {
            place: Place::Cluster {
                assigned: BTreeMap::new(),
                parameters: BTreeSet::new(),
                has_trust_bundles: false,
            },
            ..Self::machine()
        }
    }
}

/// Those of a Gateway that has none yet.
pub(crate) static NO_ADDRESSES: AssignedAddresses = AssignedAddresses {
    default: Vec::new(),
    cluster: Vec::new(),
};

/// The `GatewayClass` that is ours without asking.
pub const DEFAULT_CLASS: &str = "gateway";
/// The `controllerName` of our classes.
pub const CONTROLLER_NAME: &str = "gateway-system.io/controller";
/// Admin, metrics and readiness of a proxy.
const RESERVED_PORTS: [u16; 3] = [15000, 15020, 15021];
