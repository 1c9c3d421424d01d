//! What a translator is told: changes of objects, and of what no object says.

use std::collections::BTreeSet;
use std::net::IpAddr;

use xds::model::ObjectName;

use crate::options::AssignedAddresses;
use crate::store::{Object, ObjectRef};

/// One change of the world.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An object was created or changed.
    Upsert(Object),
    /// An object was deleted; one that is not known is ignored.
    Delete(ObjectRef),
    /// The addresses of this machine that sockets can be bound to, all of them.
    MachineAddresses(BTreeSet<IpAddr>),
    /// The addresses that the cluster assigned to a Gateway, all of them.
    AssignedAddresses(ObjectName, AssignedAddresses),
    /// Whether there is a `GatewayParameters` object of this name.
    Parameters(ObjectName, bool),
    /// Whether the API server has ClusterTrustBundle objects.
    TrustBundles(bool),
    /// Whether there is a GatewayClass of this name that is ours.
    Class(String, bool),
    /// Every source has told all that it has. Nothing comes out of a translator before.
    Synced,
}

/// Changes that are seen together or not at all, in their order.
pub type Batch = Vec<Event>;
