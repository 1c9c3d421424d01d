//! Passwords of users. Proxies get their hashes.

mod file;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderName;
use http::header::AUTHORIZATION;
use xds::model::{
    BasicAuthPolicy, BcryptCost, JwtMode, JwtSource, ObjectName, PasswordHash, PasswordUser,
    PasswordUsers, PolicySpec,
};

pub(crate) use self::file::PasswordFile;
use super::api::{BasicAuthSpec, JwtModeSpec};
use super::secrets::{self, Findings, Owners};
use super::{api_keys, jwt};
use crate::backend::referrer::Referrer;
use crate::objects::reader::Reader;
use crate::route::header_edit;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// The lowered passwords of a policy.
pub(crate) struct LoweredBasicAuth {
    pub(crate) policy: BasicAuthPolicy,
    pub(crate) problems: Vec<Problem>,
    /// Secrets and lines that cannot be used.
    pub(crate) refs: Vec<Problem>,
    pub(crate) read: ReadPasswords,
}

/// What a policy has read of Secrets, which stays in effect where one becomes unreadable.
pub(crate) type ReadPasswords = BTreeMap<ObjectName, Arc<PasswordFile>>;

/// Lowers the passwords of the policy `from`, which has the other credentials of `beside`, and has read `before`.
pub(crate) fn lower(
    reader: &Reader<'_>,
    from: Referrer<'_>,
    spec: &BasicAuthSpec,
    beside: &PolicySpec,
    before: Option<&ReadPasswords>,
) -> LoweredBasicAuth {
    let mut problems = Vec::new();
    let mut note = |problem| problems.push(problem);
    if spec.secret_refs.is_empty() {
        note(invalid(
            "secretRefs",
            "names no Secret: refer to one with the users",
        ));
    }
    if let Err(problem) = has_place(beside) {
        note(problem);
    }
    let realm = spec.realm.as_deref().map(jwt::realm).transpose();
    let realm = realm.unwrap_or_else(|problem| {
        note(problem);
        None
    });
    let user_header = spec.user_header.as_deref().map(user_header).transpose();
    let user_header = user_header.unwrap_or_else(|problem| {
        note(problem);
        None
    });
    let mut found = Found {
        before,
        ..Found::default()
    };
    for (index, reference) in spec.secret_refs.iter().enumerate() {
        let field = format!("secretRefs[{index}]");
        if let Some(problem) = secrets::named_before(from.namespace, &spec.secret_refs, index) {
            note(problem.under(&field));
            continue;
        }
        match secrets::resolve(reader, from, reference) {
            Ok(secret) => {
                let file = PasswordFile::of(secret);
                found.read(&secret.metadata.name, file, &field);
            }
            Err(problem) => found.findings.lacks(problem.under(&field)),
        }
    }
    LoweredBasicAuth {
        policy: BasicAuthPolicy {
            mode: match spec.mode {
                JwtModeSpec::Strict => JwtMode::Strict,
                JwtModeSpec::Optional => JwtMode::Optional,
            },
            realm,
            user_header,
            users: found.users(),
        },
        problems,
        refs: found.findings.into_refs(),
        read: found.files,
    }
}

/// The header with the name of a user.
pub(crate) fn user_header(text: &str) -> Result<HeaderName, Problem> {
    header_edit::name(text).map_err(|problem| Problem {
        reason: Reason::Invalid,
        ..problem.under("userHeader")
    })
}

/// Whether a request can have a password beside the other credentials: there is one field `Authorization`.
fn has_place(beside: &PolicySpec) -> Result<(), Problem> {
    let tokens: Vec<JwtSource> = { beside.jwt.iter() }
        .flat_map(|jwt| &jwt.providers)
        .flat_map(api_keys::places)
        .collect();
    let keys: Vec<JwtSource> = { beside.api_keys.iter() }
        .flat_map(|keys| keys.from.iter().cloned())
        .collect();
    for (field, places) in [("jwt", tokens), ("apiKeys", keys)] {
        if let Some(place) = places.iter().find(|place| is_taken(place)) {
            let message = format!(
                "`{field}` reads `{place}` without the name of a scheme, which passwords are in too: use another \
                 place or prefix there"
            );
            return Err(invalid("", message));
        }
        if beside.require_all && !places.is_empty() && places.iter().all(is_authorization) {
            let message = format!(
                "with requireAll a request has this and `{field}`, which is read from `Authorization` too, and there \
                 is only one: use another place there (from)"
            );
            return Err(invalid("", message));
        }
    }
    Ok(())
}

fn is_authorization(place: &JwtSource) -> bool {
    matches!(place, JwtSource::Header { name, .. } if *name == AUTHORIZATION)
}

/// Whether a password would be read from this place.
fn is_taken(place: &JwtSource) -> bool {
    let JwtSource::Header { prefix, .. } = place else {
        return false;
    };
    let is_scheme = prefix.ends_with([' ', '\t']);
    is_authorization(place) && (!is_scheme || prefix.trim().eq_ignore_ascii_case("Basic"))
}

/// The users of the Secrets read so far.
#[derive(Default)]
struct Found<'a> {
    before: Option<&'a ReadPasswords>,
    /// The Secrets whose users are in effect.
    files: ReadPasswords,
    hashes: BTreeMap<String, Vec<PasswordHash>>,
    owners: Owners,
    findings: Findings,
}

impl Found<'_> {
    /// Takes the users of a Secret: as they are now, or if they are unreadable, as they were read last.
    fn read(&mut self, secret: &ObjectName, file: Result<PasswordFile, &'static str>, field: &str) {
        let unreadable = match &file {
            Err(why) => Some(format!("Secret {secret} {why}")),
            Ok(file) if file.is_damaged() => Some(format!("Secret {secret} has no usable line")),
            Ok(file) if file.users.len() > MOST_USERS => Some(format!(
                "Secret {secret} has {} users, and a policy has at most {MOST_USERS}: use several policies",
                file.users.len()
            )),
            Ok(file) => {
                if file.users.is_empty() {
                    let message = format!(
                        "Secret {secret} has no user: add a line as `htpasswd -nB NAME` prints it"
                    );
                    self.findings
                        .lacks(Problem::new(Reason::InvalidSecretRef, field, message));
                }
                None
            }
        };
        for fault in file.iter().flat_map(|file| &file.faults) {
            self.findings.fault(field, || {
                format!("Secret {secret}: {fault}; until then it admits nobody")
            });
        }
        let before = self.before.and_then(|before| before.get(secret)).cloned();
        let in_effect = match (unreadable, file, before) {
            (None, Ok(file), _) => Arc::new(file),
            (why, _, Some(before)) => {
                let message = format!(
                    "{}; until then its previous users stay, {} of them",
                    why.unwrap_or_default(),
                    before.users.len()
                );
                self.findings
                    .note(Problem::new(Reason::InvalidSecretRef, field, message));
                before
            }
            (why, _, None) => {
                let why = why.unwrap_or_default();
                self.findings
                    .lacks(Problem::new(Reason::InvalidSecretRef, field, why));
                return;
            }
        };
        self.take(secret, &in_effect, field);
        self.files.insert(secret.clone(), in_effect);
    }

    fn take(&mut self, secret: &ObjectName, file: &PasswordFile, field: &str) {
        let all = self.hashes.values().map(Vec::len).sum::<usize>() + file.users.len();
        if all > MOST_USERS {
            let message = format!(
                "the Secrets up to {secret} have {all} users, and a policy has at most {MOST_USERS}: use several \
                 policies"
            );
            self.findings
                .lacks(Problem::new(Reason::InvalidSecretRef, field, message));
            return;
        }
        for name in &file.closed {
            // A locked account does not fall to Secrets of another namespace; whose it is already, it stays.
            let _ = self.owners.own(name, secret);
        }
        for (name, line) in &file.users {
            match self.owners.own(name, secret) {
                Ok(()) => {
                    let hashes = self.hashes.entry(name.clone()).or_default();
                    if hashes.contains(&line.hash) {
                        continue;
                    }
                    if takes_no_longer_than_one(hashes, &line.hash) {
                        hashes.push(line.hash.clone());
                        continue;
                    }
                    self.findings.fault(field, || {
                        format!(
                            "line {} of Secret {secret} is of a user with passwords in other Secrets, and checks of \
                             all of them would take longer than one of cost {}: remove the other lines, or use a \
                             lower cost; until then it admits nobody",
                            line.number,
                            BcryptCost::MOST
                        )
                    });
                }
                Err(owner) => self.findings.fault(field, || {
                    format!(
                        "line {} of Secret {secret} is for a user of Secret {owner}, and names are not shared between \
                         namespaces: use another name; until then it admits nobody",
                        line.number
                    )
                }),
            }
        }
    }

    fn users(&mut self) -> PasswordUsers {
        let users = std::mem::take(&mut self.hashes).into_iter();
        let users = users.map(|(name, hashes)| PasswordUser {
            name: name.into(),
            hashes: hashes.into(),
        });
        PasswordUsers {
            accepted: users.collect(),
            is_incomplete: self.findings.is_incomplete(),
        }
    }
}

/// Whether a comparison with hashes of a user and another one takes no longer than one with the highest cost: who waits
/// for the threads that make them waits for one.
fn takes_no_longer_than_one(hashes: &[PasswordHash], another: &PasswordHash) -> bool {
    let rounds = |hash: &PasswordHash| match hash {
        PasswordHash::Bcrypt { cost, .. } => 1_u64 << cost.get(),
        PasswordHash::Apr1 { .. } | PasswordHash::Sha1(_) => 0,
    };
    let all = hashes.iter().chain([another]).map(rounds);
    all.sum::<u64>() <= 1 << BcryptCost::MOST
}

fn invalid(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::Invalid, field, message)
}

/// Most users of a policy: 16 Ki, which take 3 MiB in a proxy.
const MOST_USERS: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use xds::model::{ApiKeyPolicy, JwtForward};

    use super::*;
    use crate::objects::api::Secret;

    const LINE: &str = "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=";

    fn name(text: &str) -> ObjectName {
        let (namespace, name) = text.split_once('/').expect("namespace/name");
        ObjectName::new(namespace, name)
    }

    fn file(text: &str) -> Result<PasswordFile, &'static str> {
        let secret = serde_json::json!({"metadata": {"name": "x"}, "stringData": {"auth": text}});
        let secret: Secret = serde_json::from_value(secret).expect("a Secret");
        PasswordFile::of(&secret)
    }

    /// Reads Secrets after each other; the users, whether some are missing, and the problems.
    fn read(
        before: Option<&ReadPasswords>,
        secrets: &[(&str, &str)],
    ) -> (PasswordUsers, Vec<String>, ReadPasswords) {
        let mut found = Found {
            before,
            ..Found::default()
        };
        for (index, (secret, text)) in secrets.iter().enumerate() {
            found.read(&name(secret), file(text), &format!("secretRefs[{index}]"));
        }
        let users = found.users();
        let refs = found.findings.into_refs();
        let refs = refs.iter().map(ToString::to_string).collect();
        (users, refs, found.files)
    }

    fn names(users: &PasswordUsers) -> Vec<&str> {
        users.accepted.iter().map(|user| &*user.name).collect()
    }

    #[test]
    fn what_turns_unreadable_stays_as_it_was_and_what_is_emptied_ends() {
        let good = format!("alice:{LINE}\nbob:{LINE}\n");
        let (users, refs, before) = read(None, &[("shop/users", &good)]);
        assert_eq!((names(&users), refs.len()), (vec!["alice", "bob"], 0));
        let (users, refs, again) = read(Some(&before), &[("shop/users", "garbage")]);
        assert_eq!(
            (names(&users), users.is_incomplete),
            (vec!["alice", "bob"], false)
        );
        assert!(
            refs.concat().contains("its previous users stay, 2 of them"),
            "{refs:?}"
        );
        let (users, ..) = read(Some(&again), &[("shop/users", "worse")]);
        assert_eq!(users.accepted.len(), 2, "for as long as it is");
        let (users, refs, _) = read(Some(&before), &[("shop/users", "# nobody\n")]);
        assert!(users.accepted.is_empty() && users.is_incomplete);
        assert!(refs[0].contains("has no user: add a line"), "{refs:?}");
        for locked in ["alice:!\n", &format!("alice:{LINE}\nalice:{LINE}")] {
            let (users, refs, _) = read(Some(&before), &[("shop/users", locked)]);
            assert!(users.accepted.is_empty(), "{locked}: {refs:?}");
        }
        let one = format!("bob:{LINE}\ngarbage");
        let (users, ..) = read(Some(&before), &[("shop/users", &one)]);
        assert_eq!(names(&users), ["bob"], "a bad line alone keeps nothing");
    }

    #[test]
    fn without_a_previous_version_the_users_of_an_unreadable_secret_are_missing() {
        let (users, refs, read) = read(None, &[("shop/users", "garbage")]);
        assert!(users.accepted.is_empty() && users.is_incomplete && read.is_empty());
        let last = refs.iter().find(|it| it.contains("no usable line"));
        let last = last.expect("a problem");
        assert!(last.ends_with(secrets::UNKNOWN_UNTIL_THEN), "{last}");
        assert!(!refs.concat().contains("garbage"), "{refs:?}");
    }

    #[test]
    fn a_user_of_two_secrets_of_a_namespace_has_both_passwords() {
        let other = "{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=";
        let secrets = [
            ("shop/users", &*format!("alice:{LINE}")),
            ("shop/next", &format!("alice:{other}\nbob:{other}")),
            ("else/users", &format!("alice:{other}\ncarol:{other}")),
        ];
        let (users, refs, _) = read(None, &secrets);
        assert_eq!(names(&users), ["alice", "bob", "carol"]);
        assert_eq!(users.accepted[0].hashes.len(), 2);
        let expected = "secretRefs[2]: line 1 of Secret else/users is for a user of Secret shop/users, and names are \
                        not shared between namespaces: use another name; until then it admits nobody";
        assert_eq!(refs, [expected]);
    }

    #[test]
    fn a_locked_account_does_not_fall_to_another_namespace() {
        let secrets = [
            ("shop/users", "alice:!"),
            ("else/users", &*format!("alice:{LINE}\nbob:{LINE}")),
        ];
        let (users, refs, _) = read(None, &secrets);
        assert_eq!(names(&users), ["bob"], "{refs:?}");
    }

    #[test]
    fn all_hashes_of_a_user_take_no_longer_than_one_may() {
        let costly = |salt: &str| {
            format!("alice:$2y$14${salt}0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe")
        };
        let secrets = [("shop/one", &*costly("m")), ("shop/two", &costly("n"))];
        let (users, refs, _) = read(None, &secrets);
        assert_eq!(users.accepted[0].hashes.len(), 1);
        assert!(refs.concat().contains("lower cost"), "{refs:?}");
    }

    #[test]
    fn passwords_need_a_place_beside_other_credentials() {
        let keys = |name: &'static str, prefix: &str, require_all| PolicySpec {
            api_keys: Some(ApiKeyPolicy {
                from: vec![JwtSource::Header {
                    name: HeaderName::from_static(name),
                    prefix: prefix.to_owned(),
                }],
                client_header: None,
                forward: JwtForward::Strip,
                keys: xds::model::ApiKeys::default(),
            }),
            require_all,
            ..PolicySpec::default()
        };
        for (name, prefix, require_all, is_valid) in [
            ("x-api-key", "", true, true),
            ("authorization", "Bearer ", false, true),
            ("authorization", "Bearer ", true, false),
            ("authorization", "basic ", false, false),
            ("authorization", "", false, false),
        ] {
            let result = has_place(&keys(name, prefix, require_all));
            assert_eq!(result.is_ok(), is_valid, "{name} {prefix} {require_all}");
        }
        assert!(has_place(&PolicySpec::default()).is_ok());
    }
}
