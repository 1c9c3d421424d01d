//! What identifies a pair of user and password: a hash under a secret of this process. The pair cannot be guessed from
//! it, and who sends pairs cannot choose two that collide.

use std::fmt;
use std::sync::LazyLock;

use ring::hmac;
use xds::model::PasswordHash;

/// A hash under a secret of the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PairKey([u8; 32]);

impl PairKey {
    /// That of a pair, among those of `id`.
    pub(super) fn of(id: &Self, name: &[u8], password: &[u8]) -> Self {
        Self::signed(|context| {
            context.update(&id.0);
            context.update(&u64::try_from(name.len()).unwrap_or(u64::MAX).to_le_bytes());
            context.update(name);
            context.update(password);
        })
    }

    /// That of a password's hash.
    pub(super) fn of_hash(hash: &PasswordHash) -> Self {
        Self::signed(|context| match hash {
            PasswordHash::Bcrypt { cost, salt, digest } => {
                context.update(b"bcrypt");
                context.update(&cost.get().to_le_bytes());
                context.update(salt);
                context.update(digest);
            }
            PasswordHash::Apr1 { salt, digest } => {
                context.update(b"apr1");
                // First what has always the same length.
                context.update(digest);
                context.update(salt);
            }
            PasswordHash::Sha1(digest) => {
                context.update(b"sha1");
                context.update(digest);
            }
        })
    }

    /// That of a text.
    pub(super) fn of_text(text: &[u8]) -> Self {
        Self::signed(|context| context.update(text))
    }

    pub(super) fn bytes(&self) -> [u8; 32] {
        self.0
    }

    fn signed(update: impl FnOnce(&mut hmac::Context)) -> Self {
        // Made with the first policy, off the shards.
        static SECRET: LazyLock<hmac::Key> =
            LazyLock::new(|| hmac::Key::new(hmac::HMAC_SHA256, &rand::random::<[u8; 32]>()));
        let mut context = hmac::Context::with_key(&SECRET);
        update(&mut context);
        let mut key = [0; 32];
        key.copy_from_slice(context.sign().as_ref());
        Self(key)
    }
}

impl fmt::Debug for PairKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairKey")
    }
}
