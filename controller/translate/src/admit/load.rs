//! All files of a configuration, read together: which object stands where, and what is there twice.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::document::{Document, Item};
use super::finding::{Finding, Reason, Severity};
use super::object::is_gateway_kind;
use super::path::FieldPath;
use super::source::Source;
use super::unknown_fields::UnknownFields;
use super::yaml::split;
use crate::store::{Object, ObjectRef};

/// Documents by their text. What stands in it is read once, wherever and however often it stands.
pub(super) type Cache = HashMap<Arc<str>, Arc<Document>>;

/// The files of one load.
#[derive(Debug, Default)]
pub(super) struct Load {
    unknown_fields: UnknownFields,
    pub(super) cache: Cache,
    /// Objects by name; of two with one name the first.
    pub(super) places: BTreeMap<ObjectRef, Place>,
    pub(super) findings: Vec<Finding>,
    /// Each file, and whether it may hold objects that could not be told.
    pub(super) opaque: HashMap<Arc<str>, bool>,
    /// Files that were read, and hold no object of any kind.
    pub(super) empty: HashSet<Arc<str>>,
}

/// Where an object stands.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) file: Arc<str>,
    lines_before: u32,
    document: Arc<Document>,
    index: usize,
}

impl Place {
    /// The object as its document has it.
    pub(super) fn item(&self) -> Option<&Item> {
        self.document.items.get(self.index)
    }

    /// The object, where it is admitted.
    pub(super) fn object(&self) -> Option<&Object> {
        self.item()?.object.as_ref()
    }

    /// What is in force of it: the object, or what stands in for it.
    pub(super) fn in_force(&self) -> Option<&Object> {
        let item = self.item()?;
        item.object.as_ref().or(item.stand_in.as_ref())
    }

    /// Line of a field in the file.
    pub(super) fn line(&self, field: &FieldPath) -> u32 {
        self.item()
            .map_or(1, |item| self.lines_before + item.line(field))
    }
}

impl Load {
    /// Reads `sources`; documents that `before` has are not read again.
    pub(super) fn read(sources: &[Source], before: &Cache, unknown_fields: UnknownFields) -> Self {
        let mut load = Self {
            unknown_fields,
            ..Self::default()
        };
        let mut passed_over = BTreeMap::new();
        for source in sources {
            load.file(source, before, &mut passed_over);
        }
        for (kind, PassedOver { file, line, count }) in passed_over {
            let (severity, why) = if is_gateway_kind(&kind) {
                (Severity::Warning, "is not supported by this version")
            } else {
                (Severity::Info, "is not read here")
            };
            let objects = if count == 1 {
                "1 object is"
            } else {
                &format!("{count} objects are")
            };
            load.findings.push(Finding {
                severity,
                file,
                line,
                object: None,
                field: None,
                reason: Reason::UnknownKind,
                text: format!("{kind} {why}: {objects} passed over"),
            });
        }
        load
    }

    fn file(&mut self, source: &Source, before: &Cache, passed_over: &mut AllPassedOver) {
        let file: Arc<str> = source.name.as_str().into();
        let text = match source.text() {
            Ok(text) => text,
            Err(why) => {
                self.findings.push(unreadable(source, why));
                self.opaque.insert(file, true);
                return;
            }
        };
        let (mut opaque, mut empty) = (false, true);
        for chunk in split(text) {
            let document = self.document(chunk.text, before);
            opaque |= document.opaque;
            empty &= document.is_empty();
            for finding in &document.findings {
                self.findings.push(Finding {
                    file: source.name.clone(),
                    line: chunk.lines_before + finding.line,
                    ..finding.clone()
                });
            }
            for (kind, line) in &document.passed_over {
                let first = passed_over
                    .entry(kind.clone())
                    .or_insert_with(|| PassedOver {
                        file: source.name.clone(),
                        line: chunk.lines_before + line,
                        count: 0,
                    });
                first.count += 1;
            }
            for index in 0..document.items.len() {
                self.place(Place {
                    file: Arc::clone(&file),
                    lines_before: chunk.lines_before,
                    document: Arc::clone(&document),
                    index,
                });
            }
        }
        if empty {
            self.empty.insert(Arc::clone(&file));
        }
        self.opaque.insert(file, opaque);
    }

    fn document(&mut self, text: &str, before: &Cache) -> Arc<Document> {
        if let Some(document) = self.cache.get(text) {
            return Arc::clone(document);
        }
        let (text, document) = if let Some((text, document)) = before.get_key_value(text) {
            (Arc::clone(text), Arc::clone(document))
        } else {
            let document = Document::read(text, self.unknown_fields);
            (text.into(), Arc::new(document))
        };
        self.cache.insert(text, Arc::clone(&document));
        document
    }

    fn place(&mut self, place: Place) {
        let Some(item) = place.item() else { return };
        let reference = item.reference.clone();
        let line = place.line(&FieldPath::default());
        if let Some(first) = self.places.get(&reference) {
            let text = format!(
                "is there twice: {}:{} has it too, and that one counts; remove or rename one",
                first.file,
                first.line(&FieldPath::default())
            );
            self.findings.push(Finding {
                severity: Severity::Error,
                file: place.file.to_string(),
                line,
                object: Some(reference),
                field: None,
                reason: Reason::Duplicate,
                text,
            });
            return;
        }
        self.places.insert(reference, place);
    }
}

/// The kinds that were passed over.
type AllPassedOver = BTreeMap<String, PassedOver>;

/// Where the first object of a kind stands, and how many there are.
struct PassedOver {
    file: String,
    line: u32,
    count: usize,
}

fn unreadable(source: &Source, why: &str) -> Finding {
    Finding {
        severity: Severity::Error,
        file: source.name.clone(),
        line: 0,
        object: None,
        field: None,
        reason: Reason::Unreadable,
        text: why.to_owned(),
    }
}
