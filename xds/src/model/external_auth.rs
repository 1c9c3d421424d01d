//! External authorization of requests (GEP-1494).

use std::fmt;
use std::num::NonZeroU32;

use http::HeaderName;
use serde::Serialize;
use thiserror::Error;

use super::matching::is_uri_path;
use super::{InvalidBackend, Target, json};

/// An external authorization server. If it cannot be reached or fails, the request is rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuth {
    /// The authorization server.
    pub target: Target,
    /// The protocol to the server.
    #[serde(flatten)]
    pub protocol: ExternalAuthProtocol,
    /// Maximum bytes of the request's body that are sent to the server; requests with a longer body
    /// are rejected. `None` sends no body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<NonZeroU32>,
}

impl ExternalAuth {
    /// A server that does not exist, so that every request is rejected.
    #[must_use]
    pub fn refusing() -> Self {
        Self {
            target: Target::Invalid {
                why: InvalidBackend::NotFound,
                reference: String::new(),
            },
            protocol: ExternalAuthProtocol::Grpc {
                request_headers: Vec::new(),
            },
            body_bytes: None,
        }
    }
}

/// The protocol to an authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(
    tag = "protocol",
    rename_all = "UPPERCASE",
    rename_all_fields = "camelCase"
)]
pub enum ExternalAuthProtocol {
    /// A copy of the request, which the server answers with status 200 to allow it.
    Http {
        /// Prefix of the request's path.
        #[serde(skip_serializing_if = "AuthPathPrefix::is_empty")]
        path_prefix: AuthPathPrefix,
        /// Header fields of the request that are sent in addition to those that always are.
        #[serde(serialize_with = "json::texts", skip_serializing_if = "Vec::is_empty")]
        request_headers: Vec<HeaderName>,
        /// Header fields of its response that are copied into the request; none means all.
        #[serde(serialize_with = "json::texts", skip_serializing_if = "Vec::is_empty")]
        response_headers: Vec<HeaderName>,
    },
    /// A call of `envoy.service.auth.v3.Authorization/Check`.
    Grpc {
        /// Header fields of the request that are sent; none means all.
        #[serde(serialize_with = "json::texts", skip_serializing_if = "Vec::is_empty")]
        request_headers: Vec<HeaderName>,
    },
}

/// A prefix for paths: empty, or a path without a trailing slash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AuthPathPrefix(String);

/// A text that is not a valid [`AuthPathPrefix`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` cannot be put in front of a path: start it with `/`, percent-encode what is not a \
     character of a URI path, and leave out query and fragment"
)]
pub struct InvalidAuthPathPrefix(pub String);

impl AuthPathPrefix {
    /// Parses a prefix; trailing slashes are ignored.
    ///
    /// # Errors
    ///
    /// The text is not a path.
    pub fn parse(text: &str) -> Result<Self, InvalidAuthPathPrefix> {
        let prefix = text.trim_end_matches('/');
        if prefix.is_empty() || (prefix.starts_with('/') && is_uri_path(prefix)) {
            Ok(Self(prefix.to_owned()))
        } else {
            Err(InvalidAuthPathPrefix(text.to_owned()))
        }
    }

    /// Whether paths stay as they are.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The prefix as text, without a trailing slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AuthPathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::AuthPathPrefix;

    #[test]
    fn auth_path_prefixes_are_validated() {
        for (text, prefix) in [
            ("", ""),
            ("/", ""),
            ("/check", "/check"),
            ("/a%20b/", "/a%20b"),
        ] {
            let parsed = AuthPathPrefix::parse(text).expect(text);
            assert_eq!(parsed.as_str(), prefix);
        }
        for text in ["check", "/a b", "/a?b", "/ HTTP/1.1\r\n"] {
            assert!(AuthPathPrefix::parse(text).is_err(), "{text}");
        }
    }
}
