//! The session keys of a Gateway as its Secret keeps them, and how they follow one another. Pure: time and randomness
//! are passed in.
//!
//! A new key is first accepted. When all proxies have it, it signs, and the one before stays accepted for the longest
//! lifetime of a session token.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use xds::model::{SessionKey, SessionKeys};

/// Keys, the newest first: at most one that is accepted before it signs, the one that signs, and those that it
/// replaced.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct StoredKeys(Vec<StoredKey>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct StoredKey {
    key: SessionKey,
    role: Role,
    /// When it got this role.
    since: Timestamp,
}

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Role {
    /// Its tokens are valid, and it is going to sign.
    Accepted,
    /// It signs.
    Signing,
    /// It signed before.
    Replaced,
}

/// Where the next key of a Gateway comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeySource {
    /// Chance, each time that a key is old or another one is asked for.
    Own,
    /// A Secret of the user.
    Given(SessionKey),
    /// A Secret of the user that cannot be read: the keys stay.
    Unknown,
}

/// What the keys depend on.
pub(super) struct Inputs<'a> {
    pub(super) source: &'a KeySource,
    /// Whether another key was asked for.
    pub(super) is_asked_for: bool,
    /// Whether every proxy has the keys as they are.
    pub(super) is_applied: bool,
    /// The longest lifetime of a session token.
    pub(super) token_lifetime: Duration,
    pub(super) now: Timestamp,
}

/// What happened to the keys, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// There is a key that is accepted and does not sign yet.
    Announced,
    /// It signs.
    Switched,
    /// Keys that are not used any longer were removed.
    Forgotten,
}

/// Why the content of a Secret is not a list of session keys. Never contains any of it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum InvalidKeys {
    #[error("its entry `{ENTRY}` is missing")]
    Missing,
    #[error(
        "its entry `{ENTRY}` is not a list of keys in JSON as this program writes it (line {0}, column {1})"
    )]
    Json(usize, usize),
    #[error("key {0} of its entry `{ENTRY}` is not one of 32 to 4096 bytes in base64")]
    Key(usize),
    #[error(
        "its entry `{ENTRY}` has not 1 to 8 keys, of which one signs, after one that is accepted at most"
    )]
    Order,
}

#[derive(Serialize, Deserialize)]
struct WrittenKey {
    key: String,
    role: Role,
    since: Timestamp,
}

impl StoredKeys {
    /// The first key of a Gateway, which signs at once.
    pub(super) fn first(key: SessionKey, now: Timestamp) -> Self {
        Self(vec![StoredKey {
            key,
            role: Role::Signing,
            since: now,
        }])
    }

    /// Reads the entry of a Secret.
    pub(super) fn parse(entry: Option<&[u8]>) -> Result<Self, InvalidKeys> {
        let entry = entry.ok_or(InvalidKeys::Missing)?;
        // The text of the error could quote the content.
        let written: Vec<WrittenKey> = serde_json::from_slice(entry)
            .map_err(|error| InvalidKeys::Json(error.line(), error.column()))?;
        let keys = written.into_iter().enumerate().map(|(index, written)| {
            let key = STANDARD.decode(written.key).ok();
            let key = key.and_then(|bytes| SessionKey::new(&bytes).ok());
            Ok(StoredKey {
                key: key.ok_or(InvalidKeys::Key(index))?,
                role: written.role,
                since: written.since,
            })
        });
        let keys: Vec<StoredKey> = keys.collect::<Result<_, _>>()?;
        let count = |role| keys.iter().filter(|it| it.role == role).count();
        let is_ordered = keys.is_sorted_by_key(|it| it.role)
            && count(Role::Signing) == 1
            && count(Role::Accepted) <= 1
            && keys.len() <= SessionKeys::MAX;
        is_ordered.then_some(Self(keys)).ok_or(InvalidKeys::Order)
    }

    /// The entry of a Secret.
    pub(super) fn entry(&self) -> Vec<u8> {
        let written = self.0.iter().map(|it| WrittenKey {
            key: STANDARD.encode(it.key.secret()),
            role: it.role,
            since: it.since,
        });
        let written: Vec<WrittenKey> = written.collect();
        // Plain data always converts to JSON.
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// The keys for proxies.
    pub(super) fn for_proxies(&self) -> Option<SessionKeys> {
        let keys = self.0.iter().map(|it| it.key.clone());
        SessionKeys::new(keys.collect(), self.signing()).ok()
    }

    /// The keys after the next step, if one is due.
    pub(super) fn next(
        &self,
        inputs: &Inputs<'_>,
        random: impl FnOnce() -> Option<SessionKey>,
    ) -> Option<(Self, Step)> {
        let mut next = self.clone();
        let Inputs { now, .. } = *inputs;
        if let Some(key) = self.wanted(inputs, random) {
            next.announce(key, now);
            return Some((next, Step::Announced));
        }
        if self.signing() > 0 && inputs.is_applied {
            next.switch(now);
            return Some((next, Step::Switched));
        }
        let is_used = |it: &StoredKey| {
            it.role != Role::Replaced || elapsed(it.since, now) <= inputs.token_lifetime
        };
        next.0.retain(is_used);
        (next != *self).then_some((next, Step::Forgotten))
    }

    /// The key that has to be announced.
    fn wanted(
        &self,
        inputs: &Inputs<'_>,
        random: impl FnOnce() -> Option<SessionKey>,
    ) -> Option<SessionKey> {
        let newest = self.0.first()?;
        match inputs.source {
            KeySource::Given(key) => (newest.key != *key).then(|| key.clone()),
            KeySource::Own if newest.role == Role::Signing => {
                let is_old = elapsed(newest.since, inputs.now) >= KEY_LIFETIME;
                (is_old || inputs.is_asked_for).then(random).flatten()
            }
            KeySource::Own | KeySource::Unknown => None,
        }
    }

    /// Adds a key that is accepted, in the place of one that is not used yet.
    fn announce(&mut self, key: SessionKey, since: Timestamp) {
        self.0
            .retain(|it| it.role != Role::Accepted && (it.role == Role::Signing || it.key != key));
        if self.0.first().is_some_and(|signing| signing.key == key) {
            return;
        }
        let role = Role::Accepted;
        self.0.insert(0, StoredKey { key, role, since });
        self.0.truncate(SessionKeys::MAX);
    }

    /// The newest key signs in the place of the one before.
    fn switch(&mut self, now: Timestamp) {
        for (key, role) in self.0.iter_mut().zip([Role::Signing, Role::Replaced]) {
            (key.role, key.since) = (role, now);
        }
    }

    /// Index of the key that signs.
    fn signing(&self) -> usize {
        let mut keys = self.0.iter();
        keys.position(|it| it.role == Role::Signing)
            .unwrap_or_default()
    }

    /// Whether there is a key that was replaced longer ago than this.
    pub(super) fn has_replaced(&self, age: Duration, now: Timestamp) -> bool {
        let mut keys = self.0.iter();
        keys.any(|it| it.role == Role::Replaced && elapsed(it.since, now) > age)
    }

    /// For how long a key has been accepted that does not sign yet.
    pub(super) fn waits_since(&self) -> Option<Timestamp> {
        let newest = self.0.first()?;
        (newest.role == Role::Accepted).then_some(newest.since)
    }
}

/// The ids and roles.
impl fmt::Debug for StoredKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.0.iter().map(|it| (it.key.id().to_string(), it.role));
        f.debug_list().entries(keys).finish()
    }
}

/// The time since then; none if the clock was set back.
fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// The entry of a Secret with its keys.
pub(super) const ENTRY: &str = "keys";
/// Age at which a generated key is replaced: 30 days.
const KEY_LIFETIME: Duration = Duration::from_hours(24 * 30);

#[cfg(test)]
mod tests;
