//! A batch of changes as responses: one for each type, or several for large ones.
//!
//! Responses are encoded without their nonce, which is all that differs between connections.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use prost::Message;

use super::encoded::{Encoded, Version};
use crate::discovery::{Any, DeltaDiscoveryResponse, Resource};
use crate::limits::PART_BYTES;
use crate::model::{Kind, ResourceKey};

/// One changed resource of a view; `None` if removed.
pub(super) type Entry = (ResourceKey, Option<Arc<Encoded>>);

/// All changes up to a position in the log of a view. It is encoded when its first receiver asks for its parts,
/// which may take long: not while the views are held.
#[derive(Debug)]
pub(super) struct Batch {
    /// Position in the log.
    pub(super) sequence: u64,
    is_empty: bool,
    /// What is to be encoded.
    changes: Mutex<(Vec<Entry>, Vec<Kind>)>,
    parts: OnceLock<Vec<Part>>,
}

#[derive(Debug)]
pub(super) struct Part {
    pub(super) kind: Kind,
    /// Keys of its resources with their versions; no version for removed ones.
    pub(super) resources: Vec<(ResourceKey, Option<Version>)>,
    body: Bytes,
}

impl Batch {
    /// The batch of these changes. Each type in `announced` gets a response even without changes: it signals to
    /// the client that its state is complete.
    pub(super) fn new(sequence: u64, changes: Vec<Entry>, announced: &[Kind]) -> Self {
        Self {
            sequence,
            is_empty: changes.is_empty() && announced.is_empty(),
            changes: Mutex::new((changes, announced.to_vec())),
            parts: OnceLock::new(),
        }
    }

    /// Whether it has no parts.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Its responses. They are encoded once.
    pub(super) fn parts(&self) -> &[Part] {
        self.parts.get_or_init(|| {
            let changes = self.changes.lock();
            let mut changes = changes.unwrap_or_else(PoisonError::into_inner);
            let (changes, announced) = std::mem::take(&mut *changes);
            encoded(self.sequence, changes, &announced)
        })
    }
}

/// The responses for changes.
fn encoded(sequence: u64, mut changes: Vec<Entry>, announced: &[Kind]) -> Vec<Part> {
    changes.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut chunks: Vec<(Kind, &[Entry])> = Vec::new();
    let mut rest = &*changes;
    for kind in Kind::ALL {
        let count = rest.partition_point(|(key, _)| key.kind == kind);
        let (own, others) = rest.split_at(count);
        rest = others;
        if own.is_empty() && announced.contains(&kind) {
            chunks.push((kind, own));
        }
        chunks.extend(chunked(own).map(|chunk| (kind, chunk)));
    }
    let parts = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
    let numbered = (1..).zip(chunks);
    let encode = |(part, (kind, entries))| {
        let position = Position {
            sequence,
            part,
            parts,
        };
        Part::new(position, kind, entries)
    };
    numbered.map(encode).collect()
}

/// Splits entries into runs that fit into one response each.
fn chunked(entries: &[Entry]) -> impl Iterator<Item = &[Entry]> {
    let mut size = entries.first().map_or(0, sent_bytes);
    entries.chunk_by(move |_, next| {
        let added = sent_bytes(next);
        size = size.saturating_add(added);
        let fits = size <= PART_BYTES;
        if !fits {
            size = added;
        }
        fits
    })
}

fn sent_bytes((key, value): &Entry) -> usize {
    let bytes = value.as_ref().map_or(0, |encoded| encoded.bytes.len());
    bytes.saturating_add(key.key.len()).saturating_add(OVERHEAD)
}

impl Part {
    /// The resource of this key, with the version that was sent, if it is in the batch.
    pub(super) fn sent(&self, key: &ResourceKey) -> Option<&(ResourceKey, Option<Version>)> {
        let at = self.resources.binary_search_by(|(it, _)| it.cmp(key));
        at.ok().and_then(|at| self.resources.get(at))
    }

    fn new(position: Position, kind: Kind, entries: &[Entry]) -> Self {
        let mut response = DeltaDiscoveryResponse {
            system_version_info: position.to_string(),
            type_url: kind.type_url().to_owned(),
            ..DeltaDiscoveryResponse::default()
        };
        for (key, value) in entries {
            match value {
                Some(encoded) => response.resources.push(Resource {
                    version: encoded.version.to_string(),
                    resource: Some(Any {
                        type_url: kind.type_url().to_owned(),
                        value: encoded.bytes.clone(),
                    }),
                    name: key.key.to_string(),
                }),
                None => response.removed_resources.push(key.key.to_string()),
            }
        }
        let versions = entries.iter().map(|(key, value)| {
            let version = value.as_ref().map(|encoded| encoded.version);
            (key.clone(), version)
        });
        Self {
            kind,
            resources: versions.collect(),
            body: response.encode_to_vec().into(),
        }
    }

    /// The response with its nonce.
    pub(super) fn with_nonce(&self, nonce: &str) -> Outgoing {
        let tail = DeltaDiscoveryResponse {
            nonce: nonce.to_owned(),
            ..DeltaDiscoveryResponse::default()
        };
        Outgoing {
            kind: Some(self.kind),
            body: self.body.clone(),
            tail: tail.encode_to_vec().into(),
        }
    }
}

/// A `DeltaDiscoveryResponse` to send: both parts of its encoded form, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The kind of its resources; `None` for a type unknown to this version.
    pub kind: Option<Kind>,
    /// Everything but the nonce, shared by all connections that receive the same response.
    pub body: Bytes,
    /// The nonce. Protobuf fields may come in any order.
    pub tail: Bytes,
}

/// A response without resources for a type unknown to this version, as a batch of its own.
pub(super) fn empty(type_url: String, sequence: u64, nonce: String) -> Outgoing {
    let position = Position {
        sequence,
        part: 1,
        parts: 1,
    };
    let response = DeltaDiscoveryResponse {
        system_version_info: position.to_string(),
        type_url,
        nonce,
        ..DeltaDiscoveryResponse::default()
    };
    Outgoing {
        kind: None,
        body: response.encode_to_vec().into(),
        tail: Bytes::new(),
    }
}

/// The question for what a proxy holds of a type: its digest is not that of the view.
pub(super) fn question(kind: Kind, nonce: String) -> Outgoing {
    let response = DeltaDiscoveryResponse {
        type_url: kind.type_url().to_owned(),
        nonce,
        report_versions: true,
        ..DeltaDiscoveryResponse::default()
    };
    Outgoing {
        kind: Some(kind),
        body: response.encode_to_vec().into(),
        tail: Bytes::new(),
    }
}

/// The position of a response in its batch: `<sequence>/<part>/<parts>`, counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) sequence: u64,
    pub(super) part: u32,
    pub(super) parts: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sequence,
            part,
            parts,
        } = self;
        write!(f, "{sequence}/{part}/{parts}")
    }
}

impl FromStr for Position {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text.split('/').map(str::parse::<u64>);
        let mut next = || numbers.next().and_then(Result::ok).ok_or(());
        let (sequence, part, parts) = (next()?, next()?, next()?);
        let position = Self {
            sequence,
            part: part.try_into().map_err(|_| ())?,
            parts: parts.try_into().map_err(|_| ())?,
        };
        let is_valid = numbers.next().is_none() && (1..=position.parts).contains(&position.part);
        is_valid.then_some(position).ok_or(())
    }
}

/// Bytes of a resource in a response besides its message and name: type URL, version, lengths.
const OVERHEAD: usize = 96;
