//! What the backend references of routes lead to.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use xds::model::{self, BackendKey, InvalidBackend, ObjectName, ServiceKey, Target};

use super::World;
use super::reference_grant::Referent;
use crate::api::{self, BackendObjectReference, HttpBackendRef, Resource, TransportProtocol};
use crate::lower::backend;
use crate::lower::service::app_protocol;
use crate::problem::Problem;
use crate::status::Reason;
use crate::store::Store;

/// A reference to a backend, from wherever it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BackendReference<'r> {
    group: &'r str,
    kind: &'r str,
    namespace: Option<&'r str>,
    name: &'r str,
    port: Option<NonZeroU16>,
}

impl<'r> From<&'r HttpBackendRef> for BackendReference<'r> {
    fn from(reference: &'r HttpBackendRef) -> Self {
        Self {
            group: &reference.group,
            kind: &reference.kind,
            namespace: reference.namespace.as_deref(),
            name: &reference.name,
            port: reference.port,
        }
    }
}

impl<'r> From<&'r BackendObjectReference> for BackendReference<'r> {
    fn from(reference: &'r BackendObjectReference) -> Self {
        Self {
            group: &reference.group,
            kind: &reference.kind,
            namespace: reference.namespace.as_deref(),
            name: &reference.name,
            port: reference.port,
        }
    }
}

/// Our `Backend` objects, each as the model has it or with what is wrong with it.
pub(crate) struct Backends<'a>(
    pub(crate) BTreeMap<&'a ObjectName, Result<model::Backend, Problem>>,
);

impl<'a> Backends<'a> {
    pub(crate) fn of(store: &'a Store) -> Self {
        let lowered = store
            .backends
            .iter()
            .map(|(name, object)| (name, backend::lower(name, object)));
        Self(lowered.collect())
    }
}

impl World<'_> {
    /// Follows the reference of a route of kind `T` in `namespace`. One that leads nowhere still
    /// has its share of the requests, which are answered with 500.
    pub(crate) fn follow<T: Resource>(
        &self,
        namespace: &str,
        reference: BackendReference<'_>,
    ) -> (Target, Option<Problem>) {
        let to = Referent {
            group: reference.group,
            kind: reference.kind,
            namespace: reference.namespace.unwrap_or(namespace),
            name: reference.name,
        };
        let followed = check_kind(to)
            .and_then(|kind| self.check_grant::<T>(namespace, to).map(|()| kind))
            .and_then(|kind| {
                let name = ObjectName::new(to.namespace, to.name);
                match kind {
                    BackendKind::Service => self.service_port(&name, reference.port),
                    BackendKind::Backend => self.backend(&name),
                }
            });
        match followed {
            Ok(target) => (target, None),
            Err(problem) => (Target::Invalid(invalid(problem.reason)), Some(problem)),
        }
    }

    fn check_grant<T: Resource>(&self, namespace: &str, to: Referent<'_>) -> Result<(), Problem> {
        if self.grants.permit::<T>(namespace, to) {
            return Ok(());
        }
        let message = format!(
            "{} {}/{} is in another namespace: add a ReferenceGrant there from {} in `{namespace}`",
            to.kind,
            to.namespace,
            to.name,
            T::KIND
        );
        Err(Problem::new(Reason::RefNotPermitted, "", message))
    }

    fn service_port(&self, name: &ObjectName, port: Option<NonZeroU16>) -> Result<Target, Problem> {
        let fail = |reason, message: String| Err(Problem::new(reason, "", message));
        let Some(service) = self.store.services.get(name) else {
            let message = format!("Service {name} does not exist: create it");
            return fail(Reason::BackendNotFound, message);
        };
        if service.spec.kind.as_deref() == Some("ExternalName") {
            let message = format!(
                "Service {name} is of type ExternalName, which can lead anywhere \
                 (CVE-2021-25740): use a Backend with `dns`"
            );
            return fail(Reason::InvalidKind, message);
        }
        let Some(port) = port else {
            let message = format!("a reference to Service {name} needs a port: add `port`");
            return fail(Reason::BackendNotFound, message);
        };
        let mut ports = service.spec.ports.iter();
        let spec = ports.find(|it| it.port == port && it.protocol == TransportProtocol::Tcp);
        let Some(spec) = spec else {
            let message = format!(
                "Service {name} has no TCP port {port}: use {}",
                tcp_ports(service)
            );
            return fail(Reason::BackendNotFound, message);
        };
        if let Err(message) = app_protocol(spec) {
            let message = format!("port {port} of Service {name} {message}");
            return fail(Reason::UnsupportedProtocol, message);
        }
        Ok(Target::Service {
            service: ServiceKey::new(name),
            port: port.get(),
        })
    }

    fn backend(&self, name: &ObjectName) -> Result<Target, Problem> {
        match self.backends.0.get(name) {
            Some(Ok(_)) => Ok(Target::Backend(BackendKey::new(name))),
            Some(Err(problem)) => {
                let reason = match problem.reason {
                    Reason::UnsupportedProtocol => Reason::UnsupportedProtocol,
                    _ => Reason::BackendNotFound,
                };
                let message = format!("Backend {name} is not accepted: {problem}");
                Err(Problem::new(reason, "", message))
            }
            None => {
                let message = format!("Backend {name} does not exist: create it");
                Err(Problem::new(Reason::BackendNotFound, "", message))
            }
        }
    }
}

fn check_kind(to: Referent<'_>) -> Result<BackendKind, Problem> {
    match (to.group, to.kind) {
        (api::Service::GROUP, api::Service::KIND) => Ok(BackendKind::Service),
        (api::Backend::GROUP, api::Backend::KIND) => Ok(BackendKind::Backend),
        (group, kind) => {
            let message = format!(
                "kind `{kind}` of group `{group}` cannot serve requests: refer to a Service or a \
                 Backend"
            );
            Err(Problem::new(Reason::InvalidKind, "", message))
        }
    }
}

enum BackendKind {
    Service,
    Backend,
}

fn invalid(reason: Reason) -> InvalidBackend {
    match reason {
        Reason::InvalidKind => InvalidBackend::InvalidKind,
        Reason::RefNotPermitted => InvalidBackend::NotPermitted,
        Reason::UnsupportedProtocol => InvalidBackend::UnsupportedProtocol,
        _ => InvalidBackend::NotFound,
    }
}

fn tcp_ports(service: &api::Service) -> String {
    let ports = service.spec.ports.iter();
    let tcp = ports.filter(|port| port.protocol == TransportProtocol::Tcp);
    let numbers: Vec<String> = tcp.map(|port| port.port.to_string()).collect();
    if numbers.is_empty() {
        "a Service with one".to_owned()
    } else {
        numbers.join(", ")
    }
}
