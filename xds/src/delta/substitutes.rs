//! What takes the place of rejected resources, so that these leave nothing open: which of them are needed beside
//! what is in effect, which are in effect, and when they end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::encoded::{Encoded, Version};
use super::objects::{Substitute, Taken};
use super::refusal::Refusal;
use crate::model::{
    Attachment, Attachments, Hostname, Kind, ObjectName, Policy, Precedence, Resource, ResourceKey,
    Restrictions, Route, RouteKey,
};

/// The substitutes in effect, and what is in effect that makes others needless.
#[derive(Debug, Default)]
pub(super) struct Substitutes {
    versions: BTreeMap<ResourceKey, Version>,
    /// Rules and restrictions in effect; substitutes are not among them.
    in_effect: BTreeMap<ResourceKey, Effect>,
}

/// What is known of a resource in effect.
#[derive(Debug)]
pub(super) enum Effect {
    /// A rule at these listeners.
    Rule(Attachments),
    /// A policy that restricts access in these ways.
    Restriction(Restrictions, Precedence),
}

/// The substitutes that a batch makes necessary.
#[derive(Debug, Default)]
pub(super) struct Needed {
    /// Those that are not in effect yet, with their versions.
    pub(super) new: Vec<(Version, Resource)>,
    /// All of them.
    keys: BTreeSet<ResourceKey>,
}

impl Effect {
    /// That of a resource, if it has to be known.
    pub(super) fn of(resource: &Resource) -> Option<Self> {
        match resource {
            Resource::Route(route) => Some(Self::Rule(route.attachments.clone())),
            Resource::Policy(policy) if policy.spec.restricts_access() => {
                let restricts = policy.spec.restrictions();
                Some(Self::Restriction(restricts, policy.spec.precedence))
            }
            _ => None,
        }
    }
}

impl Substitutes {
    /// The keys of those in effect.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ResourceKey> {
        self.versions.keys()
    }

    /// Records a resource that is in effect now, or that there is none of this key any more.
    pub(super) fn record(&mut self, key: &ResourceKey, effect: Option<Effect>) {
        self.versions.remove(key);
        match effect {
            Some(effect) => self.in_effect.insert(key.clone(), effect),
            None => self.in_effect.remove(key),
        };
    }

    /// Records a substitute that is in effect now.
    pub(super) fn insert(&mut self, key: ResourceKey, version: Version) {
        self.in_effect.remove(&key);
        self.versions.insert(key, version);
    }

    /// The substitutes that a batch needs; `is_held` is whether there is a resource of a key. Those of rules that are
    /// not needed any more are removed with what is applied of the batch.
    pub(super) fn needed(
        &self,
        taken: &mut Taken,
        is_held: impl Fn(&ResourceKey) -> bool,
    ) -> Needed {
        let mut needed = Needed::default();
        let mut rules = self.applied_rules(taken);
        for refusing in std::mem::take(&mut taken.substitutes) {
            if let Resource::Route(route) = &refusing.resource {
                rules.push(route.key.clone());
            }
            if let Some(substitute) = self.beside_previous(refusing, &is_held) {
                let key = substitute.resource_key();
                let version = Encoded::new(&substitute).version;
                if self.versions.get(&key) != Some(&version) {
                    needed.new.push((version, substitute));
                }
                needed.keys.insert(key);
            }
        }
        let beside = rules.iter().map(|rule| route_key(&beside(rule)));
        let obsolete =
            beside.filter(|key| self.versions.contains_key(key) && !needed.keys.contains(key));
        for key in obsolete {
            taken.changes.entry(key).or_insert(None);
        }
        needed
    }

    /// The rules that a batch applies and that may have substitutes beside them.
    fn applied_rules(&self, taken: &Taken) -> Vec<RouteKey> {
        let changed = taken.changes.keys().filter(|_| !self.versions.is_empty());
        let rules = changed.filter(|key| key.kind == Kind::Route);
        rules
            .filter_map(|key| RouteKey::parse(&key.key).ok())
            .collect()
    }

    /// What is needed of a substitute beside the previous version of the resource.
    fn beside_previous(
        &self,
        refusing: Substitute,
        is_held: impl Fn(&ResourceKey) -> bool,
    ) -> Option<Resource> {
        let is_needed = match &refusing.resource {
            Resource::Route(route) => return self.where_new(route).map(Into::into),
            Resource::Policy(policy) => !self.restricts_like(policy, refusing.restricts),
            other => {
                let key = other.resource_key();
                !is_held(&key) || self.versions.contains_key(&key)
            }
        };
        is_needed.then_some(refusing.resource)
    }

    /// Whether the policy's previous version restricts access in all ways of the rejected one, and nearer policies
    /// cannot replace it either, if they could not replace the rejected one.
    fn restricts_like(&self, rejected: &Policy, ways: Restrictions) -> bool {
        let key = ResourceKey {
            kind: Kind::Policy,
            key: rejected.key.to_shared(),
        };
        match self.in_effect.get(&key) {
            Some(Effect::Restriction(previous, precedence)) => {
                ways.are_within(*previous) && *precedence >= rejected.spec.precedence
            }
            Some(Effect::Rule(_)) | None => false,
        }
    }

    /// The rule that refuses requests, or, if there is a previous version of it, one beside that for the listeners
    /// and host names that it lacks: a wider rule would get the requests there. The previous version may have
    /// another form: a controller of another release sends it once for each listener, or once for all.
    fn where_new(&self, refusing: &Arc<Route>) -> Option<Arc<Route>> {
        let previous = of_rule(&self.in_effect, &refusing.key);
        let previous: Vec<_> = previous
            .filter_map(|(_, effect)| match effect {
                Effect::Rule(attachments) => Some(attachments),
                Effect::Restriction(..) => None,
            })
            .collect();
        if previous.is_empty() {
            return Some(Arc::clone(refusing));
        }
        let attachments = refusing.attachments.iter();
        let lacked: Attachments = attachments.filter_map(|at| lacked(at, &previous)).collect();
        (!lacked.is_empty()).then(|| {
            Arc::new(Route {
                key: beside(&refusing.key),
                attachments: lacked,
                ..Route::clone(refusing)
            })
        })
    }

    /// Says in each rejection what it means, if substitutes are in effect or needed.
    pub(super) fn explain(&self, refused: &mut [Refusal], needed: &Needed) {
        for Refusal { key, text } in refused {
            let is_closed =
                |key: &ResourceKey| needed.keys.contains(key) || self.versions.contains_key(key);
            let consequence = if is_closed(key) {
                consequence(key.kind)
            } else if needed.is_beside(key) {
                "it has no previous version at some of its listeners or for some of its host names, so its \
                 requests there get status 500, and its connections are closed"
            } else {
                continue;
            };
            *text = format!("{consequence}: {text}");
        }
    }
}

impl Needed {
    /// Whether one of them is for the rule of this key.
    fn is_beside(&self, key: &ResourceKey) -> bool {
        let rule = (key.kind == Kind::Route).then(|| RouteKey::parse(&key.key).ok());
        let Some(rule) = rule.flatten() else {
            return false;
        };
        let prefix = prefix(&rule);
        let next = self.keys.range(prefix.clone()..).next();
        next.is_some_and(|it| is_of_rule(it, &prefix))
    }
}

/// The entries of a rule, in all forms.
fn of_rule<'m, V>(
    entries: &'m BTreeMap<ResourceKey, V>,
    rule: &RouteKey,
) -> impl Iterator<Item = (&'m ResourceKey, &'m V)> + use<'m, V> {
    let prefix = prefix(rule);
    let from_first = entries.range(prefix.clone()..);
    from_first.take_while(move |(it, _)| is_of_rule(it, &prefix))
}

/// What the keys of a rule begin with, in all forms.
fn prefix(rule: &RouteKey) -> ResourceKey {
    ResourceKey {
        kind: Kind::Route,
        key: format!("{}/", rule.rule()).into(),
    }
}

fn is_of_rule(key: &ResourceKey, prefix: &ResourceKey) -> bool {
    key.kind == prefix.kind && key.key.starts_with(&*prefix.key)
}

/// The key of what refuses requests beside the previous version of this rule: one of the same rule, at a Gateway
/// whose name no object can have.
fn beside(rule: &RouteKey) -> RouteKey {
    let place = rule.as_str().strip_prefix(rule.rule()).unwrap_or_default();
    rule.at_gateway(&ObjectName::new("substitute", &place.replace('/', ":")))
}

fn route_key(key: &RouteKey) -> ResourceKey {
    ResourceKey {
        kind: Kind::Route,
        key: key.to_shared(),
    }
}

/// The listener with the host names that no previous version covers there. Requests for those that one covers by a
/// wildcard, or by having every host of the listener, still get the previous version.
fn lacked(at: &Attachment, previous: &[&Attachments]) -> Option<Attachment> {
    let before = previous.iter().filter_map(|it| it.find(&at.listener));
    let before: Vec<&[Hostname]> = before.map(|(_, it)| &*it.hostnames).collect();
    if before.iter().any(|hosts| hosts.is_empty()) {
        return None;
    }
    if at.hostnames.is_empty() {
        return Some(at.clone());
    }
    let covers = |it: &Hostname, host: &Hostname| it.intersect(host) == Some(host);
    let hosts = at.hostnames.iter();
    let lacked = hosts.filter(|host| !before.iter().copied().flatten().any(|it| covers(it, host)));
    let hostnames: Arc<[Hostname]> = lacked.cloned().collect();
    (!hostnames.is_empty()).then(|| Attachment {
        listener: at.listener.clone(),
        hostnames,
    })
}

/// What the rejection of a resource without a previous version means. Statuses and events quote it.
fn consequence(kind: Kind) -> &'static str {
    match kind {
        Kind::Route => {
            "it has no previous version there, so its requests get status 500, and its connections are \
             closed"
        }
        Kind::Listener => {
            "it has no previous version there, so requests for its host get status 403, and TLS \
             handshakes are refused"
        }
        _ => {
            "it restricts access and has no previous version there that does so in all of its ways with the same \
             precedence, so requests of its target get status 503 (policy_invalid)"
        }
    }
}
