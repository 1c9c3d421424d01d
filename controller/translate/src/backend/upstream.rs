//! Destinations of requests.

use xds::model::{BackendKey, ObjectName, ServiceKey, Target, Transport};

use crate::objects::kinds::ObjectKind;

/// A service or a backend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Upstream {
    Service(ServiceKey),
    Backend(BackendKey),
}

impl Upstream {
    /// Stands for all objects of a namespace: no object has an empty name.
    pub(crate) fn everything_in(namespace: &str) -> Self {
        Self::Backend(BackendKey::new(&ObjectName::new(namespace, "")))
    }

    /// The upstream that an object is; `None` for a kind that requests are not sent to.
    pub(crate) fn of_object(kind: ObjectKind, name: &ObjectName) -> Option<Self> {
        Some(match kind {
            ObjectKind::Service => Self::Service(ServiceKey::new(name)),
            ObjectKind::Backend => Self::Backend(BackendKey::new(name)),
            ObjectKind::XBackend => Self::Backend(BackendKey::of_x_backend(name)),
            ObjectKind::InferencePool => Self::Backend(BackendKey::of_pool(name)),
            _ => return None,
        })
    }

    /// The upstream of a target, if it resolves.
    pub(crate) fn of(target: &Target) -> Option<Self> {
        match target {
            Target::Service { service, .. } => Some(Self::Service(service.clone())),
            Target::Backend(backend) => Some(Self::Backend(backend.clone())),
            Target::Invalid { .. } => None,
        }
    }
}

/// A port of a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PortOfService {
    pub(crate) transport: Transport,
    pub(crate) number: u16,
}

/// What requests or connections are sent to: a port of a Service, or a backend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Destination {
    Service(ServiceKey, PortOfService),
    Backend(BackendKey),
}

impl Destination {
    /// The destination of a target, if it resolves.
    pub(crate) fn of(target: &Target, transport: Transport) -> Option<Self> {
        match target {
            Target::Service { service, port } => {
                let number = *port;
                let port = PortOfService { transport, number };
                Some(Self::Service(service.clone(), port))
            }
            Target::Backend(backend) => Some(Self::Backend(backend.clone())),
            Target::Invalid { .. } => None,
        }
    }

    pub(crate) fn upstream(&self) -> Upstream {
        match self {
            Self::Service(service, _) => Upstream::Service(service.clone()),
            Self::Backend(backend) => Upstream::Backend(backend.clone()),
        }
    }

    /// The port of a Service that it is.
    pub(crate) fn port(&self) -> Option<(ServiceKey, PortOfService)> {
        match self {
            Self::Service(service, port) => Some((service.clone(), *port)),
            Self::Backend(_) => None,
        }
    }
}
