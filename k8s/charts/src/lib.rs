//! Support for the tests of the charts: Helm, its output, and the schemas of the charts' values.
//!
//! The charts are next to this crate, in `gateway` and `gateway-crds`. In each,
//! `values.schema.json` is written by hand; `values.yaml` and the table of values in `README.md`
//! are generated from it.

mod helm;
mod object;
mod schema;
mod table;

use std::path::{Path, PathBuf};

pub use helm::{Helm, HelmError};
pub use object::{Object, objects};
pub use schema::{Schema, Value};
pub use table::{table, values_file, with_table};

/// Folders of the charts, next to this crate.
pub const CHARTS: [&str; 2] = ["gateway", "gateway-crds"];

/// A file or folder in the folder of the charts.
#[must_use]
pub fn path(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}
