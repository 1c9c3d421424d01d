//! One parsed document of a file: a pure function of its text, so that unchanged text is never
//! parsed again.

use std::slice;

use serde_json::Value;

use super::finding::{Finding, Reason, Remark, Severity};
use super::fingerprint::Fingerprint;
use super::object;
use super::object::Outcome;
use super::path::{FieldPath, PathStep};
use super::unknown_fields::UnknownFields;
use super::yaml::{Composed, KnownLines, Lines, Spans, YamlRemark, compose};
use crate::objects::api::{Resource as _, Secret};
use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Object;

/// The result of a document's text. Lines count from its first.
#[derive(Debug)]
pub(crate) struct Document {
    /// The fingerprint of its text, by which the next version of the file finds it.
    pub(crate) fingerprint: Fingerprint,
    items: Items,
    /// Boxed: there are many documents, and most have objects and nothing else.
    exceptions: Option<Box<Exceptions>>,
}

/// The objects of a document. Nearly all have one, which is in place.
#[derive(Debug)]
enum Items {
    One(Item),
    Several(Box<[Item]>),
}

impl From<Vec<Item>> for Items {
    fn from(items: Vec<Item>) -> Self {
        match <[Item; 1]>::try_from(items) {
            Ok([only]) => Self::One(only),
            Err(items) => Self::Several(items.into()),
        }
    }
}

/// Everything in a document that is not an object, or not a valid one.
#[derive(Debug, Default)]
struct Exceptions {
    /// Without a file, and with lines of the document.
    findings: Vec<Finding>,
    /// Kind and line of each object of an unsupported kind.
    skipped: Vec<(String, u32)>,
    /// Whether it may contain unidentifiable objects.
    opaque: bool,
}

/// A document while it is read.
struct Draft<'a> {
    items: Vec<Item>,
    exceptions: Exceptions,
    known_lines: &'a mut KnownLines,
}

#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) id: ObjectRef,
    /// `None` if it is invalid.
    pub(crate) object: Option<Object>,
    /// Takes effect if it is invalid and has no previous version. Boxed: few objects have one.
    pub(crate) fail_closed: Option<Box<Object>>,
    lines: Lines,
}

impl Item {
    /// Line in the document of a field, or of the nearest one above it.
    pub(crate) fn line(&self, field: &FieldPath) -> u32 {
        self.lines.nearest(field)
    }
}

impl Document {
    /// The objects, in their order.
    pub(crate) fn items(&self) -> &[Item] {
        match &self.items {
            Items::One(only) => slice::from_ref(only),
            Items::Several(items) => items,
        }
    }

    /// Whether it contains no objects.
    pub(crate) fn is_empty(&self) -> bool {
        self.items().is_empty() && self.skipped().is_empty() && !self.is_opaque()
    }

    /// Findings without a file, and with lines of the document.
    pub(crate) fn findings(&self) -> &[Finding] {
        let exceptions = self.exceptions.as_ref();
        exceptions.map_or(&[], |exceptions| &exceptions.findings)
    }

    /// Kind and line of each object of an unsupported kind.
    pub(crate) fn skipped(&self) -> &[(String, u32)] {
        let exceptions = self.exceptions.as_ref();
        exceptions.map_or(&[], |exceptions| &exceptions.skipped)
    }

    /// Whether it may contain unidentifiable objects.
    pub(crate) fn is_opaque(&self) -> bool {
        let exceptions = self.exceptions.as_ref();
        exceptions.is_some_and(|exceptions| exceptions.opaque)
    }

    pub(crate) fn read(
        text: &str,
        fingerprint: Fingerprint,
        unknown_fields: UnknownFields,
        known_lines: &mut KnownLines,
    ) -> Self {
        let mut draft = Draft {
            items: Vec::new(),
            exceptions: Exceptions::default(),
            known_lines,
        };
        match compose(text) {
            Ok(None) => {}
            Ok(Some(composed)) => draft.take(composed, unknown_fields),
            Err(note) => {
                draft.exceptions.opaque = true;
                let finding = remark_on_yaml(note, Severity::Error, Reason::NotYaml);
                draft.exceptions.findings.push(finding);
            }
        }
        let Draft {
            items, exceptions, ..
        } = draft;
        Self {
            fingerprint,
            items: items.into(),
            exceptions: (!exceptions.is_empty()).then(|| Box::new(exceptions)),
        }
    }
}

impl Exceptions {
    fn is_empty(&self) -> bool {
        self.findings.is_empty() && self.skipped.is_empty() && !self.opaque
    }
}

impl Draft<'_> {
    fn take(&mut self, composed: Composed, unknown_fields: UnknownFields) {
        let Composed {
            value,
            spans,
            notes,
        } = composed;
        let secret = value
            .get("kind")
            .is_some_and(|kind| kind == Secret::KIND.name());
        self.objects(value, &spans, unknown_fields);
        for mut note in notes {
            if secret {
                // The remark quotes the value.
                "kubectl may interpret the value differently: quote it".clone_into(&mut note.text);
            }
            let mut finding = remark_on_yaml(note, Severity::Warning, Reason::AmbiguousYaml);
            if let [only] = self.items.as_slice() {
                finding.object = Some(only.id.clone());
            }
            self.exceptions.findings.push(finding);
        }
    }

    /// Takes one object, or all of a list.
    fn objects(&mut self, value: Value, spans: &Spans, unknown_fields: UnknownFields) {
        let Value::Object(mut fields) = value else {
            return self.object(value, spans, unknown_fields);
        };
        let kind = fields
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let is_list = kind.ends_with("List") && fields.get("items").is_some_and(Value::is_array);
        let items = is_list.then(|| fields.remove("items")).flatten();
        if let Some(Value::Array(items)) = items {
            let list = spans.child(&PathStep::Field("items".into()));
            for (index, item) in items.into_iter().enumerate() {
                let location = list.and_then(|list| list.child(&PathStep::Item(index)));
                self.object(item, location.unwrap_or(spans), unknown_fields);
            }
        } else {
            self.object(Value::Object(fields), spans, unknown_fields);
        }
    }

    fn object(&mut self, value: Value, spans: &Spans, unknown_fields: UnknownFields) {
        match object::read(value, unknown_fields) {
            Outcome::PassedOver { kind } => {
                self.exceptions.skipped.push((kind, spans.at.line));
            }
            Outcome::Checked { kind, id, remarks } => {
                self.remark(Some(&id), spans, remarks);
                self.exceptions.skipped.push((kind, spans.at.line));
            }
            Outcome::Unidentified { remarks } => {
                self.exceptions.opaque = true;
                self.remark(None, spans, remarks);
            }
            Outcome::Read {
                id,
                object,
                fail_closed,
                remarks,
            } => {
                self.remark(Some(&id), spans, remarks);
                self.items.push(Item {
                    // With the name that the object has, which is kept anyway.
                    id: object.as_ref().map_or(id, Object::object_ref),
                    object,
                    fail_closed: fail_closed.map(Box::new),
                    lines: self.known_lines.of(spans),
                });
            }
        }
    }

    fn remark(&mut self, id: Option<&ObjectRef>, spans: &Spans, remarks: Vec<Remark>) {
        for remark in remarks {
            self.exceptions.findings.push(Finding {
                severity: remark.severity,
                file: String::new(),
                line: spans.nearest(&remark.path).line,
                object: id.cloned(),
                field: (!remark.path.is_root()).then(|| remark.path.to_string()),
                reason: remark.reason,
                text: remark.text,
            });
        }
    }
}

fn remark_on_yaml(note: YamlRemark, severity: Severity, reason: Reason) -> Finding {
    Finding {
        severity,
        file: String::new(),
        line: note.at.line,
        object: None,
        field: (!note.path.is_root()).then(|| note.path.to_string()),
        reason,
        text: note.text,
    }
}
