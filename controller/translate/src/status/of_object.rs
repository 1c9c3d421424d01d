//! The status of one object of any kind.

use super::Statuses;
use crate::backend::api as backend_api;
use crate::backend::api::XBackend;
use crate::backend::own_status::BackendStatus;
use crate::gateway::api as gateway_api;
use crate::gateway::class_status::GatewayClassStatus;
use crate::gateway::listener_set::ListenerSetStatus;
use crate::gateway::status::GatewayStatus;
use crate::objects::api::Resource as _;
use crate::objects::store::ObjectRef;
use crate::policy::api::{BackendTlsPolicy, TrafficPolicy, XBackendTrafficPolicy};
use crate::policy::status::PolicyStatus;
use crate::route::status::RouteStatus;

/// The status of an object: our own entries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Status {
    /// A GatewayClass; not part of [`Statuses`], since it depends only on the class.
    GatewayClass(GatewayClassStatus),
    /// Status of a Gateway, with its listeners.
    Gateway(GatewayStatus),
    /// Status of a ListenerSet, with its listeners.
    ListenerSet(ListenerSetStatus),
    /// A route of any kind, or an InferencePool.
    Route(RouteStatus),
    /// Status of a `Backend` object.
    Backend(BackendStatus),
    /// Of a `TrafficPolicy`, an XBackendTrafficPolicy, a BackendTLSPolicy or an XBackend.
    Policy(PolicyStatus),
}

impl Statuses {
    /// The status of every object.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectRef, Status)> + '_ {
        let gateways = self.gateways.iter().map(|(name, status)| {
            let status = Status::Gateway(status.clone());
            (ObjectRef::of::<gateway_api::Gateway>(name), status)
        });
        let sets = self.listener_sets.iter().map(|(name, status)| {
            let status = Status::ListenerSet(status.clone());
            (ObjectRef::of::<gateway_api::ListenerSet>(name), status)
        });
        let routes = self.routes.iter();
        let routes = routes.map(|(object, status)| (object.clone(), Status::Route(status.clone())));
        let backends = self.backends.iter().map(|(name, status)| {
            let status = Status::Backend(status.clone());
            (ObjectRef::of::<backend_api::Backend>(name), status)
        });
        let x_backends = self.x_backends.iter().map(|(name, status)| {
            let status = Status::Policy(status.clone());
            (ObjectRef::of::<XBackend>(name), status)
        });
        let policies = self.traffic_policies.iter().map(|(name, status)| {
            let status = Status::Policy(status.clone());
            (ObjectRef::of::<TrafficPolicy>(name), status)
        });
        let backend_traffic = self
            .x_backend_traffic_policies
            .iter()
            .map(|(name, status)| {
                let status = Status::Policy(status.clone());
                (ObjectRef::of::<XBackendTrafficPolicy>(name), status)
            });
        let policies = policies.chain(backend_traffic);
        let backend_tls = self.backend_tls_policies.iter().map(|(name, status)| {
            let status = Status::Policy(status.clone());
            (ObjectRef::of::<BackendTlsPolicy>(name), status)
        });
        let gateways = gateways.chain(sets).chain(routes).chain(x_backends);
        gateways.chain(backends).chain(policies).chain(backend_tls)
    }

    /// Sets the status of an object; `None` removes it.
    pub fn set(&mut self, object: &ObjectRef, status: Option<Status>) {
        let name = &object.name;
        match status {
            Some(Status::Gateway(status)) => {
                self.gateways.insert(name.clone(), status);
            }
            Some(Status::ListenerSet(status)) => {
                self.listener_sets.insert(name.clone(), status);
            }
            Some(Status::Route(status)) => {
                self.routes.insert(object.clone(), status);
            }
            Some(Status::Backend(status)) => {
                self.backends.insert(name.clone(), status);
            }
            Some(Status::Policy(status)) if object.kind == TrafficPolicy::KIND => {
                self.traffic_policies.insert(name.clone(), status);
            }
            Some(Status::Policy(status)) if object.kind == XBackendTrafficPolicy::KIND => {
                let policies = &mut self.x_backend_traffic_policies;
                policies.insert(name.clone(), status);
            }
            Some(Status::Policy(status)) if object.kind == XBackend::KIND => {
                self.x_backends.insert(name.clone(), status);
            }
            Some(Status::Policy(status)) => {
                self.backend_tls_policies.insert(name.clone(), status);
            }
            Some(Status::GatewayClass(_)) => {}
            None => self.remove(object),
        }
    }

    fn remove(&mut self, object: &ObjectRef) {
        let name = &object.name;
        match &*object.kind {
            gateway_api::Gateway::KIND => drop(self.gateways.remove(name)),
            gateway_api::ListenerSet::KIND => drop(self.listener_sets.remove(name)),
            backend_api::Backend::KIND => drop(self.backends.remove(name)),
            XBackend::KIND => drop(self.x_backends.remove(name)),
            XBackendTrafficPolicy::KIND => {
                self.x_backend_traffic_policies.remove(name);
            }
            TrafficPolicy::KIND => drop(self.traffic_policies.remove(name)),
            BackendTlsPolicy::KIND => drop(self.backend_tls_policies.remove(name)),
            _ => drop(self.routes.remove(object)),
        }
    }
}
