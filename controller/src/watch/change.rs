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
    /// Of this kind.
    pub kind: KindId,
    /// When it was received.
    pub received: Instant,
    /// What changed.
    pub what: What,
}

/// What changed.
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
    /// Valid.
    Valid {
        /// The object.
        object: Object,
        /// What stands in the cluster, for kinds with a status.
        observed: Option<Arc<Observed>>,
    },
    /// Refused.
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
    /// Parameters of Gateways.
    Parameters(Arc<Value>),
    /// A GatewayClass.
    Class {
        /// What is read of it.
        class: Class,
        /// What stands in the cluster.
        observed: Arc<Observed>,
    },
    /// The release that the definitions of Gateway API are of, if they tell.
    Release(Option<Release>),
}
