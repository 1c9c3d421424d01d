//! Keys that tokens name and their issuers do not have, or do not have yet.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use super::source::{KeySource, Reply, SourceId};
use super::{KeySet, Refusal};
use crate::limits::{JWKS_UNKNOWN_KEY_TTL, JWKS_UNKNOWN_KEYS};

/// Why a request is not authenticated, or not yet.
#[derive(Debug)]
pub struct TokenError {
    /// Why the token is not accepted.
    pub refusal: Refusal,
    /// The unknown key that the token needs, if it may be fetched soon.
    pub missing: Option<MissingKey>,
}

impl TokenError {
    /// The decision on a token of an issuer whose keys are not known. They are waited for during the
    /// first fetch only: an issuer that does not respond would make every request wait.
    pub(super) fn without_keys(source: &Arc<KeySource>) -> Self {
        let missing = source.first_fetch().map(|fetch| MissingKey {
            source: Arc::clone(source),
            hash: None,
            version: None,
            fetch,
        });
        Self {
            refusal: Refusal::NoKeys,
            missing,
        }
    }
}

impl From<Refusal> for TokenError {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            missing: None,
        }
    }
}

/// A key that was requested from an issuer.
#[derive(Debug)]
pub struct MissingKey {
    source: Arc<KeySource>,
    /// The hash under which a shard remembers it; `None` while no key of the issuer is known.
    hash: Option<u64>,
    /// Version of the key set that lacks it; `None` before the first one.
    version: Option<u64>,
    /// Number of the fetch to wait for.
    fetch: u64,
}

impl MissingKey {
    /// The source of the keys that it is awaited from.
    #[must_use]
    pub fn source(&self) -> SourceId {
        self.source.id()
    }

    /// Whether the token should be checked again.
    #[must_use]
    pub fn reply(&self, now: i64) -> Reply {
        match self.source.reply(self.fetch) {
            Reply::Pending if self.source.version(now) != self.version => Reply::Changed,
            reply => reply,
        }
    }
}

/// Keys that are known not to exist, by hash; a new one takes the place of an older one.
#[derive(Debug, Default)]
pub(super) struct UnknownKeys {
    hasher: RandomState,
    /// None before the first, then all.
    slots: Vec<Unknown>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Unknown {
    hash: u64,
    /// In seconds of Unix time.
    until: i64,
}

impl UnknownKeys {
    /// The decision on a token that names an unknown key.
    pub(super) fn deny(
        &self,
        source: &Arc<KeySource>,
        keys: &KeySet,
        key: &str,
        now: i64,
    ) -> TokenError {
        let hash = self.hasher.hash_one((source.id(), key));
        let slot = self.slots.get(self.location(hash));
        if slot.is_some_and(|unknown| unknown.hash == hash && now < unknown.until) {
            return Refusal::Key.into();
        }
        match source.request_keys(now) {
            Some(fetch) => TokenError {
                refusal: Refusal::Key,
                missing: Some(MissingKey {
                    source: Arc::clone(source),
                    hash: Some(hash),
                    version: Some(keys.version()),
                    fetch,
                }),
            },
            // It may be a valid key that cannot be requested now.
            None if source.is_failing() => Refusal::NoKeys.into(),
            None => Refusal::Key.into(),
        }
    }

    /// Records that there is no such key.
    pub(super) fn record(&mut self, key: &MissingKey, now: i64) {
        let Some(hash) = key.hash else {
            return;
        };
        self.slots.resize_with(JWKS_UNKNOWN_KEYS, Unknown::default);
        let location = self.location(hash);
        if let Some(slot) = self.slots.get_mut(location) {
            *slot = Unknown {
                hash,
                until: now.saturating_add(JWKS_UNKNOWN_KEY_TTL.as_secs().cast_signed()),
            };
        }
    }

    fn location(&self, hash: u64) -> usize {
        let location = usize::try_from(hash).unwrap_or(usize::MAX);
        location.checked_rem(self.slots.len()).unwrap_or_default()
    }
}
