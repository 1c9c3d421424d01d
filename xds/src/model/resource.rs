//! One resource of any kind: what a configuration change adds, replaces or removes.
//!
//! The seven kinds are listed here once; the wire form, the client and the server use this list.

use std::fmt;
use std::sync::Arc;

use super::change::{self, Change, ResourceKey};
use super::resources::Keyed;
use super::{Backend, Bind, Listener, Model, Policy, Route, Service, Workload};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident in $category:ident;)*) => {
        /// The kinds of resources, parents before their children.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// Every kind, parents before their children: the order to apply additions in.
            pub const ALL: [Self; 7] = [$(Self::$kind,)*];

            /// Its message, such as `Bind`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($kind),)*
                }
            }

            /// Its category, such as `binds`: the names of the configuration dump.
            #[must_use]
            pub fn category(self) -> &'static str {
                match self {
                    $(Self::$kind => stringify!($category),)*
                }
            }

            /// Its xDS type URL.
            #[must_use]
            pub fn type_url(self) -> &'static str {
                match self {
                    $(Self::$kind => concat!(
                        "type.googleapis.com/gateway_system.model.v1.",
                        stringify!($kind),
                    ),)*
                }
            }
        }

        /// A resource of any kind. It is shared: a clone costs a reference count, and comparing a
        /// resource with its clone compares two pointers.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Resource {
            $($(#[$doc])* $kind(Arc<$kind>),)*
        }

        impl Resource {
            /// The kind of the resource.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind(_) => Kind::$kind,)*
                }
            }

            /// Its key: its name on the wire.
            #[must_use]
            pub fn key(&self) -> &str {
                match self {
                    $(Self::$kind(value) => value.key.as_str(),)*
                }
            }

            /// Its kind and key.
            #[must_use]
            pub fn resource_key(&self) -> ResourceKey {
                match self {
                    $(Self::$kind(value) => ResourceKey {
                        kind: Kind::$kind,
                        key: value.key.to_shared(),
                    },)*
                }
            }
        }

        $(impl Keyed for $kind {
            fn key(&self) -> &str {
                self.key.as_str()
            }
        })*

        $(impl From<$kind> for Resource {
            fn from(value: $kind) -> Self {
                Self::$kind(Arc::new(value))
            }
        }

        impl From<Arc<$kind>> for Resource {
            fn from(value: Arc<$kind>) -> Self {
                Self::$kind(value)
            }
        })*

        impl Model {
            /// Adds a resource, or replaces the one of its kind and key.
            pub fn insert(&mut self, resource: Resource) {
                match resource {
                    $(Resource::$kind(value) => {
                        self.$category.insert(value);
                    })*
                }
            }

            /// Removes the resource of this kind and key; returns whether it existed.
            pub fn remove(&mut self, kind: Kind, key: &str) -> bool {
                match kind {
                    $(Kind::$kind => self.$category.remove(key).is_some(),)*
                }
            }

            /// The resource of this kind and key.
            #[must_use]
            pub fn resource(&self, kind: Kind, key: &str) -> Option<Resource> {
                match kind {
                    $(Kind::$kind => self.$category.get(key).cloned().map(Resource::$kind),)*
                }
            }

            /// All resources, by kind and key.
            pub fn resources(&self) -> impl Iterator<Item = Resource> + '_ {
                std::iter::empty()
                    $(.chain(self.$category.values().cloned().map(Resource::$kind)))*
            }

            /// The changes from this model to `next`, by kind and key. A shared resource costs one
            /// comparison of pointers.
            #[must_use]
            pub fn changes_to(&self, next: &Self) -> Vec<Change> {
                let mut changes = Vec::new();
                $(change::of_kind(
                    &self.$category,
                    &next.$category,
                    |it| ResourceKey { kind: Kind::$kind, key: it.key.to_shared() },
                    &mut changes,
                );)*
                changes
            }
        }
    };
}

kinds! {
    /// A socket to listen on.
    Bind in binds;
    /// A listener of a Gateway or ListenerSet.
    Listener in listeners;
    /// A Service and its ports.
    Service in services;
    /// A static, DNS or unix-socket backend.
    Backend in backends;
    /// A machine that serves services.
    Workload in workloads;
    /// A rule of a route at a Gateway.
    Route in routes;
    /// A policy with its target.
    Policy in policies;
}

impl Kind {
    /// The kind of an xDS type URL.
    #[must_use]
    pub fn from_type_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == url)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ObjectName, ServiceKey, SessionAffinity};

    #[test]
    fn a_type_url_names_its_kind() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_type_url(kind.type_url()), Some(kind));
        }
        assert_eq!(
            Kind::Bind.type_url(),
            "type.googleapis.com/gateway_system.model.v1.Bind"
        );
        assert_eq!(Kind::from_type_url("Bind"), None);
    }

    #[test]
    fn a_model_holds_one_resource_per_key() {
        let service = Service {
            key: ServiceKey::new(&ObjectName::new("a", "b")),
            vips: Vec::new(),
            ports: Vec::new(),
            session_affinity: SessionAffinity::None,
        };
        let resource = Resource::from(service);
        let mut model = Model::default();
        model.insert(resource.clone());
        model.insert(resource.clone());
        assert_eq!(model.resources().count(), 1);
        assert_eq!(
            model.resource(Kind::Service, resource.key()),
            Some(resource)
        );

        assert!(!model.remove(Kind::Backend, "Service/a/b"));
        assert!(model.remove(Kind::Service, "Service/a/b"));
        assert!(!model.remove(Kind::Service, "Service/a/b"));
        assert_eq!(model, Model::default());
    }
}
