//! Whether a password has a hash, in each form of Apache's `htpasswd`.

use std::hint::black_box;

use md5::{Digest as _, Md5};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use xds::model::{BcryptCost, PasswordHash};

use crate::limits::APR1_ROUNDS;

/// Compares a password with a hash. Takes as long if it is wrong.
pub(super) fn matches(hash: &PasswordHash, password: &[u8]) -> bool {
    match hash {
        PasswordHash::Bcrypt { cost, salt, digest } => {
            let own = bcrypt(*cost, *salt, password);
            is_equal(own.get(..digest.len()).unwrap_or_default(), digest)
        }
        PasswordHash::Apr1 { salt, digest } => is_equal(&apr1(salt, password), digest),
        PasswordHash::Sha1(expected) => {
            let own = digest(&SHA1_FOR_LEGACY_USE_ONLY, password);
            is_equal(own.as_ref(), expected)
        }
    }
}

/// How long a comparison takes, in rounds of bcrypt.
pub(super) fn rounds(hash: &PasswordHash) -> u64 {
    match hash {
        PasswordHash::Bcrypt { cost, .. } => 1_u64.checked_shl(cost.get()).unwrap_or(u64::MAX),
        PasswordHash::Apr1 { .. } => APR1_ROUNDS,
        PasswordHash::Sha1(_) => 1,
    }
}

fn bcrypt(cost: BcryptCost, salt: [u8; 16], password: &[u8]) -> [u8; 24] {
    // The byte that ends a text in C belongs to it, and of all that, what the algorithm has room for.
    let key = [password, b"\0"].concat();
    let end = key.len().min(BCRYPT_BYTES);
    ::bcrypt::bcrypt(cost.get(), salt, key.get(..end).unwrap_or_default())
}

/// MD5 as Apache's `apr_md5_encode` repeats it.
fn apr1(salt: &[u8], password: &[u8]) -> [u8; 16] {
    let both: [u8; 16] = Md5::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize()
        .into();
    let mut first = Md5::new()
        .chain_update(password)
        .chain_update(b"$apr1$")
        .chain_update(salt);
    let mut rest = password.len();
    while rest > 0 {
        let part = rest.min(both.len());
        first.update(both.get(..part).unwrap_or_default());
        rest = rest.saturating_sub(part);
    }
    let mut bits = password.len();
    while bits > 0 {
        let initial = password.get(..1).unwrap_or_default();
        first.update(if bits & 1 == 1 { &b"\0"[..] } else { initial });
        bits >>= 1;
    }
    let mut last: [u8; 16] = first.finalize().into();
    for round in 0..APR1_REPEATS {
        let mut next = Md5::new();
        let is_odd = round & 1 == 1;
        next.update(if is_odd { password } else { last.as_slice() });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if is_odd { last.as_slice() } else { password });
        last = next.finalize().into();
    }
    last
}

/// Compares in a time that says nothing about where they differ.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let difference = pairs.fold(0, |all, (a, b)| black_box(all | (a ^ b)));
    one.len() == other.len() && difference == 0
}

/// Bytes of a password that bcrypt takes.
const BCRYPT_BYTES: usize = 72;
/// Rounds of apr1.
const APR1_REPEATS: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of bcrypt's own test vector for `a`, of the cost 6.
    fn of_a() -> PasswordHash {
        PasswordHash::Bcrypt {
            cost: BcryptCost::new(6).expect("in range"),
            salt: [
                0xa3, 0x61, 0x2d, 0x8c, 0x9a, 0x37, 0xda, 0xc2, 0xf9, 0x9d, 0x94, 0xda, 0x3, 0xbd,
                0x45, 0x21,
            ],
            digest: [
                0xe6, 0xd5, 0x38, 0x31, 0xf8, 0x20, 0x60, 0xdc, 0x8, 0xa2, 0xe8, 0x48, 0x9c, 0xe8,
                0x50, 0xce, 0x48, 0xfb, 0xf9, 0x76, 0x97, 0x87, 0x38,
            ],
        }
    }

    #[test]
    fn bcrypt_accepts_its_password_alone() {
        assert!(matches(&of_a(), b"a"));
        for wrong in [&b"b"[..], b"", b"aa", b"A"] {
            assert!(!matches(&of_a(), wrong));
        }
    }

    #[test]
    fn bcrypt_takes_72_bytes() {
        let long = [b'x'; 80];
        let cost = BcryptCost::new(4).expect("in range");
        let of = |password: &[u8]| bcrypt(cost, [1; 16], password);
        assert_eq!(of(&long), of(&long[..72]));
        assert_ne!(of(&long[..71]), of(&long[..72]));
    }

    /// Printed by `openssl passwd -apr1 -salt SALT PASSWORD`, and decoded.
    #[test]
    fn apr1_is_that_of_apache() {
        for (salt, password, expected) in APR1_SAMPLES {
            assert_eq!(
                apr1(salt.as_bytes(), password.as_bytes()),
                *expected,
                "{salt} {password}"
            );
        }
    }

    #[test]
    fn sha1_is_that_of_apache() {
        // `htpasswd -nbs u password` prints {SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=.
        let hash = PasswordHash::Sha1([
            0x5b, 0xaa, 0x61, 0xe4, 0xc9, 0xb9, 0x3f, 0x3f, 0x06, 0x82, 0x25, 0x0b, 0x6c, 0xf8,
            0x33, 0x1b, 0x7e, 0xe6, 0x8f, 0xd8,
        ]);
        assert!(matches(&hash, b"password") && !matches(&hash, b"Password"));
    }

    #[test]
    fn a_check_costs_as_many_rounds_as_it_has() {
        assert_eq!(rounds(&of_a()), 64);
        assert_eq!(rounds(&PasswordHash::Sha1([0; 20])), 1);
    }

    /// Salt, password, digest.
    const APR1_SAMPLES: &[(&str, &str, [u8; 16])] = &[
        (
            "r31.....",
            "myPassword",
            [
                149, 90, 96, 55, 223, 241, 93, 140, 196, 233, 15, 76, 147, 174, 92, 164,
            ],
        ),
        (
            "abcdefgh",
            "",
            [
                125, 64, 124, 218, 80, 25, 176, 114, 104, 113, 158, 42, 23, 7, 222, 53,
            ],
        ),
        (
            "x",
            "a",
            [
                46, 38, 202, 49, 85, 100, 242, 161, 59, 25, 189, 88, 3, 192, 150, 58,
            ],
        ),
        (
            "saltsalt",
            "0123456789abcdef0123456789abcdef!",
            [
                234, 168, 106, 42, 46, 15, 153, 135, 244, 188, 26, 69, 106, 98, 229, 213,
            ],
        ),
        (
            "zz/.Z",
            "päss wörd",
            [
                188, 236, 53, 65, 236, 188, 89, 93, 35, 28, 45, 11, 54, 39, 16, 137,
            ],
        ),
    ];
}
