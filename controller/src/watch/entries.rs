//! The entries of ConfigMaps and Secrets that policies refer to: lists of networks, bodies of answers, credentials.
//!
//! Of the ConfigMaps and Secrets of a cluster, most of which are for others, all other entries are dropped while
//! they are parsed. So the watch of policies records what they refer to, and asks the watch of either kind to read
//! an object again that was read before a policy needed it (`requests`). At the start, they are listed once policies
//! are known.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard};

use translate::api::{ErrorPageSpec, NetworksSpec, RespondSpec, TrafficPolicy};
use translate::{Object, ObjectKind};
use xds::model::ObjectName;

/// What the policies of this process refer to. Parsing has no other context: see [`Raw`].
pub(super) static ENTRIES: LazyLock<Entries> = LazyLock::new(Entries::default);

tokio::task_local! {
    /// The kind of the objects that a task parses, which has entries.
    pub(super) static PARSES: EntryKind;
}

/// A kind with entries that policies refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum EntryKind {
    ConfigMap,
    Secret,
}

impl EntryKind {
    /// The one of this name, if it has entries.
    pub(super) fn of(kind: ObjectKind) -> Option<Self> {
        match kind {
            ObjectKind::ConfigMap => Some(Self::ConfigMap),
            ObjectKind::Secret => Some(Self::Secret),
            _ => None,
        }
    }

    pub(super) fn object_kind(self) -> ObjectKind {
        match self {
            Self::ConfigMap => ObjectKind::ConfigMap,
            Self::Secret => ObjectKind::Secret,
        }
    }
}

/// An object with entries.
pub(super) type Holder = (EntryKind, ObjectName);

/// What a policy needs of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Needed {
    Entry(String),
    AllEntries,
}

/// The references of a policy.
pub(super) type PolicyReferences = BTreeSet<(Holder, Needed)>;

/// The entries that policies refer to.
#[derive(Debug, Default)]
pub(super) struct Entries(RwLock<References>);

#[derive(Debug, Default)]
struct References {
    by_policy: HashMap<ObjectName, PolicyReferences>,
    /// What is needed of each object, with the number of policies that refer to it.
    by_holder: HashMap<Holder, BTreeMap<Needed, usize>>,
}

impl Entries {
    /// Replaces the references of a policy. Returns the objects of which an entry is needed that was not
    /// before.
    pub(super) fn set(
        &self,
        policy: &ObjectName,
        references: PolicyReferences,
    ) -> BTreeSet<Holder> {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut needed = BTreeSet::new();
        for (holder, what) in &references {
            let count = all.by_holder.entry(holder.clone()).or_default();
            let count = count.entry(what.clone()).or_default();
            if *count == 0 {
                needed.insert(holder.clone());
            }
            *count += 1;
        }
        let before = if references.is_empty() {
            all.by_policy.remove(policy)
        } else {
            all.by_policy.insert(policy.clone(), references)
        };
        for (holder, what) in before.into_iter().flatten() {
            let Some(entries) = all.by_holder.get_mut(&holder) else {
                continue;
            };
            if let Some(count) = entries.get_mut(&what) {
                *count -= 1;
            }
            entries.retain(|_, count| *count > 0);
            if entries.is_empty() {
                all.by_holder.remove(&holder);
            }
        }
        needed
    }

    /// Whether a policy refers to an entry of an object.
    pub(super) fn has(&self, object: &Holder, key: &str) -> bool {
        let all = self.read();
        all.by_holder.get(object).is_some_and(|needed| {
            needed.contains_key(&Needed::AllEntries)
                || needed.contains_key(&Needed::Entry(key.to_owned()))
        })
    }

    /// Whether a policy refers to an object.
    pub(super) fn has_object(&self, object: &Holder) -> bool {
        self.read().by_holder.contains_key(object)
    }

    /// The object of this name, if it is being parsed and entries of it are kept.
    pub(super) fn parsed(&self, object: &ObjectName) -> Option<Holder> {
        let kind = PARSES.try_with(|kind| *kind).ok()?;
        Some((kind, object.clone())).filter(|holder| self.has_object(holder))
    }

    fn read(&self) -> RwLockReadGuard<'_, References> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a policy refers to; nothing for other objects.
pub(super) fn references(object: &Object) -> PolicyReferences {
    let Object::TrafficPolicy(policy) = object else {
        return BTreeSet::new();
    };
    let TrafficPolicy { metadata, spec, .. } = &**policy;
    let lists = spec.networks.iter().flat_map(NetworksSpec::lists);
    let lists = lists.map(|list| (&list.name, &list.key));
    let bodies = spec.respond.iter().flat_map(RespondSpec::entries);
    let pages = spec.error_pages.iter().flatten();
    let bodies = bodies.chain(pages.flat_map(ErrorPageSpec::entries));
    let bodies = bodies.map(|body| (&body.name, &body.key));
    let namespace = &metadata.name.namespace;
    let of_maps = lists.chain(bodies).map(|(name, key)| {
        let map = (EntryKind::ConfigMap, ObjectName::new(namespace, name));
        (map, Needed::Entry(key.clone()))
    });
    let keys = spec.api_keys.iter().flat_map(|keys| &keys.secret_refs);
    let keys = keys.map(|secret| {
        let namespace = secret.namespace.as_deref().unwrap_or(namespace);
        let secret = (EntryKind::Secret, ObjectName::new(namespace, &secret.name));
        (secret, Needed::AllEntries)
    });
    of_maps.chain(keys).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_refers_to_lists_bodies_and_secrets() {
        let value = serde_json::json!({
            "metadata": {"name": "p", "namespace": "a"},
            "spec": {
                "targetRefs": [],
                "apiKeys": {"secretRefs": [{"name": "keys"}, {"namespace": "b", "name": "keys"}]},
                "networks": {"allowFrom": [{"name": "lists", "key": "office"}]},
                "respond": {"status": 503, "bodyFrom": {"name": "pages", "key": "soon.html"}},
                "errorPages": [{"statuses": ["404"], "bodies": [
                    {"contentType": "text/html", "bodyFrom": {"name": "pages", "key": "404.html"}},
                ]}],
            },
        });
        let policy: TrafficPolicy = serde_json::from_value(value).expect("a policy");
        let entry = |name, key: &str| {
            let map = (EntryKind::ConfigMap, ObjectName::new("a", name));
            (map, Needed::Entry(key.to_owned()))
        };
        let pages = [entry("pages", "404.html"), entry("pages", "soon.html")];
        let expected = [[entry("lists", "office")].as_slice(), &pages].concat();
        let mut expected: BTreeSet<_> = expected.into_iter().collect();
        for namespace in ["a", "b"] {
            let secret = (EntryKind::Secret, ObjectName::new(namespace, "keys"));
            expected.insert((secret, Needed::AllEntries));
        }
        assert_eq!(references(&Object::from(policy)), expected);
    }

    #[test]
    fn entries_are_needed_as_long_as_a_policy_refers_to_them() {
        let entries = Entries::default();
        let policy = |name| ObjectName::new("a", name);
        let name = |name| (EntryKind::ConfigMap, ObjectName::new("a", name));
        let one = |map, key: &str| BTreeSet::from([(name(map), Needed::Entry(key.to_owned()))]);
        assert_eq!(entries.set(&policy("p"), one("m", "k")), [name("m")].into());
        assert_eq!(entries.set(&policy("p"), one("m", "k")), BTreeSet::new());
        assert_eq!(entries.set(&policy("q"), one("m", "k")), BTreeSet::new());
        assert_eq!(
            entries.set(&policy("q"), one("m", "other")),
            [name("m")].into()
        );
        assert!(entries.has(&name("m"), "k") && entries.has(&name("m"), "other"));
        entries.set(&policy("p"), BTreeSet::new());
        assert!(!entries.has(&name("m"), "k") && entries.has_object(&name("m")));
        entries.set(&policy("q"), BTreeSet::new());
        assert!(!entries.has_object(&name("m")));
    }

    #[test]
    fn all_entries_of_a_secret_are_kept_that_has_keys_and_none_of_a_map_of_its_name() {
        let entries = Entries::default();
        let [secret, map] = [EntryKind::Secret, EntryKind::ConfigMap]
            .map(|kind| (kind, ObjectName::new("a", "keys")));
        entries.set(
            &ObjectName::new("a", "p"),
            BTreeSet::from([(secret.clone(), Needed::AllEntries)]),
        );
        assert!(entries.has(&secret, "anybody") && !entries.has(&map, "anybody"));
        assert!(!entries.has_object(&map));
    }
}
