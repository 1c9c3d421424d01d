//! All admitted objects: plain maps, filled by files or watches, read by `translate`.

use std::sync::Arc;

use xds::fast_hash::FastHashMap;
use xds::model::ObjectName;

use super::api::Resource;
use super::kinds::ObjectKind;
use super::object_ref::ObjectRef;
use crate::api;

/// A kind of object in the store.
pub(crate) trait StoredKind: Resource {
    /// All objects of the kind.
    fn all(store: &Store) -> &FastHashMap<ObjectName, Arc<Self>>;
}

macro_rules! store {
    ($d:tt $($(#[$doc:meta])* $map:ident: $type:ident,)*) => {
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

            /// Its kind.
            #[must_use]
            pub fn kind(&self) -> ObjectKind {
                match self {
                    $(Self::$type(_) => ObjectKind::$type,)*
                }
            }

            /// The identity of the object.
            #[must_use]
            pub fn object_ref(&self) -> ObjectRef {
                ObjectRef::new(self.kind(), &self.metadata().name)
            }
        }

        $(impl Resource for api::$type {
            const KIND: ObjectKind = ObjectKind::$type;

            fn metadata(&self) -> &api::ObjectMeta {
                &self.metadata
            }
        })*

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
                match object.kind {
                    $(ObjectKind::$type => {
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

            /// The names of the objects of a kind, in any order; none of a kind that is not kept.
            pub(crate) fn names(&self, kind: ObjectKind) -> Vec<&ObjectName> {
                match kind {
                    $(ObjectKind::$type => self.$map.keys().collect(),)*
                    _ => Vec::new(),
                }
            }

            /// The object, if it exists.
            #[must_use]
            pub fn get(&self, object: &ObjectRef) -> Option<Object> {
                match object.kind {
                    $(ObjectKind::$type => {
                        let object = self.$map.get(&object.name)?;
                        Some(Object::$type(Arc::clone(object)))
                    })*
                    _ => None,
                }
            }

            /// Whether the object exists.
            #[must_use]
            pub fn contains(&self, object: &ObjectRef) -> bool {
                match object.kind {
                    $(ObjectKind::$type => {
                        self.$map.contains_key(&object.name)
                    })*
                    _ => false,
                }
            }
        }

        /// Calls a macro with the types of all kinds.
        macro_rules! with_stored_kinds {
            ($d callback:ident) => {
                $d callback! { $($type)* }
            };
        }
        pub(crate) use with_stored_kinds;
    };
}

store! {
    $
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
