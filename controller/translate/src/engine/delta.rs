//! The output of a translator for a batch.

use std::collections::BTreeMap;

use jiff::Timestamp;
use xds::model::{Change, ObjectName, ResourceKey};

use crate::gateway::infrastructure::Infrastructure;
use crate::objects::object_ref::ObjectRef;
use crate::status::Status;

/// Everything that a batch changed: one entry per item, `None` for removed ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delta {
    /// Changed resources, by kind and key.
    pub resources: Vec<Change>,
    /// Changes in which resources each Gateway's proxies need. Resources that changed but are
    /// needed as before are only in `resources`.
    pub views: BTreeMap<ObjectName, ViewChange>,
    /// Statuses, by object. `None`: the object was deleted, or no longer belongs to this
    /// controller.
    pub statuses: Vec<(ObjectRef, Option<Status>)>,
    /// Labels and annotations for the objects of each Gateway; `None` if it was deleted.
    pub infrastructure: Vec<(ObjectName, Option<Infrastructure>)>,
    /// What is not used of Services, which have no status of this controller, and why; `None` if all of
    /// them is used again.
    pub service_warnings: Vec<(ObjectName, Option<Box<str>>)>,
    /// When the output changes without a change of objects: a certificate expires. Apply a batch
    /// (possibly empty) afterwards.
    pub wake_at: Option<Timestamp>,
}

/// How the set of resources of a Gateway's proxies changed. Both lists are ordered by kind and key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ViewChange {
    /// Needed from now on.
    pub joined: Vec<ResourceKey>,
    /// No longer needed, whether or not they still exist for others.
    pub left: Vec<ResourceKey>,
}

impl Delta {
    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
            && self.views.is_empty()
            && self.statuses.is_empty()
            && self.infrastructure.is_empty()
            && self.service_warnings.is_empty()
    }
}
