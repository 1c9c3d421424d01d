//! The file of `htpasswd` in a Secret: a user a line. What it says about lines never contains them, since a line that is
//! none may be a password.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use xds::model::{BcryptCost, PasswordHash};

use crate::objects::api::Secret;
use crate::policy::api::BasicAuthSpec;

/// The users of a Secret.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct PasswordFile {
    /// In the order of their names, each once.
    pub(super) users: BTreeMap<String, PasswordLine>,
    /// Names of users whose lines admit nobody: an account that is locked, a line that stands twice.
    pub(super) closed: BTreeSet<String>,
    /// What is wrong with lines that admit nobody.
    pub(super) faults: Vec<String>,
}

/// A line that is a user.
#[derive(Debug, PartialEq)]
pub(super) struct PasswordLine {
    pub(super) number: usize,
    pub(super) hash: PasswordHash,
}

impl PasswordFile {
    /// Reads the users of a Secret.
    ///
    /// # Errors
    /// It has no such file, or two.
    pub(crate) fn of(secret: &Secret) -> Result<Self, &'static str> {
        let mut files = BasicAuthSpec::ENTRIES
            .iter()
            .filter_map(|name| secret.entry(name));
        match (files.next(), files.next()) {
            (Some(file), None) => Ok(Self::parse(file)),
            (None, _) => Err(NO_FILE),
            (Some(_), Some(_)) => Err(TWO_FILES),
        }
    }

    fn parse(file: &[u8]) -> Self {
        let mut users: BTreeMap<String, Vec<PasswordLine>> = BTreeMap::new();
        let (mut faults, mut closed) = (BTreeMap::new(), BTreeSet::new());
        // Windows' editors write it in front of a file in UTF-8.
        let file = file.strip_prefix(BYTE_ORDER_MARK).unwrap_or(file);
        for (index, line) in file.split(|byte| *byte == b'\n').enumerate() {
            let number = index + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.trim_ascii().is_empty() || line.starts_with(b"#") {
                continue;
            }
            match user(line) {
                Ok((name, hash)) => {
                    let lines = users.entry(name.to_owned()).or_default();
                    lines.push(PasswordLine { number, hash });
                }
                Err(fault) => {
                    closed.extend(fault.name);
                    faults.insert(number, format!("line {number} {}", fault.why));
                }
            }
        }
        users.retain(|name, lines| {
            let numbers: Vec<usize> = lines.iter().map(|line| line.number).collect();
            if let [first, .., last] = numbers[..] {
                let why =
                    format!("lines {first} and {last} are of the same user: keep one of them");
                faults.insert(first, why);
                closed.insert(name.clone());
            }
            !closed.contains(name)
        });
        let users = users.into_iter();
        Self {
            users: users
                .filter_map(|(name, mut lines)| Some((name, lines.pop()?)))
                .collect(),
            closed,
            faults: faults.into_values().collect(),
        }
    }

    /// Whether it has lines, none of which names a user. A line with a name and something that is no hash ends what the
    /// user had: so accounts are locked.
    pub(super) fn is_damaged(&self) -> bool {
        self.users.is_empty() && self.closed.is_empty() && !self.faults.is_empty()
    }

    /// The numbers of lines whose hashes can be guessed fast by who gets them.
    pub(crate) fn weak_lines(&self) -> Vec<usize> {
        let is_weak = |line: &&PasswordLine| !matches!(line.hash, PasswordHash::Bcrypt { .. });
        let weak = self.users.values().filter(is_weak);
        let mut numbers: Vec<usize> = weak.map(|line| line.number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Why a line admits nobody, and the user that it names, if it does.
#[derive(Debug)]
struct Fault {
    name: Option<String>,
    why: String,
}

/// The name of a user, and the hash of its password.
fn user(line: &[u8]) -> Result<(&str, PasswordHash), Fault> {
    let unnamed = |why: &str| Fault {
        name: None,
        why: why.to_owned(),
    };
    let line = str::from_utf8(line).map_err(|_| unnamed(NO_TEXT))?;
    let (name, rest) = line.split_once(':').ok_or_else(|| unnamed(NO_COLON))?;
    // What is behind another colon is a comment to Apache and nginx.
    let text = rest.split(':').next().unwrap_or_default().trim();
    if name.trim() != name || name.is_empty() || name.contains(char::is_control) {
        return Err(unnamed(NO_NAME));
    }
    let hash = hash(text).map_err(|why| Fault {
        name: Some(name.to_owned()),
        why,
    })?;
    Ok((name, hash))
}

fn hash(text: &str) -> Result<PasswordHash, String> {
    if let Some(rest) = BCRYPT.iter().find_map(|it| text.strip_prefix(it)) {
        return bcrypt(rest);
    }
    if let Some(rest) = text.strip_prefix("$apr1$") {
        return apr1(rest).ok_or_else(|| DAMAGED.to_owned());
    }
    if let Some(rest) = text.strip_prefix("{SHA}") {
        let digest = STANDARD.decode(rest).ok();
        let digest = digest.and_then(|it| it.try_into().ok());
        return digest
            .map(PasswordHash::Sha1)
            .ok_or_else(|| DAMAGED.to_owned());
    }
    Err(NO_HASH.to_owned())
}

/// The cost in two digits, and 22 and 31 characters of salt and digest.
fn bcrypt(text: &str) -> Result<PasswordHash, String> {
    let (cost, rest) = text.split_once('$').ok_or(DAMAGED)?;
    let is_number = cost.len() == 2 && cost.bytes().all(|byte| byte.is_ascii_digit());
    let cost: u32 = { cost.parse().ok() }.filter(|_| is_number).ok_or(DAMAGED)?;
    let (salt, digest) = rest.split_at_checked(BCRYPT_SALT).ok_or(DAMAGED)?;
    let salt = sextets(salt, BCRYPT_ALPHABET).and_then(|it| big_endian(&it).try_into().ok());
    let digest = sextets(digest, BCRYPT_ALPHABET).and_then(|it| big_endian(&it).try_into().ok());
    Ok(PasswordHash::Bcrypt {
        salt: salt.ok_or(DAMAGED)?,
        digest: digest.ok_or(DAMAGED)?,
        cost: BcryptCost::new(cost).map_err(|error| error.to_string())?,
    })
}

/// The salt and 22 characters, in the order of Apache's `apr_md5_encode`.
fn apr1(text: &str) -> Option<PasswordHash> {
    let (salt, digest) = text.split_once('$')?;
    let values = sextets(digest, APR1_ALPHABET)?;
    if salt.len() > PasswordHash::APR1_SALT_BYTES || values.len() != APR1_DIGEST {
        return None;
    }
    let mut bytes = [0; 16];
    for (values, places) in values.chunks(4).zip(APR1_PLACES) {
        let number = values
            .iter()
            .rev()
            .fold(0_u32, |all, value| all << 6 | u32::from(*value));
        let [_, high, middle, low] = number.to_be_bytes();
        for (place, byte) in places.iter().rev().zip([low, middle, high]) {
            bytes[*place] = byte;
        }
    }
    Some(PasswordHash::Apr1 {
        salt: salt.as_bytes().into(),
        digest: bytes,
    })
}

/// The values of characters, six bits each.
fn sextets(text: &str, alphabet: &[u8; 64]) -> Option<Vec<u8>> {
    let value = |byte: u8| alphabet.iter().position(|it| *it == byte);
    let values = text.bytes().map(|byte| u8::try_from(value(byte)?).ok());
    values.collect()
}

/// The whole bytes of values, the highest bits first.
fn big_endian(values: &[u8]) -> Vec<u8> {
    let (mut bytes, mut bits, mut number) = (Vec::new(), 0, 0_u32);
    for value in values {
        number = number << 6 | u32::from(*value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            let [.., byte] = (number >> bits).to_be_bytes();
            bytes.push(byte);
        }
    }
    bytes
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The prefixes of bcrypt. `$2x$` is of programs that hash some passwords wrongly.
const BCRYPT: [&str; 3] = ["$2y$", "$2a$", "$2b$"];
/// Characters of the salt of bcrypt.
const BCRYPT_SALT: usize = 22;
const BCRYPT_ALPHABET: &[u8; 64] =
    b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Characters of the digest of apr1.
const APR1_DIGEST: usize = 22;
const APR1_ALPHABET: &[u8; 64] =
    b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The places of the bytes in four characters of apr1 each, the highest bits first.
const APR1_PLACES: [&[usize]; 6] = [
    &[0, 6, 12],
    &[1, 7, 13],
    &[2, 8, 14],
    &[3, 9, 15],
    &[4, 10, 5],
    &[11],
];

const NO_FILE: &str = "has no entry `auth` or `.htpasswd`: put the users there, in lines as `htpasswd -nB NAME` prints them";
const TWO_FILES: &str = "has both the entries `auth` and `.htpasswd`: keep the one that is meant";
const NO_TEXT: &str = "is not UTF-8: write names in this encoding";
const NO_COLON: &str = "has no colon: write name and hash as `htpasswd -nB NAME` prints them";
const NO_NAME: &str = "has no name of a user in front of its colon, or one with spaces around it or control characters";
const NO_HASH: &str =
    "has no hash of bcrypt, apr1 or SHA-1: write it as `htpasswd -nB NAME` prints it";
const DAMAGED: &str =
    "has a hash with characters missing or changed: write it as `htpasswd -nB NAME` prints it";

#[cfg(test)]
mod tests {
    use super::*;

    /// As `htpasswd -nbB -C 4 alice secret`, `-nbm`, and `-nbs` print them.
    const BCRYPT_LINE: &str = "alice:$2y$04$xXhkgwuuJSl5CtZ.1k6pQucWN7lmQXNnXYD1lk/mlJBj.AKczr0.2";
    const APR1_LINE: &str = "bob:$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/";
    const SHA1_LINE: &str = "carol:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=";

    fn parsed(text: &str) -> PasswordFile {
        PasswordFile::parse(text.as_bytes())
    }

    fn fault(line: &str) -> String {
        let file = parsed(line);
        assert!(
            file.users.is_empty() && file.faults.len() == 1,
            "{line}: {file:?}"
        );
        file.faults[0].clone()
    }

    #[test]
    fn lines_of_htpasswd_are_users() {
        let text = format!("# users\r\n\r\n{BCRYPT_LINE}\r\n{APR1_LINE}:since 1999\n{SHA1_LINE}");
        let file = parsed(&text);
        let names: Vec<&str> = file.users.keys().map(String::as_str).collect();
        assert_eq!(
            (names, &*file.faults),
            (vec!["alice", "bob", "carol"], &[][..])
        );
        assert_eq!(file.weak_lines(), [4, 5]);
        let hash = |name: &str| &file.users[name].hash;
        assert_eq!(
            hash("bob"),
            &PasswordHash::Apr1 {
                salt: (*b"r31.....").into(),
                digest: [
                    149, 90, 96, 55, 223, 241, 93, 140, 196, 233, 15, 76, 147, 174, 92, 164
                ],
            }
        );
        assert_eq!(
            hash("carol"),
            &PasswordHash::Sha1([
                0x5b, 0xaa, 0x61, 0xe4, 0xc9, 0xb9, 0x3f, 0x3f, 0x06, 0x82, 0x25, 0x0b, 0x6c, 0xf8,
                0x33, 0x1b, 0x7e, 0xe6, 0x8f, 0xd8,
            ])
        );
    }

    /// The test vector of bcrypt for `a`.
    #[test]
    fn bcrypt_is_decoded() {
        for prefix in BCRYPT {
            let line =
                format!("a:{prefix}06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe");
            let expected = PasswordHash::Bcrypt {
                cost: BcryptCost::new(6).expect("in range"),
                salt: [
                    0xa3, 0x61, 0x2d, 0x8c, 0x9a, 0x37, 0xda, 0xc2, 0xf9, 0x9d, 0x94, 0xda, 0x3,
                    0xbd, 0x45, 0x21,
                ],
                digest: [
                    0xe6, 0xd5, 0x38, 0x31, 0xf8, 0x20, 0x60, 0xdc, 0x8, 0xa2, 0xe8, 0x48, 0x9c,
                    0xe8, 0x50, 0xce, 0x48, 0xfb, 0xf9, 0x76, 0x97, 0x87, 0x38,
                ],
            };
            assert_eq!(parsed(&line).users["a"].hash, expected, "{prefix}");
        }
    }

    #[test]
    fn a_line_that_is_no_user_is_named_by_its_number_and_admits_nobody() {
        for (line, why) in [
            ("hush-hush", NO_COLON),
            (":$2y$06$x", NO_NAME),
            (" alice:hush", NO_NAME),
            ("al\u{7}ice:hush", NO_NAME),
            ("alice:hush", NO_HASH),
            ("alice:{PLAIN}hush", NO_HASH),
            ("alice:$1$hush$x", NO_HASH),
            (
                "alice:$2x$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe",
                NO_HASH,
            ),
            ("alice:", NO_HASH),
            (
                "alice:$2y$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfx",
                DAMAGED,
            ),
            (
                "alice:$2y$6$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe",
                DAMAGED,
            ),
            (
                "alice:$2y$06$m0CrhHm10qJ3lXRY.5zDGÖ3rS2KdeeWLuGmsfGlMfOxih58VYVfxe",
                DAMAGED,
            ),
            ("alice:$2y$06$", DAMAGED),
            ("alice:$apr1$r31.....$HqJZimcKQFAMYayBlzkrA", DAMAGED),
            ("alice:$apr1$r31......$HqJZimcKQFAMYayBlzkrA/", DAMAGED),
            ("alice:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g", DAMAGED),
        ] {
            assert_eq!(fault(line), format!("line 1 {why}"), "{line}");
        }
        let costly = "alice:$2y$15$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe";
        assert_eq!(
            fault(costly),
            "line 1 has the cost 15 of bcrypt: use 4 to 14"
        );
        let latin = PasswordFile::parse(b"j\xfcrgen:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=");
        assert_eq!(latin.faults, [format!("line 1 {NO_TEXT}")]);
    }

    #[test]
    fn a_user_that_stands_twice_is_none() {
        let file = parsed(&format!("{SHA1_LINE}\n{APR1_LINE}\n\n{SHA1_LINE}\n"));
        let names: Vec<&str> = file.users.keys().map(String::as_str).collect();
        assert_eq!(names, ["bob"]);
        assert_eq!(
            file.faults,
            ["lines 1 and 4 are of the same user: keep one of them"]
        );
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_name() {
        let file = parsed(&format!("\u{feff}{SHA1_LINE}"));
        assert!(file.users.contains_key("carol") && file.faults.is_empty());
    }

    #[test]
    fn a_line_that_locks_an_account_ends_another_of_the_same_user() {
        let file = parsed(&format!("{SHA1_LINE}\ncarol:!\n{APR1_LINE}"));
        let names: Vec<&str> = file.users.keys().map(String::as_str).collect();
        assert_eq!((names, file.closed.contains("carol")), (vec!["bob"], true));
    }

    #[test]
    fn a_file_without_lines_is_not_damaged_and_neither_is_one_of_locked_accounts() {
        assert!(!parsed("\n# nobody yet\n").is_damaged());
        assert!(!parsed("alice:!\n").is_damaged());
        assert!(!parsed(&format!("{SHA1_LINE}\n{SHA1_LINE}")).is_damaged());
        assert!(parsed("hush").is_damaged() && !parsed(SHA1_LINE).is_damaged());
    }

    #[test]
    fn a_secret_has_one_file() {
        let of = |entries: serde_json::Value| {
            let secret = serde_json::json!({"metadata": {"name": "users"}, "stringData": entries});
            let secret: Secret = serde_json::from_value(secret).expect("a Secret");
            PasswordFile::of(&secret).map(|file| file.users.len())
        };
        assert_eq!(of(serde_json::json!({"auth": SHA1_LINE})), Ok(1));
        assert_eq!(
            of(serde_json::json!({".htpasswd": SHA1_LINE, "x": "y"})),
            Ok(1)
        );
        assert_eq!(of(serde_json::json!({"users": SHA1_LINE})), Err(NO_FILE));
        assert_eq!(
            of(serde_json::json!({"auth": "", ".htpasswd": ""})),
            Err(TWO_FILES)
        );
    }
}
