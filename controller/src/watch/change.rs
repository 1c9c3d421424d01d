//! What watches tell.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;
use translate::status::Release;
use translate::{Object, ObjectRef};
use xds::model::ObjectName;

use super::class::Class;
use super::kinds::KindId;
use crate::outputs::Observed;

/// A change that a watch saw.
#[derive(Debug, Clone)]
pub struct Change {
    /// Kind of the object.
    pub kind: KindId,
    /// When it was received.
    pub received: Instant,
    /// The kind of change.
    pub what: What,
}

/// The kind of change.
#[derive(Debug, Clone)]
pub enum What {
    /// An object is there, as it is now.
    Upsert(ObjectName, Content),
    /// An object is gone, or in a namespace that is not selected.
    Delete(ObjectName),
    /// The API server does not serve the kind, so that there are no objects to be told.
    Absent,
    /// All objects that there are, or that may be read, have been told.
    Synced,
}

/// An object as it is now.
#[derive(Debug, Clone)]
pub enum Content {
    /// A valid object.
    Valid {
        /// The admitted object.
        object: Object,
        /// What stands in the cluster, for kinds with a status.
        observed: Option<Arc<Observed>>,
    },
    /// An invalid object.
    Invalid {
        /// Which object it is.
        reference: ObjectRef,
        /// What holds where no earlier version does.
        stand_in: Option<Object>,
        /// Why, and what to do.
        why: Arc<str>,
        /// What stands in the cluster, for kinds with a status.
        observed: Option<Arc<Observed>>,
    },
    /// The parameters of Gateways.
    Parameters(Arc<Value>),
    /// A GatewayClass of this controller.
    Class {
        /// What is read of it.
        class: Class,
        /// What stands in the cluster.
        observed: Arc<Observed>,
    },
    /// The release that the definitions of Gateway API are of, if they tell.
    Release(Option<Release>),
}
