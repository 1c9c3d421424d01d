//! What the parts of the controller hand to each other. Each value has one writer and one follower.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use translate::status::Status;
use translate::{AssignedAddresses, Infrastructure, ObjectRef};
use xds::model::{ObjectName, ResourceKey};
pub use xds_grpc::server::Published;

use crate::board::Board;
use crate::deploy::ports::Port;
use crate::status::Deployment;
use crate::watch::ClassParameters;

/// Everything that is handed over.
#[derive(Debug, Default)]
pub struct Outputs {
    /// What proxies are sent: from translation to the xDS server.
    pub published: Arc<Published>,
    /// What statuses should say, our own entries of them: from translation to the status writer.
    pub statuses: Board<ObjectRef, Arc<Status>>,
    /// Whether translation has handed over the first complete result. Until then, an object without a
    /// status is one that nobody has judged yet.
    pub translated: watch::Sender<bool>,
    /// What stands in the cluster, of objects that have a status: from the watches to the status writer.
    pub observed: Board<ObjectRef, Arc<Observed>>,
    /// Objects that are refused because they are invalid, and why: from the watches to the status writer.
    /// Their last valid version, if there was one, stays in force.
    pub invalid: Board<ObjectRef, Arc<str>>,
    /// Objects of which something is too large to send, and why: from translation to the status writer.
    pub oversized: Board<ObjectRef, Arc<str>>,
    /// What each Gateway is to run on: from translation to the deployer.
    pub infrastructure: Board<ObjectName, Arc<Infrastructure>>,
    /// `spec` of each `GatewayParameters` object: from the watches to the deployer.
    pub parameters: Board<ObjectName, Arc<Value>>,
    /// The `GatewayParameters` that each class of ours names, by the name of the class: from the watches to
    /// the deployer.
    pub class_parameters: Board<String, ClassParameters>,
    /// The addresses of each Gateway: from the deployer to translation.
    pub addresses: Board<ObjectName, AssignedAddresses>,
    /// Each Gateway that is there and not being deleted, whoever serves it: from the watches to the
    /// deployer.
    pub gateways: Board<ObjectName, Present>,
    /// The ports that the proxies of each Gateway listen on: from translation to the deployer.
    pub ports: Board<ObjectName, BTreeSet<Port>>,
    /// Whether the deployer knows the addresses of all Gateways. Until then, a Gateway without one may
    /// have lost nothing.
    pub addresses_known: watch::Sender<bool>,
    /// How far the deployment of each Gateway is: from the deployer to the status writer.
    pub deployments: Board<ObjectName, Deployment>,
    /// What the proxies of each Gateway have put into force: from the xDS server to the status writer.
    pub acknowledgements: Board<ObjectName, Arc<Acknowledgements>>,
    /// The certificate authorities that proxies are to trust (PEM), which the deployer puts beside each
    /// proxy: from the xDS server. Empty where it speaks no TLS, and until they are known.
    pub authorities: watch::Sender<Arc<str>>,
}

/// An object as it stands in the cluster, as far as a write to its status needs it. It is no part of
/// what is translated: a write of ours would otherwise cause a translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// UID of the object.
    pub uid: String,
    /// Its version, for a write that must not overwrite another's.
    pub resource_version: String,
    /// The generation of its spec.
    pub generation: i64,
    /// The API version by which it is watched, such as `gateway.networking.k8s.io/v1`.
    pub api_version: String,
    /// Whether it is being deleted.
    pub is_deleted: bool,
    /// Its `status` in JSON, with the entries of others; empty where it has none.
    pub status: Box<str>,
}

/// A Gateway that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    /// UID of the object.
    pub uid: Arc<str>,
    /// The class that it names; none is known of one that was never valid.
    pub class: Option<Arc<str>>,
}

/// What the connected proxies of a Gateway say of their configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledgements {
    /// How many proxies are connected.
    pub connected: usize,
    /// Of each listener of the Gateway in its current version, by its key: how many proxies have it in
    /// force.
    pub listeners: BTreeMap<ResourceKey, usize>,
    /// Resources of any kind that a proxy refuses in their current version, and why.
    pub refused: BTreeMap<ResourceKey, String>,
}
