//! What a batch of changes comes to.

use std::collections::BTreeMap;

use jiff::Timestamp;
use xds::model::{Change, ObjectName, ResourceKey};

use crate::infrastructure::Infrastructure;
use crate::status::Status;
use crate::store::ObjectRef;

/// What a batch changed: one entry for each thing that is another than before, `None` for one that is
/// gone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delta {
    /// Resources, by kind and key.
    pub resources: Vec<Change>,
    /// Which resources the proxies of each Gateway need, where that is another than before. What
    /// changed and is needed as before is in `resources` alone.
    pub views: BTreeMap<ObjectName, ViewChange>,
    /// Statuses, by object. `None`: the object is gone, or no longer ours to judge.
    pub statuses: Vec<(ObjectRef, Option<Status>)>,
    /// What to deploy, by Gateway.
    pub infrastructure: Vec<(ObjectName, Option<Infrastructure>)>,
    /// When something changes although no object does, as things stand now: a certificate has
    /// expired after that. Apply a batch (an empty one will do) once it is past.
    pub wake_at: Option<Timestamp>,
}

/// How the set of resources that a Gateway's proxies need changed. Both lists are in the order of
/// kind and key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ViewChange {
    /// Needed from now on.
    pub joined: Vec<ResourceKey>,
    /// No longer needed, whether or not they are still there for others.
    pub left: Vec<ResourceKey>,
}

impl Delta {
    /// Whether nothing is another than before.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
            && self.views.is_empty()
            && self.statuses.is_empty()
            && self.infrastructure.is_empty()
    }
}
