//! Groups changes by object: a client applies the changes of one object together, and none of them
//! while one of its resources is rejected.
//!
//! An HTTPRoute is a resource for each rule and listener. Half of its new version would be a
//! configuration that no user wrote, so one rejected rule keeps the previous versions of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::encoded::Version;
use crate::model::{Kind, Resource, ResourceKey};

/// The objects with a rejected resource.
#[derive(Debug, Default)]
pub(super) struct Objects(BTreeMap<(Kind, Arc<str>), HeldBack>);

#[derive(Debug, Default)]
struct HeldBack {
    refused: BTreeSet<ResourceKey>,
    /// Valid changes held back until the rejected ones are corrected.
    waiting: BTreeMap<ResourceKey, ObjectChange>,
}

/// The new version of a resource; `None` if removed.
pub(super) type ObjectChange = Option<(Version, Resource)>;

impl Objects {
    /// Takes the changes of a batch, with `None` for rejected resources, and returns those that can
    /// be applied.
    pub(super) fn take(
        &mut self,
        changes: BTreeMap<ResourceKey, Option<ObjectChange>>,
    ) -> BTreeMap<ResourceKey, ObjectChange> {
        let mut touched = BTreeSet::new();
        for (key, change) in changes {
            let object = object(&key);
            let held = self.0.entry(object.clone()).or_default();
            touched.insert(object);
            if let Some(change) = change {
                held.refused.remove(&key);
                held.waiting.insert(key, change);
            } else {
                held.waiting.remove(&key);
                held.refused.insert(key);
            }
        }
        let mut applied = BTreeMap::new();
        for object in touched {
            if self.0.get(&object).is_some_and(|it| it.refused.is_empty())
                && let Some(held) = self.0.remove(&object)
            {
                // `append` would rebuild the whole map for each object.
                applied.extend(held.waiting);
            }
        }
        applied
    }

    /// Drops the held-back changes: a new stream begins by reporting the applied versions.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The object that a resource belongs to. Only routes and policies consist of several resources
/// that depend on each other: a Gateway's listeners are independent, and so are endpoints.
fn object(key: &ResourceKey) -> (Kind, Arc<str>) {
    let end = match key.kind {
        Kind::Route | Kind::Policy => key.key.match_indices('/').nth(2),
        _ => None,
    };
    let name = end.and_then(|(end, _)| key.key.get(..end));
    (
        key.kind,
        name.map_or_else(|| Arc::clone(&key.key), Arc::from),
    )
}
