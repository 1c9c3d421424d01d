//! From what watches tell to what the translator is told.

use std::collections::BTreeSet;
use std::sync::Arc;

use translate::api::{CLASS_KIND, GATEWAY_GROUP, Gateway, Resource as _};
use translate::status::{GatewayClassStatus, Status};
use translate::{Batch, Event, ObjectRef, Store};
use xds::model::ObjectName;

use crate::outputs::{Observed, Outputs};
use crate::watch::{Change, Content, KindId, Kinds, Reading, What};

/// Takes changes in.
pub(super) struct Intake {
    kinds: Kinds,
    controller_name: String,
    outputs: Arc<Outputs>,
    /// Kinds whose objects have not all been told.
    unsynced: BTreeSet<KindId>,
    is_complete: bool,
}

impl Intake {
    pub(super) fn new(kinds: Kinds, controller_name: String, outputs: Arc<Outputs>) -> Self {
        Self {
            controller_name,
            unsynced: kinds.ids().collect(),
            kinds,
            outputs,
            is_complete: false,
        }
    }

    /// Whether all objects have been told. From then on it stays so.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether all objects have been told now, for the first time.
    pub(super) fn complete(&mut self) -> bool {
        let is_first = !self.is_complete && self.unsynced.is_empty();
        self.is_complete |= is_first;
        is_first
    }

    /// Takes a change in. `store` is as the last batch left it.
    pub(super) fn take(&mut self, change: Change, store: &Store, batch: &mut Batch) {
        match change.what {
            What::Synced => {
                self.unsynced.remove(&change.kind);
            }
            What::Upsert(name, Content::Parameters(spec)) => {
                self.outputs.parameters.set(&name, Some(spec));
                batch.push(Event::Parameters(name, true));
            }
            What::Upsert(
                name,
                Content::Class {
                    controller_name,
                    observed,
                },
            ) => {
                let reference = class(&name);
                let is_ours = controller_name == self.controller_name;
                let status = is_ours.then(|| GatewayClassStatus::accepted(observed.generation));
                let status = status.map(|status| Arc::new(Status::GatewayClass(status)));
                batch.push(Event::Class(name.name.to_string(), is_ours));
                self.observe(&reference, Some(observed));
                self.outputs.statuses.set(&reference, status);
            }
            What::Upsert(_, Content::Valid { object, observed }) => {
                let reference = object.object_ref();
                batch.push(Event::Upsert(object));
                self.outputs.invalid.set(&reference, None);
                self.observe(&reference, observed);
            }
            What::Upsert(
                _,
                Content::Invalid {
                    reference,
                    stand_in,
                    why,
                    observed,
                },
            ) => {
                // Its previous version stays in force; a stand-in is for where there is none.
                if let Some(object) = stand_in.filter(|_| !is_there(&reference, store, batch)) {
                    batch.push(Event::Upsert(object));
                }
                self.outputs.invalid.set(&reference, Some(why));
                self.observe(&reference, observed);
            }
            What::Delete(name) => self.delete(change.kind, name, batch),
        }
    }

    fn delete(&self, kind: KindId, name: ObjectName, batch: &mut Batch) {
        if self.kinds.reading(kind) == Some(Reading::Parameters) {
            self.outputs.parameters.set(&name, None);
            batch.push(Event::Parameters(name, false));
            return;
        }
        let Some(reference) = self.kinds.reference(kind, &name) else {
            return;
        };
        self.outputs.observed.set(&reference, None);
        if reference.kind == Gateway::KIND {
            self.outputs.gateways.set(&name, None);
        }
        if self.kinds.reading(kind) == Some(Reading::Class) {
            self.outputs.statuses.set(&reference, None);
            batch.push(Event::Class(name.name.to_string(), false));
        } else {
            self.outputs.invalid.set(&reference, None);
            batch.push(Event::Delete(reference));
        }
    }

    fn observe(&self, reference: &ObjectRef, observed: Option<Arc<Observed>>) {
        if let Some(observed) = observed
            .as_ref()
            .filter(|_| reference.kind == Gateway::KIND)
        {
            let uid = (!observed.is_deleted).then(|| observed.uid.as_str().into());
            self.outputs.gateways.set(&reference.name, uid);
        }
        if observed.is_some() {
            self.outputs.observed.set(reference, observed);
        }
    }
}

fn class(name: &ObjectName) -> ObjectRef {
    ObjectRef {
        group: GATEWAY_GROUP.into(),
        kind: CLASS_KIND.into(),
        name: name.clone(),
    }
}

/// Whether an object is there, once the batch is applied.
fn is_there(object: &ObjectRef, store: &Store, batch: &Batch) -> bool {
    let last = batch.iter().rev().find_map(|event| match event {
        Event::Upsert(it) if it.object_ref() == *object => Some(true),
        Event::Delete(it) if it == object => Some(false),
        _ => None,
    });
    last.unwrap_or_else(|| store.contains(object))
}
