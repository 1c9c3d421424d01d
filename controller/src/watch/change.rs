//! The changes that watches report.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;
use translate::status::Release;
use translate::{Object, ObjectRef};
use xds::model::ObjectName;

use super::class::Class;
use super::kinds::KindId;
use crate::outputs::Observed;

/// A change reported by a watch.
#[derive(Debug, Clone)]
pub struct Change {
    /// Kind of the object.
    pub kind: KindId,
    /// When it was received.
    pub received: Instant,
    /// The kind of change.
    pub what: ChangeKind,
}

/// The kind of change.
#[derive(Debug, Clone)]
pub enum ChangeKind {
    /// An object was created or changed.
    Upsert(ObjectName, Content),
    /// An object was deleted, or its namespace is no longer selected.
    Delete(ObjectName),
    /// The API server does not serve the kind, so there are no objects.
    Absent,
    /// All objects were reported.
    Synced,
}

/// The current content of an object.
#[derive(Debug, Clone)]
pub enum Content {
    /// A valid object.
    Valid {
        /// The admitted object.
        object: Object,
        /// The object in the cluster, for kinds with a status.
        observed: Option<Arc<Observed>>,
    },
    /// An invalid object.
    Invalid {
        /// Kind and name of the object.
        reference: ObjectRef,
        /// Takes effect if there is no earlier version.
        stand_in: Option<Object>,
        /// The reason, with advice.
        why: Arc<str>,
        /// The object in the cluster, for kinds with a status.
        observed: Option<Arc<Observed>>,
    },
    /// The parameters of Gateways.
    Parameters(Arc<Value>),
    /// A GatewayClass of this controller.
    Class {
        /// Its decisive fields.
        class: Class,
        /// The object in the cluster.
        observed: Arc<Observed>,
    },
    /// The release of Gateway API stated by the CRDs, if any.
    Release(Option<Release>),
}
