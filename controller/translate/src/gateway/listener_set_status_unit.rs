//! The status of a ListenerSet.

use xds::model::ObjectName;

use super::api::ListenerSet;
use super::listener::ListenerWithConflicts;
use super::listener_set::ListenerSetStatus;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::objects::object_ref::ObjectRef;
use crate::objects::owner::Owner;
use crate::status::Status;
use crate::units::SetStatusUnit;

/// The status of a ListenerSet, and the Gateway that counts it.
#[derive(Debug, PartialEq)]
pub(crate) struct StatusOfSet {
    status: ListenerSetStatus,
    counted_by: Option<ObjectName>,
}

impl Unit for SetStatusUnit {
    type Output = StatusOfSet;

    const IS_CLOSED_WITHOUT: bool = true;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<StatusOfSet> {
        let object = reader.object::<ListenerSet>(&self.0)?;
        let owner = Owner::ListenerSet(self.0.clone());
        let declared = reader.listeners(&owner)?;
        let generation = object.metadata.generation();
        let gateway = match &declared.offers.gateway {
            Ok(gateway) => gateway,
            Err(problem) => {
                return Some(StatusOfSet {
                    status: ListenerSetStatus::refused(generation, problem),
                    counted_by: None,
                });
            }
        };
        let properties = reader.properties(gateway)?;
        let listeners = reader.resolved(gateway, &owner);
        let status = ListenerSetStatus::of(generation, (gateway, properties), &listeners);
        let counted = status.is_accepted().then(|| gateway.clone());
        Some(StatusOfSet {
            status,
            counted_by: counted,
        })
    }

    fn publish(
        &self,
        old: Option<&StatusOfSet>,
        new: Option<&StatusOfSet>,
        changes: &mut Changes<'_>,
    ) {
        let (before, after) = (old.map(|it| &it.status), new.map(|it| &it.status));
        if before != after {
            let object = ObjectRef::of::<ListenerSet>(&self.0);
            changes.status(object, after.cloned().map(Status::ListenerSet));
        }
        let counted = |it: Option<&StatusOfSet>| {
            let gateway = it.and_then(|it| it.counted_by.clone());
            gateway.map(|gateway| (gateway, ())).into_iter()
        };
        let changed = changes.counts.sets.replace(counted(old), counted(new));
        for (gateway, _) in changed {
            changes.fact(Fact::AttachedSets(gateway));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.objects.store.listener_sets.contains_key(&self.0)
    }
}

impl<'a> UnitReader<'a> {
    /// The listeners of an object with their conflicts and number of routes.
    pub(crate) fn resolved(
        &self,
        gateway: &ObjectName,
        owner: &Owner,
    ) -> Vec<(ListenerWithConflicts<'a>, u32)> {
        let listeners = self
            .listeners(owner)
            .map_or(&[][..], |declared| &declared.list);
        let conflicts = self.listener_conflicts(gateway, owner).unwrap_or_default();
        let unusable = self.unusable(gateway, owner);
        let listeners = listeners.iter().zip(conflicts).enumerate();
        let resolved = listeners.map(|(place, (listener, conflicts))| {
            let resolved = ListenerWithConflicts {
                listener,
                conflicts,
                unusable: unusable.and_then(|problems| problems.get(&place)),
            };
            let key = &listener.offer.key;
            self.depend_on(Fact::AttachedRoutes(key.clone()));
            (resolved, self.counts.routes.total(key))
        });
        resolved.collect()
    }
}
