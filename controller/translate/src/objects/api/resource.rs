//! The trait of all kinds of objects.

use super::ObjectMeta;
use crate::objects::kinds::ObjectKind;

/// A kind of object.
pub trait Resource {
    const KIND: ObjectKind;

    fn metadata(&self) -> &ObjectMeta;
}
