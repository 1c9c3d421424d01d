//! API keys of clients. Proxies get the hashes of keys alone.

use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::jwt::{self, JwtForward, JwtSource};

/// API keys, one of which a request must carry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyPolicy {
    /// Where keys are read from. A request has at most one.
    #[serde(flatten, serialize_with = "jwt::sources")]
    pub from: Vec<JwtSource>,
    /// The header with the name of the client, for backends.
    #[serde(
        serialize_with = "jwt::optional_header",
        skip_serializing_if = "Option::is_none"
    )]
    pub client_header: Option<HeaderName>,
    /// Whether the key is forwarded to the backend.
    #[serde(serialize_with = "jwt::is_kept")]
    pub forward: JwtForward,
    /// The keys that are accepted.
    #[serde(flatten)]
    pub keys: ApiKeys,
}

/// The keys of clients. A client may have several, so that one can replace another.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ApiKeys {
    /// In the order of their digests, each once.
    pub accepted: Arc<[ApiKey]>,
    /// Whether some keys could not be read, so that one that is not found may be among them.
    pub is_incomplete: bool,
}

/// The key of a client.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKey {
    /// SHA-256 of the key.
    pub digest: KeyDigest,
    /// Whose it is.
    pub client: Box<str>,
}

/// SHA-256 of an API key. Never shown: who guesses a key could confirm it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyDigest(pub [u8; 32]);

impl KeyDigest {
    /// The digest of a key.
    #[must_use]
    pub fn of(key: &[u8]) -> Self {
        let mut digest = [0; 32];
        digest.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, key).as_ref());
        Self(digest)
    }
}

impl ApiKeys {
    /// The names of the clients, each once.
    fn clients(&self) -> Vec<&str> {
        let mut clients: Vec<&str> = self.accepted.iter().map(|key| &*key.client).collect();
        clients.sort_unstable();
        clients.dedup();
        clients
    }
}

/// The names of the clients.
impl Serialize for ApiKeys {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("clients", &self.clients())?;
        if self.is_incomplete {
            map.serialize_entry("incomplete", &true)?;
        }
        map.end()
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKeys")
            .field("clients", &self.clients())
            .field("is_incomplete", &self.is_incomplete)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({})", self.client)
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_by_client_only() {
        let key = |client: &str, key: &str| ApiKey {
            digest: KeyDigest::of(key.as_bytes()),
            client: client.into(),
        };
        let policy = ApiKeyPolicy {
            from: vec![JwtSource::Cookie("key".to_owned())],
            client_header: Some(HeaderName::from_static("x-client")),
            forward: JwtForward::Strip,
            keys: ApiKeys {
                accepted: [key("b", "1"), key("a", "2"), key("b", "3")].into(),
                is_incomplete: true,
            },
        };
        assert_eq!(
            serde_json::to_value(&policy).expect("JSON"),
            serde_json::json!({
                "from": ["cookie:key"], "clientHeader": "x-client", "forward": false,
                "clients": ["a", "b"], "incomplete": true,
            })
        );
        let shown = format!("{policy:?} {:?}", policy.keys.accepted);
        let bytes = format!("{:?}", KeyDigest::of(b"1").0);
        assert!(
            shown.contains("\"a\"") && !shown.contains(&bytes[1..9]),
            "{shown}"
        );
    }
}
