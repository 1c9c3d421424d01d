//! How objects with unknown fields are handled.

use std::fmt;
use std::str::FromStr;

use super::admissions::Admission;
use super::finding::{Reason, Remark, Severity};

/// How objects with unknown fields are handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownFields {
    /// The object is rejected, as with `kubectl apply`: the field is probably misspelled.
    #[default]
    Refuse,
    /// The field is ignored with a warning, for objects that are written for newer CRDs. A field
    /// that may restrict access is rejected nevertheless.
    Warn,
}

impl UnknownFields {
    /// The names of the choices.
    pub const NAMES: [&str; 2] = ["refuse", "warn"];

    /// Completes the remark on an unknown field of an object of this kind. One that may restrict
    /// access is not ignored: the object would allow more than intended.
    pub(crate) fn complete_remark(self, kind: &Admission, remark: &mut Remark) {
        self.complete(remark, kind.may_restrict_access);
    }

    /// The same, by a function that says whether a field may restrict access.
    pub(crate) fn complete(self, remark: &mut Remark, may_restrict: impl Fn(&[&str]) -> bool) {
        if remark.reason != Reason::UnknownField {
            return;
        }
        match self {
            Self::Warn if !may_restrict(&remark.path.names()) => {
                remark.text += ": it has no effect";
            }
            Self::Warn => {
                remark.severity = Severity::Error;
                remark.text += ", and it may restrict access: correct or remove it, or update \
                                the gateway";
            }
            Self::Refuse => {
                remark.severity = Severity::Error;
                remark.text += ": correct or remove it";
            }
        }
    }
}

impl FromStr for UnknownFields {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "refuse" => Ok(Self::Refuse),
            "warn" => Ok(Self::Warn),
            _ => Err("use `refuse` or `warn`".to_owned()),
        }
    }
}

impl fmt::Display for UnknownFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refuse => "refuse",
            Self::Warn => "warn",
        })
    }
}
