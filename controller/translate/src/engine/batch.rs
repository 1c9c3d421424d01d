//! The input of a translator: changes of objects, and of the environment.

use std::collections::BTreeSet;
use std::net::IpAddr;

use xds::model::{ObjectName, SessionKeys};

use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Object;
use crate::options::{AssignedAddresses, ListenerLimits};

/// One change of the translator's input.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An object was created or changed.
    Upsert(Object),
    /// An object was deleted; unknown ones are ignored.
    Delete(ObjectRef),
    /// All addresses of this machine that sockets can bind.
    MachineAddresses(BTreeSet<IpAddr>),
    /// All addresses that the cluster assigned to a Gateway.
    AssignedAddresses(ObjectName, AssignedAddresses),
    /// The session keys of a Gateway, if there are any.
    SessionKeys(ObjectName, Option<SessionKeys>),
    /// Whether `GatewayParameters` of this name exist.
    Parameters(ObjectName, bool),
    /// The limits that `GatewayParameters` of this name set; without any by default.
    ListenerLimits(ObjectName, ListenerLimits),
    /// The `GatewayParameters` of a GatewayClass, if it has any.
    ClassParameters(String, Option<ObjectName>),
    /// Whether the API server serves ClusterTrustBundles.
    TrustBundles(bool),
    /// Whether a GatewayClass of this name belongs to this controller.
    Class(String, bool),
    /// Objects are translated from now on. Before, they are only stored: units would run once for each
    /// part of what they read.
    Start,
}

/// Changes that are applied atomically, in order.
pub type Batch = Vec<Event>;
