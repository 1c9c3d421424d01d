//! Backends that are valid and cannot be what was meant.

use std::net::IpAddr;
use std::num::NonZeroU16;

use super::view::{RouteView, View};
use super::{Diagnosis, finding};
use crate::backend::api::{Backend, BackendProtocol};
use crate::level::Level;
use crate::objects::kinds::ObjectKind;
use crate::objects::object_ref::ObjectRef;
use crate::status::Reason;
use xds::model::ObjectName;

pub(super) fn examine(view: &View<'_>, found: &mut Vec<Diagnosis>) {
    for backend in view.store.backends.values() {
        let object = ObjectRef::of::<Backend>(&backend.metadata.name);
        let spec = &backend.spec;
        for (index, host) in spec.addresses.iter().enumerate() {
            let address = host.host.parse::<IpAddr>();
            if address.is_ok_and(|it| it.is_unspecified()) {
                let field = format!("spec.addresses[{index}].host");
                let field = (field, Reason::UnsupportedAddress);
                let text = format!(
                    "`{}` is where servers listen, not where they are: write the address of the backend, such as \
                     127.0.0.1",
                    host.host
                );
                found.push(finding(&object, Level::Error, field, text));
            }
        }
        let ports = spec.addresses.iter().map(|it| it.port.get());
        let mut ports = ports.chain(spec.dns.as_ref().map(|it| it.port.get()));
        let is_plain = matches!(spec.protocol, BackendProtocol::Http | BackendProtocol::H2c);
        if is_plain && ports.any(|it| it == TLS_PORT) {
            let field = ("spec.protocol".to_owned(), Reason::PlainTextToTlsPort);
            let text = "requests go to port 443 in plain text, where servers expect TLS: set protocol HTTPS, with \
                        `tls` for the certificate of the backend";
            found.push(finding(&object, Level::Warning, field, text.to_owned()));
        }
    }
}

/// References to a Backend with a port, which has none of its own to choose from.
pub(super) fn of_route(view: &View<'_>, route: &RouteView<'_>, found: &mut Vec<Diagnosis>) {
    for (index, rule) in route.rules.iter().enumerate() {
        for (at, (reference, _)) in rule.backends.iter().enumerate() {
            let kind = ObjectKind::find(reference.group, reference.kind);
            let (Some(ObjectKind::Backend), Some(port)) = (kind, reference.port) else {
                continue;
            };
            let namespace = reference.namespace.unwrap_or(route.namespace());
            let name = ObjectName::new(namespace, reference.name);
            let Some(backend) = view.store.backends.get(&name) else {
                continue;
            };
            let spec = &backend.spec;
            let ports = spec.addresses.iter().map(|it| it.port);
            let ports = ports.chain(spec.dns.as_ref().map(|it| it.port));
            let ports: Vec<NonZeroU16> = ports.collect();
            if *namespace == *route.namespace() && !ports.contains(&port) {
                let field = format!("spec.rules[{index}].backendRefs[{at}].port");
                let text = format!(
                    "{port} has no effect, since Backend {name} has the port of its addresses: change it there, or \
                     leave it out here"
                );
                let field = (field, Reason::NoEffect);
                found.push(finding(&route.object, Level::Warning, field, text));
            }
        }
    }
}

/// Where servers expect TLS.
const TLS_PORT: u16 = 443;
