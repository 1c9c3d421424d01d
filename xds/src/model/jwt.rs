//! JWT authentication.

use std::fmt;
use std::time::Duration;

use http::HeaderName;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{GatewayDuration, Target, json};
use crate::secret;

/// JSON Web Tokens (RFC 7519) that requests must or may carry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct JwtPolicy {
    /// Whether requests without a token are rejected.
    pub mode: JwtMode,
    /// Realm of the challenge in a 401; `None` means the proxy's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
    /// Trusted issuers. Tokens of other issuers are rejected; without providers, all are.
    pub providers: Vec<JwtProvider>,
}

impl JwtPolicy {
    /// The backends that keys are fetched from.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        let keys = self.providers.iter().map(|provider| &provider.keys);
        keys.filter_map(|keys| match keys {
            JwtKeys::Remote {
                location: JwksLocation::Backend { target, .. },
                ..
            } => Some(target),
            JwtKeys::Remote { .. } | JwtKeys::Inline(_) => None,
        })
    }
}

/// How requests without a token are handled. A token that is present is always verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum JwtMode {
    /// Requests without a token are rejected with 401.
    Strict,
    /// Requests without a token are forwarded.
    Optional,
}

/// One issuer of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtProvider {
    /// Its name in the policy.
    pub name: String,
    /// The `iss` claim of its tokens.
    pub issuer: String,
    /// Accepted `aud` claims, one of which has to match; empty accepts any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
    /// Keys that sign its tokens.
    pub keys: JwtKeys,
    /// Where tokens are read from, in this order; empty means `Authorization: Bearer`.
    #[serde(flatten, serialize_with = "sources")]
    pub from: Vec<JwtSource>,
    /// Whether the token is forwarded to the backend.
    #[serde(serialize_with = "is_kept")]
    pub forward: JwtForward,
    /// Claims that are forwarded to the backend as headers.
    #[serde(serialize_with = "claims", skip_serializing_if = "Vec::is_empty")]
    pub claims_to_headers: Vec<ClaimHeader>,
    /// How far the issuer's clock may differ; `None` means the proxy's default.
    #[serde(
        serialize_with = "json::optional_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub clock_skew: Option<Duration>,
    /// Whether its tokens have to expire.
    #[serde(
        rename = "withoutExpiry",
        serialize_with = "is_optional",
        skip_serializing_if = "JwtExpiry::is_required"
    )]
    pub expiry: JwtExpiry,
}

/// Whether a token needs the claim `exp`. One that is present is always checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JwtExpiry {
    /// Tokens without it are rejected.
    Required,
    /// Tokens without it are accepted (RFC 7519 section 4.1.4), for as long as their key is.
    Optional,
}

/// Keys of an issuer: a JWKS (RFC 7517).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JwtKeys {
    /// The JSON text, inline.
    Inline(String),
    /// Fetched over HTTP by the proxy.
    Remote {
        /// Where to fetch the keys.
        location: JwksLocation,
        /// Refresh interval; `None` follows the response's Cache-Control.
        cache: Option<Duration>,
    },
}

/// Where keys are fetched from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JwksLocation {
    /// A path of a backend, fetched with the backend's TLS settings. If the backend does not
    /// resolve, there are no keys, and tokens of the provider are rejected.
    Backend {
        /// The backend that serves the keys.
        target: Target,
        /// Absolute path of the key set.
        path: String,
    },
    /// An absolute `http` or `https` URL.
    Url(String),
}

/// Where a token is read from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JwtSource {
    /// A header, after a prefix such as `Bearer `, which may be empty.
    Header {
        /// Name of the header.
        name: HeaderName,
        /// Text before the token.
        prefix: String,
    },
    /// A query parameter of this name.
    Query(String),
    /// A cookie of this name.
    Cookie(String),
}

impl JwtSource {
    /// In [`PolicySpec::hidden`](super::PolicySpec::hidden), the name that stands for all of them: no query
    /// parameter and no header has it.
    pub const ANY_NAME: &str = "*";
}

/// The places of tokens that logs and traces hide, in at most [`HIDDEN_BYTES`]: all headers and parameters, if
/// the names of those that are meant take more. Cookies are always hidden.
pub(super) fn hidden<'a>(sources: impl Iterator<Item = &'a JwtSource>) -> Vec<JwtSource> {
    let (mut hidden, mut bytes) = (Vec::new(), 0);
    for source in sources {
        let source = match source {
            JwtSource::Header { name, .. } => of_header(name.clone()),
            JwtSource::Query(_) => source.clone(),
            JwtSource::Cookie(_) => continue,
        };
        if hidden.contains(&source) {
            continue;
        }
        bytes += match &source {
            JwtSource::Header { name, .. } => name.as_str().len(),
            JwtSource::Query(name) | JwtSource::Cookie(name) => name.len(),
        };
        if bytes > HIDDEN_BYTES {
            let any = JwtSource::ANY_NAME;
            let parameters = JwtSource::Query(any.to_owned());
            return vec![of_header(HeaderName::from_static(any)), parameters];
        }
        hidden.push(source);
    }
    hidden
}

fn of_header(name: HeaderName) -> JwtSource {
    JwtSource::Header {
        name,
        prefix: String::new(),
    }
}

/// Most bytes of the names of places that are hidden: 256, some ten ordinary names.
const HIDDEN_BYTES: usize = 256;

/// What happens to a verified token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JwtForward {
    /// It is removed from the request.
    Strip,
    /// It is forwarded unchanged.
    Keep,
}

/// A claim forwarded to the backend as a header. A header of that name sent by the client is
/// removed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimHeader {
    /// Path of the claim, separated by dots.
    pub claim: String,
    /// Name of the header.
    pub header: HeaderName,
}

/// Keys are shown by id: some of them are secrets.
impl Serialize for JwtKeys {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Inline(jwks) => {
                map.serialize_entry("type", "Inline")?;
                map.serialize_entry("keyIds", &key_ids(jwks))?;
            }
            Self::Remote { location, cache } => {
                match location {
                    JwksLocation::Backend { target, path } => {
                        map.serialize_entry("type", "Backend")?;
                        map.serialize_entry("target", target)?;
                        map.serialize_entry("path", &secret::target(path))?;
                    }
                    JwksLocation::Url(url) => {
                        map.serialize_entry("type", "Url")?;
                        map.serialize_entry("url", &secret::url(url))?;
                    }
                }
                if let Some(cache) = cache {
                    map.serialize_entry("cache", &GatewayDuration(*cache).to_string())?;
                }
            }
        }
        map.end()
    }
}

/// The ids of a JWKS; keys without one count as `?`.
fn key_ids(jwks: &str) -> Vec<String> {
    let jwks: Value = serde_json::from_str(jwks).unwrap_or_default();
    let keys = jwks["keys"].as_array().map_or(&[][..], Vec::as_slice);
    let id = |key: &Value| key["kid"].as_str().unwrap_or("?").to_owned();
    keys.iter().map(id).collect()
}

impl fmt::Display for JwtSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header { name, prefix: _ } => write!(f, "header:{name}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Cookie(name) => write!(f, "cookie:{name}"),
        }
    }
}

/// Where tokens are read from, and the prefixes in headers: a list, since tokens may be read from one
/// header after different prefixes.
pub(super) fn sources<S: Serializer>(
    sources: &[JwtSource],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let texts: Vec<_> = sources.iter().map(ToString::to_string).collect();
    let prefixes = sources.iter().filter_map(|source| match source {
        JwtSource::Header { name, prefix } if !prefix.is_empty() => Some(HeaderPrefix {
            name: name.as_str(),
            prefix,
        }),
        JwtSource::Header { .. } | JwtSource::Query(_) | JwtSource::Cookie(_) => None,
    });
    let prefixes: Vec<_> = prefixes.collect();
    let mut map = serializer.serialize_map(None)?;
    if !texts.is_empty() {
        map.serialize_entry("from", &texts)?;
    }
    if !prefixes.is_empty() {
        map.serialize_entry("headerPrefixes", &prefixes)?;
    }
    map.end()
}

#[derive(Serialize)]
struct HeaderPrefix<'a> {
    name: &'a str,
    prefix: &'a str,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn is_kept<S: Serializer>(
    forward: &JwtForward,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(*forward == JwtForward::Keep)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_optional<S: Serializer>(expiry: &JwtExpiry, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(*expiry == JwtExpiry::Optional)
}

/// The name of a header that is there.
#[expect(clippy::ref_option, reason = "serde passes references")]
pub(super) fn optional_header<S: Serializer>(
    name: &Option<HeaderName>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    name.as_ref().map(HeaderName::as_str).serialize(serializer)
}

impl JwtExpiry {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    fn is_required(&self) -> bool {
        *self == Self::Required
    }
}

/// Claim and header of each.
fn claims<S: Serializer>(claims: &[ClaimHeader], serializer: S) -> Result<S::Ok, S::Error> {
    let pairs = claims.iter();
    serializer.collect_seq(pairs.map(|ClaimHeader { claim, header }| (claim, header.as_str())))
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;
    use serde::Serialize;

    use super::{JwtKeys, JwtSource, key_ids, sources};

    #[test]
    fn every_prefix_of_a_header_is_shown() {
        #[derive(Serialize)]
        struct Shown(#[serde(serialize_with = "sources")] Vec<JwtSource>);

        let header = |prefix: &str| JwtSource::Header {
            name: AUTHORIZATION,
            prefix: prefix.to_owned(),
        };
        let shown = Shown(vec![header("Bearer "), header("Token "), header("")]);
        assert_eq!(
            serde_json::to_value(shown).expect("JSON"),
            serde_json::json!({
                "from": ["header:authorization", "header:authorization", "header:authorization"],
                "headerPrefixes": [
                    {"name": "authorization", "prefix": "Bearer "},
                    {"name": "authorization", "prefix": "Token "},
                ],
            })
        );
    }

    #[test]
    fn keys_are_shown_by_id_only() {
        let jwks =
            r#"{"keys": [{"kty": "oct", "kid": "a", "k": "aHVzaA"}, {"kty": "oct", "k": "x"}]}"#;
        assert_eq!(key_ids(jwks), ["a", "?"]);
        assert_eq!(key_ids("no JSON"), Vec::<String>::new());
        let json = serde_json::to_string(&JwtKeys::Inline(jwks.to_owned())).expect("JSON");
        assert!(!json.contains("aHVzaA"), "{json}");
    }
}
