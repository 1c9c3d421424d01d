//! One parsed document of a file: a pure function of its text, so that unchanged text is never
//! parsed again.

use std::sync::Arc;

use serde_json::Value;

use super::finding::{Finding, Reason, Remark, Severity};
use super::object::{self, Outcome};
use super::path::{FieldPath, PathStep};
use super::unknown_fields::UnknownFields;
use super::yaml::{Composed, Lines, Spans, YamlRemark, compose};
use crate::api::{Resource as _, Secret};
use crate::store::{Object, ObjectRef};

/// The result of a document's text. Lines count from its first.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) items: Box<[Item]>,
    /// Without a file, and with lines of the document.
    pub(super) findings: Box<[Finding]>,
    /// Kind and line of each object of an unsupported kind.
    pub(super) passed_over: Box<[(String, u32)]>,
    /// Whether it may contain unidentifiable objects.
    pub(super) opaque: bool,
}

/// A document while it is read.
#[derive(Default)]
struct Draft {
    items: Vec<Item>,
    findings: Vec<Finding>,
    passed_over: Vec<(String, u32)>,
    opaque: bool,
}

#[derive(Debug)]
pub(super) struct Item {
    pub(super) reference: Arc<ObjectRef>,
    /// `None` if it is invalid.
    pub(super) object: Option<Object>,
    /// Takes effect if it is invalid and has no previous version.
    pub(super) stand_in: Option<Object>,
    lines: Lines,
}

impl Item {
    /// Line in the document of a field, or of the nearest one above it.
    pub(super) fn line(&self, field: &FieldPath) -> u32 {
        self.lines.nearest(field)
    }
}

impl Document {
    /// Whether it contains no objects.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.passed_over.is_empty() && !self.opaque
    }

    pub(super) fn read(text: &str, unknown_fields: UnknownFields) -> Self {
        let mut draft = Draft::default();
        match compose(text) {
            Ok(None) => {}
            Ok(Some(composed)) => draft.take(composed, unknown_fields),
            Err(note) => {
                draft.opaque = true;
                let finding = remark_on_yaml(note, Severity::Error, Reason::NotYaml);
                draft.findings.push(finding);
            }
        }
        // Most documents have one item and nothing else, and there are many.
        Self {
            items: draft.items.into(),
            findings: draft.findings.into(),
            passed_over: draft.passed_over.into(),
            opaque: draft.opaque,
        }
    }
}

impl Draft {
    fn take(&mut self, composed: Composed, unknown_fields: UnknownFields) {
        let Composed {
            value,
            spans,
            notes,
        } = composed;
        let secret = value.get("kind").is_some_and(|kind| kind == Secret::KIND);
        self.objects(value, &spans, unknown_fields);
        for mut note in notes {
            if secret {
                // The remark quotes the value.
                "kubectl may interpret the value differently: quote it".clone_into(&mut note.text);
            }
            let mut finding = remark_on_yaml(note, Severity::Warning, Reason::AmbiguousYaml);
            if let [only] = self.items.as_slice() {
                finding.object = Some((*only.reference).clone());
            }
            self.findings.push(finding);
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
            Outcome::PassedOver { kind } => self.passed_over.push((kind, spans.at.line)),
            Outcome::Unidentified { remarks } => {
                self.opaque = true;
                self.remark(None, spans, remarks);
            }
            Outcome::Read {
                reference,
                object,
                stand_in,
                remarks,
            } => {
                self.remark(Some(&reference), spans, remarks);
                // The name in the object, which is kept anyway.
                let reference = object.as_ref().map_or(reference, Object::object_ref);
                self.items.push(Item {
                    reference: Arc::new(reference),
                    object,
                    stand_in,
                    lines: Lines::of(spans),
                });
            }
        }
    }

    fn remark(&mut self, object: Option<&ObjectRef>, spans: &Spans, remarks: Vec<Remark>) {
        for remark in remarks {
            self.findings.push(Finding {
                severity: remark.severity,
                file: String::new(),
                line: spans.nearest(&remark.path).line,
                object: object.cloned(),
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
