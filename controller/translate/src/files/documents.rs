//! Reads documents, whose text is not kept. Those that the previous version of their file had are not
//! parsed again.

use std::collections::HashMap;
use std::sync::Arc;

use super::document::Document;
use super::fingerprint::{Fingerprint, FingerprintKeys};
use super::unknown_fields::UnknownFields;
use super::yaml::KnownLines;

/// Reads documents, and counts those that it parses.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    unknown_fields: UnknownFields,
    keys: FingerprintKeys,
    lines: KnownLines,
    parsed: usize,
}

/// Documents by the fingerprint of their text.
pub(crate) type KnownDocuments = HashMap<Fingerprint, Arc<Document>>;

impl Documents {
    pub(crate) fn new(unknown_fields: UnknownFields) -> Self {
        Self {
            unknown_fields,
            ..Self::default()
        }
    }

    /// The fingerprint of a text.
    pub(crate) fn fingerprint(&self, text: &str) -> Fingerprint {
        self.keys.of(text)
    }

    /// The document of a text, parsed unless it is known.
    pub(crate) fn read(&mut self, text: &str, known: &mut KnownDocuments) -> Arc<Document> {
        let fingerprint = self.keys.of(text);
        let document = known.entry(fingerprint).or_insert_with(|| {
            self.parsed += 1;
            let lines = &mut self.lines;
            Arc::new(Document::read(
                text,
                fingerprint,
                self.unknown_fields,
                lines,
            ))
        });
        Arc::clone(document)
    }

    /// Number of documents parsed since the last call.
    pub(crate) fn take_parsed(&mut self) -> usize {
        std::mem::take(&mut self.parsed)
    }
}
