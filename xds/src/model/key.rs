//! Keys of resources: `/`-separated (a dot is legal in names), carrying the kind.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use thiserror::Error;

/// Namespace and name of a Kubernetes object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(Arc<NameParts>);

/// Namespace and name of an object. They are read through an [`ObjectName`], which is one pointer: an
/// object's name is in many maps, and with thousands of objects each word of it counts.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameParts {
    /// Never empty, without `/`.
    pub namespace: Arc<str>,
    /// Never empty, without `/`.
    pub name: Arc<str>,
}

impl Deref for ObjectName {
    type Target = NameParts;

    fn deref(&self) -> &NameParts {
        &self.0
    }
}

impl ObjectName {
    /// A name from trusted parts.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self::of_shared(namespace.into(), name.into())
    }

    /// A name from trusted parts that are shared with others.
    #[must_use]
    pub fn of_shared(namespace: Arc<str>, name: Arc<str>) -> Self {
        Self(Arc::new(NameParts { namespace, name }))
    }

    /// A name from parts received over the wire.
    ///
    /// # Errors
    ///
    /// A part is empty or contains a `/`, which would make keys ambiguous.
    pub fn parse(namespace: &str, name: &str) -> Result<Self, InvalidObjectName> {
        if [namespace, name]
            .iter()
            .any(|part| part.is_empty() || part.contains('/'))
        {
            return Err(InvalidObjectName {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            });
        }
        Ok(Self::new(namespace, name))
    }
}

/// A namespace and a name that are not valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{namespace}/{name}` is not an object's name: neither part may be empty or contain a `/`")]
pub struct InvalidObjectName {
    /// The namespace that was given.
    pub namespace: String,
    /// The name that was given.
    pub name: String,
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = f.debug_struct("ObjectName");
        parts.field("namespace", &self.namespace);
        parts.field("name", &self.name).finish()
    }
}

impl Serialize for ObjectName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A text that is not a valid key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{key}` does not have the form `{form}`")]
pub struct InvalidKey {
    /// The text that was given.
    pub key: String,
    /// The form that the key has to have.
    pub form: &'static str,
}

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident($form:literal, $check:expr);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses a key received over the wire.
            ///
            /// # Errors
            ///
            /// The text does not have the form of such a key.
            pub fn parse(key: &str) -> Result<Self, InvalidKey> {
                let parts: Vec<&str> = key.split('/').collect();
                let check: fn(&[&str]) -> bool = $check;
                if check(&parts) && parts.iter().all(|part| !part.is_empty()) {
                    Ok(Self(key.into()))
                } else {
                    Err(InvalidKey { key: key.to_owned(), form: $form })
                }
            }

            /// The key as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The key as shared text.
            #[must_use]
            pub fn to_shared(&self) -> Arc<str> {
                Arc::clone(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        /// Lets maps by key be searched with plain text.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
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
    /// Key of a bind, such as `tcp/80/<namespace>/<gateway>`.
    BindKey("tcp|udp/<port>/<namespace>/<gateway>", |parts| match parts {
        ["tcp" | "udp", port, _, _] => port.parse::<u16>().is_ok(),
        _ => false,
    });
    /// Key of a listener: `<Gateway|ListenerSet>/<namespace>/<name>/<listener>`.
    ListenerKey("<Kind>/<namespace>/<name>/<listener>", |parts| parts.len() == 4);
    /// Key of a route rule at a Gateway, `<Kind>/<namespace>/<name>/<rule>/<gateway namespace>/<gateway name>`,
    /// or at one of its listeners, `<Kind>/<namespace>/<name>/<rule>/<listener key>`.
    RouteKey("<Kind>/<namespace>/<name>/<rule>/<Gateway or listener key>", |parts| match parts {
        [_, _, _, rule, _, _] | [_, _, _, rule, _, _, _, _] => rule.parse::<u16>().is_ok(),
        _ => false,
    });
    /// Key of a backend: `<Backend|InferencePool|XBackend>/<namespace>/<name>`.
    BackendKey("<Kind>/<namespace>/<name>", |parts| parts.len() == 3);
    /// Key of a policy at a target: `<Kind>/<namespace>/<name>/<target>`.
    PolicyKey("<Kind>/<namespace>/<name>/<target>", |parts| parts.len() >= 4);
    /// Key of a workload: `<EndpointSlice|Pod>/<namespace>/<name>/<address>`.
    WorkloadKey("<Kind>/<namespace>/<name>/<address>", |parts| parts.len() == 4);
    /// Key of a Service: `Service/<namespace>/<name>`.
    ServiceKey("<Kind>/<namespace>/<name>", |parts| parts.len() == 3);
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

impl ListenerKey {
    /// `<Kind>/<namespace>/<name>` of the object that declares the listener, and the listener's name in it.
    #[must_use]
    pub fn object_and_name(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or_default()
    }

    /// The ListenerSet that declares the listener; `None` if a Gateway does.
    #[must_use]
    pub fn listener_set(&self) -> Option<ObjectName> {
        let mut parts = self.0.split('/');
        let is_set = parts.next() == Some("ListenerSet");
        let (namespace, name) = (parts.next()?, parts.next()?);
        is_set.then(|| ObjectName::new(namespace, name))
    }
}

impl RouteKey {
    /// Rule number `rule` of a route object at a Gateway.
    #[must_use]
    pub fn new(kind: &str, object: &ObjectName, rule: u16, gateway: &ObjectName) -> Self {
        Self(format!("{kind}/{object}/{rule}/{gateway}").into())
    }

    /// The same rule at a Gateway.
    #[must_use]
    pub fn at_gateway(&self, gateway: &ObjectName) -> Self {
        Self(format!("{}/{gateway}", self.rule()).into())
    }

    /// The same rule at one listener: its name in dumps, and for proxies that get a rule for each listener.
    #[must_use]
    pub fn at(&self, listener: &ListenerKey) -> Self {
        Self(format!("{}/{listener}", self.rule()).into())
    }

    /// The listener, if it is the key of a rule at one listener.
    #[must_use]
    pub fn listener(&self) -> Option<ListenerKey> {
        ListenerKey::parse(self.0.get(self.rule().len() + 1..)?).ok()
    }

    /// `<Kind>/<namespace>/<name>/<rule>`: the rule, without where it is.
    #[must_use]
    pub fn rule(&self) -> &str {
        let end = self.0.match_indices('/').nth(3).map(|(end, _)| end);
        self.0
            .get(..end.unwrap_or(self.0.len()))
            .unwrap_or_default()
    }

    /// The kind of the route object.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// `namespace/name` of the route object, and the number of the rule in it.
    #[must_use]
    pub fn object_and_rule(&self) -> (&str, u16) {
        let mut slashes = self.0.match_indices('/').map(|(at, _)| at);
        let mut next = || slashes.next().unwrap_or(self.0.len());
        let (kind_end, _, object_end, rule_end) = (next(), next(), next(), next());
        let object = self.0.get(kind_end + 1..object_end).unwrap_or_default();
        let rule = self.0.get(object_end + 1..rule_end).unwrap_or_default();
        (object, rule.parse().unwrap_or_default())
    }
}

impl BackendKey {
    /// The `Backend` object of this name.
    #[must_use]
    pub fn new(object: &ObjectName) -> Self {
        Self(format!("Backend/{object}").into())
    }

    /// The namespace of the object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.0.split('/').nth(1).unwrap_or_default()
    }

    /// The InferencePool object of this name.
    #[must_use]
    pub fn of_pool(object: &ObjectName) -> Self {
        Self(format!("InferencePool/{object}").into())
    }

    /// The XBackend object of this name.
    #[must_use]
    pub fn of_x_backend(object: &ObjectName) -> Self {
        Self(format!("XBackend/{object}").into())
    }
}

impl ServiceKey {
    /// The `Service` object of this name.
    #[must_use]
    pub fn new(object: &ObjectName) -> Self {
        Self(format!("Service/{object}").into())
    }

    /// The namespace of the object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.0.split('/').nth(1).unwrap_or_default()
    }
}

impl PolicyKey {
    /// A policy object of `kind`, applied to the target that `target` spells.
    #[must_use]
    pub fn new(kind: &str, object: &ObjectName, target: &str) -> Self {
        Self(format!("{kind}/{object}/{target}").into())
    }

    /// The namespace of the policy object.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.0.split('/').nth(1).unwrap_or_default()
    }
}

impl WorkloadKey {
    /// One address listed by an object of `kind` (`EndpointSlice` or `Pod`).
    #[must_use]
    pub fn new(kind: &str, object: &ObjectName, address: &str) -> Self {
        Self(format!("{kind}/{object}/{address}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Transport;

    #[test]
    fn keys_round_trip() {
        let gateway = ObjectName::new("infra", "web.example");
        let bind = BindKey::new(Transport::Tcp, 80, &gateway);
        assert_eq!(bind.as_str(), "tcp/80/infra/web.example");
        assert_eq!(BindKey::parse(bind.as_str()), Ok(bind));

        let listener = ListenerKey::new("Gateway", &gateway, "http");
        assert_eq!(listener.as_str(), "Gateway/infra/web.example/http");
        assert_eq!(ListenerKey::parse(listener.as_str()), Ok(listener.clone()));
        assert_eq!(listener.listener_set(), None);
        let own = ListenerKey::new("ListenerSet", &gateway, "http");
        assert_eq!(own.listener_set(), Some(gateway.clone()));

        let route = RouteKey::new("HTTPRoute", &ObjectName::new("app", "shop"), 3, &gateway);
        assert_eq!(route.as_str(), "HTTPRoute/app/shop/3/infra/web.example");
        assert_eq!(RouteKey::parse(route.as_str()), Ok(route.clone()));
        assert_eq!(route.object_and_rule(), ("app/shop", 3));
        assert_eq!(route.rule(), "HTTPRoute/app/shop/3");
        assert_eq!(route.listener(), None);
        let at = route.at(&own);
        assert_eq!(at.rule(), route.rule());
        assert_eq!(at.at_gateway(&gateway), route);
        assert_eq!(at.listener(), Some(own.clone()));
        assert_eq!(at.at(&listener).listener(), Some(listener.clone()));
        assert_eq!(
            at.as_str(),
            "HTTPRoute/app/shop/3/ListenerSet/infra/web.example/http"
        );
        assert_eq!(RouteKey::parse(route.as_str()), Ok(route));

        let policy = PolicyKey::new("TrafficPolicy", &gateway, listener.as_str());
        assert_eq!(policy.namespace(), "infra");
        assert_eq!(PolicyKey::parse(policy.as_str()), Ok(policy));
        let workload = WorkloadKey::new("Pod", &gateway, "fd00::1");
        assert_eq!(WorkloadKey::parse(workload.as_str()), Ok(workload));
        let service = ServiceKey::new(&gateway);
        assert_eq!(service.namespace(), "infra");
        assert_eq!(ServiceKey::parse(service.as_str()), Ok(service));
        let backend = BackendKey::new(&gateway);
        assert_eq!(BackendKey::parse(backend.as_str()), Ok(backend));
    }

    #[test]
    fn malformed_keys_are_rejected() {
        for key in [
            "",
            "tcp/80/a",
            "sctp/80/a/b",
            "tcp/x/a/b",
            "tcp/80//b",
            "tcp/80/a/b/c",
        ] {
            assert!(BindKey::parse(key).is_err(), "{key}");
        }
        for key in ["", "Service/a", "Service/a/", "/a/b", "Service/a/b/c"] {
            assert!(ServiceKey::parse(key).is_err(), "{key}");
        }
        for key in ["HTTPRoute/a/b/0", "HTTPRoute/a/b/x/Gateway/a/b/c"] {
            assert!(RouteKey::parse(key).is_err(), "{key}");
        }
        assert_eq!(
            ListenerKey::parse("web")
                .expect_err("too short")
                .to_string(),
            "`web` does not have the form `<Kind>/<namespace>/<name>/<listener>`"
        );
    }
}
