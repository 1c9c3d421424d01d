//! The objects that declare listeners.

use xds::model::{ListenerKey, ObjectName};

use super::kinds::ObjectKind;

/// The object that declares a listener.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner {
    Gateway(ObjectName),
    ListenerSet(ObjectName),
}

impl Owner {
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

/// The object that declares a listener.
pub(crate) fn of_listener(listener: &ListenerKey) -> Option<Owner> {
    let mut parts = listener.as_str().split('/');
    let (kind, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
    let name = ObjectName::new(namespace, name);
    match ObjectKind::named(kind)? {
        ObjectKind::Gateway => Some(Owner::Gateway(name)),
        ObjectKind::ListenerSet => Some(Owner::ListenerSet(name)),
        _ => None,
    }
}
