//! Passwords. Errors never contain their hashes.

use super::field_path::FieldPath;
use super::jwt::mode;
use super::value::{choice, header_name, set_text};
use crate::model::{BasicAuthPolicy, BcryptCost, PasswordHash, PasswordUser, PasswordUsers};
use crate::proto::{self, PasswordScheme};

pub(super) fn basic_auth(
    at: &FieldPath<'_>,
    message: proto::BasicAuthPolicy,
) -> Option<BasicAuthPolicy> {
    let mode = mode(at, message.mode);
    let realm = at.optional("realm", message.realm, set_text);
    let header = Some(message.user_header).filter(|name| !name.is_empty());
    let user_header = at.optional("user_header", header, |at, name| header_name(at, &name));
    let accepted = at.list("users", message.users, user);
    Some(BasicAuthPolicy {
        mode: mode?,
        realm: realm?,
        user_header: user_header?,
        users: PasswordUsers {
            accepted: accepted?.into(),
            is_incomplete: message.incomplete,
        },
    })
}

fn user(at: &FieldPath<'_>, message: proto::PasswordUser) -> Option<PasswordUser> {
    let name = at.text("name", message.name).and_then(|name| {
        let is_sendable = !name.contains(|char: char| char == ':' || char.is_control());
        let name = is_sendable.then_some(name);
        at.field("name")
            .accept(name.ok_or("contains a colon or a control character"))
    });
    let hashes = at.some("hashes", message.hashes, hash);
    Some(PasswordUser {
        name: name?.into(),
        hashes: hashes?.into(),
    })
}

fn hash(at: &FieldPath<'_>, message: proto::PasswordHash) -> Option<PasswordHash> {
    let scheme = choice(&at.field("scheme"), message.scheme, |scheme| match scheme {
        PasswordScheme::Unspecified => None,
        known => Some(known),
    })?;
    let (salt, digest) = (message.salt, message.digest);
    match scheme {
        PasswordScheme::Bcrypt => {
            let cost = at.field("cost").accept(BcryptCost::new(message.cost));
            let salt = bytes(&at.field("salt"), salt);
            let digest = bytes(&at.field("digest"), digest);
            Some(PasswordHash::Bcrypt {
                cost: cost?,
                salt: salt?,
                digest: digest?,
            })
        }
        PasswordScheme::Apr1 => {
            let most = PasswordHash::APR1_SALT_BYTES;
            let salt = if salt.len() <= most {
                Some(salt.into())
            } else {
                let why = format!("has {} bytes: at most {most} are allowed", salt.len());
                at.field("salt").problem(why)
            };
            let digest = bytes(&at.field("digest"), digest);
            Some(PasswordHash::Apr1 {
                salt: salt?,
                digest: digest?,
            })
        }
        PasswordScheme::Sha1 => bytes(&at.field("digest"), digest).map(PasswordHash::Sha1),
        PasswordScheme::Unspecified => None,
    }
}

fn bytes<const N: usize>(at: &FieldPath<'_>, bytes: Vec<u8>) -> Option<[u8; N]> {
    let all = <[u8; N]>::try_from(bytes);
    at.accept(all.map_err(|bytes| format!("has {} bytes: {N} are needed", bytes.len())))
}
