//! Passwords.

use proptest::prelude::*;
use proptest::{collection::vec, option};
use xds::model::{BasicAuthPolicy, BcryptCost, JwtMode, PasswordHash, PasswordUser, PasswordUsers};

use super::value::{header_name, name};

prop_compose! {
    pub(super) fn basic_auth()(
        mode in prop_oneof![Just(JwtMode::Strict), Just(JwtMode::Optional)],
        realm in option::of(name()),
        user_header in option::of(header_name()),
        accepted in vec(user(), 0..3),
        is_incomplete in any::<bool>(),
    ) -> BasicAuthPolicy {
        let users = PasswordUsers { accepted: accepted.into(), is_incomplete };
        BasicAuthPolicy { mode, realm, user_header, users }
    }
}

fn user() -> impl Strategy<Value = PasswordUser> {
    (name(), vec(hash(), 1..3)).prop_map(|(name, hashes)| PasswordUser {
        name: name.into(),
        hashes: hashes.into(),
    })
}

fn hash() -> impl Strategy<Value = PasswordHash> {
    let bcrypt = (
        BcryptCost::LEAST..=BcryptCost::MOST,
        any::<[u8; 16]>(),
        any::<[u8; 23]>(),
    );
    prop_oneof![
        bcrypt.prop_map(|(cost, salt, digest)| PasswordHash::Bcrypt {
            cost: BcryptCost::new(cost).expect("in range"),
            salt,
            digest,
        }),
        (vec(any::<u8>(), 0..=8), any::<[u8; 16]>()).prop_map(|(salt, digest)| {
            PasswordHash::Apr1 {
                salt: salt.into(),
                digest,
            }
        }),
        any::<[u8; 20]>().prop_map(PasswordHash::Sha1),
    ]
}
