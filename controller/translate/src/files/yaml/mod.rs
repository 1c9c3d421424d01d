//! YAML as a stream of documents, each a JSON value with the places of its fields.
//!
//! The parser is `saphyr-parser`. Added here: duplicate keys are rejected, aliases are bounded, and
//! differences to kubectl (YAML 1.1) are reported.

mod compose;
mod lines;
mod scalar;
mod spans;
mod split;

pub(super) use compose::{Composed, YamlRemark, compose};
pub(super) use lines::{KnownLines, Lines};
pub(super) use spans::Spans;
pub(super) use split::split;
