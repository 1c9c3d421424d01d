//! YAML as a stream of documents, each a JSON value that knows where its fields stand.
//!
//! The parser is `saphyr-parser`; what an API server's clients add to it is here: duplicate keys are
//! refused, aliases are bounded, and what kubectl (YAML 1.1) reads differently is pointed out.

mod compose;
mod lines;
mod scalar;
mod spans;
mod split;

pub(super) use compose::{Composed, Note, compose};
pub(super) use lines::Lines;
pub(super) use spans::Spans;
pub(super) use split::split;
