//! The changes of a batch so far.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use xds::model::{ObjectName, Resource, ResourceKey};

use super::delta::{Delta, ViewChange};
use super::emitted::Gateways;
use crate::infrastructure::Infrastructure;
use crate::status::Status;
use crate::store::ObjectRef;

/// The changes of a batch, before and after it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    resources: BTreeMap<ResourceKey, Change>,
    /// The results of batches before the first output.
    held: Option<Box<Held>>,
    pub(crate) statuses: BTreeMap<ObjectRef, Option<Status>>,
    pub(crate) infrastructure: BTreeMap<ObjectName, Option<Infrastructure>>,
}

/// Everything there is, before anything was returned.
#[derive(Debug, Default)]
struct Held {
    resources: BTreeMap<ResourceKey, (Resource, Gateways)>,
    statuses: BTreeMap<ObjectRef, Status>,
    infrastructure: BTreeMap<ObjectName, Infrastructure>,
}

/// A resource before the batch and after it, each with its Gateways. Both can come from different
/// units: an address moves from one Service to another.
#[derive(Debug, Default)]
struct Change {
    before: Option<(Resource, Gateways)>,
    after: Option<(Resource, Gateways)>,
}

impl Change {
    fn created(after: (Resource, Gateways)) -> Self {
        Self {
            before: None,
            after: Some(after),
        }
    }
}

impl Outcome {
    /// Records a unit's new resources, given its previous ones.
    pub(super) fn resource(
        &mut self,
        before: Option<&(Resource, Gateways)>,
        after: Option<&(Resource, Gateways)>,
    ) {
        let Some((resource, _)) = before.or(after) else {
            return;
        };
        if before == after {
            return;
        }
        let change = self.resources.entry(resource.resource_key()).or_default();
        if let Some(before) = before {
            change.before = Some(before.clone());
        }
        if let Some(after) = after {
            change.after = Some(after.clone());
        }
    }

    /// Keeps the changes of a batch for the first output.
    pub(super) fn hold(&mut self) {
        let held = self.held.get_or_insert_default();
        let resources = std::mem::take(&mut self.resources).into_iter();
        let resources = resources.map(|(key, change)| (key, change.after));
        apply(&mut held.resources, resources);
        apply(&mut held.statuses, std::mem::take(&mut self.statuses));
        apply(
            &mut held.infrastructure,
            std::mem::take(&mut self.infrastructure),
        );
    }

    /// The changes of the last batch, or everything if nothing was returned yet.
    pub(super) fn into_delta(mut self, wake_at: Option<Timestamp>) -> Delta {
        if self.held.is_some() {
            self.hold();
        }
        let held = self.held.map(|held| *held).unwrap_or_default();
        let mut delta = Delta {
            statuses: created(held.statuses).chain(self.statuses).collect(),
            infrastructure: created(held.infrastructure)
                .chain(self.infrastructure)
                .collect(),
            wake_at,
            ..Delta::default()
        };
        let held = held.resources.into_iter();
        let held = held.map(|(key, after)| (key, Change::created(after)));
        for (key, Change { before, after }) in held.chain(self.resources) {
            view_changes(&mut delta.views, &key, before.as_ref(), after.as_ref());
            let (before, after) = (before.map(|it| it.0), after.map(|it| it.0));
            if before != after {
                delta.resources.push((key, after));
            }
        }
        delta
    }
}

/// Inserts and removes entries.
fn apply<K: Ord, V>(
    entries: &mut BTreeMap<K, V>,
    changes: impl IntoIterator<Item = (K, Option<V>)>,
) {
    for (key, value) in changes {
        match value {
            Some(value) => entries.insert(key, value),
            None => entries.remove(&key),
        };
    }
}

fn created<K, V>(entries: BTreeMap<K, V>) -> impl Iterator<Item = (K, Option<V>)> {
    let entries = entries.into_iter();
    entries.map(|(key, value)| (key, Some(value)))
}

fn view_changes(
    views: &mut BTreeMap<ObjectName, ViewChange>,
    key: &ResourceKey,
    before: Option<&(Resource, Gateways)>,
    after: Option<&(Resource, Gateways)>,
) {
    let gateways = |side: Option<&(Resource, Gateways)>| -> BTreeSet<ObjectName> {
        side.into_iter()
            .flat_map(|(_, gateways)| gateways.iter().cloned())
            .collect()
    };
    let (before, after) = (gateways(before), gateways(after));
    for gateway in after.difference(&before) {
        let view = views.entry(gateway.clone()).or_default();
        view.joined.push(key.clone());
    }
    for gateway in before.difference(&after) {
        let view = views.entry(gateway.clone()).or_default();
        view.left.push(key.clone());
    }
}
