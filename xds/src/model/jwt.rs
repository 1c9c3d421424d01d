//! JWT authentication.

use std::time::Duration;

use http::HeaderName;

use super::Target;

/// JSON Web Tokens (RFC 7519) that requests must or may carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtPolicy {
    /// Whether requests without a token are rejected.
    pub mode: JwtMode,
    /// Realm of the challenge in a 401; `None` means the proxy's default.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtMode {
    /// Requests without a token are rejected with 401.
    Strict,
    /// Requests without a token are forwarded.
    Optional,
}

/// One issuer of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtProvider {
    /// Its name in the policy.
    pub name: String,
    /// The `iss` claim of its tokens.
    pub issuer: String,
    /// Accepted `aud` claims, one of which has to match; empty accepts any.
    pub audiences: Vec<String>,
    /// Keys that sign its tokens.
    pub keys: JwtKeys,
    /// Where tokens are read from, in this order; empty means `Authorization: Bearer`.
    pub from: Vec<JwtSource>,
    /// Whether the token is forwarded to the backend.
    pub forward: JwtForward,
    /// Claims that are forwarded to the backend as headers.
    pub claims_to_headers: Vec<ClaimHeader>,
    /// How far the issuer's clock may differ; `None` means the proxy's default.
    pub clock_skew: Option<Duration>,
    /// Whether its tokens have to expire.
    pub expiry: JwtExpiry,
}

/// Whether a token needs the claim `exp`. One that is present is always checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtExpiry {
    /// Tokens without it are rejected.
    Required,
    /// Tokens without it are accepted (RFC 7519 section 4.1.4), for as long as their key is.
    Optional,
}

/// Keys of an issuer: a JWKS (RFC 7517).
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// What happens to a verified token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtForward {
    /// It is removed from the request.
    Strip,
    /// It is forwarded unchanged.
    Keep,
}

/// A claim forwarded to the backend as a header. A header of that name sent by the client is
/// removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimHeader {
    /// Path of the claim, separated by dots.
    pub claim: String,
    /// Name of the header.
    pub header: HeaderName,
}
