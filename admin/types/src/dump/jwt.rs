//! JWT authentication; keys are shown by id only, since some of them are secrets.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xds::model;

use super::Target;
use crate::secret;
use crate::text::of_duration;

/// JSON Web Tokens that requests must or may carry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwt {
    /// Whether requests without a token are rejected (`Strict`) or allowed (`Optional`).
    pub mode: String,
    /// Realm of the challenge in a 401.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
    /// Issuers whose tokens are accepted.
    pub providers: Vec<JwtProvider>,
}

impl From<&model::JwtPolicy> for Jwt {
    fn from(policy: &model::JwtPolicy) -> Self {
        Self {
            mode: match policy.mode {
                model::JwtMode::Strict => "Strict",
                model::JwtMode::Optional => "Optional",
            }
            .to_owned(),
            realm: policy.realm.clone(),
            providers: policy.providers.iter().map(Into::into).collect(),
        }
    }
}

/// One issuer of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtProvider {
    /// Name in the policy.
    pub name: String,
    /// The `iss` claim of its tokens.
    pub issuer: String,
    /// Accepted `aud` claims; empty accepts any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
    /// Keys that sign its tokens.
    pub keys: JwtKeys,
    /// Where tokens are read from: `header:name`, `query:name` or `cookie:name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// Whether the token is forwarded to the backend.
    pub forward: bool,
    /// Claims forwarded as headers: claim and header.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims_to_headers: Vec<(String, String)>,
    /// How far the issuer's clock may differ, such as `30s`; None for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_skew: Option<String>,
    /// Whether tokens that never expire are accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_expiry: bool,
}

/// Keys of an issuer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum JwtKeys {
    /// Part of the policy.
    Inline {
        /// The `kid` of each key.
        key_ids: Vec<String>,
    },
    /// Fetched from a backend.
    Backend {
        /// The backend that serves the key set.
        target: Target,
        /// Path of the key set.
        path: String,
        /// Interval between fetches, such as `5m`; None for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache: Option<String>,
    },
    /// Fetched from a URL.
    Url {
        /// The URL; credentials in it are masked.
        url: String,
        /// Interval between fetches, such as `5m`; None for the default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache: Option<String>,
    },
}

impl From<&model::JwtProvider> for JwtProvider {
    fn from(provider: &model::JwtProvider) -> Self {
        let claims = provider.claims_to_headers.iter();
        Self {
            name: provider.name.clone(),
            issuer: provider.issuer.clone(),
            audiences: provider.audiences.clone(),
            keys: (&provider.keys).into(),
            from: provider.from.iter().map(source).collect(),
            forward: provider.forward == model::JwtForward::Keep,
            claims_to_headers: claims
                .map(|it| (it.claim.clone(), it.header.to_string()))
                .collect(),
            clock_skew: provider.clock_skew.map(of_duration),
            without_expiry: provider.expiry == model::JwtExpiry::Optional,
        }
    }
}

impl From<&model::JwtKeys> for JwtKeys {
    fn from(keys: &model::JwtKeys) -> Self {
        match keys {
            model::JwtKeys::Inline(json) => Self::Inline {
                key_ids: key_ids(json),
            },
            model::JwtKeys::Remote { location, cache } => {
                let cache = cache.map(of_duration);
                match location {
                    model::JwksLocation::Backend { target, path } => Self::Backend {
                        target: target.into(),
                        path: secret::target(path).into_owned(),
                        cache,
                    },
                    model::JwksLocation::Url(url) => Self::Url {
                        url: secret::url(url),
                        cache,
                    },
                }
            }
        }
    }
}

/// A place of tokens as text.
pub(super) fn source(source: &model::JwtSource) -> String {
    match source {
        model::JwtSource::Header { name, .. } => format!("header:{name}"),
        model::JwtSource::Query(name) => format!("query:{name}"),
        model::JwtSource::Cookie(name) => format!("cookie:{name}"),
    }
}

/// The ids of a JWKS; keys without one count as `?`.
fn key_ids(jwks: &str) -> Vec<String> {
    let jwks: Value = serde_json::from_str(jwks).unwrap_or_default();
    let keys = jwks["keys"].as_array().map_or(&[][..], Vec::as_slice);
    let id = |key: &Value| key["kid"].as_str().unwrap_or("?").to_owned();
    keys.iter().map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::{JwtKeys, key_ids};
    use xds::model;

    #[test]
    fn keys_are_shown_by_id_only() {
        let jwks =
            r#"{"keys": [{"kty": "oct", "kid": "a", "k": "aHVzaA"}, {"kty": "oct", "k": "x"}]}"#;
        assert_eq!(key_ids(jwks), ["a", "?"]);
        assert_eq!(key_ids("no JSON"), Vec::<String>::new());
        let keys = JwtKeys::from(&model::JwtKeys::Inline(jwks.to_owned()));
        let json = serde_json::to_string(&keys).expect("JSON");
        assert!(!json.contains("aHVzaA"), "{json}");
    }
}
