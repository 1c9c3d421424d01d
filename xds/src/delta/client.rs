//! The proxy's side: assembles the parts of a batch, returns the changes to apply, and
//! acknowledges.

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;

use super::batch::Position;
use super::encoded::Version;
use super::objects::{Arrived, Objects, Substitute, Taken};
use super::refusal::{self, Refusal};
use super::substitutes::{Effect, Needed, Substitutes};
use crate::decode;
use crate::discovery::{self, DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use crate::limits::PARTS;
use crate::model::{self, Attachments, Kind, ResourceKey, SharedLists};
pub use report::Report;

/// Returns why this proxy cannot apply a valid resource.
pub type Check = fn(&model::Resource) -> Result<(), String>;

/// The resources that a proxy holds, and the batch being received. It outlives streams.
#[derive(Debug)]
pub struct Client {
    node: String,
    /// Versions of applied resources; `None` for those that could not be applied, so that the next
    /// stream sends them again.
    held: BTreeMap<ResourceKey, Option<Version>>,
    /// What refuses requests in the place of what was rejected.
    substitutes: Substitutes,
    /// For each type, a digest of all held versions.
    digests: BTreeMap<Kind, Version>,
    /// Checks whether a valid resource can be applied here.
    check: Check,
    objects: Objects,
    /// Networks of held policies.
    lists: SharedLists,
    arriving: Vec<DeltaDiscoveryResponse>,
    /// Types for which no response has been received yet.
    missing: BTreeSet<Kind>,
    /// Types that were not reported when the stream began: its first batch has all of them.
    unreported: BTreeSet<Kind>,
    /// Bytes of names and versions that were reported on this stream.
    reported: usize,
}

/// A complete batch. Apply its changes atomically and pass it to [`Client::acknowledge`].
#[derive(Debug)]
#[must_use = "the controller waits for an acknowledgement"]
pub struct Received {
    /// The changes to apply.
    pub changes: Vec<model::Change>,
    /// Rejected resources. Their previous versions stay in effect. Without one that does as much, a policy that
    /// restricts access is replaced by one that refuses every request of its target; without one, a listener by
    /// one that refuses its requests, and so is a rule, also at each listener and for each host name where it has
    /// none. Those of which only a part is left out are applied.
    pub refused: Vec<Refusal>,
    versions: Vec<(ResourceKey, Option<Applied>)>,
    /// Resources in the changes that take the place of rejected ones.
    substitutes: BTreeMap<ResourceKey, Version>,
    parts: Vec<ReceivedPart>,
}

/// A resource of a batch: its version, and what has to be known of it.
type Applied = (Version, Option<Effect>);

#[derive(Debug)]
struct ReceivedPart {
    kind: Kind,
    nonce: String,
    keys: BTreeSet<ResourceKey>,
}

/// A protocol violation by the controller: end the stream.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// A response for a type without a subscription.
    #[error("the controller sent resources of the unknown type `{0}`")]
    UnknownType(String),
    /// A response without a nonce.
    #[error("the controller sent a response without a nonce")]
    NoNonce,
    /// A nonce without a batch position.
    #[error("expected `<sequence>/<part>/<parts>` from the controller, got `{0}`")]
    NotAPart(String),
    /// A part out of order.
    #[error("expected part `{expected}` of a batch from the controller, got `{found}`")]
    OutOfOrder {
        /// The position in the response's nonce.
        found: String,
        /// The position that follows the last part.
        expected: String,
    },
}

impl Client {
    /// A client with the node id `node` that holds nothing.
    #[must_use]
    pub fn new(node: String) -> Self {
        Self::with_check(node, |_| Ok(()))
    }

    /// The same, which also rejects resources that `check` cannot apply.
    #[must_use]
    pub fn with_check(node: String, check: Check) -> Self {
        Self {
            node,
            held: BTreeMap::new(),
            substitutes: Substitutes::default(),
            digests: BTreeMap::new(),
            check,
            objects: Objects::default(),
            lists: SharedLists::default(),
            arriving: Vec::new(),
            missing: Kind::ALL.into(),
            unreported: BTreeSet::new(),
            reported: 0,
        }
    }

    /// Restores the configuration of a previous process: resources with their versions, without a
    /// version for those that could not be applied.
    pub fn restore<'r>(
        &mut self,
        held: impl IntoIterator<Item = (&'r model::Resource, Option<Version>)>,
    ) {
        self.missing.clear();
        for (resource, version) in held {
            let key = resource.resource_key();
            self.substitutes.record(&key, Effect::of(resource));
            self.lists.record(resource);
            self.hold(key, version);
        }
    }

    /// Restores which of these resources refuse requests in the place of rejected ones.
    pub fn restore_substituted(&mut self, held: impl IntoIterator<Item = (ResourceKey, Version)>) {
        for (key, version) in held {
            self.hold(key.clone(), None);
            self.substitutes.insert(key, version);
        }
    }

    /// The resources that refuse requests in the place of rejected ones.
    pub fn substituted(&self) -> impl Iterator<Item = &ResourceKey> {
        self.substitutes.keys()
    }

    /// The digest of all resources of a type: proxies with the same resources have the same digest.
    /// `None` before there are any.
    #[must_use]
    pub fn digest(&self, kind: Kind) -> Option<Version> {
        self.digests.get(&kind).copied()
    }

    /// Whether a complete configuration has been received since the process started.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Takes a response. Returns a batch once its last part has arrived.
    ///
    /// # Errors
    ///
    /// The response violates the protocol.
    pub fn receive(
        &mut self,
        response: DeltaDiscoveryResponse,
    ) -> Result<Option<Received>, ProtocolError> {
        let position = self.checked(&response)?;
        self.arriving.push(response);
        if position.part < position.parts {
            return Ok(None);
        }
        let parts = std::mem::take(&mut self.arriving);
        Ok(Some(self.batch(parts)))
    }

    fn checked(&self, response: &DeltaDiscoveryResponse) -> Result<Position, ProtocolError> {
        if Kind::from_type_url(&response.type_url).is_none() {
            return Err(ProtocolError::UnknownType(response.type_url.clone()));
        }
        if response.nonce.is_empty() {
            return Err(ProtocolError::NoNonce);
        }
        let parse = |text: &str| text.parse::<Position>().ok();
        let info = &response.system_version_info;
        let found = parse(info).filter(|it| it.parts <= PARTS);
        let found = found.ok_or_else(|| ProtocolError::NotAPart(info.clone()))?;
        let last = self.arriving.last();
        let last = last.and_then(|it| parse(&it.system_version_info));
        let expected = Position {
            part: last.map_or(0, |last| last.part).saturating_add(1),
            ..last.unwrap_or(found)
        };
        if found != expected {
            return Err(ProtocolError::OutOfOrder {
                found: found.to_string(),
                expected: expected.to_string(),
            });
        }
        Ok(found)
    }

    fn batch(&mut self, responses: Vec<DeltaDiscoveryResponse>) -> Received {
        let mut changes = BTreeMap::new();
        let (mut refused, mut applied_in_part) = (Vec::new(), Vec::new());
        let mut parts = Vec::new();
        let mut replaced = BTreeSet::new();
        let mut attachments = None;
        for response in responses {
            // A response of another type was not accepted.
            let Some(kind) = Kind::from_type_url(&response.type_url) else {
                continue;
            };
            self.missing.remove(&kind);
            if self.unreported.remove(&kind) {
                replaced.insert(kind);
            }
            let mut keys = BTreeSet::new();
            for name in response.removed_resources {
                let key = key(kind, &name);
                keys.insert(key.clone());
                changes.insert(key, Arrived::Valid(None));
            }
            for resource in response.resources {
                let key = key(kind, &resource.name);
                keys.insert(key.clone());
                match read(&key, &resource, self.check) {
                    Ok((version, mut resource, left_out)) => {
                        share_attachments(&mut resource, &mut attachments);
                        self.lists.share(&mut resource);
                        // The key of the resource, so that what is held shares its memory.
                        let key = resource.resource_key();
                        if let Some(text) = left_out {
                            let key = key.clone();
                            applied_in_part.push(Refusal { key, text });
                        }
                        changes.insert(key, Arrived::Valid(Some((version, resource))));
                    }
                    Err(text) => {
                        let substitute = substitute(&key, &resource);
                        changes.insert(key.clone(), Arrived::Refused(substitute));
                        refused.push(Refusal { key, text });
                    }
                }
            }
            parts.push(ReceivedPart {
                kind,
                nonce: response.nonce,
                keys,
            });
        }
        // The controller sent all of them, and cannot know what else was held.
        let held = self.held.keys().filter(|key| replaced.contains(&key.kind));
        for gone in held {
            let arrived = changes.entry(gone.clone());
            arrived.or_insert(Arrived::Valid(None));
        }
        self.lists.trim();
        let mut taken = self.objects.take(changes);
        let is_held = |key: &ResourceKey| self.held.contains_key(key);
        let needed = self.substitutes.needed(&mut taken, is_held);
        self.substitutes.explain(&mut refused, &needed);
        refused.append(&mut applied_in_part);
        received(taken, refused, needed, parts)
    }

    /// Acknowledges an applied batch. Resources that could not be applied although valid (an
    /// address that another process uses) are reported as rejected too.
    pub fn acknowledge(
        &mut self,
        received: Received,
        failed: Vec<Refusal>,
    ) -> Vec<DeltaDiscoveryRequest> {
        let Received {
            mut refused,
            versions,
            substitutes,
            parts,
            ..
        } = received;
        let in_part: BTreeSet<ResourceKey> = refused.iter().map(|it| it.key.clone()).collect();
        for (key, applied) in versions {
            let (version, effect) = applied.unzip();
            self.substitutes.record(&key, effect.flatten());
            match version {
                // The next stream sends what is applied in part again, so that its status stays.
                Some(_) if in_part.contains(&key) => self.hold(key, None),
                Some(version) => self.hold(key, Some(version)),
                None => self.release(&key),
            }
        }
        self.restore_substituted(substitutes);
        self.lists.trim();
        for refusal in failed {
            if self.held.contains_key(&refusal.key) {
                self.hold(refusal.key.clone(), None);
            }
            refused.push(refusal);
        }
        let acknowledgements = parts.into_iter().map(|part| {
            let own = refused.iter().filter(|it| part.keys.contains(&it.key));
            let mut own = own.peekable();
            let error_detail = own.peek().is_some().then(|| refusal::status(own));
            DeltaDiscoveryRequest {
                type_url: part.kind.type_url().to_owned(),
                response_nonce: part.nonce,
                error_detail,
                ..DeltaDiscoveryRequest::default()
            }
        });
        acknowledgements.collect()
    }

    /// Records a held resource; without a version if it could not be applied.
    fn hold(&mut self, key: ResourceKey, version: Option<Version>) {
        let digest = self.digests.entry(key.kind).or_default();
        digest.toggle(version);
        // The new key is one that the new resource shares; an insertion would keep the old one.
        digest.toggle(self.held.remove(&key).flatten());
        self.held.insert(key, version);
    }

    fn release(&mut self, key: &ResourceKey) {
        if let Some(version) = self.held.remove(key) {
            self.digests.entry(key.kind).or_default().toggle(version);
        }
    }
}

/// Shares the listeners of a rule with the rule before it, if they are the same: a batch has the rules of a
/// route one after the other.
fn share_attachments(resource: &mut model::Resource, last: &mut Option<Attachments>) {
    let model::Resource::Route(route) = resource else {
        return;
    };
    match last {
        Some(last) if *last == route.attachments => {
            Arc::make_mut(route).attachments = last.clone();
        }
        _ => *last = Some(route.attachments.clone()),
    }
}

fn received(
    taken: Taken,
    refused: Vec<Refusal>,
    needed: Needed,
    parts: Vec<ReceivedPart>,
) -> Received {
    let mut changes = Vec::with_capacity(taken.changes.len());
    let mut versions = Vec::with_capacity(taken.changes.len());
    for (key, change) in taken.changes {
        let applied = change.as_ref();
        let applied = applied.map(|(version, resource)| (*version, Effect::of(resource)));
        versions.push((key.clone(), applied));
        changes.push((key, change.map(|(_, resource)| resource)));
    }
    let mut substitutes = BTreeMap::new();
    for (version, substitute) in needed.new {
        let key = substitute.resource_key();
        substitutes.insert(key.clone(), version);
        changes.push((key, Some(substitute)));
    }
    Received {
        changes,
        refused,
        versions,
        substitutes,
        parts,
    }
}

/// What takes the place of a rejected resource without a previous version.
fn substitute(key: &ResourceKey, resource: &discovery::Resource) -> Option<Substitute> {
    let message = resource.resource.as_ref()?;
    Some(Substitute {
        resource: decode::substitute(key.kind, &key.key, &message.value)?,
        restricts: decode::restrictions(key.kind, &message.value),
    })
}

/// Decodes a resource, and says what is left out of it; or returns its problems.
fn read(
    key: &ResourceKey,
    resource: &discovery::Resource,
    check: Check,
) -> Result<(Version, model::Resource, Option<String>), String> {
    let version = resource.version.parse::<Version>();
    let version = version.map_err(|error| error.to_string())?;
    let Some(message) = &resource.resource else {
        return Err("it has a version but no content".to_owned());
    };
    let decoded = decode::decoded(key.kind, &message.value).map_err(|it| it.to_string())?;
    let left_out = decoded.left_out.map(|it| {
        format!("{it}; what this names is left out, and the rest of the policy is applied")
    });
    let decoded = decoded.resource;
    if decoded.key() != &*key.key {
        return Err(format!("its content is named `{}`", decoded.key()));
    }
    check(&decoded)?;
    Ok((version, decoded, left_out))
}

fn key(kind: Kind, name: &str) -> ResourceKey {
    ResourceKey {
        kind,
        key: name.into(),
    }
}
