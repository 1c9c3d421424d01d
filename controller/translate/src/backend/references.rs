//! Resolves the backend references of routes.

use std::fmt::Write as _;
use std::num::NonZeroU16;

use xds::model::{
    self, BackendKey, BackendProtocol, Hosts, InvalidBackend, ObjectName, ServiceKey, Target,
};

use super::api;
use super::api::{BackendReference, TransportProtocol, XBackend};
use super::app_protocol::no_http;
use super::referrer::{Referrer, TrafficKind};
use super::x_backend::protocol_of;
use crate::objects::grants::Referent;
use crate::objects::kinds::ObjectKind;
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

impl Reader<'_> {
    /// Resolves a reference to a backend. An unresolved one keeps its share of requests or
    /// connections, which are rejected.
    pub(crate) fn follow(
        &self,
        from: Referrer<'_>,
        reference: BackendReference<'_>,
    ) -> (Target, Option<Problem>) {
        let to = Referent {
            group: reference.group,
            kind: reference.kind,
            namespace: reference.namespace.unwrap_or(from.namespace),
            name: reference.name,
        };
        let followed = check_kind(to, from)
            .and_then(|kind| self.check_grant(from, to).map(|()| kind))
            .and_then(|kind| {
                let name = ObjectName::new(to.namespace, to.name);
                match kind {
                    DestinationKind::Service => {
                        self.service_port(&name, reference.port, from.carries)
                    }
                    DestinationKind::Backend => self.backend_target(&name, from),
                    DestinationKind::Pool => self.pool_target(&name),
                    DestinationKind::XBackend => self.x_backend_target(&name, from),
                }
            });
        match followed {
            Ok(target) => (target, None),
            Err(problem) => {
                let why = invalid(problem.reason);
                let mut named = format!("{}/{}/{}", to.kind, to.namespace, to.name);
                if let Some(port) = reference.port {
                    let _ = write!(named, ":{port}");
                }
                let reference = named;
                (Target::Invalid { why, reference }, Some(problem))
            }
        }
    }

    fn check_grant(&self, from: Referrer<'_>, to: Referent<'_>) -> Result<(), Problem> {
        if self.permits(from.kind, from.namespace, to) {
            return Ok(());
        }
        let message = format!(
            "{} {}/{} is in another namespace: add a ReferenceGrant there from {} in `{}`",
            to.kind, to.namespace, to.name, from.kind, from.namespace
        );
        Err(Problem::new(Reason::RefNotPermitted, "", message))
    }

    fn service_port(
        &self,
        name: &ObjectName,
        port: Option<NonZeroU16>,
        carries: TrafficKind,
    ) -> Result<Target, Problem> {
        let fail = |reason, message: String| Err(Problem::new(reason, "", message));
        let Some(service) = self.object::<api::Service>(name) else {
            let message = format!("Service {name} does not exist: create it");
            return fail(Reason::BackendNotFound, message);
        };
        if service.spec.kind.as_deref() == Some("ExternalName") {
            let message = format!(
                "Service {name} is of type ExternalName, which can point anywhere \
                 (CVE-2021-25740): use a Backend with `dns`"
            );
            return fail(Reason::InvalidKind, message);
        }
        let Some(port) = port else {
            let message = format!("a reference to Service {name} needs a port: add `port`");
            return fail(Reason::BackendNotFound, message);
        };
        let transport = carries.transport();
        let mut ports = service.spec.ports.iter();
        let Some(spec) = ports.find(|it| it.port == port && it.protocol == transport) else {
            let message = format!(
                "Service {name} has no {transport} port {port}: use {}",
                ports_of(service, transport)
            );
            return fail(Reason::BackendNotFound, message);
        };
        let service = ServiceKey::new(name);
        let tls = self.tls_of_port(&service, &spec.name);
        if carries.is_http()
            && let Some(message) = no_http(spec, tls)
        {
            let message = format!("port {port} of Service {name} {message}");
            return fail(Reason::UnsupportedProtocol, message);
        }
        Ok(Target::Service {
            service,
            port: port.get(),
        })
    }

    fn backend_target(&self, name: &ObjectName, from: Referrer<'_>) -> Result<Target, Problem> {
        match self.backend(name) {
            Some(Ok(backend)) => match unable(backend, from.carries) {
                None => Ok(Target::Backend(BackendKey::new(name))),
                Some(why) => {
                    let message = format!("Backend {name} {why}, which a {} cannot use", from.kind);
                    Err(Problem::new(Reason::UnsupportedProtocol, "", message))
                }
            },
            Some(Err(problem)) => {
                let message = format!("Backend {name} is not accepted: {problem}");
                Err(Problem::new(Reason::BackendNotFound, "", message))
            }
            None => {
                let message = format!("Backend {name} does not exist: create it");
                Err(Problem::new(Reason::BackendNotFound, "", message))
            }
        }
    }

    /// The port of the reference is ignored: a pool has its own.
    fn pool_target(&self, name: &ObjectName) -> Result<Target, Problem> {
        if self.exists(ObjectKind::InferencePool, name) {
            return Ok(Target::Backend(BackendKey::of_pool(name)));
        }
        let watched = if self.is_machine() {
            ""
        } else {
            ", and set `inferenceExtension.enabled` in the chart unless it is"
        };
        let message = format!("InferencePool {name} does not exist: create it{watched}");
        Err(Problem::new(Reason::BackendNotFound, "", message))
    }

    /// The port of the reference is ignored here as well.
    fn x_backend_target(&self, name: &ObjectName, from: Referrer<'_>) -> Result<Target, Problem> {
        let Some(object) = self.object::<XBackend>(name) else {
            let watched = if self.is_machine() {
                ""
            } else {
                ", and set `xBackend.enabled` in the chart unless it is"
            };
            let message = format!("XBackend {name} does not exist: create it{watched}");
            return Err(Problem::new(Reason::BackendNotFound, "", message));
        };
        if from.carries.is_http() && protocol_of(object) == BackendProtocol::Tcp {
            let message = format!(
                "XBackend {name} has protocol TCP: {} cannot use it",
                from.kind
            );
            return Err(Problem::new(Reason::UnsupportedProtocol, "", message));
        }
        Ok(Target::Backend(BackendKey::of_x_backend(name)))
    }
}

fn check_kind(to: Referent<'_>, from: Referrer<'_>) -> Result<DestinationKind, Problem> {
    match to.object_kind() {
        Some(ObjectKind::Service) => Ok(DestinationKind::Service),
        Some(ObjectKind::Backend) => Ok(DestinationKind::Backend),
        Some(ObjectKind::InferencePool) if from.carries.is_http() => Ok(DestinationKind::Pool),
        Some(ObjectKind::XBackend) if from.carries != TrafficKind::Datagrams => {
            Ok(DestinationKind::XBackend)
        }
        _ => {
            let message = format!(
                "{} cannot be a backend: refer to a Service or a Backend",
                to.written_kind()
            );
            Err(Problem::new(Reason::InvalidKind, "", message))
        }
    }
}

enum DestinationKind {
    Service,
    Backend,
    Pool,
    XBackend,
}

fn invalid(reason: Reason) -> InvalidBackend {
    match reason {
        Reason::InvalidKind => InvalidBackend::InvalidKind,
        Reason::RefNotPermitted => InvalidBackend::NotPermitted,
        Reason::UnsupportedProtocol => InvalidBackend::UnsupportedProtocol,
        _ => InvalidBackend::NotFound,
    }
}

fn ports_of(service: &api::Service, transport: TransportProtocol) -> String {
    let ports = service.spec.ports.iter();
    let fitting = ports.filter(|port| port.protocol == transport);
    let numbers: Vec<String> = fitting.map(|port| port.port.to_string()).collect();
    if numbers.is_empty() {
        "a Service with one".to_owned()
    } else {
        numbers.join(", ")
    }
}

/// Why a backend cannot take this traffic.
fn unable(backend: &model::Backend, carries: TrafficKind) -> Option<&'static str> {
    let is_unix = matches!(backend.hosts, Hosts::Unix { .. });
    match carries {
        TrafficKind::Requests | TrafficKind::Calls if backend.protocol == BackendProtocol::Tcp => {
            Some("has protocol TCP")
        }
        TrafficKind::Datagrams if is_unix => Some("is a unix stream socket"),
        TrafficKind::Datagrams if backend.tls.is_some() => Some("speaks TLS"),
        TrafficKind::Datagrams if backend.proxy_protocol.is_some() => {
            Some("requires PROXY protocol")
        }
        _ => None,
    }
}
