//! All admitted objects: plain maps, filled by files or watches, read by `translate`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use xds::fast_hash::FastHashMap;
use xds::model::ObjectName;

use super::api::{GATEWAY_GROUP, Resource};
use crate::api;

/// Identifies an object of any kind, for statuses and findings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// Kind of the object, such as `HTTPRoute`.
    pub kind: Cow<'static, str>,
    /// Namespace (empty for kinds without one) and name.
    pub name: ObjectName,
}

impl ObjectRef {
    /// The object of kind `T` with this name.
    #[must_use]
    pub fn of<T: Resource>(name: &ObjectName) -> Self {
        Self {
            group: Cow::Borrowed(T::GROUP),
            kind: Cow::Borrowed(T::KIND),
            name: name.clone(),
        }
    }

    /// A route of this kind and name.
    pub(crate) fn route(kind: &'static str, name: &ObjectName) -> Self {
        Self {
            group: Cow::Borrowed(GATEWAY_GROUP),
            kind: Cow::Borrowed(kind),
            name: name.clone(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name.name)
        } else {
            write!(f, "{} {}", self.kind, self.name)
        }
    }
}

/// A kind of object in the store.
pub(crate) trait StoredKind: Resource {
    /// All objects of the kind.
    fn all(store: &Store) -> &FastHashMap<ObjectName, Arc<Self>>;
}

macro_rules! store {
    ($($(#[$doc:meta])* $map:ident: $type:ident,)*) => {
        /// An object of one of the kinds that are read. It is shared: a clone costs a reference
        /// count.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "each kind is documented with its type")]
        pub enum Object {
            $($(#[$doc])* $type(Arc<api::$type>),)*
        }

        impl Object {
            /// Metadata of the object, whatever its kind.
            #[must_use]
            pub fn metadata(&self) -> &api::ObjectMeta {
                match self {
                    $(Self::$type(object) => object.metadata(),)*
                }
            }

            /// The name of its kind.
            pub(crate) fn kind(&self) -> &'static str {
                match self {
                    $(Self::$type(_) => api::$type::KIND,)*
                }
            }

            /// The identity of the object.
            #[must_use]
            pub fn object_ref(&self) -> ObjectRef {
                let name = &self.metadata().name;
                match self {
                    $(Self::$type(_) => ObjectRef::of::<api::$type>(name),)*
                }
            }
        }

        $(impl From<api::$type> for Object {
            fn from(object: api::$type) -> Self {
                Self::$type(Arc::new(object))
            }
        })*

        $(impl StoredKind for api::$type {
            fn all(store: &Store) -> &FastHashMap<ObjectName, Arc<Self>> {
                &store.$map
            }
        })*

        /// Every object, by kind and name.
        #[derive(Debug, Clone, Default, PartialEq)]
        #[allow(missing_docs, reason = "each kind is documented with its type")]
        pub struct Store {
            $($(#[$doc])* pub $map: FastHashMap<ObjectName, Arc<api::$type>>,)*
        }

        impl Store {
            /// Adds an object, replacing one of the same kind and name.
            pub fn insert(&mut self, object: Object) {
                let name = object.metadata().name.clone();
                match object {
                    $(Object::$type(object) => { self.$map.insert(name, object); })*
                }
            }

            /// Removes an object; returns whether it existed.
            pub fn remove(&mut self, object: &ObjectRef) -> bool {
                match (&*object.group, &*object.kind) {
                    $((api::$type::GROUP, api::$type::KIND) => {
                        self.$map.remove(&object.name).is_some()
                    })*
                    _ => false,
                }
            }

            /// All objects, by kind, in any order.
            pub fn objects(&self) -> impl Iterator<Item = Object> + '_ {
                std::iter::empty()
                    $(.chain(self.$map.values().cloned().map(Object::$type)))*
            }

            /// The object, if it exists.
            #[must_use]
            pub fn get(&self, object: &ObjectRef) -> Option<Object> {
                match (&*object.group, &*object.kind) {
                    $((api::$type::GROUP, api::$type::KIND) => {
                        let object = self.$map.get(&object.name)?;
                        Some(Object::$type(Arc::clone(object)))
                    })*
                    _ => None,
                }
            }

            /// Whether the object exists.
            #[must_use]
            pub fn contains(&self, object: &ObjectRef) -> bool {
                match (&*object.group, &*object.kind) {
                    $((api::$type::GROUP, api::$type::KIND) => {
                        self.$map.contains_key(&object.name)
                    })*
                    _ => false,
                }
            }
        }
    };
}

store! {
    gateways: Gateway,
    http_routes: HttpRoute,
    grpc_routes: GrpcRoute,
    tls_routes: TlsRoute,
    tcp_routes: TcpRoute,
    udp_routes: UdpRoute,
    listener_sets: ListenerSet,
    backend_tls_policies: BackendTlsPolicy,
    reference_grants: ReferenceGrant,
    services: Service,
    endpoint_slices: EndpointSlice,
    inference_pools: InferencePool,
    x_backends: XBackend,
    /// Pods, of which those of InferencePools and XBackends matter.
    pods: Pod,
    secrets: Secret,
    config_maps: ConfigMap,
    /// Namespaces, by a name whose namespace is empty.
    namespaces: Namespace,
    trust_bundles: ClusterTrustBundle,
    backends: Backend,
    x_backend_traffic_policies: XBackendTrafficPolicy,
    traffic_policies: TrafficPolicy,
}

impl Extend<Object> for Store {
    fn extend<I: IntoIterator<Item = Object>>(&mut self, objects: I) {
        for object in objects {
            self.insert(object);
        }
    }
}

impl FromIterator<Object> for Store {
    fn from_iter<I: IntoIterator<Item = Object>>(objects: I) -> Self {
        let mut store = Self::default();
        store.extend(objects);
        store
    }
}

#[cfg(test)]
mod tests {
    use xds::model::ObjectName;

    use super::{Object, Store};
    use crate::backend::api::Service;

    fn service(name: &str) -> Object {
        let mut service = Service::default();
        service.metadata.name = ObjectName::new("default", name);
        service.into()
    }

    #[test]
    fn inserted_objects_can_be_removed_by_reference() {
        let mut store = Store::default();
        let object = service("web");
        let reference = object.object_ref();
        store.insert(object);
        assert!(store.contains(&reference));
        assert!(!store.remove(&service("other").object_ref()));
        assert!(store.remove(&reference));
        assert_eq!(store, Store::default());
    }
}
