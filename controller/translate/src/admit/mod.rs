//! What an API server does for an object, done for a file: documents become typed objects, with
//! defaults, and what is wrong with them is said with file, line and field.
//!
//! The way of a text: `yaml` (value and places) → `object` (which kind, which name) → `schema` (our
//! kinds, from their definitions) → `typed` (serde) → `kinds` (what an API asks for beyond types).
//! `documents` keeps what a text came to, `file` and `file_set` where it stands, `objects` decides which
//! version of each object is in force, and `configuration` follows all of that over reloads.
//!
//! An object of a cluster begins at `object`: see [`admit_value`].

mod check;
mod configuration;
mod crd;
mod document;
mod documents;
mod file;
mod file_set;
mod finding;
mod fingerprint;
mod kinds;
mod object;
mod objects;
mod overall;
mod path;
mod schema;
mod source;
mod suggest;
mod syntax;
mod typed;
mod unknown_fields;
mod value;
mod yaml;

pub use configuration::{Configuration, Reload};
pub use file_set::Listed;
pub use finding::{Finding, Reason, Severity};
pub use path::FieldPath;
pub use source::Source;
pub use unknown_fields::UnknownFields;
pub use value::{AdmittedValue, KindInfo, admit_value, kinds};

use crate::store::Object;

/// What a set of files holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Admitted {
    /// The objects that were admitted, and where each stands.
    pub objects: Vec<(Object, Location)>,
    /// What there is to say of the rest.
    pub findings: Vec<Finding>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

/// Reads files once. Of two objects with one name the first is taken, and one with an unknown field
/// is refused.
#[must_use]
pub fn admit(sources: &[Source]) -> Admitted {
    admit_with(UnknownFields::Refuse, sources)
}

/// [`admit`], with a choice of what becomes of objects with unknown fields.
#[must_use]
pub fn admit_with(unknown_fields: UnknownFields, sources: &[Source]) -> Admitted {
    let mut configuration = Configuration::new(unknown_fields);
    let mut findings = configuration.reload(sources).findings;
    // Nothing is in force, so nothing is to be said of what would stand in for a refused object.
    findings.retain(|finding| finding.reason != Reason::RefusesAll);
    let objects = configuration.admitted().map(|(object, place)| {
        let location = Location {
            file: place.file.to_string(),
            line: place.line(&FieldPath::default()),
        };
        (object.clone(), location)
    });
    Admitted {
        objects: objects.collect(),
        findings,
    }
}
