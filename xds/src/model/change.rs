//! Changes of a model: which resources are added, replaced and removed.

use std::fmt;
use std::sync::Arc;

use super::{Keyed, Kind, Model, Resource, Resources};

/// The kind and key of a resource: its identity in a model and on the wire.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    /// The kind; keys are unique within it.
    pub kind: Kind,
    /// The key as text.
    pub key: Arc<str>,
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.key)
    }
}

/// One changed resource: its new value, or `None` where it was removed.
pub type Change = (ResourceKey, Option<Resource>);

impl Model {
    /// Applies changes in their order: adds, replaces and removes resources.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = Change>) {
        for (key, resource) in changes {
            match resource {
                Some(resource) => {
                    debug_assert_eq!(resource.resource_key(), key, "a change is of one resource");
                    self.insert(resource);
                }
                None => {
                    self.remove(key.kind, &key.key);
                }
            }
        }
    }
}

/// The changes of the resources of one kind, by key.
pub(super) fn of_kind<T: Keyed + Eq>(
    old: &Resources<T>,
    new: &Resources<T>,
    key: impl Fn(&T) -> ResourceKey,
    changes: &mut Vec<Change>,
) where
    Resource: From<Arc<T>>,
{
    let mut old = old.values().peekable();
    for value in new {
        while let Some(gone) = old.next_if(|other| other.key() < value.key()) {
            changes.push((key(gone), None));
        }
        let same = old.next_if(|other| other.key() == value.key());
        if same.is_none_or(|other| other != value) {
            changes.push((key(value), Some(Arc::clone(value).into())));
        }
    }
    changes.extend(old.map(|gone| (key(gone), None)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ObjectName, Service, ServiceKey, SessionAffinity};

    fn service(name: &str, ports: usize) -> Resource {
        let vips = vec![std::net::Ipv4Addr::LOCALHOST.into(); ports];
        Resource::from(Service {
            key: ServiceKey::new(&ObjectName::new("a", name)),
            vips,
            ports: Vec::new(),
            session_affinity: SessionAffinity::None,
        })
    }

    fn model(resources: &[Resource]) -> Model {
        let mut model = Model::default();
        for resource in resources {
            model.insert(resource.clone());
        }
        model
    }

    #[test]
    fn changes_name_what_was_added_replaced_and_removed() {
        let old = model(&[service("a", 0), service("b", 0), service("d", 0)]);
        let new = model(&[service("b", 0), service("c", 0), service("d", 1)]);
        let changes = old.changes_to(&new);
        let shown: Vec<String> = changes
            .iter()
            .map(|(key, resource)| format!("{key} {}", resource.is_some()))
            .collect();
        let expected = [
            "Service `Service/a/a` false",
            "Service `Service/a/c` true",
            "Service `Service/a/d` true",
        ];
        assert_eq!(shown, expected);

        let mut changed = old.clone();
        changed.apply(changes);
        assert_eq!(changed, new);
        assert_eq!(new.changes_to(&new.clone()), []);
    }

    #[test]
    fn a_clone_of_a_model_shares_its_resources() {
        let model = model(&[service("a", 0)]);
        let copy = model.clone();
        for (old, new) in model.services.values().zip(copy.services.values()) {
            assert!(Arc::ptr_eq(old, new));
        }
    }
}
