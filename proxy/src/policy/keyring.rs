//! The keys that authenticate session tokens, derived from those of the Gateway or of the process.

use std::fmt;

use ring::hmac;
use xds::model::{SessionKey, SessionKeyId, SessionKeys};

/// The keys of session tokens: those that are accepted, and the one that signs. Immutable: a part of the snapshot,
/// so that shards read it without a lock.
#[derive(Default)]
pub struct Keyring {
    /// The newest first.
    keys: Box<[TokenKey]>,
    signing: usize,
}

/// A key that authenticates tokens.
pub(crate) struct TokenKey {
    pub(crate) id: SessionKeyId,
    pub(crate) hmac: hmac::Key,
}

/// Whether a token has to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAge {
    /// Its key signs, or will.
    Current,
    /// Its key was replaced, and is going to be forgotten.
    Replaced,
}

impl Keyring {
    /// The keys of tokens for these keys.
    #[must_use]
    pub fn new(keys: &SessionKeys) -> Self {
        Self {
            keys: keys.accepted().iter().map(TokenKey::of).collect(),
            signing: keys.signing(),
        }
    }

    /// Whether there are none, as before the first configuration.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key that signs; `None` before there is one.
    pub(crate) fn signing(&self) -> Option<&TokenKey> {
        self.keys.get(self.signing)
    }

    /// The accepted keys of this id. Two of one id are unlikely, not impossible.
    pub(crate) fn of_id(&self, id: SessionKeyId) -> impl Iterator<Item = (&TokenKey, KeyAge)> {
        let keys = self.keys.iter().enumerate();
        keys.filter(move |(_, key)| key.id == id)
            .map(|(index, key)| {
                let age = if index > self.signing {
                    KeyAge::Replaced
                } else {
                    KeyAge::Current
                };
                (key, age)
            })
    }
}

impl TokenKey {
    fn of(key: &SessionKey) -> Self {
        Self {
            id: key.id(),
            hmac: hmac::Key::new(hmac::HMAC_SHA256, &key.derive(PURPOSE)),
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.keys.iter().map(|key| key.id);
        f.debug_list().entries(ids).finish()
    }
}

/// What the keys are for: session persistence.
const PURPOSE: &str = "session persistence";
