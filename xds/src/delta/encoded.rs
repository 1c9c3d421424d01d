//! A resource in wire form, encoded once per change and shared by all streams.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use ring::digest;
use thiserror::Error;

use crate::encode::{self, former::FormerCost};
use crate::model::{Features, Resource, ResourceKey, Route};

/// The version of a resource: the first 64 bits of the SHA-256 of its wire form, the same in every
/// process. Written in base64url, because all versions are sent again when a stream begins.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version([u8; 8]);

impl Version {
    /// The version of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let hash = digest::digest(&digest::SHA256, bytes);
        let mut version = [0; 8];
        for (to, from) in version.iter_mut().zip(hash.as_ref()) {
            *to = *from;
        }
        Self(version)
    }

    pub(super) fn bytes(self) -> [u8; 8] {
        self.0
    }

    /// Whether this is its text.
    pub(super) fn is_written(self, text: &str) -> bool {
        self.text() == text.as_bytes()
    }

    fn text(self) -> [u8; TEXT_LENGTH] {
        let mut text = [0; TEXT_LENGTH];
        let written = URL_SAFE_NO_PAD.encode_slice(self.0, &mut text);
        debug_assert_eq!(written, Ok(TEXT_LENGTH));
        text
    }

    /// Adds a version to a digest, or removes it if present: the order does not matter.
    pub(super) fn toggle(&mut self, other: Option<Self>) {
        let other = other.unwrap_or_default();
        for (to, from) in self.0.iter_mut().zip(other.0) {
            *to ^= from;
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a version.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a version: 64 bits in base64url are expected")]
pub struct InvalidVersion(pub String);

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let invalid = || InvalidVersion(text.to_owned());
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        bytes.try_into().map(Self).map_err(|_| invalid())
    }
}

/// A resource in wire form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Its kind and key.
    pub key: ResourceKey,
    /// The version of these bytes.
    pub version: Version,
    /// The encoded protobuf message.
    pub bytes: Bytes,
    /// The features of proxies that enforce what it says.
    pub needs: Features,
    /// The longest lifetime of the session tokens of a rule, in seconds.
    pub(super) token_seconds: u32,
    /// What a rule would be for proxies that get one for each listener.
    pub(super) former: FormerCost,
}

impl Encoded {
    /// Encodes a resource and computes its version.
    #[must_use]
    pub fn new(resource: &Resource) -> Self {
        let bytes = encode::resource(resource);
        let (former, token_seconds) = match resource {
            Resource::Route(route) => (FormerCost::of(route, &bytes), token_seconds(route)),
            _ => (FormerCost::default(), 0),
        };
        Self {
            token_seconds,
            former,
            ..Self::of_bytes(resource.resource_key(), bytes, resource.needs())
        }
    }

    /// A resource of this wire form.
    pub(super) fn of_bytes(key: ResourceKey, bytes: Vec<u8>, needs: Features) -> Self {
        Self {
            key,
            version: Version::of(&bytes),
            bytes: bytes.into(),
            needs,
            token_seconds: 0,
            former: FormerCost::default(),
        }
    }
}

fn token_seconds(route: &Route) -> u32 {
    // At most 30 days.
    u32::try_from(route.rule.token_lifetime().as_secs()).unwrap_or(u32::MAX)
}

/// Length of 64 bits in base64url.
const TEXT_LENGTH: usize = 11;
