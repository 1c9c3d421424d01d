//! Every object by name: its locations in the files, and the version that is in effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::file::SourceLocation;
use super::file_set::{FileChange, FileSet};
use crate::engine::Event;
use crate::objects::admission;
use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Object;

/// The objects of all files.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    by_name: BTreeMap<ObjectRef, ObjectVersions>,
    /// Objects that depend on several files: they are defined in several locations, or have a kept version.
    /// They are looked at whenever a file changes.
    dependent: BTreeSet<ObjectRef>,
    /// Objects that are defined in several locations.
    pub(crate) duplicated: BTreeSet<ObjectRef>,
    /// Objects whose previous version is in effect.
    pub(crate) kept: BTreeSet<ObjectRef>,
    /// Invalid objects in whose place the fail-closed replacement is in effect.
    pub(crate) fail_closed: BTreeSet<ObjectRef>,
}

#[derive(Debug, Default)]
pub(crate) struct ObjectVersions {
    /// Where it is defined, in the order in which files are read: the first counts.
    locations: Vec<SourceLocation>,
    /// The last valid version, if the current one is rejected or cannot be read.
    kept: Option<Box<SourceLocation>>,
    /// What is in effect in its place, if the rejected version makes a difference to it.
    beside_rejected: Option<Box<Object>>,
}

/// The effect of a change of files.
#[derive(Debug, Default)]
pub(crate) struct ObjectChanges {
    pub(crate) events: Vec<Event>,
    /// The files of objects that are gone.
    pub(crate) lost: BTreeSet<Arc<str>>,
}

/// The version of an object that was in effect.
struct PreviousVersion {
    location: Option<SourceLocation>,
    beside_rejected: Option<Box<Object>>,
    duplicate_replacements: Vec<Object>,
}

impl ObjectChanges {
    /// Records changes of the fail-closed replacements of duplicates.
    fn duplicate_replacements(&mut self, old: &[Object], new: &[Object]) {
        let gone = old.iter().map(Object::object_ref);
        let gone = gone.filter(|name| new.iter().all(|it| it.object_ref() != *name));
        self.events.extend(gone.map(Event::Delete));
        let changed = new.iter().filter(|it| !old.contains(it));
        self.events.extend(changed.cloned().map(Event::Upsert));
    }
}

impl ObjectVersions {
    /// The location of the version in effect.
    pub(crate) fn in_force(&self) -> Option<&SourceLocation> {
        let location = self.kept.as_deref().or(self.locations.first())?;
        location.in_force().is_some().then_some(location)
    }

    /// The version in effect.
    pub(crate) fn object_in_force(&self) -> Option<&Object> {
        let location = self.in_force()?;
        self.beside_rejected.as_deref().or(location.in_force())
    }

    /// The fail-closed replacements of duplicates that are in effect next to it.
    pub(crate) fn duplicate_replacements(&self) -> impl Iterator<Item = Object> + '_ {
        let others = self.locations.iter().zip(1..).skip(1);
        others.filter_map(|(location, number)| {
            admission::duplicate_replacement(location.in_force()?, number)
        })
    }

    /// The place that counts, and all others.
    pub(crate) fn locations(&self) -> Option<(&SourceLocation, &[SourceLocation])> {
        self.locations.split_first()
    }
}

impl Objects {
    /// The object of this name.
    pub(crate) fn get(&self, reference: &ObjectRef) -> Option<&ObjectVersions> {
        self.by_name.get(reference)
    }

    /// All objects, by kind and name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectRef, &ObjectVersions)> {
        self.by_name.iter()
    }

    /// The objects of the kind of `first`, from that name on.
    pub(crate) fn of_kind(
        &self,
        first: &ObjectRef,
    ) -> impl Iterator<Item = &ObjectVersions> + use<'_> {
        let kind = first.kind;
        let objects = self.by_name.range(first.clone()..);
        let objects = objects.take_while(move |(id, _)| id.kind == kind);
        objects.map(|(_, versions)| versions)
    }

    /// Applies changes of files. Objects in other files are not visited, except for the few that
    /// depend on several files.
    pub(crate) fn take(&mut self, changes: &[FileChange], files: &FileSet) -> ObjectChanges {
        let mut touched: BTreeMap<ObjectRef, PreviousVersion> = BTreeMap::new();
        for change in changes {
            let old = change.old.as_ref();
            let new = change.new.as_ref().and_then(|name| files.file(name));
            for (id, location) in old.into_iter().flat_map(|old| old.locations_not_in(new)) {
                self.touch(&id, &mut touched);
                if let Some(versions) = self.by_name.get_mut(&id) {
                    versions.locations.retain(|it| !it.is(&location));
                }
            }
            for (id, location) in new.into_iter().flat_map(|new| new.locations_not_in(old)) {
                self.touch(&id, &mut touched);
                let locations = &mut self.by_name.entry(id).or_default().locations;
                if locations.is_empty() {
                    // Most objects are defined once; a vector would begin with capacity for four.
                    locations.reserve_exact(1);
                }
                locations.push(location);
            }
        }
        for id in &self.dependent {
            self.touch(id, &mut touched);
        }
        let mut changed = ObjectChanges::default();
        for (id, before) in touched {
            self.choose_version(&id, before, files, &mut changed);
        }
        changed
    }

    /// Records the version of an object that was in effect before it is changed.
    fn touch(&self, id: &ObjectRef, touched: &mut BTreeMap<ObjectRef, PreviousVersion>) {
        if !touched.contains_key(id) {
            let versions = self.by_name.get(id);
            let before = PreviousVersion {
                location: versions.and_then(ObjectVersions::in_force).cloned(),
                beside_rejected: versions.and_then(|it| it.beside_rejected.clone()),
                duplicate_replacements: versions
                    .into_iter()
                    .flat_map(ObjectVersions::duplicate_replacements)
                    .collect(),
            };
            touched.insert(id.clone(), before);
        }
    }

    /// Decides which version of an object is in effect. The previous one stays if the new one is
    /// rejected, or if the object may be in a file that cannot be read.
    fn choose_version(
        &mut self,
        id: &ObjectRef,
        PreviousVersion {
            location: before,
            beside_rejected,
            duplicate_replacements,
        }: PreviousVersion,
        files: &FileSet,
        changed: &mut ObjectChanges,
    ) {
        let versions = self.by_name.entry(id.clone()).or_default();
        let locations = &mut versions.locations;
        locations.sort_by_key(|location| (files.rank(&location.file), location.order()));
        let stays = |before: &&SourceLocation| match locations.first() {
            Some(first) => first.object().is_none() && before.object().is_some(),
            None => files.file(&before.file).is_some_and(|file| file.is_opaque),
        };
        versions.kept = before.as_ref().filter(stays).cloned().map(Box::new);
        let old = before.as_ref().and_then(SourceLocation::in_force);
        let old = beside_rejected.as_deref().or(old);
        versions.beside_rejected = None;
        if versions.kept.is_some() {
            // Nothing is known of a version that cannot be read.
            let rejected = old.zip(versions.locations.first());
            let beside = rejected
                .and_then(|(old, rejected)| admission::kept_beside(old, rejected.fail_closed()));
            versions.beside_rejected = beside.map(Box::new).or_else(|| beside_rejected.clone());
        }
        let now = versions.in_force();
        changed
            .events
            .extend(event(id, old, versions.object_in_force()));
        changed.duplicate_replacements(
            &duplicate_replacements,
            &versions.duplicate_replacements().collect::<Vec<_>>(),
        );
        let is_duplicated = versions.locations.len() > 1;
        let beside = versions.beside_rejected.as_deref();
        let closes = beside.is_some_and(admission::refuses_all);
        let is_fail_closed = closes || now.is_some_and(|location| location.object().is_none());
        let (is_kept, is_gone) = (versions.kept.is_some(), versions.locations.is_empty());
        set_membership(&mut self.dependent, id, is_duplicated || is_kept);
        set_membership(&mut self.duplicated, id, is_duplicated);
        set_membership(&mut self.fail_closed, id, is_fail_closed);
        set_membership(&mut self.kept, id, is_kept && !closes);
        if is_gone && !is_kept {
            self.by_name.remove(id);
            changed.lost.extend(before.map(|before| before.file));
        }
    }
}

fn event(reference: &ObjectRef, old: Option<&Object>, new: Option<&Object>) -> Option<Event> {
    match (old, new) {
        (Some(old), Some(new)) if std::ptr::eq(old, new) || old == new => None,
        (_, Some(new)) => Some(Event::Upsert(new.clone())),
        (Some(_), None) => Some(Event::Delete(reference.clone())),
        (None, None) => None,
    }
}

fn set_membership(set: &mut BTreeSet<ObjectRef>, reference: &ObjectRef, is_in: bool) {
    if is_in {
        set.insert(reference.clone());
    } else {
        set.remove(reference);
    }
}
