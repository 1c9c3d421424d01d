//! The session keys of a Gateway, from which its proxies derive what authenticates session tokens.
//!
//! All proxies of a Gateway have the same keys, so a token of one is valid at the others. To replace a
//! key, the next one is first accepted by all of them, and signs only then.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hkdf;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use thiserror::Error;

/// A secret of 32 to 4096 bytes. Never shown: `Debug` and JSON contain its id.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey(Arc<[u8]>);

/// What a text or file with a key contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKeyForm {
    /// 32 bytes in base64.
    Base64,
    /// The bytes of the key themselves.
    Raw,
}

/// Why a text or file is not a session key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "a session key has 32 to 4096 bytes, and this one has {0}: create one with `openssl rand -base64 32`"
)]
pub struct InvalidSessionKey(usize);

impl SessionKey {
    /// Takes the bytes as they are.
    ///
    /// # Errors
    ///
    /// There are fewer than 32 or more than 4096.
    pub fn new(bytes: &[u8]) -> Result<Self, InvalidSessionKey> {
        if (MIN_BYTES..=MAX_BYTES).contains(&bytes.len()) {
            Ok(Self(bytes.into()))
        } else {
            Err(InvalidSessionKey(bytes.len()))
        }
    }

    /// The key in the content of a file or Secret: 32 bytes in base64, with or without spaces and line ends
    /// around them, or else the content itself.
    ///
    /// # Errors
    ///
    /// It is neither.
    pub fn parse(content: &[u8]) -> Result<(Self, SessionKeyForm), InvalidSessionKey> {
        let decoded = STANDARD.decode(content.trim_ascii());
        match decoded {
            Ok(bytes) if bytes.len() == MIN_BYTES => {
                Ok((Self::new(&bytes)?, SessionKeyForm::Base64))
            }
            _ => Ok((Self::new(content)?, SessionKeyForm::Raw)),
        }
    }

    /// The secret bytes: only for the wire form and the Secret that keeps them.
    #[must_use]
    pub fn secret(&self) -> &[u8] {
        &self.0
    }

    /// A key of 32 bytes for one purpose (HKDF-SHA256, RFC 5869). Those of different purposes are independent.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT);
        let mut derived = [0; 32];
        // Fails only for outputs of more than 255 hashes.
        let filled = salt
            .extract(&self.0)
            .expand(&[purpose.as_bytes()], hkdf::HKDF_SHA256)
            .and_then(|key| key.fill(&mut derived));
        debug_assert!(filled.is_ok(), "32 bytes are one hash");
        derived
    }

    /// Identifies the key in tokens, dumps and logs, without saying anything about its bytes.
    #[must_use]
    pub fn id(&self) -> SessionKeyId {
        let [a, b, c, d, ..] = self.derive("id");
        SessionKeyId([a, b, c, d])
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionKey({})", self.id())
    }
}

/// The id of a session key: 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKeyId(pub [u8; 4]);

impl fmt::Display for SessionKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

/// The keys that proxies accept, the newest first, and the one that signs. Build with [`SessionKeys::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionKeys {
    keys: Arc<[SessionKey]>,
    signing: usize,
}

/// Why session keys are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidSessionKeys {
    /// There are too many, or none.
    #[error("has {0} keys: 1 to 8 are allowed")]
    Count(usize),
    /// The one that signs is not among them.
    #[error("the key that signs is not among them")]
    Signing,
}

impl SessionKeys {
    /// Most keys of a Gateway: one that is accepted before it signs, the one that signs, and those that were
    /// replaced within the longest lifetime of a session.
    pub const MAX: usize = 8;

    /// These keys, the newest first, of which the one at `signing` signs.
    ///
    /// # Errors
    ///
    /// There are none or more than [`SessionKeys::MAX`], or none is at `signing`.
    pub fn new(keys: Vec<SessionKey>, signing: usize) -> Result<Self, InvalidSessionKeys> {
        if keys.is_empty() || keys.len() > Self::MAX {
            return Err(InvalidSessionKeys::Count(keys.len()));
        }
        if signing >= keys.len() {
            return Err(InvalidSessionKeys::Signing);
        }
        let keys = keys.into();
        Ok(Self { keys, signing })
    }

    /// The accepted keys, the newest first.
    #[must_use]
    pub fn accepted(&self) -> &[SessionKey] {
        &self.keys
    }

    /// Index of the key that signs.
    #[must_use]
    pub fn signing(&self) -> usize {
        self.signing
    }
}

/// The ids of the keys, and which one signs.
impl Serialize for SessionKeys {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ids = self.keys.iter().map(|key| key.id().to_string());
        let ids: Vec<String> = ids.collect();
        let mut map = serializer.serialize_struct("SessionKeys", 2)?;
        map.serialize_field("accepted", &ids)?;
        map.serialize_field("signing", &ids.get(self.signing))?;
        map.end()
    }
}

const MIN_BYTES: usize = 32;
const MAX_BYTES: usize = 4096;
/// Separates keys of this program from others that are derived from the same secret.
const SALT: &[u8] = b"gateway-system.io/session-key/v1";

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> SessionKey {
        SessionKey::new(&[byte; 32]).expect("a key")
    }

    #[test]
    fn a_key_is_32_bytes_in_base64_or_at_least_as_many_raw_ones() {
        let text = STANDARD.encode([7; 32]);
        for content in [text.clone(), format!("{text}\n"), format!(" {text}\r\n")] {
            let parsed = SessionKey::parse(content.as_bytes());
            assert_eq!(parsed, Ok((key(7), SessionKeyForm::Base64)), "{content:?}");
        }
        // More than 32 bytes in base64 is a text like any other.
        let longer = STANDARD.encode([7; 33]);
        for content in [longer.as_bytes(), &[0xff; 32], &[b'a'; MAX_BYTES]] {
            let raw = SessionKey::new(content).expect("a key");
            assert_eq!(SessionKey::parse(content), Ok((raw, SessionKeyForm::Raw)));
        }
        for length in [0, 31, MAX_BYTES + 1] {
            let content = vec![0xff; length];
            assert_eq!(SessionKey::parse(&content), Err(InvalidSessionKey(length)));
        }
    }

    #[test]
    fn keys_of_different_purposes_differ() {
        let derived = [key(1).derive("a"), key(1).derive("b"), key(2).derive("a")];
        assert_ne!(derived[0], derived[1]);
        assert_ne!(derived[0], derived[2]);
        assert_eq!(derived[0], key(1).derive("a"));
        assert_ne!(derived[0], [1; 32]);
    }

    #[test]
    fn a_key_is_shown_by_its_id_alone() {
        let secret = b"a secret that nobody may ever see";
        let key = SessionKey::new(secret).expect("a key");
        let id = key.id().to_string();
        let keys = SessionKeys::new(vec![key.clone()], 0).expect("keys");
        let json = serde_json::to_string(&keys).expect("JSON");
        assert_eq!(json, format!(r#"{{"accepted":["{id}"],"signing":"{id}"}}"#));
        for shown in [format!("{key:?}"), format!("{keys:#?}"), json] {
            assert!(shown.contains(&id), "{shown}");
            assert!(
                !shown.contains("secret") && !shown.contains("97, 32"),
                "{shown}"
            );
        }
    }

    #[test]
    fn the_key_that_signs_is_one_of_at_most_eight() {
        let keys = |count: u8| (0..count).map(key).collect::<Vec<_>>();
        assert_eq!(
            SessionKeys::new(keys(0), 0),
            Err(InvalidSessionKeys::Count(0))
        );
        assert_eq!(
            SessionKeys::new(keys(9), 0),
            Err(InvalidSessionKeys::Count(9))
        );
        assert_eq!(
            SessionKeys::new(keys(8), 8),
            Err(InvalidSessionKeys::Signing)
        );
        let valid = SessionKeys::new(keys(8), 7).expect("they are valid");
        assert_eq!((valid.accepted().len(), valid.signing()), (8, 7));
    }
}
