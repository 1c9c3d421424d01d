//! Which bind each listener of a Gateway shares, ListenerSets included.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xds::model::{BindKey, Change, Kind, ObjectName, Resource, ResourceKey};

/// The bind of each listener, by the listener's key.
#[derive(Debug, Default)]
pub struct ListenerBinds(Mutex<Binds>);

#[derive(Debug, Default)]
struct Binds {
    by_listener: BTreeMap<Arc<str>, (ObjectName, BindKey)>,
    by_gateway: BTreeMap<ObjectName, BTreeMap<Arc<str>, BindKey>>,
}

impl ListenerBinds {
    /// Takes note of a changed resource, if it is a listener.
    pub fn take(&self, (key, resource): &Change) {
        if key.kind != Kind::Listener {
            return;
        }
        let mut binds = self.locked();
        binds.remove(&key.key);
        if let Some(Resource::Listener(listener)) = resource {
            binds.insert(&key.key, &listener.gateway, &listener.bind);
        }
    }

    /// The listeners of a Gateway by their keys, with their binds.
    #[must_use]
    pub fn of_gateway(&self, gateway: &ObjectName) -> Vec<(ResourceKey, BindKey)> {
        let binds = self.locked();
        let listeners = binds.by_gateway.get(gateway).into_iter().flatten();
        let listeners = listeners.map(|(key, bind)| (resource(key), bind.clone()));
        listeners.collect()
    }

    /// The listeners whose keys start with this, with their binds, and the Gateway of the first.
    #[must_use]
    pub fn starting_with(&self, prefix: &str) -> Option<(ObjectName, Vec<(ResourceKey, BindKey)>)> {
        let binds = self.locked();
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let mut listeners = { binds.by_listener.range::<str, _>(from) }
            .take_while(|(key, _)| key.starts_with(prefix))
            .peekable();
        let (_, (gateway, _)) = *listeners.peek()?;
        let listeners = listeners.map(|(key, (_, bind))| (resource(key), bind.clone()));
        Some((gateway.clone(), listeners.collect()))
    }

    fn locked(&self) -> MutexGuard<'_, Binds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Binds {
    fn insert(&mut self, listener: &Arc<str>, gateway: &ObjectName, bind: &BindKey) {
        let of_gateway = self.by_gateway.entry(gateway.clone()).or_default();
        of_gateway.insert(Arc::clone(listener), bind.clone());
        let value = (gateway.clone(), bind.clone());
        self.by_listener.insert(Arc::clone(listener), value);
    }

    fn remove(&mut self, listener: &Arc<str>) {
        let Some((gateway, _)) = self.by_listener.remove(listener) else {
            return;
        };
        if let Some(of_gateway) = self.by_gateway.get_mut(&gateway) {
            of_gateway.remove(listener);
            if of_gateway.is_empty() {
                self.by_gateway.remove(&gateway);
            }
        }
    }
}

fn resource(listener: &Arc<str>) -> ResourceKey {
    ResourceKey {
        kind: Kind::Listener,
        key: Arc::clone(listener),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use xds::model::{Listener, ListenerKey, ListenerProtocol, Transport};

    use super::*;

    /// A listener of an object of this kind and name, on a TCP port of a Gateway.
    pub(crate) fn listener(object: (&str, &ObjectName), port: u16, gateway: &ObjectName) -> Change {
        let (kind, name) = object;
        let key = ListenerKey::new(kind, name, &format!("port-{port}"));
        let listener = Listener {
            key: key.clone(),
            bind: BindKey::new(Transport::Tcp, port, gateway),
            gateway: gateway.clone(),
            name: format!("port-{port}"),
            hostname: None,
            protocol: ListenerProtocol::Http,
            external_auth: Vec::new(),
        };
        let key = resource(&key.as_str().into());
        (key, Some(Resource::Listener(Arc::new(listener))))
    }

    #[test]
    fn listeners_are_found_by_gateway_and_by_object() {
        let binds = ListenerBinds::default();
        let (edge, set) = (ObjectName::new("a", "edge"), ObjectName::new("b", "set"));
        let other = ObjectName::new("b", "set-more");
        let of_set = listener(("ListenerSet", &set), 81, &edge);
        for change in [
            listener(("Gateway", &edge), 80, &edge),
            of_set.clone(),
            listener(("ListenerSet", &other), 82, &edge),
        ] {
            binds.take(&change);
        }
        assert_eq!(binds.of_gateway(&edge).len(), 3);
        let found = binds.starting_with("ListenerSet/b/set/");
        let bind = BindKey::new(Transport::Tcp, 81, &edge);
        assert_eq!(found, Some((edge.clone(), vec![(of_set.0.clone(), bind)])));
        binds.take(&(of_set.0, None));
        assert_eq!(binds.starting_with("ListenerSet/b/set/"), None);
        assert_eq!(binds.of_gateway(&edge).len(), 2);
    }
}
