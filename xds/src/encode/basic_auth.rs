//! Passwords.

use super::value::list;
use crate::model::{BasicAuthPolicy, PasswordHash, PasswordUser};
use crate::proto::{self, PasswordScheme};

impl From<&BasicAuthPolicy> for proto::BasicAuthPolicy {
    fn from(policy: &BasicAuthPolicy) -> Self {
        let header = policy.user_header.as_ref();
        Self {
            mode: proto::JwtMode::from(policy.mode).into(),
            realm: policy.realm.clone(),
            user_header: header.map_or_else(String::new, ToString::to_string),
            users: list(&policy.users.accepted),
            incomplete: policy.users.is_incomplete,
        }
    }
}

impl From<&PasswordUser> for proto::PasswordUser {
    fn from(user: &PasswordUser) -> Self {
        Self {
            name: user.name.to_string(),
            hashes: list(&user.hashes),
        }
    }
}

impl From<&PasswordHash> for proto::PasswordHash {
    fn from(hash: &PasswordHash) -> Self {
        let (scheme, cost, salt, digest) = match hash {
            PasswordHash::Bcrypt { cost, salt, digest } => {
                (PasswordScheme::Bcrypt, cost.get(), &salt[..], &digest[..])
            }
            PasswordHash::Apr1 { salt, digest } => (PasswordScheme::Apr1, 0, &**salt, &digest[..]),
            PasswordHash::Sha1(digest) => (PasswordScheme::Sha1, 0, &[][..], &digest[..]),
        };
        Self {
            scheme: scheme.into(),
            cost,
            salt: salt.to_vec(),
            digest: digest.to_vec(),
        }
    }
}
