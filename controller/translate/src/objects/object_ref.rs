//! The identity of an object.

use std::fmt;

use xds::model::ObjectName;

use super::api::Resource;
use super::kinds::ObjectKind;

/// Identifies an object of any kind, for statuses and findings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Namespace (empty for kinds without one) and name.
    pub name: ObjectName,
}

impl ObjectRef {
    /// The object of kind `T` with this name.
    #[must_use]
    pub fn of<T: Resource>(name: &ObjectName) -> Self {
        Self::new(T::KIND, name)
    }

    /// The object of this kind and name.
    #[must_use]
    pub fn new(kind: ObjectKind, name: &ObjectName) -> Self {
        Self {
            kind,
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
