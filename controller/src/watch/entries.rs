//! The entries of ConfigMaps and Secrets that policies refer to: lists of networks, bodies of answers, credentials.
//!
//! Of the ConfigMaps and Secrets of a cluster, most of which are for others, all other entries are dropped while
//! they are parsed. So the watch of policies records what they refer to, and asks the watch of either kind to read
//! an object again that was read before a policy needed it (`requests`). At the start, they are listed once policies
//! are known.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard};

use translate::api::{
    BasicAuthSpec, ErrorPageSpec, NetworksSpec, ReferenceGrant, RespondSpec, TrafficPolicy,
};
use translate::{Object, ObjectKind};
use xds::model::ObjectName;

use super::granted::GrantedSecrets;

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
    by_policy: HashMap<ObjectName, PolicyEntries>,
    /// What is needed of each object, with the number of policies that refer to it and may.
    by_holder: HashMap<Holder, BTreeMap<Needed, usize>>,
    grants: GrantedSecrets,
}

/// The references of a policy, and those of them that are permitted.
#[derive(Debug, Default)]
struct PolicyEntries {
    all: PolicyReferences,
    permitted: PolicyReferences,
}

/// What a change of references asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rereads {
    /// Objects of which an entry is needed that was not before, with the policy that needs it.
    pub(super) needed: BTreeMap<Holder, ObjectName>,
    /// Secrets of which an entry is kept that no policy needs any more.
    pub(super) kept: BTreeSet<Holder>,
}

impl Entries {
    /// Replaces the references of a policy.
    pub(super) fn set(&self, policy: &ObjectName, references: PolicyReferences) -> Rereads {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut rereads = Rereads::default();
        all.replace(policy, references, &mut rereads);
        all.without_needed(rereads)
    }

    /// Replaces a ReferenceGrant: policies whose references it permits need what they refer to.
    pub(super) fn set_grant(&self, name: &ObjectName, grant: Option<&ReferenceGrant>) -> Rereads {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut rereads = Rereads::default();
        if !all.grants.replace(name, grant) {
            return rereads;
        }
        let concerned = all.by_policy.iter().filter(|(policy, entries)| {
            policy.namespace != name.namespace && { entries.all.iter() }
                .any(|((_, holder), _)| holder.namespace == name.namespace)
        });
        let concerned: Vec<_> = concerned
            .map(|(policy, entries)| (policy.clone(), entries.all.clone()))
            .collect();
        for (policy, references) in concerned {
            all.replace(&policy, references, &mut rereads);
        }
        all.without_needed(rereads)
    }

    /// Whether a policy refers to an entry of an object, and may.
    pub(super) fn has(&self, object: &Holder, key: &str) -> bool {
        let all = self.read();
        all.by_holder.get(object).is_some_and(|needed| {
            needed.contains_key(&Needed::AllEntries)
                || needed.contains_key(&Needed::Entry(key.to_owned()))
        })
    }

    /// Whether a policy refers to an object, and may.
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

impl References {
    fn replace(
        &mut self,
        policy: &ObjectName,
        references: PolicyReferences,
        rereads: &mut Rereads,
    ) {
        let permitted = references.iter().filter(|((kind, name), _)| {
            *kind == EntryKind::ConfigMap || self.grants.permit(&policy.namespace, name)
        });
        let permitted: PolicyReferences = permitted.cloned().collect();
        for (holder, what) in &permitted {
            let count = self.by_holder.entry(holder.clone()).or_default();
            let count = count.entry(what.clone()).or_default();
            if *count == 0 {
                rereads.needed.insert(holder.clone(), policy.clone());
            }
            *count += 1;
        }
        let entries = PolicyEntries {
            all: references,
            permitted,
        };
        let before = if entries.all.is_empty() {
            self.by_policy.remove(policy)
        } else {
            self.by_policy.insert(policy.clone(), entries)
        };
        for (holder, what) in before.into_iter().flat_map(|it| it.permitted) {
            self.release(holder, &what, rereads);
        }
    }

    fn release(&mut self, holder: Holder, what: &Needed, rereads: &mut Rereads) {
        let Some(entries) = self.by_holder.get_mut(&holder) else {
            return;
        };
        if let Some(count) = entries.get_mut(what) {
            *count -= 1;
        }
        entries.retain(|_, count| *count > 0);
        if !entries.is_empty() {
            return;
        }
        self.by_holder.remove(&holder);
        if holder.0 == EntryKind::Secret {
            rereads.kept.insert(holder);
        }
    }

    /// What one policy has released, another one may have needed meanwhile.
    fn without_needed(&self, mut rereads: Rereads) -> Rereads {
        rereads
            .kept
            .retain(|holder| !self.by_holder.contains_key(holder));
        rereads
            .needed
            .retain(|holder, _| self.by_holder.contains_key(holder));
        rereads
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
    let users = spec.basic_auth.iter().flat_map(|users| &users.secret_refs);
    let users = users.flat_map(|secret| {
        let namespace = secret.namespace.as_deref().unwrap_or(namespace);
        let secret = (EntryKind::Secret, ObjectName::new(namespace, &secret.name));
        BasicAuthSpec::ENTRIES.map(|entry| (secret.clone(), Needed::Entry(entry.to_owned())))
    });
    of_maps.chain(keys).chain(users).collect()
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
                "basicAuth": {"secretRefs": [{"name": "users"}]},
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
        for file in ["auth", ".htpasswd"] {
            let secret = (EntryKind::Secret, ObjectName::new("a", "users"));
            expected.insert((secret, Needed::Entry(file.to_owned())));
        }
        assert_eq!(references(&Object::from(policy)), expected);
    }

    #[test]
    fn entries_are_needed_as_long_as_a_policy_refers_to_them() {
        let entries = Entries::default();
        let name = |name| (EntryKind::ConfigMap, ObjectName::new("a", name));
        let one = |map, key: &str| BTreeSet::from([(name(map), Needed::Entry(key.to_owned()))]);
        let needs = |by: &str, references| {
            let rereads = entries.set(&ObjectName::new("a", by), references);
            assert!(rereads.kept.is_empty(), "lists are no secrets");
            rereads.needed.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(needs("p", one("m", "k")), [name("m")]);
        assert_eq!(needs("p", one("m", "k")), []);
        assert_eq!(needs("q", one("m", "k")), []);
        assert_eq!(needs("q", one("m", "other")), [name("m")]);
        assert!(entries.has(&name("m"), "k") && entries.has(&name("m"), "other"));
        needs("p", BTreeSet::new());
        assert!(!entries.has(&name("m"), "k") && entries.has_object(&name("m")));
        needs("q", BTreeSet::new());
        assert!(!entries.has_object(&name("m")));
    }

    fn grant(from: &str, name: Option<&str>) -> ReferenceGrant {
        let value = serde_json::json!({
            "metadata": {"name": "g", "namespace": "keys"},
            "spec": {
                "from": [{"group": "gateway-system.io", "kind": "TrafficPolicy", "namespace": from}],
                "to": [{"group": "", "kind": "Secret", "name": name}],
            },
        });
        serde_json::from_value(value).expect("a grant")
    }

    #[test]
    fn nothing_of_a_secret_is_kept_without_a_grant() {
        let entries = Entries::default();
        let secret = (EntryKind::Secret, ObjectName::new("keys", "all"));
        let policy = ObjectName::new("shop", "p");
        let refers = || BTreeSet::from([(secret.clone(), Needed::AllEntries)]);
        let permission = ObjectName::new("keys", "g");
        let is_kept = || entries.has(&secret, "acme") || entries.has_object(&secret);
        let needed = Rereads {
            needed: [(secret.clone(), policy.clone())].into(),
            kept: BTreeSet::new(),
        };
        let kept = Rereads {
            needed: BTreeMap::new(),
            kept: [secret.clone()].into(),
        };
        assert_eq!(entries.set(&policy, refers()), Rereads::default());
        assert!(!is_kept());
        for other in [grant("else", None), grant("shop", Some("other"))] {
            assert_eq!(
                entries.set_grant(&permission, Some(&other)),
                Rereads::default()
            );
            assert!(!is_kept(), "{other:?}");
        }
        for permits in [grant("shop", Some("all")), grant("shop", None)] {
            assert_eq!(entries.set_grant(&permission, Some(&permits)), needed);
            assert!(is_kept());
            assert_eq!(
                entries.set_grant(&permission, Some(&permits)),
                Rereads::default()
            );
            assert_eq!(entries.set_grant(&permission, None), kept);
            assert!(!is_kept());
        }
        // The grant may come first, and the policy go first.
        entries.set(&policy, BTreeSet::new());
        assert_eq!(
            entries.set_grant(&permission, Some(&grant("shop", None))),
            Rereads::default()
        );
        assert_eq!(entries.set(&policy, refers()), needed);
        assert_eq!(entries.set(&policy, refers()), Rereads::default());
        assert_eq!(entries.set(&policy, BTreeSet::new()), kept);
        assert!(!is_kept());
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
