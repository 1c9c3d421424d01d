//! The entries of ConfigMaps that policies refer to: lists of networks, and bodies of answers.
//!
//! Of the ConfigMaps of a cluster, most of which are for others, all other entries are dropped while they are
//! parsed. So the watch of policies records what they refer to, and asks the watch of ConfigMaps to read one
//! again that was read before a policy needed it (`requests`). At the start, ConfigMaps are listed once policies
//! are known.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard};

use translate::Object;
use translate::api::{ErrorPageSpec, NetworksSpec, RespondSpec, TrafficPolicy};
use xds::model::ObjectName;

/// What the policies of this process refer to. Parsing has no other context: see [`Raw`].
pub(super) static ENTRIES: LazyLock<Entries> = LazyLock::new(Entries::default);

tokio::task_local! {
    /// Whether what a task parses are ConfigMaps. Of a Secret of the same name, nothing is kept.
    pub(super) static PARSES_CONFIG_MAPS: bool;
}

/// The entries that policies refer to.
#[derive(Debug, Default)]
pub(super) struct Entries(RwLock<References>);

#[derive(Debug, Default)]
struct References {
    /// The references of each policy, to ConfigMaps and their entries.
    by_policy: HashMap<ObjectName, BTreeSet<(ObjectName, String)>>,
    /// The entries of each ConfigMap, with the number of policies that refer to it.
    by_map: HashMap<ObjectName, BTreeMap<String, usize>>,
}

impl Entries {
    /// Replaces the references of a policy. Returns the ConfigMaps of which an entry is needed that was not
    /// before.
    pub(super) fn set(
        &self,
        policy: &ObjectName,
        references: BTreeSet<(ObjectName, String)>,
    ) -> BTreeSet<ObjectName> {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut needed = BTreeSet::new();
        for (map, key) in &references {
            let count = all.by_map.entry(map.clone()).or_default();
            let count = count.entry(key.clone()).or_default();
            if *count == 0 {
                needed.insert(map.clone());
            }
            *count += 1;
        }
        let before = if references.is_empty() {
            all.by_policy.remove(policy)
        } else {
            all.by_policy.insert(policy.clone(), references)
        };
        for (map, key) in before.into_iter().flatten() {
            let Some(entries) = all.by_map.get_mut(&map) else {
                continue;
            };
            if let Some(count) = entries.get_mut(&key) {
                *count -= 1;
            }
            entries.retain(|_, count| *count > 0);
            if entries.is_empty() {
                all.by_map.remove(&map);
            }
        }
        needed
    }

    /// Whether a policy refers to an entry of an object.
    pub(super) fn has(&self, object: &ObjectName, key: &str) -> bool {
        let all = self.read();
        all.by_map
            .get(object)
            .is_some_and(|entries| entries.contains_key(key))
    }

    /// Whether a policy refers to an object.
    pub(super) fn has_object(&self, object: &ObjectName) -> bool {
        self.read().by_map.contains_key(object)
    }

    /// Whether an object of which entries are kept is being parsed.
    pub(super) fn has_parsed(&self, object: &ObjectName) -> bool {
        let is_map = PARSES_CONFIG_MAPS.try_with(|it| *it);
        is_map == Ok(true) && self.has_object(object)
    }

    fn read(&self) -> RwLockReadGuard<'_, References> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a policy refers to; nothing for other objects.
pub(super) fn references(object: &Object) -> BTreeSet<(ObjectName, String)> {
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
    let all = lists.chain(bodies);
    all.map(|(name, key)| (ObjectName::new(namespace, name), key.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_refers_to_the_bodies_of_its_answer_and_pages() {
        let value = serde_json::json!({
            "metadata": {"name": "p", "namespace": "a"},
            "spec": {
                "targetRefs": [],
                "networks": {"allowFrom": [{"name": "lists", "key": "office"}]},
                "respond": {"status": 503, "bodyFrom": {"name": "pages", "key": "soon.html"}},
                "errorPages": [{"statuses": ["404"], "bodies": [
                    {"contentType": "text/html", "bodyFrom": {"name": "pages", "key": "404.html"}},
                ]}],
            },
        });
        let policy: TrafficPolicy = serde_json::from_value(value).expect("a policy");
        let entry = |name, key: &str| (ObjectName::new("a", name), key.to_owned());
        let pages = [entry("pages", "404.html"), entry("pages", "soon.html")];
        let expected = [[entry("lists", "office")].as_slice(), &pages].concat();
        let expected: BTreeSet<_> = expected.into_iter().collect();
        assert_eq!(references(&Object::from(policy)), expected);
    }

    #[test]
    fn entries_are_needed_as_long_as_a_policy_refers_to_them() {
        let entries = Entries::default();
        let name = |name| ObjectName::new("a", name);
        let one = |map, key: &str| BTreeSet::from([(name(map), key.to_owned())]);
        assert_eq!(entries.set(&name("p"), one("m", "k")), [name("m")].into());
        assert_eq!(entries.set(&name("p"), one("m", "k")), BTreeSet::new());
        assert_eq!(entries.set(&name("q"), one("m", "k")), BTreeSet::new());
        assert_eq!(
            entries.set(&name("q"), one("m", "other")),
            [name("m")].into()
        );
        assert!(entries.has(&name("m"), "k") && entries.has(&name("m"), "other"));
        entries.set(&name("p"), BTreeSet::new());
        assert!(!entries.has(&name("m"), "k") && entries.has_object(&name("m")));
        entries.set(&name("q"), BTreeSet::new());
        assert!(!entries.has_object(&name("m")));
    }
}
