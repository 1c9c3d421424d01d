//! The objects that declare listeners.

use xds::model::{ListenerKey, ObjectName};

use super::kinds::ObjectKind;
use super::object_ref::ObjectRef;

/// The object that declares a listener.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner {
    Gateway(ObjectName),
    ListenerSet(ObjectName),
}

impl Owner {
    /// The object of this kind and name, if the kind declares listeners.
    pub(crate) fn new(kind: ObjectKind, name: ObjectName) -> Option<Self> {
        match kind {
            ObjectKind::Gateway => Some(Self::Gateway(name)),
            ObjectKind::ListenerSet => Some(Self::ListenerSet(name)),
            _ => None,
        }
    }

    pub(crate) fn kind(&self) -> ObjectKind {
        match self {
            Self::Gateway(_) => ObjectKind::Gateway,
            Self::ListenerSet(_) => ObjectKind::ListenerSet,
        }
    }

    pub(crate) fn name(&self) -> &ObjectName {
        match self {
            Self::Gateway(name) | Self::ListenerSet(name) => name,
        }
    }
}

impl From<&Owner> for ObjectRef {
    fn from(owner: &Owner) -> Self {
        Self::new(owner.kind(), owner.name())
    }
}

/// The object that declares a listener.
pub(crate) fn of_listener(listener: &ListenerKey) -> Option<Owner> {
    let mut parts = listener.as_str().split('/');
    let (kind, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
    Owner::new(ObjectKind::named(kind)?, ObjectName::new(namespace, name))
}
