//! One file as last read: its documents, and the places of its objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::document::{Document, Item};
use super::documents::{Documents, KnownDocuments};
use super::finding::{Finding, Reason, Severity};
use super::fingerprint::Fingerprint;
use super::path::FieldPath;
use super::source::Source;
use super::yaml::split;
use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Object;

/// A file that was listed.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) name: Arc<str>,
    /// Its position among all files.
    pub(crate) rank: usize,
    content: Content,
    documents: Box<[(u32, Arc<Document>)]>,
    /// Objects of unsupported kinds, by kind (such as `apps/v1 Deployment`).
    pub(crate) unread: BTreeMap<String, IgnoredObjects>,
    /// Whether it may contain unidentifiable objects.
    pub(crate) is_opaque: bool,
}

/// The content of a file.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    Text(Fingerprint),
    Unreadable(String),
}

/// Objects of a kind that is not read.
#[derive(Debug, Clone)]
pub(crate) struct IgnoredObjects {
    /// Line of the first one.
    pub(crate) line: u32,
    pub(crate) count: usize,
}

impl Content {
    fn of(source: &Source, documents: &Documents) -> Self {
        match source.text() {
            Ok(text) => Self::Text(documents.fingerprint(text)),
            Err(why) => Self::Unreadable(why.to_owned()),
        }
    }
}

impl File {
    /// Reads a file; documents of its previous version are not parsed again.
    pub(crate) fn read(
        source: &Source,
        rank: usize,
        previous: Option<&Self>,
        documents: &mut Documents,
    ) -> Self {
        let mut known = previous.map_or_else(KnownDocuments::new, Self::known_documents);
        let chunks = split(source.text().unwrap_or_default());
        let parts = chunks.into_iter();
        let parts = parts.map(|chunk| (chunk.lines_before, documents.read(chunk.text, &mut known)));
        let parts: Box<[_]> = parts.collect();
        let content = Content::of(source, documents);
        let is_opaque = matches!(content, Content::Unreadable(_))
            || parts.iter().any(|(_, document)| document.is_opaque());
        Self {
            name: source.name.as_str().into(),
            rank,
            content,
            unread: unread_kinds(&parts),
            documents: parts,
            is_opaque,
        }
    }

    fn known_documents(&self) -> KnownDocuments {
        let documents = self.documents.iter();
        let documents = documents.map(|(_, it)| (it.fingerprint, Arc::clone(it)));
        documents.collect()
    }

    /// The same file at another position.
    pub(crate) fn at(self, rank: usize) -> Self {
        Self { rank, ..self }
    }

    /// Whether the content is unchanged.
    pub(crate) fn is_unchanged(&self, source: &Source, documents: &Documents) -> bool {
        self.content == Content::of(source, documents)
    }

    /// Whether it was readable.
    pub(crate) fn is_readable(&self) -> bool {
        matches!(self.content, Content::Text(_))
    }

    /// Whether it was readable and contains no objects.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_readable() && self.documents.iter().all(|(_, it)| it.is_empty())
    }

    /// Every identified object, in order, except those of documents that `other` has at the same
    /// position: another version of this file, of which most documents are unchanged.
    pub(crate) fn locations_not_in<'a>(
        &'a self,
        other: Option<&'a Self>,
    ) -> impl Iterator<Item = (ObjectRef, SourceLocation)> + 'a {
        let theirs = other.map_or(&[][..], |file| &file.documents);
        let documents = self.documents.iter().enumerate();
        let documents = documents.filter(move |(index, document)| {
            let other = theirs.get(*index);
            other.is_none_or(|other| !is_same(document, other))
        });
        documents.flat_map(move |(_, (lines_before, document))| {
            (document.items().iter().zip(0..)).map(move |(item, index)| {
                let location = SourceLocation {
                    file: Arc::clone(&self.name),
                    lines_before: *lines_before,
                    index,
                    document: Arc::clone(document),
                };
                (item.id.clone(), location)
            })
        })
    }

    /// Number of errors among its findings.
    pub(crate) fn errors(&self) -> usize {
        let documents = self.documents.iter();
        let findings = documents.flat_map(|(_, document)| document.findings());
        let unreadable = usize::from(!self.is_readable());
        findings
            .filter(|it| it.is_error())
            .count()
            .saturating_add(unreadable)
    }

    /// Findings that do not depend on other files.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        if let Content::Unreadable(why) = &self.content {
            return vec![Finding {
                severity: Severity::Error,
                file: self.name.to_string(),
                line: 0,
                object: None,
                field: None,
                reason: Reason::Unreadable,
                text: why.clone(),
            }];
        }
        let documents = self.documents.iter();
        let findings = documents.flat_map(|(lines_before, document)| {
            document.findings().iter().map(move |finding| Finding {
                file: self.name.to_string(),
                line: lines_before + finding.line,
                ..finding.clone()
            })
        });
        findings.collect()
    }
}

/// Whether these are the same document on the same lines.
fn is_same((lines, document): &(u32, Arc<Document>), other: &(u32, Arc<Document>)) -> bool {
    *lines == other.0 && Arc::ptr_eq(document, &other.1)
}

fn unread_kinds(documents: &[(u32, Arc<Document>)]) -> BTreeMap<String, IgnoredObjects> {
    let mut kinds: BTreeMap<String, IgnoredObjects> = BTreeMap::new();
    for (lines_before, document) in documents {
        for (kind, line) in document.skipped() {
            let first = || IgnoredObjects {
                line: lines_before + line,
                count: 0,
            };
            kinds.entry(kind.clone()).or_insert_with(first).count += 1;
        }
    }
    kinds
}

/// The place of an object.
#[derive(Debug, Clone)]
pub(crate) struct SourceLocation {
    pub(crate) file: Arc<str>,
    lines_before: u32,
    index: u32,
    document: Arc<Document>,
}

impl SourceLocation {
    /// The object in its document.
    fn item(&self) -> Option<&Item> {
        self.document.items().get(self.index as usize)
    }

    /// The object, if admitted.
    pub(crate) fn object(&self) -> Option<&Object> {
        self.item()?.object.as_ref()
    }

    /// The fail-closed replacement of an object that was not admitted.
    pub(crate) fn fail_closed(&self) -> Option<&Object> {
        self.item()?.fail_closed.as_deref()
    }

    /// The effective object: the object, or its fail-closed replacement.
    pub(crate) fn in_force(&self) -> Option<&Object> {
        let item = self.item()?;
        item.object.as_ref().or(item.fail_closed.as_deref())
    }

    /// Line of a field in the file.
    pub(crate) fn line(&self, field: &FieldPath) -> u32 {
        self.item()
            .map_or(1, |item| self.lines_before + item.line(field))
    }

    /// Whether this is the same object of the same document, on the same lines.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.file == other.file
            && self.order() == other.order()
            && Arc::ptr_eq(&self.document, &other.document)
    }

    /// Sorts the locations of one file in order.
    pub(crate) fn order(&self) -> impl Ord + use<> {
        (self.lines_before, self.index)
    }
}
