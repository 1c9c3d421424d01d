//! What an API server does for an object, done for a file: documents become typed objects, with
//! defaults, and what is wrong with them is said with file, line and field.
//!
//! The way of a text: `yaml` (value and places) → `object` (which kind, which name) → `schema` (our
//! kinds, from their definitions) → `typed` (serde) → `kinds` (what an API asks for beyond types) →
//! `load` (all files together) → `configuration` (what stays in force over reloads).

mod check;
mod configuration;
mod crd;
mod document;
mod finding;
mod kinds;
mod load;
mod object;
mod path;
mod schema;
mod source;
mod suggest;
mod syntax;
mod typed;
mod unknown_fields;
mod yaml;

pub use configuration::{Configuration, Reload};
pub use finding::{Finding, Reason, Severity};
pub use path::FieldPath;
pub use source::Source;
pub use unknown_fields::UnknownFields;

use self::load::{Cache, Load};
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
    let load = Load::read(sources, &Cache::default(), unknown_fields);
    let objects = load.places.values().filter_map(|place| {
        let location = Location {
            file: place.file.to_string(),
            line: place.line(&FieldPath::default()),
        };
        Some((place.object()?.clone(), location))
    });
    Admitted {
        objects: objects.collect(),
        findings: load.findings,
    }
}
