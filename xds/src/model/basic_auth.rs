//! Passwords of users. Proxies get their hashes.

use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use thiserror::Error;

use super::jwt::{self, JwtMode};

/// Passwords, one of which a request must or may carry (RFC 7617).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuthPolicy {
    /// Whether requests without a password are rejected.
    pub mode: JwtMode,
    /// Realm of the challenge in a 401; `None` means the proxy's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
    /// The header with the name of the user, for backends.
    #[serde(
        serialize_with = "jwt::optional_header",
        skip_serializing_if = "Option::is_none"
    )]
    pub user_header: Option<HeaderName>,
    /// The users that are accepted.
    #[serde(flatten)]
    pub users: PasswordUsers,
}

/// Users with their passwords.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct PasswordUsers {
    /// In the order of their names, each once.
    pub accepted: Arc<[PasswordUser]>,
    /// Whether some users could not be read, so that one that is not found may be among them.
    pub is_incomplete: bool,
}

/// A user. It may have several passwords, so that one can replace another.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PasswordUser {
    /// Without a colon or control characters, and not empty.
    pub name: Box<str>,
    /// At least one.
    pub hashes: Box<[PasswordHash]>,
}

/// The hash of a password, by how it is made. Never shown: who has it can guess the password elsewhere.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PasswordHash {
    /// bcrypt of at most 72 bytes of the password (`$2y$`).
    Bcrypt {
        /// Work of a check.
        cost: BcryptCost,
        /// Its salt.
        salt: [u8; 16],
        /// The result without its last byte, which the format leaves out.
        digest: [u8; 23],
    },
    /// A thousand rounds of MD5, as Apache's `htpasswd -m` (`$apr1$`).
    Apr1 {
        /// Its salt, at most [`Self::APR1_SALT_BYTES`].
        salt: Box<[u8]>,
        /// The result.
        digest: [u8; 16],
    },
    /// SHA-1 without salt, as Apache's `htpasswd -s` (`{SHA}`).
    Sha1([u8; 20]),
}

impl PasswordHash {
    /// Longest salt of apr1.
    pub const APR1_SALT_BYTES: usize = 8;
}

/// The cost of bcrypt: the binary logarithm of its rounds. 10 takes some 50 ms, and each further one twice as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BcryptCost(u8);

impl BcryptCost {
    /// Lowest cost of the format.
    pub const LEAST: u32 = 4;
    /// Highest cost that is accepted: a check takes a second.
    pub const MOST: u32 = 14;

    /// This cost, if a check does not take too long.
    ///
    /// # Errors
    /// It is out of range.
    pub fn new(cost: u32) -> Result<Self, InvalidBcryptCost> {
        let in_range = (Self::LEAST..=Self::MOST).contains(&cost);
        let number = u8::try_from(cost).ok().filter(|_| in_range);
        number.map(Self).ok_or(InvalidBcryptCost(cost))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0.into()
    }
}

/// A cost of bcrypt that is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("has the cost {0} of bcrypt: use {least} to {most}", least = BcryptCost::LEAST, most = BcryptCost::MOST)]
pub struct InvalidBcryptCost(u32);

/// The names of the users.
impl Serialize for PasswordUsers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("users", &self.names())?;
        if self.is_incomplete {
            map.serialize_entry("incomplete", &true)?;
        }
        map.end()
    }
}

impl PasswordUsers {
    fn names(&self) -> Vec<&str> {
        self.accepted.iter().map(|user| &*user.name).collect()
    }
}

impl fmt::Debug for PasswordUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordUsers")
            .field("users", &self.names())
            .field("is_incomplete", &self.is_incomplete)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PasswordUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PasswordUser({})", self.name)
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_shown_by_name_only() {
        let user = |name: &str, byte| PasswordUser {
            name: name.into(),
            hashes: [PasswordHash::Sha1([byte; 20])].into(),
        };
        let policy = BasicAuthPolicy {
            mode: JwtMode::Strict,
            realm: Some("shop".to_owned()),
            user_header: Some(HeaderName::from_static("x-user")),
            users: PasswordUsers {
                accepted: [user("alice", 77), user("bob", 78)].into(),
                is_incomplete: true,
            },
        };
        assert_eq!(
            serde_json::to_value(&policy).expect("JSON"),
            serde_json::json!({
                "mode": "Strict", "realm": "shop", "userHeader": "x-user",
                "users": ["alice", "bob"], "incomplete": true,
            })
        );
        let shown = format!("{policy:?} {:?}", policy.users.accepted[0].hashes);
        assert!(
            shown.contains("\"alice\"") && !shown.contains("77"),
            "{shown}"
        );
    }

    #[test]
    fn a_cost_that_would_keep_threads_busy_is_refused() {
        for cost in [0, 3, 15, 31, 260] {
            let error = BcryptCost::new(cost).expect_err("out of range");
            assert!(error.to_string().contains("use 4 to 14"), "{error}");
        }
        for cost in [4, 14] {
            assert_eq!(BcryptCost::new(cost).map(BcryptCost::get), Ok(cost));
        }
    }
}
