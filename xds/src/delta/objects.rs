//! Groups changes by object: a client applies the changes of one object together, and none of them
//! while one of its resources is rejected.
//!
//! An HTTPRoute is a resource for each rule and listener. Half of its new version would be a
//! configuration that no user wrote, so one rejected rule keeps the previous versions of the others.
//! Without a previous version, a policy that restricts access is replaced by one that refuses every
//! request of its target, and a rule by one that refuses the requests that it matches: a wider rule, which
//! may be less protected, would get them otherwise. Which of these are needed is for `substitutes` to say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::encoded::Version;
use crate::model::{Kind, Policy, Resource, ResourceKey, Restrictions};

/// The objects with a rejected resource.
#[derive(Debug, Default)]
pub(super) struct Objects(BTreeMap<(Kind, Arc<str>), HeldBack>);

#[derive(Debug, Default)]
struct HeldBack {
    /// With what takes their place if they have no previous version.
    refused: BTreeMap<ResourceKey, Option<Substitute>>,
    /// Valid changes held back until the rejected ones are corrected.
    waiting: BTreeMap<ResourceKey, ObjectChange>,
}

/// The new version of a resource; `None` if removed.
pub(super) type ObjectChange = Option<(Version, Resource)>;

/// What a batch has for a resource.
#[derive(Debug)]
pub(super) enum Arrived {
    Valid(ObjectChange),
    /// Rejected, with what takes its place if it has no previous version.
    Refused(Option<Substitute>),
}

/// What takes the place of a rejected resource.
#[derive(Debug, Clone)]
pub(super) struct Substitute {
    pub(super) resource: Resource,
    /// How the rejected one restricts access: a previous version stays only if it does so in all of these ways.
    pub(super) restricts: Restrictions,
}

/// What is to be applied of a batch.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) changes: BTreeMap<ResourceKey, ObjectChange>,
    /// What refuses the requests of resources that were held back, where that is needed.
    pub(super) substitutes: Vec<Substitute>,
}

impl Objects {
    /// Takes the resources of a batch, and returns what can be applied.
    pub(super) fn take(&mut self, arrived: BTreeMap<ResourceKey, Arrived>) -> Taken {
        let mut touched = BTreeSet::new();
        for (key, arrived) in arrived {
            let object = object(&key);
            let held = self.0.entry(object.clone()).or_default();
            touched.insert(object);
            match arrived {
                Arrived::Valid(change) => {
                    held.refused.remove(&key);
                    held.waiting.insert(key, change);
                }
                Arrived::Refused(substitute) => {
                    held.waiting.remove(&key);
                    held.refused.insert(key, substitute);
                }
            }
        }
        let mut taken = Taken::default();
        for object in touched {
            let Some(held) = self.0.get(&object) else {
                continue;
            };
            if !held.refused.is_empty() {
                taken.substitutes.extend(held.substitutes());
            } else if let Some(held) = self.0.remove(&object) {
                // `append` would rebuild the whole map for each object.
                taken.changes.extend(held.waiting);
            }
        }
        taken
    }

    /// Drops the held-back changes: a new stream begins by reporting the applied versions.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl HeldBack {
    fn substitutes(&self) -> impl Iterator<Item = Substitute> {
        let refused = self.refused.values().flatten().cloned();
        let waiting = self.waiting.values().flatten();
        refused.chain(waiting.filter_map(|(_, resource)| refusing(resource)))
    }
}

/// What takes the place of a valid resource that must not be applied yet.
fn refusing(resource: &Resource) -> Option<Substitute> {
    match resource {
        Resource::Policy(policy) => policy.spec.restricts_access().then(|| Substitute {
            resource: Resource::from(Policy {
                key: policy.key.clone(),
                target: policy.target.clone(),
                spec: policy.spec.refusing_all(),
            }),
            restricts: policy.spec.restrictions(),
        }),
        Resource::Route(route) => Some(Substitute {
            resource: route.refusing().into(),
            restricts: Restrictions::default(),
        }),
        _ => None,
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
