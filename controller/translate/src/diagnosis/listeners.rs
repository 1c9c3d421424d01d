//! The listeners that accept a route, as translation has it, but for conflicts.

use xds::model::{Hostname, ObjectName};

use super::view::{RouteView, View};
use crate::gateway::allowed::AllowedNamespaces;
use crate::gateway::api::Listener;
use crate::gateway::offer::ListenerOffer;
use crate::objects::api::Namespace;
use crate::objects::owner::Owner;
use crate::route::api::ParentReference;
use crate::route::parent::{refers_to, shared_hosts};

impl View<'_> {
    /// Those listeners of a parent that accept a route, of the ones of interest. Nobody is told of others.
    pub(super) fn accepting(
        &self,
        route: &RouteView<'_>,
        (parent, owner): (&ParentReference, &Owner),
        is_of_interest: impl Fn(&Listener) -> bool,
    ) -> Vec<ListenerOffer> {
        let listeners = self.listeners(owner).iter();
        let mut listeners = listeners.filter(|it| is_of_interest(it)).peekable();
        if listeners.peek().is_none() || !self.is_attached(owner) {
            return Vec::new();
        }
        let hosts = route.hostnames.iter();
        let hosts: Vec<Hostname> = hosts.filter_map(|it| Hostname::parse(it).ok()).collect();
        let kind = route.object.kind;
        let offers = listeners.map(|it| ListenerOffer::of(owner, it));
        let accepting = offers.filter(|it| {
            let mut kinds = it.kinds.iter();
            refers_to(parent, it)
                && kinds.any(|it| it.kind == kind.name() && it.group == kind.group())
                && self.admits(&it.allowed, route.namespace())
                && shared_hosts(it.hostname.as_ref(), &hosts).is_some()
        });
        accepting.collect()
    }

    /// Whether another listener of the Gateway, at the same port, has a name that is closer to a host.
    pub(super) fn is_for_closer_listener(
        &self,
        gateway: &ObjectName,
        listener: &ListenerOffer,
        host: &str,
    ) -> bool {
        let owners = self.owners_of(gateway);
        let mut listeners = owners.flat_map(|it| self.listeners(&it));
        let length = |it: Option<&str>| it.map_or(0, str::len);
        let own = length(listener.hostname.as_ref().map(Hostname::as_str));
        listeners.any(|it| {
            let name = it.hostname.as_deref();
            let name = name.and_then(|it| Hostname::parse(it).ok());
            let is_close = name.as_ref().is_some_and(|it| it.matches(host));
            it.port == listener.port && is_close && length(it.hostname.as_deref()) > own
        })
    }

    /// Whether the listeners of an object are some of its Gateway's: those of other objects have to be allowed there.
    fn is_attached(&self, owner: &Owner) -> bool {
        if let Owner::Gateway(_) = owner {
            return true;
        }
        let of = &owner.name().namespace;
        let gateway = self.gateway_of(owner);
        let gateway = gateway.and_then(|it| self.store.gateways.get_key_value(&it));
        gateway.is_some_and(|(name, gateway)| {
            let namespaces = &gateway.spec.allowed_listeners.namespaces;
            let selector = namespaces.selector.as_ref();
            let allowed = AllowedNamespaces::of(&name.namespace, namespaces.from, selector);
            self.admits(&allowed, of)
        })
    }

    fn admits(&self, allowed: &AllowedNamespaces, namespace: &str) -> bool {
        allowed.admits(namespace, || {
            let known = self.store.namespaces.get(&ObjectName::new("", namespace));
            Namespace::labels(known.map(|it| &**it), namespace)
        })
    }
}
