//! The counterpart of an API server for files: turns documents into typed objects with
//! defaults, and reports problems with file, line and field.
//!
//! The steps of a text: `yaml` (value and places) → `object` (kind and name) → `schema` (our kinds,
//! from their CRDs) → `typed` (serde) → `kinds` (validation beyond types). `documents` parses
//! changed texts, `file` and `file_set` keep the places of objects, `objects` decides which version of
//! each object takes effect, and `configuration` tracks all of it across reloads.
//!
//! Objects from a cluster enter at `object`: see [`admit_json`] and [`admit_value`].

pub(crate) mod admissions;
pub(crate) mod check;
mod configuration;
pub(crate) mod crd;
mod document;
mod documents;
mod file;
mod file_set;
pub(crate) mod finding;
mod fingerprint;
pub(crate) mod json;
pub(crate) mod object;
mod objects;
mod overall;
pub(crate) mod path;
pub(crate) mod schema;
pub(crate) mod source;
pub(crate) mod suggest;
pub(crate) mod syntax;
pub(crate) mod typed;
pub(crate) mod unknown_fields;
pub(crate) mod value;
mod yaml;

pub use crate::objects::admission::kept_beside;
pub use configuration::{Configuration, Reload};
pub use file_set::Listed;
pub use finding::{Finding, Reason, Severity};
pub use json::{admit_json, parse_fields};
pub use path::FieldPath;
pub use source::Source;
pub use unknown_fields::UnknownFields;
pub use value::{AdmittedValue, admit_value};

use crate::objects::store::Object;

/// The content of a set of files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Admitted {
    /// The admitted objects, with their places.
    pub objects: Vec<(Object, Location)>,
    /// Findings about all objects.
    pub findings: Vec<Finding>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Path of the file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

/// Reads files once. Of two objects with the same name the first takes effect, and one with an
/// unknown field is rejected.
#[must_use]
pub fn admit(sources: &[Source]) -> Admitted {
    admit_with(UnknownFields::Refuse, sources)
}

/// [`admit`] with a setting for objects with unknown fields.
#[must_use]
pub fn admit_with(unknown_fields: UnknownFields, sources: &[Source]) -> Admitted {
    let mut configuration = Configuration::new(unknown_fields);
    let mut findings = configuration.reload(sources).findings;
    // Nothing is in effect, so fail-closed replacements are irrelevant.
    findings.retain(|finding| finding.reason != Reason::RefusesAll);
    let objects = configuration.admitted().map(|(object, location)| {
        let location = Location {
            file: location.file.to_string(),
            line: location.line(&FieldPath::default()),
        };
        (object.clone(), location)
    });
    Admitted {
        objects: objects.collect(),
        findings,
    }
}
