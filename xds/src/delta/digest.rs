//! The digest of what a proxy holds of a type, by which it reconnects without listing all of it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{Context, SHA256};

use super::encoded::Version;

/// A digest of names and versions in the order of the names: the first 128 bits of their SHA-256, in base64url.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digest(String);

impl Digest {
    /// Of names with their versions. A resource without one could not be applied: the digest is then another
    /// one than that of any controller, which has a version of each.
    pub(super) fn of<'a>(held: impl Iterator<Item = (&'a str, Option<Version>)>) -> Self {
        let mut context = Context::new(&SHA256);
        for (name, version) in held {
            context.update(name.as_bytes());
            // Not in a name.
            context.update(b"\0");
            match version {
                Some(version) => context.update(version.to_string().as_bytes()),
                None => context.update(b"-"),
            }
            context.update(b"\0");
        }
        let hash = context.finish();
        let first = hash.as_ref().get(..BYTES).unwrap_or_default();
        Self(URL_SAFE_NO_PAD.encode(first))
    }

    /// Whether this is its text.
    pub(super) fn is_written(&self, text: &str) -> bool {
        self.0 == text
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// 128 bits.
const BYTES: usize = 16;
