//! The changes that watches report.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;
use translate::ObjectKind;
use translate::status::Release;
use translate::{Object, ObjectRef};
use xds::model::ObjectName;

use super::class::Class;
use crate::outputs::Observed;

/// A change reported by a watch.
#[derive(Debug, Clone)]
pub struct Change {
    /// Kind of the object.
    pub kind: ObjectKind,
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
    /// An object was deleted, and another one of its name was created. One change, so that nothing is
    /// published without either.
    Replace(ObjectName, Content),
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
    /// The object passed admission.
    Valid {
        /// The object as admitted, without unknown fields.
        object: Object,
        /// The object in the cluster, for kinds with a status.
        observed: Option<Arc<Observed>>,
    },
    /// The object did not pass admission.
    Invalid {
        /// Kind and name of the object.
        reference: ObjectRef,
        /// Takes effect if there is no earlier version.
        fail_closed: Option<Object>,
        /// The reason, with advice.
        why: Arc<str>,
        /// The object in the cluster, for kinds with a status.
        observed: Option<Arc<Observed>>,
    },
    /// The parameters of Gateways.
    Parameters(Arc<Value>),
    /// A GatewayClass of this controller.
    Class {
        /// The fields that decide whether the class belongs to this controller.
        class: Class,
        /// The object in the cluster.
        observed: Arc<Observed>,
    },
    /// The release of Gateway API stated by the CRDs, if any.
    Release(Option<Release>),
}
