//! Session persistence of a rule or of a backend (GEP-1619).

use std::fmt;
use std::time::Duration;

use http::HeaderName;
use thiserror::Error;

/// Session persistence: requests of a session go to one endpoint while it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPersistence {
    /// Cookie or header.
    pub token: SessionToken,
    /// A session ends this long after it began.
    pub absolute_timeout: Option<Duration>,
    /// A session ends this long after its last request.
    pub idle_timeout: Option<Duration>,
}

/// Where a session's token lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionToken {
    /// A cookie of this name.
    Cookie {
        /// Its name.
        name: String,
        /// The paths that a browser sends it to.
        path: CookiePath,
        /// Whether the browser keeps it.
        lifetime: SessionLifetime,
    },
    /// A header of this name, sent by us and returned by the client.
    Header(HeaderName),
}

/// How long a session cookie lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionLifetime {
    /// Until the browser closes.
    Session,
    /// Until the session's absolute timeout.
    Permanent,
}

/// The value of a cookie's `Path` attribute. Build with [`CookiePath::parse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookiePath(String);

/// Why a text is no [`CookiePath`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not a path of a cookie: start it with `/`, and leave out `;` and characters that are \
     not visible ASCII"
)]
pub struct InvalidCookiePath(pub String);

impl CookiePath {
    /// Parses a path.
    ///
    /// # Errors
    /// A browser would ignore it (RFC 6265 section 5.2.4), or it would end the attribute or the field.
    pub fn parse(text: &str) -> Result<Self, InvalidCookiePath> {
        let fits = |byte: u8| byte.is_ascii_graphic() && byte != b';';
        if text.starts_with('/') && text.bytes().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidCookiePath(text.to_owned()))
        }
    }

    /// The text.
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
    fn a_cookie_path_cannot_leave_its_attribute() {
        for text in ["/", "/shop", "/a%20b/"] {
            assert!(CookiePath::parse(text).is_ok(), "{text}");
        }
        for text in ["", "shop", "/a;Domain=b", "/a b", "/a\r\nX: y", "/ü"] {
            assert!(CookiePath::parse(text).is_err(), "{text}");
        }
    }
}
