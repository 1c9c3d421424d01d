//! The identity of an object of a kind that is read.

use std::cmp::Ordering;
use std::fmt;

use xds::model::ObjectName;

use crate::objects::kinds::{KINDS, Kind};
use crate::objects::store::{Object, ObjectRef};

/// An [`ObjectRef`] in a third of the memory: the group and name of a kind are constants.
#[derive(Clone)]
pub(crate) struct ObjectId {
    kind: &'static Kind,
    name: ObjectName,
}

impl ObjectId {
    /// The identity of an object of this kind.
    pub(crate) fn new(kind: &'static Kind, name: ObjectName) -> Self {
        Self { kind, name }
    }

    /// The identity of an object, unless its kind is not read.
    pub(crate) fn of(object: &ObjectRef) -> Option<Self> {
        let mut kinds = KINDS.iter();
        let kind = kinds.find(|kind| kind.name == object.kind && kind.group == object.group)?;
        let name = object.name.clone();
        Some(Self { kind, name })
    }

    /// The same, with the name that the object has, which is kept anyway.
    pub(crate) fn sharing_name_of(self, object: &Object) -> Self {
        let name = object.metadata().name.clone();
        debug_assert_eq!(name, self.name, "it is the identity of another object");
        Self { name, ..self }
    }

    pub(crate) fn name(&self) -> &ObjectName {
        &self.name
    }

    pub(crate) fn to_ref(&self) -> ObjectRef {
        ObjectRef {
            group: self.kind.group.into(),
            kind: self.kind.name.into(),
            name: self.name.clone(),
        }
    }

    /// Whether both objects are of one kind.
    pub(crate) fn is_of_kind_of(&self, other: &Self) -> bool {
        std::ptr::eq(self.kind, other.kind)
    }

    fn rank(&self) -> (&str, &str, &ObjectName) {
        (self.kind.group, self.kind.name, &self.name)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_ref().fmt(f)
    }
}

/// In the order of groups, kinds and names, as references are.
impl Ord for ObjectId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for ObjectId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ObjectId {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ObjectId {}

#[cfg(test)]
mod tests {
    use xds::model::ObjectName;

    use super::ObjectId;
    use crate::objects::kinds::KINDS;

    #[test]
    fn a_reference_of_each_kind_leads_to_the_identity_of_that_kind() {
        for kind in &KINDS {
            let id = ObjectId::new(kind, ObjectName::new("default", "a"));
            let found = ObjectId::of(&id.to_ref()).expect("it is read");
            assert!(found == id && found.is_of_kind_of(&id), "{id:?}");
        }
    }
}
