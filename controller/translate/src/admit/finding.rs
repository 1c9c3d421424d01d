//! What admission has to say: a severity, a place, what is wrong and what to do.

use std::fmt;

use super::path::FieldPath;
use crate::store::ObjectRef;

/// One remark on a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The file, as its [`Source`](super::Source) names it.
    pub file: String,
    /// Line, from 1; 0 where the file as a whole is meant.
    pub line: u32,
    /// The object, as far as it could be told.
    pub object: Option<ObjectRef>,
    /// The field of the object.
    pub field: Option<String>,
    /// What kind of remark it is.
    pub reason: Reason,
    /// What is wrong and what to do.
    pub text: String,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know.
    Info,
    /// The object is in force; likely not as meant.
    Warning,
    /// The document or object is refused; its previous version stays in force.
    Error,
}

/// What kind of remark a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The file could not be read.
    Unreadable,
    /// The document is no YAML, or has a key twice.
    NotYaml,
    /// kubectl would read the value as something else.
    AmbiguousYaml,
    /// The document is no Kubernetes object.
    NotAnObject,
    /// An object of this kind is not used here.
    UnknownKind,
    /// The kind is read, but not in this version of its API.
    UnsupportedVersion,
    /// The object is there twice.
    Duplicate,
    /// The API has no such field.
    UnknownField,
    /// The field has no effect here.
    UnsupportedField,
    /// The value has the wrong type.
    WrongType,
    /// A field is missing.
    Required,
    /// The value is not allowed.
    Invalid,
    /// There is too much of something.
    TooMany,
    /// What was refused, or cannot be read, keeps its previous version in force.
    PreviousKept,
    /// What was refused has no previous version, and its absence would let someone in.
    RefusesAll,
    /// The file had objects, and has none any more.
    Emptied,
}

impl Reason {
    /// The reason as one word for logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "Unreadable",
            Self::NotYaml => "NotYaml",
            Self::AmbiguousYaml => "AmbiguousYaml",
            Self::NotAnObject => "NotAnObject",
            Self::UnknownKind => "UnknownKind",
            Self::UnsupportedVersion => "UnsupportedVersion",
            Self::Duplicate => "Duplicate",
            Self::UnknownField => "UnknownField",
            Self::UnsupportedField => "UnsupportedField",
            Self::WrongType => "WrongType",
            Self::Required => "Required",
            Self::Invalid => "Invalid",
            Self::TooMany => "TooMany",
            Self::PreviousKept => "PreviousKept",
            Self::RefusesAll => "RefusesAll",
            Self::Emptied => "Emptied",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        f.write_str(":")?;
        if let Some(object) = &self.object {
            write!(f, " {object}")?;
        }
        if let Some(field) = &self.field {
            write!(f, " {field}")?;
        }
        if self.object.is_some() || self.field.is_some() {
            f.write_str(":")?;
        }
        write!(f, " {}", self.text)
    }
}

/// A remark on a field of an object whose place is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) severity: Severity,
    pub(super) path: FieldPath,
    pub(super) reason: Reason,
    pub(super) text: String,
}

impl Remark {
    /// Says why an object is refused.
    pub(super) fn error(path: &FieldPath, reason: Reason, text: impl Into<String>) -> Self {
        Self::new(Severity::Error, path, reason, text)
    }

    /// Says what is likely not meant.
    pub(super) fn warning(path: &FieldPath, reason: Reason, text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, path, reason, text)
    }

    fn new(severity: Severity, path: &FieldPath, reason: Reason, text: impl Into<String>) -> Self {
        Self {
            severity,
            path: path.clone(),
            reason,
            text: text.into(),
        }
    }
}
