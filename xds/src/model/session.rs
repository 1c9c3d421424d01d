//! Session persistence of a rule or of a backend (GEP-1619).

use std::fmt;
use std::time::Duration;

use http::HeaderName;
use serde::{Serialize, Serializer};
use thiserror::Error;

use super::json;
use crate::limits::LONGEST_TOKEN_LIFETIME;

/// Session persistence: the requests of a session go to one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPersistence {
    /// How clients return the session's token.
    pub token: SessionToken,
    /// Longest duration of a session; `None` means unlimited.
    #[serde(
        serialize_with = "json::optional_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub absolute_timeout: Option<Duration>,
    /// Longest time between requests; `None` means unlimited.
    #[serde(
        serialize_with = "json::optional_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub idle_timeout: Option<Duration>,
}

impl SessionPersistence {
    /// How long a client can return a token without getting a new one: until a timeout. Bounded to 30 days, also
    /// without a timeout.
    #[must_use]
    pub fn token_lifetime(&self) -> Duration {
        let timeouts = [self.absolute_timeout, self.idle_timeout];
        let timeouts = timeouts.into_iter().flatten();
        timeouts.fold(LONGEST_TOKEN_LIFETIME, Duration::min)
    }
}

/// How clients return a session's token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
pub enum SessionToken {
    /// In a cookie, set in responses.
    Cookie {
        /// Name of the cookie.
        name: String,
        /// `Path` attribute of the cookie.
        path: CookiePath,
        /// Whether browsers keep the cookie.
        lifetime: SessionLifetime,
    },
    /// In a header of this name, set in responses.
    #[serde(serialize_with = "header")]
    Header(HeaderName),
}

fn header<S: Serializer>(name: &HeaderName, serializer: S) -> Result<S::Ok, S::Error> {
    json::entry("name", name.as_str(), serializer)
}

/// Lifetime of a session cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum SessionLifetime {
    /// Until the browser closes.
    Session,
    /// Until the session's absolute timeout.
    Permanent,
}

/// The value of a cookie's `Path` attribute. Build with [`CookiePath::parse`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CookiePath(String);

/// A text that is not a valid [`CookiePath`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a valid cookie path: start it with `/`, and leave out `;` and characters that are \
     not visible ASCII"
)]
pub struct InvalidCookiePath(pub String);

impl CookiePath {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// A browser would ignore it (RFC 6265 section 5.2.4), or it contains characters that end the
    /// attribute or the field.
    pub fn parse(text: &str) -> Result<Self, InvalidCookiePath> {
        let fits = |byte: u8| byte.is_ascii_graphic() && byte != b';';
        if text.starts_with('/') && text.bytes().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidCookiePath(text.to_owned()))
        }
    }

    /// The value of the attribute, such as `/shop`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for CookiePath {
    fn default() -> Self {
        Self("/".to_owned())
    }
}

impl fmt::Display for CookiePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::CookiePath;

    #[test]
    fn cookie_paths_cannot_inject_attributes() {
        for text in ["/", "/shop", "/a%20b/"] {
            assert!(CookiePath::parse(text).is_ok(), "{text}");
        }
        for text in ["", "shop", "/a;Domain=b", "/a b", "/a\r\nX: y", "/ü"] {
            assert!(CookiePath::parse(text).is_err(), "{text}");
        }
    }
}
