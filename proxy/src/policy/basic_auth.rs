//! Compiled passwords of users (RFC 7617). Whether one is right is checked by `passwords`, off the shards.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderName;
use xds::model::{BasicAuthPolicy, JwtMode, PasswordHash, PasswordUser};

use super::challenge::challenge;
use super::headers::is_ours;
use super::jwt::{self, TokenLocation, TokenSources};
use crate::failure::{Failure, FailureKind};
use crate::limits::PASSWORD_BYTES;
use crate::names::causes;
use crate::passwords::{Check, PairKey, PasswordChecks, User, WrongPasswords};

causes! {
    /// Why a request is rejected.
    PasswordRefusal;
    /// It has several `Authorization` fields.
    Ambiguous "several_fields";
    /// The field is malformed.
    Malformed "malformed";
    /// No user has this name.
    UnknownUser "unknown_user";
    /// The password is not the user's.
    Wrong "wrong_password";
    /// Nor was it when the client sent it before, a short time ago.
    WrongBefore "wrong_before";
    /// No user has this name, but some users are not known.
    Incomplete "users_missing";
    /// Too many passwords wait to be checked.
    Unchecked "too_many_checks";
}

impl From<PasswordRefusal> for Failure {
    fn from(refusal: PasswordRefusal) -> Self {
        let kind = match refusal {
            PasswordRefusal::Ambiguous => FailureKind::AmbiguousCredentials,
            PasswordRefusal::Malformed
            | PasswordRefusal::UnknownUser
            | PasswordRefusal::Wrong
            | PasswordRefusal::WrongBefore => FailureKind::WrongCredentials,
            PasswordRefusal::Incomplete => FailureKind::CredentialsMissing,
            PasswordRefusal::Unchecked => FailureKind::Overloaded,
        };
        Self::because(kind, refusal.reason())
    }
}

/// How a request was authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordUse<'a> {
    /// It has no password.
    None,
    /// By this user's password, which was checked before.
    Known(&'a str),
    /// By this user's password, which was checked for it.
    Checked(&'a str),
}

/// The users of a policy, and their passwords.
pub struct BasicAuth {
    location: TokenLocation,
    mode: JwtMode,
    /// `WWW-Authenticate` line of a 401.
    challenge: Box<[u8]>,
    user_header: Option<HeaderName>,
    users: HashMap<Box<[u8]>, Arc<User>>,
    /// With whom the passwords of unknown users are compared, so that they take as long; `None` without any user.
    nobody: Option<Arc<User>>,
    is_incomplete: bool,
    checks: Arc<PasswordChecks>,
}

/// The user and the password that a request has.
pub struct PresentedPassword<'a> {
    by: &'a BasicAuth,
    /// The user of the policy, or nobody.
    user: &'a Arc<User>,
    is_known: bool,
    /// `user:password`.
    pair: Vec<u8>,
    /// Where the name ends.
    end: usize,
}

/// The user whose password a request has.
#[derive(Debug, Clone, Copy)]
pub struct PasswordHolder<'a> {
    policy: &'a BasicAuth,
    user: &'a str,
}

impl BasicAuth {
    /// Compiles the passwords of a policy.
    #[must_use]
    pub fn compile(policy: &BasicAuthPolicy, checks: Arc<PasswordChecks>) -> Self {
        let users = &policy.users;
        let compiled = users.accepted.iter().map(|user| {
            let compiled = User::new(&user.name, &user.hashes);
            (user.name.as_bytes().into(), Arc::new(compiled))
        });
        // RFC 7617 section 2.1.
        let challenge = challenge("Basic", policy.realm.as_deref(), ", charset=\"UTF-8\"");
        Self {
            location: TokenLocation::basic(),
            mode: policy.mode,
            challenge,
            user_header: { policy.user_header.clone() }
                .filter(|name| !is_ours(name.as_str().as_bytes())),
            users: compiled.collect(),
            nobody: commonest(&users.accepted).map(|hashes| Arc::new(User::nobody(hashes))),
            is_incomplete: users.is_incomplete,
            checks,
        }
    }

    /// The user and the password of a request; `None` if it has none.
    ///
    /// # Errors
    /// They are malformed, or there is no such user.
    pub fn find(
        &self,
        sources: TokenSources<'_>,
    ) -> Result<Option<PresentedPassword<'_>>, PasswordRefusal> {
        let found = self
            .location
            .find(sources)
            .map_err(|refusal| match refusal {
                jwt::Refusal::Ambiguous => PasswordRefusal::Ambiguous,
                _ => PasswordRefusal::Malformed,
            })?;
        let Some(text) = found else {
            return Ok(None);
        };
        let pair = decoded(text).ok_or(PasswordRefusal::Malformed)?;
        let end = memchr::memchr(b':', &pair).ok_or(PasswordRefusal::Malformed)?;
        let known = self.users.get(pair.get(..end).unwrap_or_default());
        let user = match (known, &self.nobody) {
            (Some(user), _) => user,
            (None, _) if self.is_incomplete => return Err(PasswordRefusal::Incomplete),
            (None, Some(nobody)) => nobody,
            (None, None) => return Err(PasswordRefusal::UnknownUser),
        };
        Ok(Some(PresentedPassword {
            by: self,
            user,
            is_known: known.is_some(),
            pair,
            end,
        }))
    }

    /// The field line of a 401.
    pub(super) fn challenge(&self) -> &[u8] {
        &self.challenge
    }

    /// Whether requests need no password.
    pub(super) fn is_optional(&self) -> bool {
        self.mode == JwtMode::Optional
    }

    /// The header that has the name of the user.
    pub(super) fn user_header(&self) -> Option<&HeaderName> {
        self.user_header.as_ref()
    }
}

impl<'a> PresentedPassword<'a> {
    /// The user, if the password is known to be right.
    #[must_use]
    pub fn known(&self, now: Instant) -> Option<PasswordHolder<'a>> {
        // Also asked for a user that does not exist: it takes as long as for one that does.
        let is_verified = self.by.checks.is_verified(self.user, self.password(), now);
        (self.is_known && is_verified).then(|| self.holder())
    }

    /// What identifies it among the wrong ones of a client.
    #[must_use]
    pub fn wrong_pair(&self, address: IpAddr) -> PairKey {
        WrongPasswords::pair(self.user, self.name(), self.password(), address)
    }

    /// Submits it to be checked, for a client that asks for a route of this namespace.
    #[must_use]
    pub fn submit(&self, namespace: &str, address: IpAddr) -> Arc<Check> {
        let pair = (self.name(), self.password());
        self.by.checks.submit(self.user, pair, (namespace, address))
    }

    /// Why it is refused after it was found wrong.
    #[must_use]
    pub fn refusal(&self) -> PasswordRefusal {
        if self.is_known {
            PasswordRefusal::Wrong
        } else {
            PasswordRefusal::UnknownUser
        }
    }

    /// The user, once the password was found right.
    #[must_use]
    pub fn holder(&self) -> PasswordHolder<'a> {
        PasswordHolder {
            policy: self.by,
            user: self.user.name(),
        }
    }

    fn name(&self) -> &[u8] {
        self.pair.get(..self.end).unwrap_or_default()
    }

    fn password(&self) -> &[u8] {
        let behind = self.pair.get(self.end..).unwrap_or_default();
        behind.get(1..).unwrap_or_default()
    }
}

impl<'a> PasswordHolder<'a> {
    /// The name of the user.
    #[must_use]
    pub fn user(self) -> &'a str {
        self.user
    }

    /// Where the password is removed from.
    pub(super) fn stripped(self) -> &'a TokenLocation {
        &self.policy.location
    }
}

/// `user:password`, without control characters (RFC 7617 section 2): no user can have typed them.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    // Four characters of base64 are three bytes.
    if text.len() / 4 > PASSWORD_BYTES / 3 {
        return None;
    }
    let pair = BASE64.decode(text).ok()?;
    (!pair.iter().any(u8::is_ascii_control)).then_some(pair)
}

/// The hashes that most users have, as far as their checks take equally long.
fn commonest(users: &[PasswordUser]) -> Option<&[PasswordHash]> {
    let mut counts: HashMap<Vec<Work>, (usize, &[PasswordHash])> = HashMap::new();
    for user in users {
        let mut works: Vec<Work> = user.hashes.iter().map(Work::of).collect();
        works.sort_unstable();
        let (count, _) = counts.entry(works).or_insert((0, &*user.hashes));
        *count = count.saturating_add(1);
    }
    let most = { counts.into_iter() }
        .max_by(|(works, (count, _)), (others, (other, _))| (count, works).cmp(&(other, others)));
    most.map(|(_, (_, hashes))| hashes)
}

/// How long the check of a hash takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Work {
    Sha1,
    Apr1,
    Bcrypt(u32),
}

impl Work {
    fn of(hash: &PasswordHash) -> Self {
        match hash {
            PasswordHash::Bcrypt { cost, .. } => Self::Bcrypt(cost.get()),
            PasswordHash::Apr1 { .. } => Self::Apr1,
            PasswordHash::Sha1(_) => Self::Sha1,
        }
    }
}

/// With or without padding: clients differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicAuth")
            .field("mode", &self.mode)
            .field("users", &self.users.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use xds::model::{BcryptCost, PasswordUsers};

    use super::*;
    use crate::policy::sample;

    fn bcrypt(cost: u32) -> PasswordHash {
        PasswordHash::Bcrypt {
            cost: BcryptCost::new(cost).expect("in range"),
            salt: [1; 16],
            digest: [2; 23],
        }
    }

    fn user(name: &str, hashes: &[PasswordHash]) -> PasswordUser {
        PasswordUser {
            name: name.into(),
            hashes: hashes.into(),
        }
    }

    fn policy(users: &[PasswordUser], is_incomplete: bool) -> BasicAuth {
        let policy = BasicAuthPolicy {
            mode: JwtMode::Strict,
            realm: Some("sh\"op".to_owned()),
            user_header: None,
            users: PasswordUsers {
                accepted: users.into(),
                is_incomplete,
            },
        };
        BasicAuth::compile(&policy, Arc::new(PasswordChecks::start()))
    }

    /// The name, the password, and whether the user is known.
    type Found = Option<(String, String, bool)>;

    fn found(policy: &BasicAuth, lines: &[&str]) -> Result<Found, PasswordRefusal> {
        let lines: Vec<_> = lines.iter().map(|it| ("Authorization", *it)).collect();
        let (fields, bytes) = sample::fields(&lines);
        let sources = TokenSources {
            fields: &fields,
            bytes: &bytes,
            query: None,
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok({ policy.find(sources)? }.map(|it| (text(it.name()), text(it.password()), it.is_known)))
    }

    #[test]
    fn a_user_and_a_password_are_read_from_authorization() {
        let policy = policy(&[user("alice", &[bcrypt(4)])], false);
        let of = |name: &str, password: &str, is_known| {
            Ok(Some((name.to_owned(), password.to_owned(), is_known)))
        };
        // `alice:a:b`, with and without padding, and `al:`.
        assert_eq!(
            found(&policy, &["Basic YWxpY2U6YTpi"]),
            of("alice", "a:b", true)
        );
        for line in ["basic YWxpY2U6YQ==", "BASIC   YWxpY2U6YQ"] {
            assert_eq!(found(&policy, &[line]), of("alice", "a", true), "{line}");
        }
        assert_eq!(found(&policy, &["Basic YWw6"]), of("al", "", false));
        assert_eq!(found(&policy, &[]), Ok(None));
        assert_eq!(found(&policy, &["Bearer YWw6"]), Ok(None));
    }

    #[test]
    fn what_is_no_user_with_a_password_is_malformed() {
        let policy = policy(&[user("alice", &[bcrypt(4)])], false);
        let long = format!("Basic {}", "YWE6".repeat(400));
        // Without a colon, no base64, with a line end.
        for line in [
            "Basic YWxpY2U=",
            "Basic a:b",
            "Basic YTpiCg==",
            "Basic",
            &long,
        ] {
            assert_eq!(
                found(&policy, &[line]),
                Err(PasswordRefusal::Malformed),
                "{line}"
            );
        }
        let twice = ["Basic YWw6", "Basic YWw6"];
        assert_eq!(found(&policy, &twice), Err(PasswordRefusal::Ambiguous));
    }

    #[test]
    fn an_unknown_user_may_be_one_that_could_not_be_read() {
        let users = [user("alice", &[bcrypt(4)])];
        let unknown = ["Basic Ym9iOmE="];
        assert!(found(&policy(&users, false), &unknown).is_ok());
        let incomplete = policy(&users, true);
        assert_eq!(
            found(&incomplete, &unknown),
            Err(PasswordRefusal::Incomplete)
        );
        assert!(found(&incomplete, &["Basic YWxpY2U6YQ=="]).is_ok());
        let empty = policy(&[], false);
        assert_eq!(found(&empty, &unknown), Err(PasswordRefusal::UnknownUser));
    }

    #[test]
    fn unknown_users_take_as_long_as_most_known_ones() {
        let sha1 = PasswordHash::Sha1([1; 20]);
        let users = [
            user("a", &[bcrypt(10), sha1.clone()]),
            user("b", &[bcrypt(12)]),
            user("c", &[sha1.clone(), bcrypt(10)]),
            user("d", &[sha1]),
        ];
        assert_eq!(commonest(&users).map(<[_]>::len), Some(2));
        assert_eq!(commonest(&users[1..2]), Some(&[bcrypt(12)][..]));
        assert_eq!(commonest(&[]), None);
    }

    #[test]
    fn the_challenge_names_realm_and_encoding() {
        let policy = policy(&[], false);
        let line = String::from_utf8_lossy(policy.challenge());
        let expected = "WWW-Authenticate: Basic realm=\"sh\\\"op\", charset=\"UTF-8\"\r\n";
        assert_eq!(line, expected);
    }
}
