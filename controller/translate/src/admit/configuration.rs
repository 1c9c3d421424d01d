//! What is in force in local mode: the objects of the last load, and of earlier ones where the last
//! brought nothing better.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::finding::{Finding, Reason, Severity};
use super::load::{Cache, Load, Place};
use super::path::FieldPath;
use super::source::Source;
use super::unknown_fields::UnknownFields;
use crate::store::{Object, ObjectRef, Store};

/// The configuration of one machine, kept over reloads.
///
/// An object that is refused keeps its previous version in force (a rule about tokens that has none
/// refuses everyone), and so does every object that a
/// file no longer shows while a part of that file cannot be read. A file that is gone takes its
/// objects with it.
#[derive(Debug, Default)]
pub struct Configuration {
    unknown_fields: UnknownFields,
    cache: Cache,
    in_force: BTreeMap<ObjectRef, Place>,
    store: Store,
    reported: HashSet<Finding>,
}

/// What a reload brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reload {
    /// What the previous load did not say.
    pub findings: Vec<Finding>,
    /// What the previous load said too, wherever the lines stand now: not worth another log line.
    pub repeated: Vec<Finding>,
    /// Whether any object in force is another one than before.
    pub changed: bool,
    /// Whether a file could not be read, or has something in it that cannot be told: it may be a
    /// policy that says who is let in.
    pub unrecognised: bool,
}

impl Configuration {
    /// An empty one, with a choice of what becomes of objects with unknown fields.
    #[must_use]
    pub fn new(unknown_fields: UnknownFields) -> Self {
        Self {
            unknown_fields,
            ..Self::default()
        }
    }

    /// Takes all files as they are now.
    pub fn reload(&mut self, sources: &[Source]) -> Reload {
        let mut load = Load::read(sources, &self.cache, self.unknown_fields);
        let kept = self.keep_previous(&mut load);
        load.findings.extend(standing_in(&load));
        load.findings.extend(self.emptied(&load));
        let changed = self.enforce(load.places);
        let unrecognised = load.opaque.values().any(|opaque| *opaque);
        self.cache = load.cache;
        load.findings.extend(kept);
        let (repeated, findings): (Vec<_>, Vec<_>) = load
            .findings
            .into_iter()
            .partition(|finding| self.reported.contains(&unplaced(finding)));
        self.reported = findings.iter().chain(&repeated).map(unplaced).collect();
        Reload {
            findings,
            repeated,
            changed,
            unrecognised,
        }
    }

    /// The objects in force: those that were admitted, and what stands in for refused ones.
    pub fn in_force(&self) -> impl Iterator<Item = &Object> {
        self.in_force.values().filter_map(Place::in_force)
    }

    /// The objects in force.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// File and line of an object in force, or of one of its fields (`spec.rules[0].matches`). A
    /// field that was not written is at the nearest one above it.
    #[must_use]
    pub fn locate(&self, object: &ObjectRef, field: Option<&str>) -> Option<(&str, u32)> {
        let place = self.in_force.get(object)?;
        let field = FieldPath::parse(field.unwrap_or_default());
        Some((&place.file, place.line(&field)))
    }

    /// Puts previous versions in where the load has none, and says so once a file.
    fn keep_previous(&self, load: &mut Load) -> Vec<Finding> {
        let mut kept: HashMap<Arc<str>, Vec<ObjectRef>> = HashMap::new();
        for (reference, previous) in &self.in_force {
            let keep = match load.places.get(reference) {
                Some(place) => place.object().is_none() && previous.object().is_some(),
                None => load.opaque.get(&previous.file).copied().unwrap_or(false),
            };
            if keep {
                load.places.insert(reference.clone(), previous.clone());
                let file = Arc::clone(&previous.file);
                kept.entry(file).or_default().push(reference.clone());
            }
        }
        let mut findings: Vec<_> = kept
            .into_iter()
            .map(|(file, objects)| kept_finding(&file, &objects))
            .collect();
        findings.sort_by(|a, b| a.file.cmp(&b.file));
        findings
    }

    /// Says of each file that holds nothing any more what that takes away. It may well be meant; it is
    /// also what a script that failed leaves behind.
    fn emptied(&self, load: &Load) -> Vec<Finding> {
        let gone = self.in_force.iter();
        let gone = gone.filter(|(reference, _)| !load.places.contains_key(reference));
        let files: BTreeSet<&Arc<str>> = gone.map(|(_, place)| &place.file).collect();
        let emptied = files.into_iter().filter(|file| load.empty.contains(*file));
        emptied
            .map(|file| Finding {
                severity: Severity::Warning,
                file: file.to_string(),
                line: 0,
                object: None,
                field: None,
                reason: Reason::Emptied,
                text: "has no objects now; what it had is gone".to_owned(),
            })
            .collect()
    }

    /// Makes `places` what is in force; says whether that changes anything.
    fn enforce(&mut self, mut places: BTreeMap<ObjectRef, Place>) -> bool {
        places.retain(|_, place| place.in_force().is_some());
        let mut changed = false;
        for reference in self.in_force.keys() {
            if !places.contains_key(reference) {
                changed |= self.store.remove(reference);
            }
        }
        for (reference, place) in &places {
            let previous = self.in_force.get(reference);
            if previous.is_some_and(|previous| same_object(previous, place)) {
                continue;
            }
            if let Some(object) = place.in_force() {
                self.store.insert(object.clone());
                changed = true;
            }
        }
        self.in_force = places;
        changed
    }
}

fn same_object(a: &Place, b: &Place) -> bool {
    match (a.in_force(), b.in_force()) {
        (Some(a), Some(b)) => std::ptr::eq(a, b) || a == b,
        _ => false,
    }
}

/// Says of each refused object that something stricter holds in its place.
fn standing_in(load: &Load) -> Vec<Finding> {
    let places = load.places.iter();
    let refused = places.filter(|(_, place)| place.object().is_none());
    let standing_in = refused.filter_map(|(reference, place)| {
        Some(Finding {
            severity: Severity::Warning,
            file: place.file.to_string(),
            line: place.line(&FieldPath::default()),
            object: Some(reference.clone()),
            field: None,
            reason: Reason::RefusesAll,
            text: refuses(place.in_force()?),
        })
    });
    standing_in.collect()
}

/// What a stand-in refuses.
fn refuses(stand_in: &Object) -> String {
    let unclear = match stand_in {
        Object::TrafficPolicy(policy) => {
            let targets = &policy.spec.target_refs;
            targets.is_empty() || targets.iter().any(|target| target.name.is_empty())
        }
        _ => false,
    };
    if unclear {
        let namespace = &stand_in.metadata().namespace;
        format!(
            "is refused and has no previous version, and its targets cannot be told: until it is \
             admitted, everything in namespace `{namespace}` refuses every request, unless it has \
             a policy about tokens of its own"
        )
    } else {
        "is refused and has no previous version: its targets refuse every request until it is \
         admitted"
            .to_owned()
    }
}

fn kept_finding(file: &str, objects: &[ObjectRef]) -> Finding {
    let names: Vec<_> = objects
        .iter()
        .take(MAX_NAMED)
        .map(ToString::to_string)
        .collect();
    let more = match objects.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Finding {
        severity: Severity::Warning,
        file: file.to_owned(),
        line: 0,
        object: None,
        field: None,
        reason: Reason::PreviousKept,
        text: format!(
            "the previous version stays in force of {}{more}",
            names.join(", ")
        ),
    }
}

/// A finding without its line: lines move as a file is edited.
fn unplaced(finding: &Finding) -> Finding {
    Finding {
        line: 0,
        ..finding.clone()
    }
}

/// Objects that are named in one finding.
const MAX_NAMED: usize = 5;

#[cfg(test)]
mod tests;
