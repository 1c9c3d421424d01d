//! Findings of admission: severity, place, problem and advice.

use std::fmt;

use super::path::FieldPath;
use crate::level::Level;
use crate::objects::object_ref::ObjectRef;

/// One finding about a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Finding {
    /// Severity of the finding.
    pub severity: Severity,
    /// The file, as its [`Source`](super::Source) names it.
    pub file: String,
    /// Line, from 1; 0 for the file as a whole.
    pub line: u32,
    /// The object, if identified.
    pub object: Option<ObjectRef>,
    /// The field of the object.
    pub field: Option<String>,
    /// Category of the finding.
    pub reason: Reason,
    /// The problem, with advice.
    pub text: String,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Information that needs no action.
    Info,
    /// The object takes effect, but probably not as intended.
    Warning,
    /// The document or object is invalid; its previous version stays in effect.
    Error,
}

/// Category of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The file could not be read.
    Unreadable,
    /// The document is not YAML, or has a duplicate key.
    NotYaml,
    /// kubectl would interpret the value differently.
    AmbiguousYaml,
    /// The document is not a Kubernetes object.
    NotAnObject,
    /// An object of this kind is not used here.
    UnknownKind,
    /// The kind is supported, but not in this version of its API.
    UnsupportedVersion,
    /// The object is defined twice.
    Duplicate,
    /// The API has no such field.
    UnknownField,
    /// The field is not supported and has no effect.
    UnsupportedField,
    /// The value has the wrong type.
    WrongType,
    /// A field is missing.
    Required,
    /// The value is not allowed.
    Invalid,
    /// A list, a mapping or a text has fewer items, fields or characters than it needs.
    TooFew,
    /// A limit is exceeded.
    TooMany,
    /// The previous version of an invalid or unreadable object stays in effect.
    PreviousKept,
    /// An invalid object has no previous version, and ignoring it would allow access.
    RefusesAll,
    /// The file had objects before, and has none now.
    Emptied,
}

impl Reason {
    /// The category in one word, for logs.
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
            Self::TooFew => "TooFew",
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

impl From<Severity> for Level {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Info => Self::Note,
            Severity::Warning => Self::Warning,
            Severity::Error => Self::Error,
        }
    }
}

impl Finding {
    /// Whether something is invalid.
    pub(crate) fn is_error(&self) -> bool {
        self.severity == Severity::Error
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

/// A finding about a field of an object whose location is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remark {
    pub(crate) severity: Severity,
    pub(crate) path: FieldPath,
    pub(crate) reason: Reason,
    pub(crate) text: String,
    /// Whether it is about which fields a mapping has, so that an unknown one may be the cause.
    pub(crate) of_fields: bool,
}

impl Remark {
    /// A problem that makes the object invalid.
    pub(crate) fn error(path: &FieldPath, reason: Reason, text: impl Into<String>) -> Self {
        Self::new(Severity::Error, path, reason, text)
    }

    /// Marks it as one about which fields a mapping has.
    pub(crate) fn of_fields(self) -> Self {
        Self {
            of_fields: true,
            ..self
        }
    }

    pub(crate) fn warning(path: &FieldPath, reason: Reason, text: impl Into<String>) -> Self {
        Self::new(Severity::Warning, path, reason, text)
    }

    fn new(severity: Severity, path: &FieldPath, reason: Reason, text: impl Into<String>) -> Self {
        Self {
            severity,
            path: path.clone(),
            reason,
            text: text.into(),
            of_fields: false,
        }
    }
}
