//! Routes by kind and name.

use xds::model::ObjectName;

use crate::objects::kinds::ObjectKind;
use crate::objects::object_ref::ObjectRef;

/// A route by kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RouteName {
    pub(crate) kind: RouteKind,
    pub(crate) name: ObjectName,
}

/// A kind of route, in the order of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RouteKind {
    Grpc,
    Http,
    Tcp,
    Tls,
    Udp,
}

impl RouteName {
    pub(crate) fn object_ref(&self) -> ObjectRef {
        ObjectRef::new(self.kind.object_kind(), &self.name)
    }
}

impl RouteKind {
    const ALL: [Self; 5] = [Self::Grpc, Self::Http, Self::Tcp, Self::Tls, Self::Udp];

    /// `None` if it is no kind of route.
    pub(crate) fn of(kind: ObjectKind) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|it| it.object_kind() == kind)
    }

    /// The kind of this name, as keys and targets have it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|it| it.as_str() == name)
    }

    pub(crate) fn object_kind(self) -> ObjectKind {
        match self {
            Self::Grpc => ObjectKind::GrpcRoute,
            Self::Http => ObjectKind::HttpRoute,
            Self::Tcp => ObjectKind::TcpRoute,
            Self::Tls => ObjectKind::TlsRoute,
            Self::Udp => ObjectKind::UdpRoute,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        self.object_kind().name()
    }

    /// Whether its routes have requests, and not only connections or datagrams.
    pub(crate) fn is_of_requests(self) -> bool {
        matches!(self, Self::Http | Self::Grpc)
    }
}
