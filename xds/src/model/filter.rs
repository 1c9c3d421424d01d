//! Filters of a rule or a backend.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde::{Serialize, Serializer};
use thiserror::Error;

use super::matching::is_uri_path;
use super::{ExternalAuth, Hostname, Target, json};

/// The filters of a rule or of one backend reference. Most have none, which takes no room.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Filters(Option<Box<FilterSet>>);

/// The contents of [`Filters`] that are not empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FilterSet {
    /// Edits of the request's headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<HeaderEdit>,
    /// Edits of the response's headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<HeaderEdit>,
    /// Responds with a redirect; excludes `rewrite`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Redirect>,
    /// Rewrites host and path; excludes `redirect`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<Rewrite>,
    /// Copies of the request sent to other backends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<Mirror>,
    /// CORS (cross-origin resource sharing) settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<Cors>,
    /// External authorization servers, in the order in which they are called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub external_auth: Vec<ExternalAuth>,
}

impl Serialize for Filters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl Filters {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The targets of requests and their copies, and the authorization servers.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        let mirrors = self.mirrors.iter().map(|mirror| &mirror.target);
        mirrors.chain(self.external_auth.iter().map(|auth| &auth.target))
    }
}

impl FilterSet {
    const EMPTY: Self = Self {
        request_headers: None,
        response_headers: None,
        redirect: None,
        rewrite: None,
        mirrors: Vec::new(),
        cors: None,
        external_auth: Vec::new(),
    };
}

impl Default for FilterSet {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl From<FilterSet> for Filters {
    fn from(filters: FilterSet) -> Self {
        Self((filters != FilterSet::EMPTY).then(|| Box::new(filters)))
    }
}

impl Deref for Filters {
    type Target = FilterSet;

    fn deref(&self) -> &FilterSet {
        static EMPTY: FilterSet = FilterSet::EMPTY;
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl fmt::Debug for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Changes to a set of header fields, applied in the order set, add, remove.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HeaderEdit {
    /// Replaces all lines of a name by one.
    #[serde(
        serialize_with = "json::header_lines",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Appends lines to those that are there.
    #[serde(
        serialize_with = "json::header_lines",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub add: Vec<(HeaderName, HeaderValue)>,
    /// Removes all lines of a name.
    #[serde(serialize_with = "json::texts", skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<HeaderName>,
}

/// Scheme of a redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// `http`, with default port 80.
    Http,
    /// `https`, with default port 443.
    Https,
}

/// A new path. Build through the constructors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", content = "value")]
pub enum PathEdit {
    /// Replaces the whole path.
    #[serde(rename = "ReplaceFullPath")]
    Full(String),
    /// Replaces the matched prefix; only in rules that match prefixes alone.
    #[serde(rename = "ReplacePrefixMatch")]
    PrefixMatch(String),
}

/// A text that is not a valid [`PathEdit`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` cannot replace a path: start it with `/`, percent-encode characters not allowed in a \
     URI path, and leave out query and fragment"
)]
pub struct InvalidPathEdit(pub String);

impl PathEdit {
    /// Replaces the whole path.
    ///
    /// # Errors
    ///
    /// The text does not start with `/`, or has characters that are not allowed in a path, such as
    /// spaces or `?`.
    pub fn full(path: &str) -> Result<Self, InvalidPathEdit> {
        // Anything else could end the request line of the rewritten request, or begin a query.
        if path.starts_with('/') && is_uri_path(path) {
            Ok(Self::Full(path.to_owned()))
        } else {
            Err(InvalidPathEdit(path.to_owned()))
        }
    }

    /// Replaces the matched prefix; an empty text removes it.
    ///
    /// # Errors
    ///
    /// As [`PathEdit::full`].
    pub fn prefix_match(path: &str) -> Result<Self, InvalidPathEdit> {
        if path.is_empty() {
            return Ok(Self::PrefixMatch(String::new()));
        }
        Self::full(path).map(|_| Self::PrefixMatch(path.to_owned()))
    }
}

/// Responds with a redirect. Fields that are `None` keep the request's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Redirect {
    /// Scheme of the location.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// Host of the location.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    /// Path of the location.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathEdit>,
    /// Port of the location, never 0; otherwise the scheme's, otherwise the listener's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// 301, 302, 303, 307 or 308.
    #[serde(serialize_with = "json::status")]
    pub status: StatusCode,
}

/// Rewrites the request on its way to the backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rewrite {
    /// New `Host`; `None` keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    /// New path; `None` keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathEdit>,
}

/// `numerator` of every `denominator` requests, each drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Fraction {
    /// Number of selected requests; at most the denominator.
    pub numerator: u32,
    /// Number of requests to select from.
    pub denominator: NonZeroU32,
}

/// Two numbers that are not a valid [`Fraction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{numerator} of {denominator} is not a fraction: the numerator must not exceed the denominator"
)]
pub struct InvalidFraction {
    /// The numerator, which exceeds the denominator.
    pub numerator: u32,
    /// The denominator that was given.
    pub denominator: NonZeroU32,
}

impl Fraction {
    /// `numerator` of every `denominator`.
    ///
    /// # Errors
    /// The numerator is larger than the denominator.
    pub fn new(numerator: u32, denominator: NonZeroU32) -> Result<Self, InvalidFraction> {
        if numerator > denominator.get() {
            return Err(InvalidFraction {
                numerator,
                denominator,
            });
        }
        Ok(Self {
            numerator,
            denominator,
        })
    }
}

/// Sends a copy of the request to another backend and ignores the response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mirror {
    /// The backend that receives the copies.
    pub target: Target,
    /// Fraction of the requests; `None` means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<Fraction>,
}

/// One allowed origin. Build with [`CorsOrigin::parse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CorsOrigin {
    /// Every origin, written `*`.
    Any,
    /// One origin, such as `https://example.com:8443`, compared exactly.
    Exact(String),
    /// `https://*.example.com`, `http://*:8080`: any number of labels in the place of the `*`.
    Wildcard {
        /// Text before the `*`.
        before: String,
        /// Text after the `*`.
        after: String,
    },
}

/// A text that is not a valid [`CorsOrigin`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not an origin: use `*`, or scheme and host, such as `https://example.com:8443` or \
     `https://*.example.com`"
)]
pub struct InvalidOrigin(pub String);

impl CorsOrigin {
    /// Parses `*`, an origin, or an origin whose host is `*` or begins with `*.`.
    ///
    /// # Errors
    ///
    /// The text is none of them.
    pub fn parse(text: &str) -> Result<Self, InvalidOrigin> {
        let invalid = || InvalidOrigin(text.to_owned());
        if text == "*" {
            return Ok(Self::Any);
        }
        let (scheme, authority) = text.split_once("://").ok_or_else(invalid)?;
        let (wildcard, rest) = match authority.strip_prefix('*') {
            Some(rest) => (true, rest),
            None => (false, authority),
        };
        let host_byte = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b);
        let scheme_byte = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
        let valid = !scheme.is_empty()
            && scheme.bytes().all(scheme_byte)
            && rest.bytes().all(host_byte)
            && (!wildcard || rest.is_empty() || rest.starts_with(['.', ':']))
            && !authority.is_empty();
        match (valid, wildcard) {
            (false, _) => Err(invalid()),
            (true, false) => Ok(Self::Exact(text.to_owned())),
            (true, true) => Ok(Self::Wildcard {
                before: format!("{scheme}://"),
                after: rest.to_owned(),
            }),
        }
    }
}

/// The text that parses to it.
impl fmt::Display for CorsOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Exact(origin) => f.write_str(origin),
            Self::Wildcard { before, after } => write!(f, "{before}*{after}"),
        }
    }
}

/// A list of names, or `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allow<T> {
    /// `*`: everything is allowed.
    Any,
    /// Only these; nothing if empty.
    Listed(Vec<T>),
}

impl<T: fmt::Display> Serialize for Allow<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => serializer.collect_seq(["*"]),
            Self::Listed(list) => json::texts(list, serializer),
        }
    }
}

/// Cross-origin resource sharing (Fetch standard; Gateway API `HTTPCORSFilter`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// Origins that may read responses.
    #[serde(serialize_with = "json::texts")]
    pub allow_origins: Vec<CorsOrigin>,
    /// Whether credentials may be sent.
    pub allow_credentials: bool,
    /// Methods allowed in requests.
    pub allow_methods: Allow<Method>,
    /// Header fields allowed in requests.
    pub allow_headers: Allow<HeaderName>,
    /// Response headers that scripts may read.
    pub expose_headers: Allow<HeaderName>,
    /// How long a browser may cache a preflight response.
    #[serde(serialize_with = "json::duration")]
    pub max_age: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_round_trip() {
        for text in [
            "*",
            "https://example.com",
            "http://example.com:8080",
            "http://[::1]:80",
            "https://*.example.com",
            "http://*",
            "http://*:8080",
        ] {
            let origin = CorsOrigin::parse(text).expect(text);
            assert_eq!(origin.to_string(), text);
        }
    }

    #[test]
    fn an_invalid_origin_is_rejected() {
        for text in [
            "",
            "example.com",
            "https://",
            "://a",
            "https://a/",
            "https://*a",
            "https://a.*",
            "https://a b",
            "https://*.*.a",
            "https://a\r\n",
        ] {
            assert!(CorsOrigin::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_fraction_is_at_most_one() {
        let ten = NonZeroU32::new(10).expect("not zero");
        assert!(Fraction::new(0, ten).is_ok());
        assert!(Fraction::new(10, ten).is_ok());
        assert!(Fraction::new(11, ten).is_err());
    }

    #[test]
    fn path_edits_must_be_valid_paths() {
        for text in ["/", "/a%20b", "/a/"] {
            assert!(PathEdit::full(text).is_ok(), "{text}");
            assert!(PathEdit::prefix_match(text).is_ok(), "{text}");
        }
        for text in ["a", "/a b", "/a?b", "/a#b", "/ HTTP/1.1\r\n", "/%2"] {
            assert!(PathEdit::full(text).is_err(), "{text}");
            assert!(PathEdit::prefix_match(text).is_err(), "{text}");
        }
        assert!(PathEdit::full("").is_err());
        assert!(PathEdit::prefix_match("").is_ok());
    }
}
