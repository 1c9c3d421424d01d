//! The places of a document's fields.

use crate::files::path::{FieldPath, PathStep};

/// A place in a text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// The places of a value and everything in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spans {
    /// For a mapping's entry: the place of its key.
    pub(crate) at: Position,
    pub(super) inside: SpanContent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SpanContent {
    Scalar,
    Fields(Vec<(Box<str>, Spans)>),
    Items(Vec<Spans>),
}

impl Spans {
    /// The place of `path`, or of the nearest written field above it.
    pub(crate) fn nearest(&self, path: &FieldPath) -> Position {
        let mut spans = self;
        for step in path.steps() {
            match spans.child(step) {
                Some(child) => spans = child,
                None => break,
            }
        }
        spans.at
    }

    /// The places of one item of the sequence `field` of this mapping.
    pub(crate) fn child(&self, step: &PathStep) -> Option<&Self> {
        match (&self.inside, step) {
            (SpanContent::Fields(fields), PathStep::Field(name)) => fields
                .iter()
                .find(|(key, _)| key.as_ref() == name)
                .map(|(_, spans)| spans),
            (SpanContent::Items(items), PathStep::Item(index)) => items.get(*index),
            _ => None,
        }
    }
}
