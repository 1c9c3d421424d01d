//! What requests are sent to.

use xds::model::{BackendKey, ServiceKey, Target};

/// A service or a backend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Upstream {
    Service(ServiceKey),
    Backend(BackendKey),
}

impl Upstream {
    /// What a target leads to, if it leads anywhere.
    pub(crate) fn of(target: &Target) -> Option<Self> {
        match target {
            Target::Service { service, .. } => Some(Self::Service(service.clone())),
            Target::Backend(backend) => Some(Self::Backend(backend.clone())),
            Target::Invalid { .. } => None,
        }
    }
}
