//! Compiled API keys. A key is found by a hash under a secret of this process, so that the time of the look-up says
//! nothing about keys, and the keys themselves are nowhere.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use http::HeaderName;
use ring::hmac;
use serde_json::{Map, Value};
use xds::model::{ApiKeyPolicy, JwtForward, KeyDigest};

use super::authorization::ClaimValues;
use super::headers::is_ours;
use super::jwt::{self, TokenLocation, TokenSources};
use crate::failure::{Failure, FailureKind};
use crate::names::causes;
use crate::route::query;

causes! {
    /// Why a request is rejected.
    KeyRefusal;
    /// It has more than one.
    Ambiguous "several_keys";
    /// The place of the key is malformed.
    Malformed "malformed";
    /// No client has this key.
    Unknown "unknown_key";
    /// No client has this key, but some keys are not known.
    Incomplete "keys_missing";
}

impl From<KeyRefusal> for Failure {
    fn from(refusal: KeyRefusal) -> Self {
        let kind = match refusal {
            KeyRefusal::Ambiguous => FailureKind::AmbiguousCredentials,
            KeyRefusal::Malformed | KeyRefusal::Unknown => FailureKind::WrongCredentials,
            KeyRefusal::Incomplete => FailureKind::CredentialsMissing,
        };
        Self::because(kind, refusal.reason())
    }
}

/// The API keys of a policy.
pub struct ApiKeys {
    locations: Box<[TokenLocation]>,
    client_header: Option<HeaderName>,
    forward: JwtForward,
    hash_key: hmac::Key,
    clients: HashMap<KeyHash, Box<str>>,
    is_incomplete: bool,
}

/// The hash of a key's digest under a secret of the process.
type KeyHash = [u8; 32];

/// The client that a key belongs to.
#[derive(Debug, Clone, Copy)]
pub struct KeyHolder<'a> {
    policy: &'a ApiKeys,
    location: &'a TokenLocation,
    client: &'a str,
}

impl ApiKeys {
    /// Compiles the keys of a policy.
    #[must_use]
    pub fn compile(policy: &ApiKeyPolicy) -> Self {
        let hash_key = hmac::Key::new(hmac::HMAC_SHA256, &rand::random::<[u8; 32]>());
        let keys = policy.keys.accepted.iter();
        let clients = keys.map(|key| (hash(&hash_key, &key.digest), key.client.clone()));
        Self {
            locations: policy.from.iter().map(TokenLocation::compile).collect(),
            client_header: { policy.client_header.clone() }
                .filter(|name| !is_ours(name.as_str().as_bytes())),
            forward: policy.forward,
            clients: clients.collect(),
            hash_key,
            is_incomplete: policy.keys.is_incomplete,
        }
    }

    /// The client of a request by its key; `None` if it has none.
    ///
    /// # Errors
    /// It has a key that is not accepted, or more than one.
    pub fn authenticate<'a>(
        &'a self,
        sources: TokenSources<'_>,
    ) -> Result<Option<KeyHolder<'a>>, KeyRefusal> {
        let mut found = None;
        for location in &self.locations {
            let key = location.find(sources).map_err(|refusal| match refusal {
                jwt::Refusal::Ambiguous => KeyRefusal::Ambiguous,
                _ => KeyRefusal::Malformed,
            })?;
            if let Some(key) = key
                && found.replace((location, key)).is_some()
            {
                return Err(KeyRefusal::Ambiguous);
            }
        }
        let Some((location, key)) = found else {
            return Ok(None);
        };
        let key = if location.is_in_target() {
            Cow::Owned(unescaped(key))
        } else {
            Cow::Borrowed(key)
        };
        // Whoever sends it, it is nobody's: a Secret may have the hash of nothing by mistake.
        if key.is_empty() {
            return Err(KeyRefusal::Malformed);
        }
        let digest = KeyDigest::of(&key);
        match self.clients.get(&hash(&self.hash_key, &digest)) {
            Some(client) => Ok(Some(KeyHolder {
                policy: self,
                location,
                client,
            })),
            None if self.is_incomplete => Err(KeyRefusal::Incomplete),
            None => Err(KeyRefusal::Unknown),
        }
    }

    /// The header that has the name of the client.
    pub(super) fn client_header(&self) -> Option<&HeaderName> {
        self.client_header.as_ref()
    }

    /// Where keys are read from.
    pub(super) fn locations(&self) -> &[TokenLocation] {
        &self.locations
    }

    /// Whether a request's target may hold a key, which no log may show.
    pub(super) fn reads_target(&self) -> bool {
        self.locations.iter().any(TokenLocation::is_in_target)
    }

    /// Whether keys are read as bearer tokens.
    pub(super) fn reads_bearer(&self) -> bool {
        self.locations.contains(&TokenLocation::bearer())
    }
}

impl<'a> KeyHolder<'a> {
    /// The name of the client.
    #[must_use]
    pub fn client(self) -> &'a str {
        self.client
    }

    /// Where the key is removed from.
    pub(super) fn stripped(self) -> Option<&'a TokenLocation> {
        (self.policy.forward == JwtForward::Strip).then_some(self.location)
    }
}

/// What rules see of a client that is known by its name alone.
pub(super) fn claims_of(client: &str, by: &str) -> ClaimValues {
    let claims = [("sub", client), ("auth", by)];
    let claims = claims.map(|(name, value)| (name.to_owned(), Value::from(value)));
    ClaimValues::new(&Map::from_iter(claims))
}

fn hash(key: &hmac::Key, digest: &KeyDigest) -> KeyHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(hmac::sign(key, &digest.0).as_ref());
    hash
}

/// A value of a query without its escapes. `+` stands for itself: keys in base64 have it.
fn unescaped(value: &[u8]) -> Vec<u8> {
    let parts = value.split(|byte| *byte == b'+');
    let parts: Vec<Vec<u8>> = parts.map(|part| query::decoded(part).collect()).collect();
    parts.join(&b'+')
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKeys")
            .field("locations", &self.locations)
            .field("clients", &self.clients.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use xds::model::{ApiKey, JwtSource};

    use super::*;
    use crate::policy::sample;

    fn policy(from: Vec<JwtSource>, is_incomplete: bool) -> ApiKeys {
        let key = |client: &str, key: &str| ApiKey {
            digest: KeyDigest::of(key.as_bytes()),
            client: client.into(),
        };
        let policy = ApiKeyPolicy {
            from,
            client_header: None,
            forward: JwtForward::Strip,
            keys: xds::model::ApiKeys {
                accepted: [key("acme", "k+1/="), key("acme", "k2"), key("other", "k3")].into(),
                is_incomplete,
            },
        };
        ApiKeys::compile(&policy)
    }

    fn header(name: &'static str, prefix: &str) -> JwtSource {
        JwtSource::Header {
            name: HeaderName::from_static(name),
            prefix: prefix.to_owned(),
        }
    }

    fn client(
        policy: &ApiKeys,
        lines: &[(&str, &str)],
        query: Option<&str>,
    ) -> Result<Option<String>, KeyRefusal> {
        let (fields, bytes) = sample::fields(lines);
        let sources = TokenSources {
            fields: &fields,
            bytes: &bytes,
            query,
        };
        let holder = policy.authenticate(sources)?;
        Ok(holder.map(|it| it.client().to_owned()))
    }

    #[test]
    fn a_key_is_the_clients_wherever_it_is_read_from() {
        let from = vec![
            header("authorization", "Bearer "),
            header("x-api-key", ""),
            JwtSource::Query("key".to_owned()),
        ];
        let policy = policy(from, false);
        let acme = Ok(Some("acme".to_owned()));
        let bearer = |key| [("Authorization", key)];
        assert_eq!(client(&policy, &bearer("Bearer k+1/="), None), acme);
        assert_eq!(client(&policy, &[("X-Api-Key", "k2")], None), acme);
        for query in ["a=b&key=k+1/=", "key=k%2B1%2f%3D", "key=k+1%2f="] {
            assert_eq!(client(&policy, &[], Some(query)), acme, "{query}");
        }
        let others = client(&policy, &bearer("Basic eDp5"), Some("k=k2"));
        assert_eq!(others, Ok(None));
    }

    #[test]
    fn an_empty_key_is_nobodys() {
        let nothing = ApiKeyPolicy {
            from: vec![
                JwtSource::Query("key".to_owned()),
                JwtSource::Cookie("key".to_owned()),
            ],
            client_header: None,
            forward: JwtForward::Strip,
            keys: xds::model::ApiKeys {
                accepted: [ApiKey {
                    digest: KeyDigest::of(b""),
                    client: "acme".into(),
                }]
                .into(),
                is_incomplete: true,
            },
        };
        let policy = ApiKeys::compile(&nothing);
        let malformed = Err(KeyRefusal::Malformed);
        for query in ["key=", "key", "a=b&%6bey="] {
            assert_eq!(client(&policy, &[], Some(query)), malformed, "{query}");
        }
        assert_eq!(client(&policy, &[("Cookie", "key=")], None), malformed);
    }

    #[test]
    fn other_keys_and_several_ones_are_refused() {
        let from = vec![header("authorization", "Bearer "), header("x-api-key", "")];
        let known = policy(from.clone(), false);
        let key = |value| ("X-Api-Key", value);
        for (lines, refusal) in [
            (&[key("k")][..], KeyRefusal::Unknown),
            (&[key("K2")], KeyRefusal::Unknown),
            (&[key("acme")], KeyRefusal::Unknown),
            (&[key("")], KeyRefusal::Malformed),
            (&[("Authorization", "Bearer")], KeyRefusal::Malformed),
            (&[key("k2"), key("k3")], KeyRefusal::Ambiguous),
            (
                &[key("k2"), ("Authorization", "Bearer k2")],
                KeyRefusal::Ambiguous,
            ),
        ] {
            assert_eq!(client(&known, lines, None), Err(refusal), "{lines:?}");
        }
        let incomplete = policy(from, true);
        let unknown = client(&incomplete, &[key("k")], None);
        assert_eq!(unknown, Err(KeyRefusal::Incomplete));
        assert!(client(&incomplete, &[key("k2")], None).is_ok());
    }
}
