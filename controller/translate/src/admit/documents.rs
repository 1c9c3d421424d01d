//! Documents by the fingerprint of their text. The same text is parsed once, wherever it occurs,
//! and the text is not kept.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::document::Document;
use super::fingerprint::{Fingerprint, FingerprintKeys};
use super::unknown_fields::UnknownFields;

/// The documents in use.
#[derive(Debug, Default)]
pub(super) struct Documents {
    unknown_fields: UnknownFields,
    keys: FingerprintKeys,
    held: HashMap<Fingerprint, Weak<Document>>,
    /// Number of entries at which unused ones are dropped.
    sweep_at: usize,
    parsed: usize,
}

impl Documents {
    pub(super) fn new(unknown_fields: UnknownFields) -> Self {
        Self {
            unknown_fields,
            ..Self::default()
        }
    }

    /// The fingerprint of a text.
    pub(super) fn fingerprint(&self, text: &str) -> Fingerprint {
        self.keys.of(text)
    }

    /// The document of a text, parsed unless it is in use.
    pub(super) fn read(&mut self, text: &str) -> Arc<Document> {
        let fingerprint = self.keys.of(text);
        if let Some(document) = self.held.get(&fingerprint).and_then(Weak::upgrade) {
            return document;
        }
        let document = Arc::new(Document::read(text, self.unknown_fields));
        self.parsed += 1;
        self.sweep();
        self.held.insert(fingerprint, Arc::downgrade(&document));
        document
    }

    /// Number of documents parsed since the last call.
    pub(super) fn take_parsed(&mut self) -> usize {
        std::mem::take(&mut self.parsed)
    }

    fn sweep(&mut self) {
        if self.held.len() >= self.sweep_at {
            self.held.retain(|_, document| document.strong_count() > 0);
            self.sweep_at = self.held.len() + self.held.len() / 8 + LEAST_SWEPT;
        }
    }
}

/// Least number of parsed documents between two sweeps.
const LEAST_SWEPT: usize = 64;
