//! What requests are sent to.

use xds::model::{BackendKey, ObjectName, ServiceKey, Target};

/// A service or a backend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Upstream {
    Service(ServiceKey),
    Backend(BackendKey),
}

impl Upstream {
    /// What stands for everything in a namespace: no object has an empty name.
    pub(crate) fn everything_in(namespace: &str) -> Self {
        Self::Backend(BackendKey::new(&ObjectName::new(namespace, "")))
    }

    /// What a target leads to, if it leads anywhere.
    pub(crate) fn of(target: &Target) -> Option<Self> {
        match target {
            Target::Service { service, .. } => Some(Self::Service(service.clone())),
            Target::Backend(backend) => Some(Self::Backend(backend.clone())),
            Target::Invalid { .. } => None,
        }
    }
}
