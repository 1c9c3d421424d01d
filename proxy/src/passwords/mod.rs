//! Checks of passwords, which take as long as a thousand requests, and so never run on a shard.
//!
//! A shard asks first whether the pair of user and password is known to be right ([`PasswordChecks::is_verified`]), which
//! takes a hash. If it is not, it submits a check and looks from time to time whether that is done. Two threads of low
//! priority check one pair after the other, in turn for each tenant and each of its clients (`queue`), and publish those
//! that are right for all shards. Nothing here keeps a password for longer than its check.

// Everything in here processes input of peers.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod checks;
mod hash;
mod pair;
mod queue;
mod shared;
mod sleepers;
mod threads;
mod wrong;

pub use checks::PasswordChecks;
pub use pair::PairKey;
pub use shared::{Check, Verdict};
pub use wrong::WrongPasswords;

use xds::model::PasswordHash;

use self::hash::rounds;

/// A user as its password is checked.
#[derive(Debug)]
pub struct User {
    name: Box<str>,
    hashes: Box<[KnownHash]>,
    /// What its pairs are told apart from those of others by.
    id: PairKey,
    /// Whether somebody has this name. If not, its checks take as long as those of somebody.
    exists: bool,
}

/// A hash of a user.
#[derive(Debug)]
struct KnownHash {
    hash: PasswordHash,
    id: PairKey,
}

impl User {
    /// A user with these hashes.
    #[must_use]
    pub fn new(name: &str, hashes: &[PasswordHash]) -> Self {
        Self::with(name, hashes, true)
    }

    /// Nobody, with whose hashes the passwords of unknown users are compared, in vain.
    #[must_use]
    pub fn nobody(hashes: &[PasswordHash]) -> Self {
        Self::with("", hashes, false)
    }

    fn with(name: &str, hashes: &[PasswordHash], exists: bool) -> Self {
        let kind: &[u8] = if exists { b"user" } else { b"nobody" };
        let hashes: Box<[KnownHash]> = hashes
            .iter()
            .map(|hash| KnownHash {
                hash: hash.clone(),
                id: PairKey::of(&PairKey::of_hash(hash), kind, b""),
            })
            .collect();
        let id = hashes.iter().fold(PairKey::of_text(kind), |id, known| {
            PairKey::of(&id, &known.id.bytes(), b"")
        });
        Self {
            name: name.into(),
            hashes,
            id,
            exists,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What identifies a pair of this user, whose name is `name` if it is nobody.
    fn pair(&self, name: &[u8], password: &[u8]) -> PairKey {
        PairKey::of(&self.id, name, password)
    }

    /// What identifies a pair with each of its hashes: another one beside it changes nothing for those that are known.
    /// Those of nobody are none of a user.
    fn pairs(&self, password: &[u8]) -> impl Iterator<Item = PairKey> {
        let hashes = self.hashes.iter();
        hashes.map(move |known| PairKey::of(&known.id, self.name.as_bytes(), password))
    }

    /// How long a check takes, in rounds of bcrypt.
    fn rounds(&self) -> u64 {
        let each = self.hashes.iter().map(|known| rounds(&known.hash));
        each.fold(0, u64::saturating_add)
    }

    /// The pair that is right, with the first of its hashes for which it is. Slow.
    fn verify(&self, password: &[u8]) -> Option<PairKey> {
        let known = { self.hashes.iter() }.find(|known| hash::matches(&known.hash, password))?;
        let pair = PairKey::of(&known.id, self.name.as_bytes(), password);
        self.exists.then_some(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha1(password: &str) -> PasswordHash {
        let digest =
            ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, password.as_bytes());
        PasswordHash::Sha1(digest.as_ref().try_into().expect("20 bytes"))
    }

    #[test]
    fn each_password_of_a_user_is_right_and_stays_known_while_another_comes_and_goes() {
        let old = User::new("alice", &[sha1("one")]);
        let both = User::new("alice", &[sha1("one"), sha1("two")]);
        let new = User::new("alice", &[sha1("two")]);
        let one = old.verify(b"one").expect("right");
        assert_eq!(both.verify(b"one"), Some(one));
        assert!(both.pairs(b"one").any(|pair| pair == one));
        assert!(new.pairs(b"one").all(|pair| pair != one), "it is withdrawn");
        assert_eq!(new.verify(b"two"), both.verify(b"two"));
        assert_eq!(both.verify(b"three"), None);
        let other = User::new("bob", &[sha1("one")]);
        assert_ne!(other.verify(b"one"), Some(one), "pairs are of one user");
        assert_ne!(old.pair(b"alice", b"x"), both.pair(b"alice", b"x"));
    }

    #[test]
    fn nobody_has_a_password() {
        let nobody = User::nobody(&[sha1("one")]);
        assert_eq!(nobody.verify(b"one"), None);
        let unnamed = User::new("", &[sha1("one")]);
        let of_unnamed: Vec<PairKey> = unnamed.pairs(b"one").collect();
        assert_eq!(nobody.pairs(b"one").count(), 1, "it takes as long");
        assert!(nobody.pairs(b"one").all(|pair| !of_unnamed.contains(&pair)));
        assert_eq!(nobody.rounds(), User::new("a", &[sha1("two")]).rounds());
        assert_ne!(nobody.pair(b"a", b"bc"), nobody.pair(b"ab", b"c"));
    }

    #[test]
    fn no_text_has_a_hash() {
        let user = User::new("alice", &[PasswordHash::Sha1([77; 20])]);
        let text = format!("{user:?}");
        assert!(text.contains("alice") && !text.contains("77"), "{text}");
    }
}
