//! The changes of a batch so far.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use xds::model::{ObjectName, Resource, ResourceKey};

use super::delta::{Delta, ViewChange};
use crate::gateway::infrastructure::Infrastructure;
use crate::objects::object_ref::ObjectRef;
use crate::status::Status;

/// Gateways in the order of their names, each once.
pub(crate) type Gateways = Arc<[ObjectName]>;

/// The changes of a batch, before and after it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    resources: BTreeMap<ResourceKey, Change>,
    pub(crate) statuses: BTreeMap<ObjectRef, Option<Status>>,
    pub(crate) infrastructure: BTreeMap<ObjectName, Option<Infrastructure>>,
    pub(crate) service_warnings: BTreeMap<ObjectName, Option<Box<str>>>,
}

/// A resource before the batch and after it, each with its Gateways. Both can come from different
/// units: an address moves from one Service to another.
#[derive(Debug, Default)]
struct Change {
    before: Option<(Resource, Gateways)>,
    after: Option<(Resource, Gateways)>,
}

impl Outcome {
    /// Records a unit's new resources, given its previous ones.
    pub(crate) fn resource(
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

    /// The changes of the batch.
    pub(crate) fn into_delta(self, wake_at: Option<Timestamp>) -> Delta {
        let mut delta = Delta {
            statuses: self.statuses.into_iter().collect(),
            infrastructure: self.infrastructure.into_iter().collect(),
            service_warnings: self.service_warnings.into_iter().collect(),
            wake_at,
            ..Delta::default()
        };
        for (key, Change { before, after }) in self.resources {
            view_changes(&mut delta.views, &key, before.as_ref(), after.as_ref());
            let (before, after) = (before.map(|it| it.0), after.map(|it| it.0));
            if before != after {
                delta.resources.push((key, after));
            }
        }
        delta
    }
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
