//! Services as backends of routes: why one has no endpoint, and whether its slices say whose requests its endpoints
//! get.

use xds::model::ObjectName;

use super::endpoints::{is_available, why_empty};
use super::view::{RouteView, View};
use crate::backend::api::{BackendReference, Endpoint, Service, TransportProtocol};
use crate::backend::referrer::TrafficKind;
use crate::objects::kinds::ObjectKind;
use crate::status::Reason;

/// The Service that a backend is, if it is one that the route may use.
pub(super) fn service_of<'a>(
    view: &View<'a>,
    route: &RouteView<'_>,
    backend: BackendReference<'_>,
) -> Option<(ObjectName, &'a Service)> {
    if ObjectKind::find(backend.group, backend.kind) != Some(ObjectKind::Service) {
        return None;
    }
    let namespace = backend.namespace.unwrap_or(route.namespace());
    let name = ObjectName::new(namespace, backend.name);
    if !view.permits(route, &name) {
        return None;
    }
    let service = view.store.services.get(&name)?;
    Some((name, service))
}

/// Why a Service has no endpoint; `None` for other kinds of backends, and for references that do not resolve,
/// which conditions report.
pub(super) fn why_unavailable(
    view: &View<'_>,
    route: &RouteView<'_>,
    backend: BackendReference<'_>,
) -> Option<(Reason, String)> {
    let (name, service) = service_of(view, route, backend)?;
    if service.spec.kind.as_deref() == Some("ExternalName") {
        return None;
    }
    let (transport, is_udp) = match route.carries {
        TrafficKind::Datagrams => (TransportProtocol::Udp, true),
        _ => (TransportProtocol::Tcp, false),
    };
    let mut ports = service.spec.ports.iter();
    let port = ports.find(|it| Some(it.port) == backend.port && it.protocol == transport)?;
    let is_own = *name.namespace == *route.namespace();
    let key = (name.clone(), port.port, is_udp, is_own);
    let mut known = view.services.empty.borrow_mut();
    let empty = known.entry(key).or_insert_with(|| {
        let (reason, why) = why_empty(view, (route.namespace(), &name), port)?;
        let text = format!("Service {name} has no endpoint that is ready: {why}");
        Some((reason, text))
    });
    empty.clone()
}

/// Whether a Service has ready endpoints, and none of them says whose requests it gets: that is a matter of those
/// that are ready.
pub(super) fn lacks_hints(view: &View<'_>, service: &ObjectName) -> bool {
    if view.services.placed.contains(service) {
        return false;
    }
    let mut known = view.services.without_hints.borrow_mut();
    *known.entry(service.clone()).or_insert_with(|| {
        let slices = view.slices(service).iter();
        let endpoints = slices.flat_map(|it| &it.endpoints);
        let mut ready = endpoints.filter(|it| is_ready(it)).peekable();
        ready.peek().is_some() && ready.all(|it| it.hints.is_none())
    })
}

/// Whether it serves and goes on to: Kubernetes gives no hints to others.
fn is_ready(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions;
    is_available(endpoint)
        && conditions.ready.unwrap_or(true)
        && !conditions.terminating.unwrap_or(false)
}
