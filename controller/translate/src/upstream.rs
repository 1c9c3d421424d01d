//! Destinations of requests.

use xds::model::{BackendKey, ObjectName, ServiceKey, Target};

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

    /// The upstream of a target, if it resolves.
    pub(crate) fn of(target: &Target) -> Option<Self> {
        match target {
            Target::Service { service, .. } => Some(Self::Service(service.clone())),
            Target::Backend(backend) => Some(Self::Backend(backend.clone())),
            Target::Invalid { .. } => None,
        }
    }
}
