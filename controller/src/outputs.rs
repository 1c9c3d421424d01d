//! The data that the parts of the controller exchange. Each value has one writer and one follower.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use translate::diagnosis::Diagnosis;
use translate::status::Status;
use translate::{AssignedAddresses, Infrastructure, ObjectRef, Obstacle};
use xds::delta::{Fact, Version};
use xds::model::{ObjectName, ResourceKey, SessionKeys};
pub use xds_grpc::server::{Published, SeenSymptom};

use crate::accounts::Accounts;
use crate::change_tracker::ChangeTracker;
use crate::deploy::WorkloadProblem;
use crate::deploy::ports::Port;
use crate::gateway_class::Claims;
use crate::isolation::Isolated;
use crate::listener_binds::ListenerBinds;
use crate::session_keys::SessionKeyProblem;
use crate::status::Deployment;
use crate::watch::ClassParameters;

/// The state that the controller's tasks exchange.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Configuration for proxies: from translation to the xDS server.
    pub published: Arc<Published>,
    /// Whether the first configuration is published, and `infrastructure` has its Gateways. Proxies that
    /// connect earlier wait for it.
    pub gateways_known: watch::Sender<bool>,
    /// The desired entries of statuses, incomplete before `translated`: from translation to the status
    /// writer.
    pub statuses: ChangeTracker<ObjectRef, Arc<Status>>,
    /// Whether translation has published its first complete result. Until then, an object without a
    /// status has not been evaluated yet.
    pub translated: watch::Sender<bool>,
    /// Objects with a status, as they are in the cluster: from the watches to the status writer.
    pub observed: ChangeTracker<ObjectRef, Arc<Observed>>,
    /// Invalid objects, with the reason: from the watches to the status writer. Their last valid
    /// version, if any, stays in effect.
    pub invalid: ChangeTracker<ObjectRef, Arc<str>>,
    /// Objects with a resource too large to send, with the reason: from translation to the status
    /// writer.
    pub oversized: ChangeTracker<ObjectRef, Arc<str>>,
    /// What does not work as it is written although all references are resolved, by object: from translation to
    /// the status writer.
    pub diagnoses: ChangeTracker<ObjectRef, Arc<[Diagnosis]>>,
    /// The `infrastructure` of each Gateway: from translation to the deployer.
    pub infrastructure: ChangeTracker<ObjectName, Arc<Infrastructure>>,
    /// `spec` of each `GatewayParameters` object: from the watches to the deployer.
    pub parameters: ChangeTracker<ObjectName, Arc<Value>>,
    /// The `GatewayParameters` of each class of ours, by the name of the class: from the watches to
    /// the deployer.
    pub class_parameters: ChangeTracker<String, ClassParameters>,
    /// The classes with this controller's name, and who serves them: from translation to the task that
    /// claims them.
    pub claims: Claims,
    /// Advice about settings of a class that have no effect, for its status: the name of the class, and the
    /// text. From the command line.
    pub class_advice: Option<(String, String)>,
    /// Set while this replica does not hear the API server, and another one does.
    pub isolated: watch::Sender<Option<Isolated>>,
    /// The addresses of each Gateway: from the deployer to translation.
    pub addresses: ChangeTracker<ObjectName, AssignedAddresses>,
    /// Every Gateway that exists and is not being deleted, of any class: from the watches to the
    /// deployer.
    pub gateways: ChangeTracker<ObjectName, ExistingGateway>,
    /// The session keys of each Gateway: from the task that keeps them to translation.
    pub session_keys: ChangeTracker<ObjectName, SessionKeys>,
    /// Whether the session keys in the cluster have been read, or cannot be. Until then, proxies must not lose theirs.
    pub session_keys_known: watch::Sender<bool>,
    /// What is wrong with the session keys of a Gateway: from the task that keeps them to the status writer.
    pub session_key_problems: ChangeTracker<ObjectName, SessionKeyProblem>,
    /// The ports of the proxies of each Gateway: from translation to the deployer.
    pub ports: ChangeTracker<ObjectName, BTreeSet<Port>>,
    /// Whether the deployer knows the addresses of all Gateways. Until then, a missing address does
    /// not mean that it was lost.
    pub addresses_known: watch::Sender<bool>,
    /// The ports of each Gateway's Service, and those of the pods that they lead to, where they are known:
    /// from the deployer to the status writer.
    pub service_ports: ChangeTracker<ObjectName, BTreeSet<Port>>,
    /// The service accounts that the deployer made: to the xDS server.
    pub accounts: Accounts,
    /// The binds of listeners: from translation to the status writer.
    pub listener_binds: ListenerBinds,
    /// The deployment state of each Gateway: from the deployer to the status writer.
    pub deployments: ChangeTracker<ObjectName, Deployment>,
    /// What of the parameters of each Gateway is not in effect, where that is known: from the deployer to the
    /// status writer.
    pub workload_problems: ChangeTracker<ObjectName, Arc<[WorkloadProblem]>>,
    /// Why not all pods of each Gateway's proxies run, `None` if all do or may be starting; absent before they were
    /// looked at: from the deployer to the status writer.
    pub pods: ChangeTracker<ObjectName, Option<Obstacle>>,
    /// Acknowledgements of each Gateway's proxies: from the xDS server to the status writer.
    pub acknowledgements: ChangeTracker<ObjectName, Arc<Acknowledgements>>,
    /// The CA certificates (PEM) that proxies trust, which the deployer mounts for each proxy: from
    /// the xDS server. Empty without TLS, and until they are known.
    pub authorities: watch::Sender<Arc<str>>,
}

/// An object in the cluster, as needed for writing its status. Not part of what is translated:
/// otherwise our own writes would cause translations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// UID of the object.
    pub uid: Box<str>,
    /// Resource version, so that a write does not overwrite another's.
    pub resource_version: Box<str>,
    /// Generation of its spec.
    pub generation: i64,
    /// The API version of its watch, such as `gateway.networking.k8s.io/v1`.
    pub api_version: Arc<str>,
    /// Whether it is being deleted.
    pub is_deleted: bool,
    /// Its `status` in JSON, with the entries of other controllers; empty without a status.
    /// Equal ones share memory.
    pub status: Arc<str>,
}

/// A Gateway that exists in the cluster, whether or not it is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingGateway {
    /// UID of the object.
    pub uid: Arc<str>,
    /// Its class; `None` if it was never valid.
    pub class: Option<Arc<str>>,
}

/// The acknowledgements of a Gateway's connected proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledgements {
    /// Number of connected proxies.
    pub connected: usize,
    /// For each listener of the Gateway in its current version, by key: how many proxies have
    /// applied it.
    pub listeners: BTreeMap<ResourceKey, usize>,
    /// The version of the session keys that is published here, and how many proxies have applied it.
    pub session_keys: Option<(Version, usize)>,
    /// Resources rejected by a proxy in their current version, with the reason.
    pub refused: BTreeMap<ResourceKey, String>,
    /// What only proxies see of resources of the Gateway, such as keys that cannot be fetched.
    pub symptoms: BTreeMap<(ResourceKey, Fact), SeenSymptom>,
}
