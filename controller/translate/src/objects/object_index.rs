//! The inputs of units: objects with their indexes, and the few outputs of units that every
//! reference is resolved through.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use xds::fast_hash::FastHashMap;
use xds::model::{Backend, BackendTls, Certificate, ObjectName, SessionPersistence};

use super::api::{Labels, ReferenceGrant, Text};
use super::grants::Grants;
use super::index::{Index, PodLabel};
use super::kinds::ObjectKind;
use super::object_ref::ObjectRef;
use super::store::{Object, Store};
use crate::backend::api::SERVICE_NAME_LABEL;
use crate::backend::upstream::Upstream;
use crate::engine::fact::Fact;
use crate::options::{Environment, Options};
use crate::status::problem::Problem;

/// Objects, indexes over them, and resolved references.
#[derive(Debug)]
pub(crate) struct ObjectIndex {
    pub(crate) options: Options,
    /// Never decreases, so that expired certificates do not become valid again.
    pub(crate) now: Timestamp,
    pub(crate) store: Store,
    pub(crate) grants: Grants,
    pub(crate) slices: Index<ObjectName, ObjectName>,
    pub(crate) sets: Index<ObjectName, ObjectName>,
    pub(crate) pods: Index<Arc<PodLabel>, ObjectName>,
    /// Each `Backend`, lowered to the model, or its problem.
    pub(crate) backends: FastHashMap<ObjectName, Arc<Result<Backend, Problem>>>,
    /// The Gateways that take routes which do not name them.
    pub(crate) default_gateways: BTreeSet<ObjectName>,
    /// The winner at each target of BackendTLSPolicy objects.
    pub(crate) backend_tls: FastHashMap<(Upstream, Option<Arc<str>>), Arc<BackendTls>>,
    /// The session persistence of upstreams by XBackendTrafficPolicy objects.
    pub(crate) sessions: FastHashMap<Upstream, Arc<SessionPersistence>>,
    /// Secrets that were parsed as certificates: once, however many objects refer to them.
    pub(crate) certificates: RefCell<FastHashMap<ObjectName, Result<Certificate, String>>>,
}

impl ObjectIndex {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            now: Timestamp::MIN,
            store: Store::default(),
            grants: Grants::default(),
            slices: Index::default(),
            sets: Index::default(),
            pods: Index::default(),
            backends: FastHashMap::default(),
            default_gateways: BTreeSet::new(),
            backend_tls: FastHashMap::default(),
            sessions: FastHashMap::default(),
            certificates: RefCell::default(),
        }
    }

    /// Adds an object, and returns the facts that change. `None` if it equals the previous version.
    pub(crate) fn upsert(&mut self, object: Object) -> Option<Vec<Fact>> {
        let reference = object.object_ref();
        let old = self.store.get(&reference);
        if old.as_ref() == Some(&object) {
            return None;
        }
        let facts = self.touch(&reference, old.as_ref(), Some(&object));
        self.store.insert(object);
        Some(facts)
    }

    /// Removes an object. `None` if it did not exist.
    pub(crate) fn delete(&mut self, reference: &ObjectRef) -> Option<(Object, Vec<Fact>)> {
        let old = self.store.get(reference)?;
        let facts = self.touch(reference, Some(&old), None);
        self.store.remove(reference);
        Some((old, facts))
    }

    fn touch(
        &mut self,
        reference: &ObjectRef,
        old: Option<&Object>,
        new: Option<&Object>,
    ) -> Vec<Fact> {
        let name = &reference.name;
        let mut facts = vec![Fact::Object(reference.clone())];
        if old.is_some() != new.is_some() {
            facts.push(Fact::Exists(reference.clone()));
        }
        match reference.kind {
            ObjectKind::ReferenceGrant => {
                let changed = self.grants.replace(name, grant(old), grant(new));
                facts.extend(changed.into_iter().map(Fact::ReferenceDirection));
            }
            ObjectKind::EndpointSlice => {
                let changed = self.slices.replace(name, service_of(old), service_of(new));
                facts.extend(changed.into_iter().map(Fact::Slices));
            }
            ObjectKind::ListenerSet => {
                let changed = self.sets.replace(name, gateway_of(old), gateway_of(new));
                facts.extend(changed.into_iter().map(Fact::Sets));
            }
            ObjectKind::Pod => {
                let (before, after) = (labels_of(old), labels_of(new));
                for gone in before.difference(&after) {
                    let changed = self.pods.replace(name, Some(Arc::clone(gone)), None);
                    facts.extend(changed.into_iter().map(Fact::Pods));
                }
                for come in after.difference(&before) {
                    let changed = self.pods.replace(name, None, Some(Arc::clone(come)));
                    facts.extend(changed.into_iter().map(Fact::Pods));
                }
            }
            ObjectKind::Namespace if labels(old) != labels(new) => {
                facts.push(Fact::Labels(Arc::clone(&name.name)));
            }
            ObjectKind::Secret => {
                self.certificates.get_mut().remove(name);
            }
            _ => {}
        }
        facts
    }

    /// Sets whether a Gateway is a default one.
    pub(crate) fn set_default_gateway(&mut self, gateway: &ObjectName, is_default: bool) {
        if is_default {
            self.default_gateways.insert(gateway.clone());
        } else {
            self.default_gateways.remove(gateway);
        }
    }

    /// Whether something is kept only for the readers of a fact.
    pub(crate) fn keeps_for_readers(fact: &Fact) -> bool {
        matches!(fact, Fact::Object(object) if object.kind == ObjectKind::Secret)
    }

    /// Drops the parsed certificate of a Secret.
    pub(crate) fn forget(&mut self, fact: &Fact) {
        if let Fact::Object(object) = fact
            && object.kind == ObjectKind::Secret
        {
            self.certificates.get_mut().remove(&object.name);
        }
    }

    /// Whether the proxies run on one machine, where no other controller exists.
    pub(crate) fn is_machine(&self) -> bool {
        matches!(self.options.environment, Environment::Machine { .. })
    }

    /// Whether there are no objects, only options and time.
    #[cfg(test)]
    pub(crate) fn is_bare(&self) -> bool {
        self.store == Store::default()
            && self.grants.is_empty()
            && self.slices.is_empty()
            && self.sets.is_empty()
            && self.pods.is_empty()
            && self.backends.is_empty()
            && self.default_gateways.is_empty()
            && self.backend_tls.is_empty()
            && self.sessions.is_empty()
            && self.certificates.borrow().is_empty()
    }
}

fn grant(object: Option<&Object>) -> Option<&ReferenceGrant> {
    match object {
        Some(Object::ReferenceGrant(grant)) => Some(grant),
        _ => None,
    }
}

fn service_of(object: Option<&Object>) -> Option<ObjectName> {
    let Some(Object::EndpointSlice(slice)) = object else {
        return None;
    };
    let metadata = &slice.metadata;
    let service = metadata.labels.get(SERVICE_NAME_LABEL)?;
    let namespace = Arc::clone(&metadata.name.namespace);
    Some(ObjectName::of_shared(namespace, service.to_shared()))
}

fn labels_of(object: Option<&Object>) -> BTreeSet<Arc<PodLabel>> {
    let Some(Object::Pod(pod)) = object else {
        return BTreeSet::new();
    };
    let labels = pod.metadata.labels.iter();
    let label = |(key, value): (&Text, &Text)| PodLabel {
        namespace: (&*pod.metadata.name.namespace).into(),
        key: key.clone(),
        value: value.clone(),
    };
    labels.map(|it| Arc::new(label(it))).collect()
}

fn gateway_of(object: Option<&Object>) -> Option<ObjectName> {
    let Some(Object::ListenerSet(set)) = object else {
        return None;
    };
    set.gateway()
}

fn labels(object: Option<&Object>) -> Option<&Labels> {
    match object {
        Some(Object::Namespace(namespace)) => Some(&namespace.metadata.labels),
        _ => None,
    }
}
