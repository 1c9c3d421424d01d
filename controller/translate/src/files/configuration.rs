//! The effective configuration in file mode: the objects of the last load, and of earlier ones
//! where the last was invalid.

use std::collections::{BTreeSet, HashSet};

use super::file::{File, SourceLocation};
use super::file_set::{FileChange, FileSet, Listed};
use super::finding::Finding;
use super::objects::{ObjectVersions, Objects};
use super::overall;
use super::path::FieldPath;
use super::source::Source;
use super::unknown_fields::UnknownFields;
use crate::engine::Event;
use crate::gateway::api::Gateway;
use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Object;
use xds::model::ObjectName;

/// The configuration of one machine across reloads. A reload costs what changed: a document that
/// its file had before is not parsed again, and no text is kept.
///
/// The previous version of an invalid object stays in effect (without one, a JWT policy rejects all
/// requests, and nothing is sent to the targets of a TLS policy), and so does every object missing
/// from a file while a part of that file is unreadable. A deleted file removes its objects.
#[derive(Debug, Default)]
pub struct Configuration {
    files: FileSet,
    objects: Objects,
    /// Findings about all files together, without lines.
    reported: HashSet<Finding>,
    /// Errors among those findings.
    overall_errors: usize,
}

/// The result of a reload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reload {
    /// New findings, compared with the previous load.
    pub findings: Vec<Finding>,
    /// Findings that the previous load had as well, wherever the lines are now: not worth another
    /// log line.
    pub repeated: Vec<Finding>,
    /// Objects whose effective version has changed.
    pub events: Vec<Event>,
    /// Whether a file is unreadable, or contains something unidentifiable: it may be a policy that
    /// restricts access.
    pub unrecognised: bool,
    /// Number of documents with new text.
    pub parsed: usize,
}

impl Configuration {
    /// An empty configuration; `unknown_fields` decides about objects with unknown fields.
    #[must_use]
    pub fn new(unknown_fields: UnknownFields) -> Self {
        Self {
            files: FileSet::new(unknown_fields),
            ..Self::default()
        }
    }

    /// Replaces all files; unchanged ones are not parsed again.
    pub fn reload(&mut self, sources: &[Source]) -> Reload {
        let listed = sources.iter().cloned().map(Listed::Read);
        self.update(listed.collect())
    }

    /// [`reload`](Self::reload) without reading unchanged files. All files must be listed.
    pub fn update(&mut self, listed: Vec<Listed>) -> Reload {
        let changes = self.files.take(listed);
        let settled = self.objects.take(&changes, &self.files);
        let parsed = self.files.take_parsed();
        let mut reload = Reload {
            events: settled.events,
            unrecognised: self.files.iter().any(|file| file.is_opaque),
            parsed,
            ..Reload::default()
        };
        for FileChange { old, new } in &changes {
            let old = old.iter().flat_map(File::findings);
            let old: HashSet<Finding> = old.map(|finding| unplaced(&finding)).collect();
            let new = new.iter().filter_map(|name| self.files.file(name));
            new.for_each(|file| reload.add_findings(file.findings(), &old));
        }
        let overall = overall::findings(&self.files, &self.objects, &settled.lost);
        let reported = overall.iter().map(unplaced).collect();
        let before = std::mem::replace(&mut self.reported, reported);
        self.overall_errors = overall.iter().filter(|it| it.is_error()).count();
        reload.add_findings(overall, &before);
        reload
    }

    /// The findings about all files that still hold; those about several files together have no line.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let of_files = self.files.iter().flat_map(File::findings);
        let mut overall: Vec<Finding> = self.reported.iter().cloned().collect();
        overall.sort_by(|a, b| (&a.file, &a.text).cmp(&(&b.file, &b.text)));
        of_files.chain(overall).collect()
    }

    /// Number of errors in all files, whenever they were found.
    #[must_use]
    pub fn errors(&self) -> usize {
        let of_files = self.files.iter().map(File::errors);
        of_files.sum::<usize>().saturating_add(self.overall_errors)
    }

    /// The objects whose previous version stays in effect.
    #[must_use]
    pub fn kept(&self) -> &BTreeSet<ObjectRef> {
        &self.objects.kept
    }

    /// Whether any file is readable.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.files.iter().any(File::is_readable)
    }

    /// The effective objects: admitted ones, and fail-closed replacements for invalid ones and for
    /// duplicates.
    pub fn in_force(&self) -> impl Iterator<Item = Object> {
        let objects = self.objects.iter();
        objects.flat_map(|(_, versions)| {
            let first = versions.object_in_force().cloned();
            first.into_iter().chain(versions.duplicate_replacements())
        })
    }

    /// The Gateways in effect.
    pub fn gateways(&self) -> impl Iterator<Item = &Gateway> {
        let first = ObjectRef::of::<Gateway>(&ObjectName::new("", ""));
        let objects = self.objects.of_kind(&first);
        objects.filter_map(|versions| match versions.object_in_force()? {
            Object::Gateway(gateway) => Some(&**gateway),
            _ => None,
        })
    }

    /// The effective version of an object.
    #[must_use]
    pub fn get(&self, object: &ObjectRef) -> Option<&Object> {
        self.objects.get(object)?.object_in_force()
    }

    /// The admitted objects, with their places.
    pub(crate) fn admitted(&self) -> impl Iterator<Item = (&Object, &SourceLocation)> {
        self.objects.iter().filter_map(|(_, versions)| {
            let location = versions.in_force()?;
            Some((location.object()?, location))
        })
    }

    /// File and line of an effective object, or of one of its fields (`spec.rules[0].matches`). For
    /// a field that was not written, the nearest one above it.
    #[must_use]
    pub fn locate(&self, object: &ObjectRef, field: Option<&str>) -> Option<(&str, u32)> {
        let location = self
            .objects
            .get(object)
            .and_then(ObjectVersions::in_force)?;
        let field = FieldPath::parse(field.unwrap_or_default());
        Some((&location.file, location.line(&field)))
    }
}

impl Reload {
    /// Whether the effective version of any object has changed.
    #[must_use]
    pub fn changed(&self) -> bool {
        !self.events.is_empty()
    }

    fn add_findings(&mut self, findings: Vec<Finding>, before: &HashSet<Finding>) {
        for finding in findings {
            if before.contains(&unplaced(&finding)) {
                self.repeated.push(finding);
            } else {
                self.findings.push(finding);
            }
        }
    }
}

/// A finding without its line: lines move as a file is edited.
fn unplaced(finding: &Finding) -> Finding {
    Finding {
        line: 0,
        ..finding.clone()
    }
}

#[cfg(test)]
mod tests;
