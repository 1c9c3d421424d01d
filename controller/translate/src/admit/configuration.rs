//! What is in force in local mode: the objects of the last load, and of earlier ones where the last
//! brought nothing better.

use std::collections::HashSet;

use super::file::{File, Place};
use super::file_set::{FileChange, FileSet, Listed};
use super::finding::Finding;
use super::objects::{Objects, Standing};
use super::overall;
use super::path::FieldPath;
use super::source::Source;
use super::unknown_fields::UnknownFields;
use crate::api::Gateway;
use crate::store::{Object, ObjectRef};
use crate::translator::Event;
use xds::model::ObjectName;

/// The configuration of one machine, kept over reloads. A reload costs what changed: a document
/// whose text is known is not parsed again, and no text is kept.
///
/// An object that is refused keeps its previous version in force (a rule about tokens that has none
/// refuses everyone, and nothing is sent to the targets of a rule about TLS), and so does every object that a file no longer shows while a part of that file
/// cannot be read. A file that is gone takes its objects with it.
#[derive(Debug, Default)]
pub struct Configuration {
    files: FileSet,
    objects: Objects,
    /// What was said of all files together, without lines.
    reported: HashSet<Finding>,
}

/// What a reload brought.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reload {
    /// What the previous load did not say.
    pub findings: Vec<Finding>,
    /// What the previous load said too of the files that changed and of all files together, wherever
    /// the lines stand now: not worth another log line.
    pub repeated: Vec<Finding>,
    /// The objects in force that are others than before.
    pub events: Vec<Event>,
    /// Whether a file could not be read, or has something in it that cannot be told: it may be a
    /// policy that says who is let in.
    pub unrecognised: bool,
    /// Documents whose text was not known.
    pub parsed: usize,
}

impl Configuration {
    /// An empty one, with a choice of what becomes of objects with unknown fields.
    #[must_use]
    pub fn new(unknown_fields: UnknownFields) -> Self {
        Self {
            files: FileSet::new(unknown_fields),
            ..Self::default()
        }
    }

    /// Takes all files as they are now.
    pub fn reload(&mut self, sources: &[Source]) -> Reload {
        let listed = sources.iter().cloned().map(Listed::Read);
        self.update(listed.collect())
    }

    /// [`reload`](Self::reload), where files that did not change need not be read. All are listed.
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
            new.for_each(|file| reload.say(file.findings(), &old));
        }
        let overall = overall::findings(&self.files, &self.objects, &settled.lost);
        let reported = overall.iter().map(unplaced).collect();
        let before = std::mem::replace(&mut self.reported, reported);
        reload.say(overall, &before);
        reload
    }

    /// Whether there is a file that can be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.files.iter().any(File::is_readable)
    }

    /// The objects in force: those that were admitted, and what stands in for refused ones, and for
    /// further ones of a name.
    pub fn in_force(&self) -> impl Iterator<Item = Object> {
        let objects = self.objects.iter();
        objects.flat_map(|(_, standing)| {
            let first = standing.in_force().and_then(Place::in_force).cloned();
            first.into_iter().chain(standing.shadows())
        })
    }

    /// The Gateways in force.
    pub fn gateways(&self) -> impl Iterator<Item = &Gateway> {
        let first = ObjectRef::of::<Gateway>(&ObjectName::new("", ""));
        let objects = self.objects.of_kind(first);
        objects.filter_map(|(_, standing)| match standing.in_force()?.in_force()? {
            Object::Gateway(gateway) => Some(&**gateway),
            _ => None,
        })
    }

    /// The object of this name, if it is in force.
    #[must_use]
    pub fn get(&self, object: &ObjectRef) -> Option<&Object> {
        self.objects.get(object)?.in_force()?.in_force()
    }

    /// The objects that were admitted, and where each stands.
    pub(super) fn admitted(&self) -> impl Iterator<Item = (&Object, &Place)> {
        self.objects.iter().filter_map(|(_, standing)| {
            let place = standing.in_force()?;
            Some((place.object()?, place))
        })
    }

    /// File and line of an object in force, or of one of its fields (`spec.rules[0].matches`). A
    /// field that was not written is at the nearest one above it.
    #[must_use]
    pub fn locate(&self, object: &ObjectRef, field: Option<&str>) -> Option<(&str, u32)> {
        let place = self.objects.get(object).and_then(Standing::in_force)?;
        let field = FieldPath::parse(field.unwrap_or_default());
        Some((&place.file, place.line(&field)))
    }
}

impl Reload {
    /// Whether any object in force is another one than before.
    #[must_use]
    pub fn changed(&self) -> bool {
        !self.events.is_empty()
    }

    fn say(&mut self, findings: Vec<Finding>, before: &HashSet<Finding>) {
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
