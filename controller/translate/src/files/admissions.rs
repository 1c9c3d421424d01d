//! How the objects of each kind are read from files and watches.

use serde_json::Value;
use xds::model::ObjectName;

use super::finding::Remark;
use super::typed;
use crate::api;
use crate::objects::admission::Admissible;
use crate::objects::kinds::ObjectKind;
use crate::objects::store::{Object, with_stored_kinds};

/// An [`Admissible`] kind as a value.
pub(crate) struct Admission {
    pub(crate) kind: ObjectKind,
    pub(crate) reads_status: bool,
    pub(crate) check_name: fn(&str) -> Result<(), String>,
    pub(crate) read: fn(Value) -> (Option<Object>, Vec<Remark>),
    /// Reads JSON; `None` unless it takes no more than its types.
    pub(crate) read_json: fn(&str) -> Option<Object>,
    pub(crate) fail_closed: fn(&ObjectName, &Value) -> Option<Object>,
    pub(crate) may_restrict_access: fn(&[&str]) -> bool,
    /// Fields of `spec` that are left out if they have a mistake.
    pub(crate) dispensable: &'static [&'static str],
}

impl Admission {
    const fn of<T: Admissible>() -> Self {
        Self {
            kind: T::KIND,
            reads_status: T::READS_STATUS,
            check_name: T::check_name,
            read: typed::read::<T>,
            read_json: typed::read_json::<T>,
            fail_closed: |name, written| T::fail_closed(name, written).map(Into::into),
            may_restrict_access: T::may_restrict_access,
            dispensable: T::DISPENSABLE,
        }
    }

    /// That of a kind; `None` if files do not contain it.
    pub(crate) fn of_kind(kind: ObjectKind) -> Option<&'static Self> {
        ADMISSIONS.iter().find(|admission| admission.kind == kind)
    }
}

macro_rules! admissions {
    ($($type:ident)*) => {
        /// All kinds that are read.
        pub(crate) static ADMISSIONS: &[Admission] = &[$(Admission::of::<api::$type>()),*];
    };
}

with_stored_kinds!(admissions);
