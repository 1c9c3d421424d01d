//! The permissions of ReferenceGrants.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use xds::model::ObjectName;

use super::api::ReferenceGrant;
use super::kinds::{ObjectKind, WrittenKind};

/// A direction of references: group, kind and namespace of both ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ReferenceDirection {
    pub(crate) from: (Box<str>, Box<str>, Box<str>),
    pub(crate) to: (Box<str>, Box<str>, Box<str>),
}

/// The target of a reference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Referent<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Referent<'_> {
    /// `None` if the kind is not read.
    pub(crate) fn object_kind(&self) -> Option<ObjectKind> {
        ObjectKind::find(self.group, self.kind)
    }

    /// For messages about a kind that cannot be there.
    pub(crate) fn written_kind(&self) -> WrittenKind<'_> {
        WrittenKind {
            group: self.group,
            kind: self.kind,
        }
    }
}

/// The names that a grant permits.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Names {
    Every,
    Listed(BTreeSet<String>),
}

/// All grants, by direction.
#[derive(Debug, Default)]
pub(crate) struct Grants(HashMap<Arc<ReferenceDirection>, BTreeMap<ObjectName, Names>>);

impl Grants {
    /// Replaces a grant; returns the affected directions.
    pub(crate) fn replace(
        &mut self,
        name: &ObjectName,
        old: Option<&ReferenceGrant>,
        new: Option<&ReferenceGrant>,
    ) -> Vec<Arc<ReferenceDirection>> {
        let (old, new) = (directions(name, old), directions(name, new));
        let mut changed = Vec::new();
        for way in old.keys().filter(|way| !new.contains_key(*way)) {
            if let Some(grants) = self.0.get_mut(way) {
                grants.remove(name);
                if grants.is_empty() {
                    self.0.remove(way);
                }
            }
            changed.push(Arc::new(way.clone()));
        }
        for (way, names) in new {
            if old.get(&way) == Some(&names) {
                continue;
            }
            let way = Arc::new(way);
            let grants = self.0.entry(Arc::clone(&way)).or_default();
            grants.insert(name.clone(), names);
            changed.push(way);
        }
        changed
    }

    /// Whether a grant permits references to this name.
    pub(crate) fn permit(&self, way: &ReferenceDirection, name: &str) -> bool {
        let grants = self.0.get(way).into_iter().flatten();
        grants.into_iter().any(|(_, names)| match names {
            Names::Every => true,
            Names::Listed(names) => names.contains(name),
        })
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn directions(
    name: &ObjectName,
    grant: Option<&ReferenceGrant>,
) -> HashMap<ReferenceDirection, Names> {
    let mut directions = HashMap::new();
    let Some(grant) = grant else {
        return directions;
    };
    for from in &grant.spec.from {
        for to in &grant.spec.to {
            let way = ReferenceDirection {
                from: (
                    (*from.group).into(),
                    (*from.kind).into(),
                    (*from.namespace).into(),
                ),
                to: (
                    (*to.group).into(),
                    (*to.kind).into(),
                    (*name.namespace).into(),
                ),
            };
            let names = directions
                .entry(way)
                .or_insert_with(|| Names::Listed(BTreeSet::new()));
            match (to.name.as_deref().filter(|name| !name.is_empty()), names) {
                (None, names) => *names = Names::Every,
                (Some(name), Names::Listed(listed)) => {
                    listed.insert(name.to_owned());
                }
                (Some(_), Names::Every) => {}
            }
        }
    }
    directions
}
