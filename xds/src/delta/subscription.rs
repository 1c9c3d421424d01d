//! A stream's subscription to one type, and what it is owed besides changes.
//!
//! The rules are those of the xDS protocol ("Subscribing to resources", "Unsubscribing from
//! resources"), incremental variant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::batch::Entry;
use super::digest::Digest;
use super::encoded::Encoded;
use super::view::View;
use crate::discovery::DeltaDiscoveryRequest;
use crate::model::{Kind, ResourceKey};

#[derive(Debug)]
pub(super) struct Subscription {
    kind: Kind,
    wildcard: bool,
    names: BTreeSet<Arc<str>>,
    /// Set while everything is owed: what the client holds.
    unsynced: Option<Held>,
    /// Names that are owed a response even without a change.
    owed: BTreeSet<Arc<str>>,
    /// Bytes of both sets of names, and of the versions that the client holds.
    kept_bytes: usize,
}

/// What a client holds when a stream begins.
#[derive(Debug)]
enum Held {
    /// Versions by name.
    Versions(BTreeMap<String, String>),
    /// Resources with this digest; `None` if it is none of this release.
    Digest(Option<Digest>),
    /// Not known yet: its digest differs, and it was asked for its versions by a response with this nonce.
    Asked(String),
}

impl Default for Held {
    fn default() -> Self {
        Self::Versions(BTreeMap::new())
    }
}

impl Subscription {
    /// From the first request of a type on a stream: without names, or with `*`, it subscribes to
    /// all. Takes the held versions out of the request.
    pub(super) fn begin(kind: Kind, request: &mut DeltaDiscoveryRequest) -> Self {
        let held = std::mem::take(&mut request.initial_resource_versions);
        let kept_bytes = version_bytes(&held);
        let held = match &*request.initial_digest {
            digest if held.is_empty() && !digest.is_empty() => Held::Digest(Digest::parse(digest)),
            _ => Held::Versions(held),
        };
        let names = &request.resource_names_subscribe;
        let wildcard = names.is_empty() || names.iter().any(|name| name == WILDCARD);
        let mut subscription = Self {
            kind,
            wildcard,
            names: BTreeSet::new(),
            kept_bytes,
            unsynced: Some(held),
            owed: BTreeSet::new(),
        };
        for name in names.iter().filter(|name| *name != WILDCARD) {
            add(
                &mut subscription.names,
                name.as_str().into(),
                &mut subscription.kept_bytes,
            );
        }
        subscription
    }

    /// Bytes that it keeps of requests.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Whether the client reported a digest other than that of the view, or one that cannot be compared, as it did
    /// not subscribe to everything.
    pub(super) fn has_other_digest(&self, view: &mut View) -> bool {
        let Some(Held::Digest(digest)) = &self.unsynced else {
            return false;
        };
        let is_all = self.wildcard && self.names.is_empty();
        !is_all || *digest != Some(view.digest(self.kind))
    }

    /// Waits for the client's versions, for which it is asked by a response with this nonce.
    pub(super) fn ask(&mut self, nonce: String) {
        self.unsynced = Some(Held::Asked(nonce));
    }

    /// Whether the client was asked for its versions, and has not answered yet.
    pub(super) fn is_asked(&self) -> bool {
        matches!(self.unsynced, Some(Held::Asked(_)))
    }

    /// Applies a later request. One without names changes nothing; held versions are only reported
    /// at the beginning, or when the client is asked for them.
    pub(super) fn change(&mut self, request: &mut DeltaDiscoveryRequest) {
        if let Some(Held::Asked(nonce)) = &self.unsynced
            && *nonce == request.response_nonce
        {
            let held = std::mem::take(&mut request.initial_resource_versions);
            self.kept_bytes = self.kept_bytes.saturating_add(version_bytes(&held));
            self.unsynced = Some(Held::Versions(held));
        }
        for name in &request.resource_names_subscribe {
            if name == WILDCARD {
                if !self.wildcard {
                    self.wildcard = true;
                    self.unsynced.get_or_insert_default();
                }
                continue;
            }
            // Owed even if subscribed to already: the client may have dropped its copy.
            let name: Arc<str> = name.as_str().into();
            add(&mut self.owed, Arc::clone(&name), &mut self.kept_bytes);
            add(&mut self.names, name, &mut self.kept_bytes);
        }
        for name in &request.resource_names_unsubscribe {
            if name == WILDCARD {
                self.wildcard = false;
                continue;
            }
            remove(&mut self.names, name, &mut self.kept_bytes);
            // Still covered by the wildcard: its current state has to be sent again.
            if self.wildcard {
                add(&mut self.owed, name.as_str().into(), &mut self.kept_bytes);
            } else {
                remove(&mut self.owed, name, &mut self.kept_bytes);
            }
        }
    }

    /// Whether it covers all resources and is owed nothing but changes.
    pub(super) fn is_settled(&self) -> bool {
        self.wildcard && self.unsynced.is_none() && self.owed.is_empty()
    }

    /// Whether it covers all resources, for a client that holds nothing.
    pub(super) fn is_fresh(&self) -> bool {
        let holds_nothing = matches!(&self.unsynced, Some(Held::Versions(held)) if held.is_empty());
        self.wildcard && self.owed.is_empty() && holds_nothing
    }

    /// Whether everything is owed.
    pub(super) fn is_unsynced(&self) -> bool {
        self.unsynced.is_some()
    }

    /// Whether names are owed a response.
    pub(super) fn has_pending_names(&self) -> bool {
        !self.owed.is_empty()
    }

    /// The entries to send, given the changes since the last call. Nothing is owed afterwards. A digest must have
    /// been compared with this view ([`Self::has_other_digest`]).
    pub(super) fn take(&mut self, view: &View, changed: &[Entry]) -> Vec<Entry> {
        let mut found: BTreeMap<Arc<str>, Option<Arc<Encoded>>> = BTreeMap::new();
        if let Some(held) = self.unsynced.take() {
            match held {
                Held::Versions(held) => {
                    self.kept_bytes = self.kept_bytes.saturating_sub(version_bytes(&held));
                    self.sync(view, &held, &mut found);
                }
                // It holds everything as it is.
                Held::Digest(_) => {}
                // Not taken before the answer; without one, it holds nothing.
                Held::Asked(_) => self.sync(view, &BTreeMap::new(), &mut found),
            }
        } else {
            let own = changed.iter().filter(|(key, _)| key.kind == self.kind);
            let own = own.filter(|(key, _)| self.wants(&key.key));
            found.extend(own.map(|(key, value)| (Arc::clone(&key.key), value.clone())));
        }
        for name in std::mem::take(&mut self.owed) {
            self.kept_bytes = self.kept_bytes.saturating_sub(name.len());
            let value = view.get(&self.key(&name)).cloned();
            found.insert(name, value);
        }
        let entries = found.into_iter();
        entries
            .map(|(name, value)| (self.key(&name), value))
            .collect()
    }

    /// The differences from what the client holds, and the names that do not exist.
    fn sync(
        &self,
        view: &View,
        held: &BTreeMap<String, String>,
        found: &mut BTreeMap<Arc<str>, Option<Arc<Encoded>>>,
    ) {
        // Both are ordered by name.
        let mut held = held.iter().peekable();
        for encoded in view.of_kind(self.kind) {
            let name = &encoded.key.key;
            while let Some((gone, _)) = held.next_if(|(other, _)| ***other < **name) {
                self.report_gone(gone, found);
            }
            let version = held.next_if(|(other, _)| ***other == **name);
            let is_held = version.is_some_and(|(_, version)| encoded.version.is_written(version));
            if self.wants(name) && !is_held {
                found.insert(Arc::clone(name), Some(Arc::clone(encoded)));
            }
        }
        for (gone, _) in held {
            self.report_gone(gone, found);
        }
        for name in &self.names {
            if view.get(&self.key(name)).is_none() {
                found.insert(Arc::clone(name), None);
            }
        }
    }

    fn report_gone(&self, name: &str, found: &mut BTreeMap<Arc<str>, Option<Arc<Encoded>>>) {
        if self.wants(name) {
            found.insert(name.into(), None);
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    fn key(&self, name: &Arc<str>) -> ResourceKey {
        ResourceKey {
            kind: self.kind,
            key: Arc::clone(name),
        }
    }
}

fn version_bytes(versions: &BTreeMap<String, String>) -> usize {
    let bytes = versions.iter();
    let bytes = bytes.map(|(name, version)| name.len().saturating_add(version.len()));
    bytes.fold(0, usize::saturating_add)
}

fn add(names: &mut BTreeSet<Arc<str>>, name: Arc<str>, bytes: &mut usize) {
    let added = name.len();
    if names.insert(name) {
        *bytes = bytes.saturating_add(added);
    }
}

fn remove(names: &mut BTreeSet<Arc<str>>, name: &str, bytes: &mut usize) {
    if names.remove(name) {
        *bytes = bytes.saturating_sub(name.len());
    }
}

const WILDCARD: &str = "*";
