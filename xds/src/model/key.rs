//! Keys of resources: `/`-separated (a dot is legal in names), carrying the kind.

use std::fmt;
use std::sync::Arc;

/// Namespace and name of a Kubernetes object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl ObjectName {
    /// Names an object.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a key as it came over the wire.
            #[must_use]
            pub fn from_wire(key: &str) -> Self {
                Self(key.into())
            }

            /// The key as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

keys! {
    /// `tcp/80/<namespace>/<gateway>`.
    BindKey;
    /// `<Gateway|ListenerSet>/<namespace>/<name>/<listener>`.
    ListenerKey;
    /// `<Kind>/<namespace>/<name>/<rule>/<listener key>`.
    RouteKey;
    /// `Backend/<namespace>/<name>`.
    BackendKey;
    /// `<Kind>/<namespace>/<name>/<target>`.
    PolicyKey;
    /// `<EndpointSlice|Pod>/<namespace>/<name>/<address>`.
    WorkloadKey;
    /// `Service/<namespace>/<name>`.
    ServiceKey;
}

impl BindKey {
    /// The bind of one port of one Gateway.
    #[must_use]
    pub fn new(transport: super::Transport, port: u16, gateway: &ObjectName) -> Self {
        Self(format!("{}/{port}/{gateway}", transport.as_str()).into())
    }
}

impl ListenerKey {
    /// A listener declared by an object of `kind` (`Gateway` or `ListenerSet`).
    #[must_use]
    pub fn new(kind: &str, object: &ObjectName, listener: &str) -> Self {
        Self(format!("{kind}/{object}/{listener}").into())
    }
}

impl RouteKey {
    /// Rule number `rule` of a route object, attached to `listener`.
    #[must_use]
    pub fn new(kind: &str, object: &ObjectName, rule: u16, listener: &ListenerKey) -> Self {
        Self(format!("{kind}/{object}/{rule}/{listener}").into())
    }
}

impl BackendKey {
    /// The `Backend` object of this name.
    #[must_use]
    pub fn new(object: &ObjectName) -> Self {
        Self(format!("Backend/{object}").into())
    }
}

impl ServiceKey {
    /// The `Service` object of this name.
    #[must_use]
    pub fn new(object: &ObjectName) -> Self {
        Self(format!("Service/{object}").into())
    }
}

impl PolicyKey {
    /// A policy object of `kind`, applied to the target that `target` spells.
    #[must_use]
    pub fn new(kind: &str, object: &ObjectName, target: &str) -> Self {
        Self(format!("{kind}/{object}/{target}").into())
    }
}

impl WorkloadKey {
    /// One address listed by an object of `kind` (`EndpointSlice` or `Pod`).
    #[must_use]
    pub fn new(kind: &str, object: &ObjectName, address: &str) -> Self {
        Self(format!("{kind}/{object}/{address}").into())
    }
}
