//! The objects that declare listeners.

use xds::model::{ListenerKey, ObjectName};

use super::api::Resource as _;
use crate::gateway::api::{Gateway, ListenerSet};

/// The object that declares a listener.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Owner {
    Gateway(ObjectName),
    ListenerSet(ObjectName),
}

impl Owner {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Gateway(_) => Gateway::KIND,
            Self::ListenerSet(_) => ListenerSet::KIND,
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
    match kind {
        Gateway::KIND => Some(Owner::Gateway(name)),
        ListenerSet::KIND => Some(Owner::ListenerSet(name)),
        _ => None,
    }
}
