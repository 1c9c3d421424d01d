//! Who may come in by which token.

use std::time::Duration;

use http::HeaderName;

use super::Target;

/// JSON Web Tokens (RFC 7519) that requests must or may carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtPolicy {
    /// What becomes of a request without a token.
    pub mode: JwtMode,
    /// Named in the challenge of a 401; `None` leaves it to the proxy.
    pub realm: Option<String>,
    /// Whose tokens are believed. A token of none of them is refused, so that no provider at all
    /// refuses every token.
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

/// What becomes of a request without a token. A token that is there is always verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtMode {
    /// Refused.
    Strict,
    /// Let through.
    Optional,
}

/// One issuer of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtProvider {
    /// Its name in the policy.
    pub name: String,
    /// The `iss` of its tokens.
    pub issuer: String,
    /// A token is for one of them; none means that `aud` is not looked at.
    pub audiences: Vec<String>,
    /// What its tokens are signed with.
    pub keys: JwtKeys,
    /// Where a token is looked for, in this order; none means `Authorization: Bearer`.
    pub from: Vec<JwtSource>,
    /// Whether the backend gets the token too.
    pub forward: JwtForward,
    /// Claims that the backend gets as headers.
    pub claims_to_headers: Vec<ClaimHeader>,
}

/// Keys of an issuer: a JWKS (RFC 7517).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwtKeys {
    /// The JSON text itself.
    Inline(String),
    /// Fetched by HTTP.
    Remote {
        /// From where.
        location: JwksLocation,
        /// Fetched again after this; `None` leaves it to the answer's Cache-Control.
        cache: Option<Duration>,
    },
}

/// Where keys are fetched from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwksLocation {
    /// A path of a backend, whose own TLS settings hold. Where it does not resolve, there are no
    /// keys, and tokens of the provider are refused.
    Backend {
        /// Which backend.
        target: Target,
        /// The path, with `/` first.
        path: String,
    },
    /// An absolute `http` or `https` URL.
    Url(String),
}

/// Where a token is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwtSource {
    /// In a header, after a prefix such as `Bearer `, which may be empty.
    Header {
        /// The header.
        name: HeaderName,
        /// What stands before the token.
        prefix: String,
    },
    /// In a query parameter.
    Query(String),
    /// In a cookie.
    Cookie(String),
}

/// What becomes of a verified token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtForward {
    /// It is taken out of the request.
    Strip,
    /// The backend gets it as it came.
    Keep,
}

/// A claim that the backend gets as a header. What a client sent under that name is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimHeader {
    /// The claim; dots lead into objects.
    pub claim: String,
    /// The header.
    pub header: HeaderName,
}
