//! The proxy's side: collects the parts of a batch, says what to apply, and answers.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::batch::Position;
use super::encoded::Version;
use super::limits::PARTS;
use super::objects::{self, Objects};
use super::refusal::{self, Refusal};
use crate::decode;
use crate::discovery::{self, DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};
use crate::model::{self, Kind, ResourceKey};

/// Says why a valid resource cannot be carried out by this proxy.
pub type Check = fn(&model::Resource) -> Result<(), String>;

/// What a proxy holds, and the batch that is arriving. It outlives streams.
#[derive(Debug)]
pub struct Client {
    node: String,
    /// Versions of what is in force; none for what could not be carried out, so that it is sent
    /// again to the next stream.
    held: BTreeMap<ResourceKey, Option<Version>>,
    /// Of each type, all versions that are held.
    digests: BTreeMap<Kind, Version>,
    /// Whether a valid resource can be carried out here.
    check: Check,
    objects: Objects,
    arriving: Vec<DeltaDiscoveryResponse>,
    /// Types of which nothing was received yet.
    missing: BTreeSet<Kind>,
}

/// A whole batch. Apply its changes, all at once, and pass it to [`Client::answer`].
#[derive(Debug)]
#[must_use = "the controller waits for an answer"]
pub struct Received {
    /// What to apply.
    pub changes: Vec<model::Change>,
    /// What was refused. The previous versions stay in force.
    pub refused: Vec<Refusal>,
    versions: Vec<(ResourceKey, Option<Version>)>,
    parts: Vec<ReceivedPart>,
}

#[derive(Debug)]
struct ReceivedPart {
    kind: Kind,
    nonce: String,
    keys: BTreeSet<ResourceKey>,
}

/// A response that breaks the protocol: end the stream.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// Of a type that nobody asked for.
    #[error("the controller sent resources of the unknown type `{0}`")]
    UnknownType(String),
    /// Without a nonce.
    #[error("the controller sent a response without a nonce")]
    NoNonce,
    /// Not a part of a batch.
    #[error("the controller sent `{0}` where `<sequence>/<part>/<parts>` is expected")]
    NotAPart(String),
    /// Not the part that comes next.
    #[error("the controller sent part `{found}` of a batch where `{expected}` comes next")]
    NotNext {
        /// What came.
        found: String,
        /// What was expected.
        expected: String,
    },
}

impl Client {
    /// A client that calls itself `node` and holds nothing.
    #[must_use]
    pub fn new(node: String) -> Self {
        Self::with_check(node, |_| Ok(()))
    }

    /// The same, which also refuses what `check` says cannot be carried out.
    #[must_use]
    pub fn with_check(node: String, check: Check) -> Self {
        Self {
            node,
            held: BTreeMap::new(),
            digests: BTreeMap::new(),
            check,
            objects: Objects::default(),
            arriving: Vec::new(),
            missing: Kind::ALL.into(),
        }
    }

    /// Says that a whole configuration of an earlier process is in force again: resources with
    /// their versions, and none for those that could not be carried out.
    pub fn restore(&mut self, held: impl IntoIterator<Item = (ResourceKey, Option<Version>)>) {
        self.missing.clear();
        for (key, version) in held {
            self.hold(key, version);
        }
    }

    /// The version of all resources of a type together: proxies that hold the same have the same.
    /// `None` before there is any.
    #[must_use]
    pub fn digest(&self, kind: Kind) -> Option<Version> {
        self.digests.get(&kind).copied()
    }

    /// Begins a stream: subscribes to everything, and says what is held. What an earlier stream
    /// left unfinished is forgotten.
    pub fn connect(&mut self) -> Vec<DeltaDiscoveryRequest> {
        self.arriving.clear();
        self.objects.clear();
        let requests = Kind::ALL.into_iter().map(|kind| DeltaDiscoveryRequest {
            node: Some(Node {
                id: self.node.clone(),
            }),
            type_url: kind.type_url().to_owned(),
            initial_resource_versions: self
                .held
                .iter()
                .filter(|(key, _)| key.kind == kind)
                .map(|(key, version)| {
                    let version = version.map_or_else(String::new, |it| it.to_string());
                    (key.key.to_string(), version)
                })
                .collect(),
            ..DeltaDiscoveryRequest::default()
        });
        requests.collect()
    }

    /// Whether a whole configuration has been received, since the process began.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Takes a response. Returns a batch when its last part has arrived.
    ///
    /// # Errors
    /// It breaks the protocol.
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
            return Err(ProtocolError::NotNext {
                found: found.to_string(),
                expected: expected.to_string(),
            });
        }
        Ok(found)
    }

    fn batch(&mut self, responses: Vec<DeltaDiscoveryResponse>) -> Received {
        let mut changes = BTreeMap::new();
        let mut refused = Vec::new();
        let mut parts = Vec::new();
        for response in responses {
            // A response of another type was not taken.
            let Some(kind) = Kind::from_type_url(&response.type_url) else {
                continue;
            };
            self.missing.remove(&kind);
            let mut keys = BTreeSet::new();
            for name in response.removed_resources {
                let key = key(kind, &name);
                keys.insert(key.clone());
                changes.insert(key, Some(None));
            }
            for resource in response.resources {
                let key = key(kind, &resource.name);
                keys.insert(key.clone());
                match read(&key, &resource, self.check) {
                    Ok(read) => drop(changes.insert(key, Some(Some(read)))),
                    Err(text) => {
                        changes.insert(key.clone(), None);
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
        received(self.objects.take(changes), refused, parts)
    }

    /// Answers a batch that was applied. What could not be carried out although it is valid (an
    /// address that another process has) is told as refused too.
    pub fn answer(
        &mut self,
        received: Received,
        failed: Vec<Refusal>,
    ) -> Vec<DeltaDiscoveryRequest> {
        let Received {
            mut refused,
            versions,
            parts,
            ..
        } = received;
        for (key, version) in versions {
            match version {
                Some(version) => self.hold(key, Some(version)),
                None => self.release(&key),
            }
        }
        for refusal in failed {
            if self.held.contains_key(&refusal.key) {
                self.hold(refusal.key.clone(), None);
            }
            refused.push(refusal);
        }
        let answers = parts.into_iter().map(|part| {
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
        answers.collect()
    }

    /// Notes that a resource is held, in a version unless it could not be carried out.
    fn hold(&mut self, key: ResourceKey, version: Option<Version>) {
        let digest = self.digests.entry(key.kind).or_default();
        digest.toggle(version);
        digest.toggle(self.held.insert(key, version).flatten());
    }

    fn release(&mut self, key: &ResourceKey) {
        if let Some(version) = self.held.remove(key) {
            self.digests.entry(key.kind).or_default().toggle(version);
        }
    }
}

fn received(
    applied: BTreeMap<ResourceKey, objects::Change>,
    refused: Vec<Refusal>,
    parts: Vec<ReceivedPart>,
) -> Received {
    let mut changes = Vec::with_capacity(applied.len());
    let mut versions = Vec::with_capacity(applied.len());
    for (key, change) in applied {
        let (version, resource) = change.unzip();
        versions.push((key.clone(), version));
        changes.push((key, resource));
    }
    Received {
        changes,
        refused,
        versions,
        parts,
    }
}

/// Reads a resource, or says what is wrong with it.
fn read(
    key: &ResourceKey,
    resource: &discovery::Resource,
    check: Check,
) -> Result<(Version, model::Resource), String> {
    let version = resource.version.parse::<Version>();
    let version = version.map_err(|error| error.to_string())?;
    let Some(message) = &resource.resource else {
        return Err("it has a version and no content".to_owned());
    };
    let decoded = decode::resource(key.kind, &message.value).map_err(|it| it.to_string())?;
    if decoded.key() != &*key.key {
        return Err(format!("its content says that it is `{}`", decoded.key()));
    }
    check(&decoded)?;
    Ok((version, decoded))
}

fn key(kind: Kind, name: &str) -> ResourceKey {
    ResourceKey {
        kind,
        key: name.into(),
    }
}
