//! Collects changes from the watches into batches for the translator.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use translate::ObjectKind;
use translate::{Batch, Event, ListenerLimits, Object, ObjectRef, Store, files};
use xds::model::ObjectName;

use super::classes::{self, Classes};
use super::in_batch::InBatch;
use crate::gateway_class::ObservedClass;
use crate::outputs::{ExistingGateway, Observed, Outputs};
use crate::shared_values::SharedValues;
use crate::watch::{Change, ChangeKind, Class, Content, Kinds};

pub(super) struct Intake {
    controller_name: String,
    outputs: Arc<Outputs>,
    classes: Classes,
    /// API versions and statuses of observed objects.
    texts: SharedValues<str>,
    /// The objects of the batch that is collected.
    in_batch: InBatch<ObjectRef, Object>,
    /// Kinds that are not synced yet.
    unsynced: BTreeSet<ObjectKind>,
    is_complete: bool,
}

impl Intake {
    pub(super) fn new(kinds: &Kinds, controller_name: String, outputs: Arc<Outputs>) -> Self {
        Self {
            controller_name,
            unsynced: kinds.iter().collect(),
            outputs,
            classes: Classes::default(),
            texts: SharedValues::default(),
            in_batch: InBatch::default(),
            is_complete: false,
        }
    }

    /// Whether all kinds were synced once.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether all kinds were synced once but one. In a large cluster, that is the one with the most
    /// objects.
    pub(super) fn is_mostly_complete(&self) -> bool {
        self.unsynced.len() <= 1
    }

    /// Whether all kinds are synced now, for the first time.
    pub(super) fn complete(&mut self) -> bool {
        let is_first = !self.is_complete && self.unsynced.is_empty();
        self.is_complete |= is_first;
        is_first
    }

    /// Begins the next batch: what was taken so far is translated.
    pub(super) fn begin_batch(&mut self) {
        self.in_batch.clear();
    }

    /// Takes a change. `store` is as the last batch left it.
    pub(super) fn take(&mut self, change: Change, store: &Store, batch: &mut Batch) {
        match change.what {
            ChangeKind::Synced => self.synced(change.kind, true, batch),
            ChangeKind::Absent => self.synced(change.kind, false, batch),
            ChangeKind::Upsert(name, content) => self.upsert(name, content, store, batch),
            ChangeKind::Replace(name, content) => {
                self.delete(change.kind, name.clone(), batch);
                self.upsert(name, content, store, batch);
            }
            ChangeKind::Delete(name) => self.delete(change.kind, name, batch),
        }
    }

    /// Whether a change is only a write of a status, be it by this controller, by its other replica, or by
    /// another controller.
    pub(super) fn is_of_status(&self, change: &Change) -> bool {
        let ChangeKind::Upsert(_, content) = &change.what else {
            return false;
        };
        let (reference, observed) = match content {
            Content::Valid { object, observed } => (&object.object_ref(), observed),
            Content::Invalid {
                reference,
                observed,
                ..
            } => (reference, observed),
            Content::Parameters(_) | Content::Class { .. } | Content::Release(_) => return false,
        };
        let Some(observed) = observed else {
            return false;
        };
        let before = self.outputs.observed.get(reference);
        before.is_some_and(|before| {
            // A write of a status changes nothing else.
            (&before.uid, before.generation) == (&observed.uid, observed.generation)
                && before.status != observed.status
        })
    }

    fn upsert(&mut self, name: ObjectName, content: Content, store: &Store, batch: &mut Batch) {
        match content {
            Content::Parameters(spec) => self.set_parameters(name, Some(spec), batch),
            Content::Class { class, observed } => {
                let is_ours = self.serves(&name, &class, &observed);
                let (outputs, generation) = (&self.outputs, observed.generation);
                let parameters = class.parameters.clone().filter(|_| is_ours).transpose();
                // While the reference is wrong, what the last valid one says of listeners stays.
                if let Ok(parameters) = parameters {
                    batch.push(Event::ClassParameters(name.name.to_string(), parameters));
                }
                if is_ours {
                    self.classes
                        .put(&name, generation, class.parameters, outputs);
                } else {
                    self.classes.remove(&name, outputs);
                }
                self.observe(&classes::reference(&name), Some(observed));
                batch.push(Event::Class(name.name.to_string(), is_ours));
            }
            Content::Release(release) => self.classes.set_release(release, &self.outputs),
            Content::Valid { object, observed } => {
                let reference = object.object_ref();
                if let (Object::Gateway(gateway), Some(observed)) = (&object, &observed) {
                    let class = gateway.spec.gateway_class_name.as_str().into();
                    self.set_gateway(&reference.name, observed, Some(class));
                }
                self.in_batch
                    .record(reference.clone(), Some(object.clone()));
                batch.push(Event::Upsert(object));
                self.outputs.invalid.set(&reference, None);
                self.observe(&reference, observed);
            }
            Content::Invalid {
                reference,
                fail_closed,
                why,
                observed,
            } => {
                // Its previous version stays in effect, unless it leaves open what this one would protect.
                // Without one, its fail-closed replacement does.
                let in_force = match self.current(&reference, store) {
                    Some(current) => files::kept_beside(&current, fail_closed.as_ref()),
                    None => fail_closed,
                };
                if let Some(object) = in_force {
                    self.in_batch
                        .record(reference.clone(), Some(object.clone()));
                    batch.push(Event::Upsert(object));
                }
                if let Some(observed) = observed
                    .as_ref()
                    .filter(|_| reference.kind == ObjectKind::Gateway)
                {
                    // The class of its last valid version applies.
                    let before = self.outputs.gateways.get(&reference.name);
                    let class = before.and_then(|it| it.class);
                    self.set_gateway(&reference.name, observed, class);
                }
                self.outputs.invalid.set(&reference, Some(why));
                self.observe(&reference, observed);
            }
        }
    }

    /// Whether this installation serves a class: it has its controller's name, and no other installation
    /// has claimed it.
    fn serves(&self, name: &ObjectName, class: &Class, observed: &Observed) -> bool {
        let claims = &self.outputs.claims;
        if class.controller_name != self.controller_name {
            claims.forget(&name.name);
            return false;
        }
        let observed = ObservedClass {
            claim: class.claim.clone(),
            resource_version: observed.resource_version.to_string(),
            uid: observed.uid.to_string(),
        };
        claims.observe(&name.name, observed, !self.is_complete)
    }

    fn set_parameters(&self, name: ObjectName, spec: Option<Arc<Value>>, batch: &mut Batch) {
        let exists = spec.is_some();
        let limits = spec.as_deref().map(limits).unwrap_or_default();
        self.outputs.parameters.set(&name, spec);
        self.classes.parameters_changed(&name, &self.outputs);
        batch.push(Event::Parameters(name.clone(), exists));
        batch.push(Event::ListenerLimits(name, limits));
    }

    fn synced(&mut self, kind: ObjectKind, is_served: bool, batch: &mut Batch) {
        self.unsynced.remove(&kind);
        if kind == ObjectKind::ClusterTrustBundle {
            batch.push(Event::TrustBundles(is_served));
            self.classes.set_trust_bundles(is_served, &self.outputs);
        }
        if kind == ObjectKind::CustomResourceDefinition {
            self.classes.record_release_lookup(&self.outputs);
        }
    }

    fn delete(&mut self, kind: ObjectKind, name: ObjectName, batch: &mut Batch) {
        match kind {
            ObjectKind::GatewayParameters => return self.set_parameters(name, None, batch),
            ObjectKind::CustomResourceDefinition => {
                return self.classes.set_release(None, &self.outputs);
            }
            _ => {}
        }
        let reference = ObjectRef::new(kind, &name);
        self.outputs.observed.set(&reference, None);
        self.texts.released();
        if kind == ObjectKind::Gateway {
            self.outputs.gateways.set(&name, None);
        }
        if kind == ObjectKind::GatewayClass {
            self.outputs.claims.deleted(&name.name);
            self.classes.remove(&name, &self.outputs);
            batch.push(Event::ClassParameters(name.name.to_string(), None));
            batch.push(Event::Class(name.name.to_string(), false));
        } else {
            self.outputs.invalid.set(&reference, None);
            self.in_batch.record(reference.clone(), None);
            batch.push(Event::Delete(reference));
        }
    }

    /// An object as it is once the batch is applied.
    fn current(&self, object: &ObjectRef, store: &Store) -> Option<Object> {
        match self.in_batch.change(object) {
            Some(changed) => changed.cloned(),
            None => store.get(object),
        }
    }

    fn set_gateway(&self, name: &ObjectName, observed: &Observed, class: Option<Arc<str>>) {
        let present = (!observed.is_deleted).then(|| ExistingGateway {
            uid: (*observed.uid).into(),
            class,
        });
        self.outputs.gateways.set(name, present);
    }

    fn observe(&mut self, reference: &ObjectRef, observed: Option<Arc<Observed>>) {
        if let Some(mut observed) = observed {
            if let Some(observed) = Arc::get_mut(&mut observed) {
                for text in [&mut observed.api_version, &mut observed.status] {
                    *text = self.texts.share(Arc::clone(text));
                }
            }
            self.outputs.observed.set(reference, Some(observed));
        }
    }
}

/// The limits of listeners in `GatewayParameters`, which the CRD has validated.
fn limits(spec: &Value) -> ListenerLimits {
    let limit = |name: &str| spec.get("limits")?.get(name)?.as_u64();
    ListenerLimits {
        ports: limit("ports"),
        listeners: limit("listeners"),
    }
}

#[cfg(test)]
mod tests;
