//! Values shared by several resources.

use std::net::IpAddr;
use std::time::Duration;

use crate::model::{InvalidBackend, ObjectName, Target, Timeout};
use crate::proto::{self, target, timeout};

/// An address as its 4 or 16 bytes.
pub(super) fn address(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The texts of printable items, in order.
pub(super) fn texts<T: ToString>(list: &[T]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// Messages of a list, in order.
pub(super) fn list<'a, T, M: From<&'a T>>(list: &'a [T]) -> Vec<M> {
    list.iter().map(M::from).collect()
}

impl From<&ObjectName> for proto::ObjectName {
    fn from(name: &ObjectName) -> Self {
        Self {
            namespace: name.namespace.to_string(),
            name: name.name.to_string(),
        }
    }
}

impl From<Duration> for proto::Duration {
    fn from(duration: Duration) -> Self {
        Self {
            seconds: duration.as_secs(),
            nanos: duration.subsec_nanos(),
        }
    }
}

impl From<Timeout> for proto::Timeout {
    fn from(timeout: Timeout) -> Self {
        let kind = match timeout {
            Timeout::Default => timeout::Kind::Unset(proto::Unit {}),
            Timeout::Never => timeout::Kind::Never(proto::Unit {}),
            Timeout::After(duration) => timeout::Kind::After(duration.into()),
        };
        Self { kind: Some(kind) }
    }
}

impl From<&(IpAddr, u8)> for proto::Network {
    fn from((network, prefix_length): &(IpAddr, u8)) -> Self {
        Self {
            address: address(network),
            prefix_length: (*prefix_length).into(),
        }
    }
}

impl From<&Target> for proto::Target {
    fn from(target: &Target) -> Self {
        let reference = match target {
            Target::Invalid { reference, .. } => reference.clone(),
            Target::Service { .. } | Target::Backend(_) => String::new(),
        };
        let kind = match target {
            Target::Service { service, port } => target::Kind::Service(proto::ServiceTarget {
                service: service.to_string(),
                port: (*port).into(),
            }),
            Target::Backend(key) => target::Kind::Backend(key.to_string()),
            Target::Invalid { why, .. } => target::Kind::Invalid(invalid_backend(*why).into()),
        };
        Self {
            kind: Some(kind),
            reference,
        }
    }
}

fn invalid_backend(why: InvalidBackend) -> proto::InvalidBackend {
    match why {
        InvalidBackend::NotFound => proto::InvalidBackend::NotFound,
        InvalidBackend::InvalidKind => proto::InvalidBackend::InvalidKind,
        InvalidBackend::NotPermitted => proto::InvalidBackend::NotPermitted,
        InvalidBackend::UnsupportedProtocol => proto::InvalidBackend::UnsupportedProtocol,
    }
}
