//! The environment of a translation: where the proxies run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use xds::model::{ObjectName, SessionKeys};

use crate::budgets::Limits;
use crate::gateway::api::GatewayAddress;

/// Where the proxies run, and which classes and ports belong to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Names of our GatewayClasses.
    pub classes: BTreeSet<String>,
    /// Identifies our entries in statuses.
    pub controller_name: String,
    /// A machine, or a cluster.
    pub environment: Environment,
    /// Ports used by the proxy itself; listeners on them are rejected.
    pub reserved_ports: BTreeSet<u16>,
    /// Added to ports below 1024, which need a privilege; 0 leaves them unchanged.
    pub port_offset: u16,
    /// The current time; `None` disables expiry.
    pub now: Option<Timestamp>,
    /// What objects may cost.
    pub budgets: Limits,
}

/// Where the proxies run.
#[derive(Debug, Clone, PartialEq)]
pub enum Environment {
    /// One machine. Gateways share its addresses, no other controller exists, and controller
    /// features (parameters, deployment) are ignored.
    Machine {
        /// Addresses that can be bound, besides loopback and unspecified ones.
        addresses: BTreeSet<IpAddr>,
    },
    /// A cluster. Each Gateway has its own addresses, and there are other controllers.
    Cluster {
        /// Domain of the names of its Services.
        domain: String,
        /// Addresses assigned to each Gateway so far.
        assigned: BTreeMap<ObjectName, AssignedAddresses>,
        /// The session keys of Gateways.
        session_keys: BTreeMap<ObjectName, SessionKeys>,
        /// Names of the `GatewayParameters` that exist.
        parameters: BTreeSet<ObjectName>,
        /// Limits that `GatewayParameters` set, where they set any.
        limits: BTreeMap<ObjectName, ListenerLimits>,
        /// The limits that each Gateway last had by valid parameters, where these set any.
        last_limits: BTreeMap<ObjectName, ListenerLimits>,
        /// The `GatewayParameters` of classes, by the name of the class: the last valid reference.
        class_parameters: BTreeMap<String, ObjectName>,
        /// Whether the API server serves ClusterTrustBundles.
        has_trust_bundles: bool,
    },
}

impl Environment {
    /// Keeps the limits that a Gateway has by valid parameters.
    pub(crate) fn keep_limits(&mut self, gateway: &ObjectName, limits: ListenerLimits) {
        let Self::Cluster { last_limits, .. } = self else {
            return;
        };
        if limits == ListenerLimits::default() {
            last_limits.remove(gateway);
        } else {
            last_limits.insert(gateway.clone(), limits);
        }
    }

    /// Sets whether the API server serves ClusterTrustBundles; returns whether that changed.
    pub(crate) fn set_trust_bundles(&mut self, new: bool) -> bool {
        match self {
            Self::Cluster {
                has_trust_bundles, ..
            } => std::mem::replace(has_trust_bundles, new) != new,
            Self::Machine { .. } => false,
        }
    }
}

/// Limits of the listeners of a Gateway that `GatewayParameters` set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListenerLimits {
    /// Number of its ports, with those of its ListenerSets.
    pub ports: Option<u64>,
    /// Number of listeners of its ListenerSets.
    pub listeners: Option<u64>,
}

impl ListenerLimits {
    /// These limits, and those of the class where they set none.
    pub(crate) fn or(self, class: Self) -> Self {
        Self {
            ports: self.ports.or(class.ports),
            listeners: self.listeners.or(class.listeners),
        }
    }
}

/// The addresses that a cluster assigned to a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssignedAddresses {
    /// The addresses to use unless specific ones are requested.
    pub default: Vec<GatewayAddress>,
    /// The ClusterIPs of its Service, which are also the default without a load balancer.
    pub cluster: Vec<GatewayAddress>,
    /// Why there is no default address, if there is none.
    pub absence: NoAddress,
}

/// Why a Gateway has no addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NoAddress {
    /// Its Service waits for a load balancer.
    #[default]
    Pending,
    /// It is to have none: what sends requests to it knows where its proxies are.
    Unneeded,
    /// They are those of its nodes, of which none counts; why.
    Nodes(String),
    /// They are those of its nodes, which cannot be read; what to do. Requests are served all the same.
    Unreadable(String),
}

impl AssignedAddresses {
    /// Whether there are no addresses, and none are known to be missing for another reason than that it takes time.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let is_pending = self.absence == NoAddress::Pending;
        self.default.is_empty() && self.cluster.is_empty() && is_pending
    }
}

impl Options {
    /// One machine without a cluster: class `gateway`, no offset.
    #[must_use]
    pub fn machine() -> Self {
        Self {
            classes: BTreeSet::from([DEFAULT_CLASS.to_owned()]),
            controller_name: CONTROLLER_NAME.to_owned(),
            environment: Environment::Machine {
                addresses: BTreeSet::new(),
            },
            reserved_ports: RESERVED_PORTS.into(),
            port_offset: 0,
            now: None,
            budgets: Limits::of_machine(),
        }
    }

    /// A cluster with the usual domain, without assigned addresses.
    #[must_use]
    pub fn cluster() -> Self {
        Self::cluster_of(CLUSTER_DOMAIN)
    }

    /// A cluster with this domain, without assigned addresses.
    #[must_use]
    pub fn cluster_of(domain: &str) -> Self {
        Self {
            environment: Environment::Cluster {
                domain: domain.to_owned(),
                assigned: BTreeMap::new(),
                session_keys: BTreeMap::new(),
                parameters: BTreeSet::new(),
                limits: BTreeMap::new(),
                last_limits: BTreeMap::new(),
                class_parameters: BTreeMap::new(),
                has_trust_bundles: false,
            },
            budgets: Limits::default(),
            ..Self::machine()
        }
    }
}

/// For a Gateway without addresses.
pub(crate) static NO_ADDRESSES: AssignedAddresses = AssignedAddresses {
    default: Vec::new(),
    cluster: Vec::new(),
    absence: NoAddress::Pending,
};

/// The domain of most clusters, and the default of kubelet.
pub const CLUSTER_DOMAIN: &str = "cluster.local";
/// The GatewayClass that always belongs to this controller.
pub const DEFAULT_CLASS: &str = "gateway";
/// The `controllerName` of our classes.
pub const CONTROLLER_NAME: &str = "gateway-system.io/controller";
/// Admin, metrics and readiness ports of a proxy.
const RESERVED_PORTS: [u16; 3] = [15000, 15020, 15021];
