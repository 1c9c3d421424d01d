//! What a rule, or one backend of it, does to requests and responses.

use std::num::NonZeroU32;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, StatusCode};

use super::{Hostname, Target};

/// The filters of a rule or of one backend reference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filters {
    /// Edits of the request's headers.
    pub request_headers: Option<HeaderEdit>,
    /// Edits of the response's headers.
    pub response_headers: Option<HeaderEdit>,
    /// Answers with a redirect; excludes `rewrite`.
    pub redirect: Option<Redirect>,
    /// Rewrites host and path; excludes `redirect`.
    pub rewrite: Option<Rewrite>,
    /// Copies of the request that are sent elsewhere.
    pub mirrors: Vec<Mirror>,
    /// Cross-origin resource sharing.
    pub cors: Option<Cors>,
}

/// Changes to a set of header fields, carried out as set, add, remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderEdit {
    /// Replace all lines of a name by one.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Append to what is there.
    pub add: Vec<(HeaderName, HeaderValue)>,
    /// Take out all lines of a name.
    pub remove: Vec<HeaderName>,
}

/// `http` or `https`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http`, port 80.
    Http,
    /// `https`, port 443.
    Https,
}

/// A new path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathEdit {
    /// Replaces the whole path.
    Full(String),
    /// Replaces the matched prefix; only in rules that match prefixes alone.
    PrefixMatch(String),
}

/// Answers with a redirect. What is `None` stays as the request had it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Scheme of the location.
    pub scheme: Option<Scheme>,
    /// Host of the location.
    pub hostname: Option<Hostname>,
    /// Path of the location.
    pub path: Option<PathEdit>,
    /// Port of the location; otherwise the scheme's, otherwise the listener's.
    pub port: Option<u16>,
    /// 301, 302, 303, 307 or 308.
    pub status: StatusCode,
}

/// Rewrites the request on its way to the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// New Host.
    pub hostname: Option<Hostname>,
    /// New path.
    pub path: Option<PathEdit>,
}

/// `numerator` of every `denominator` requests, each drawn on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fraction {
    /// How many; at most the denominator.
    pub numerator: u32,
    /// Out of how many.
    pub denominator: NonZeroU32,
}

/// Sends a copy of the request elsewhere and ignores the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Where to.
    pub target: Target,
    /// How many of the requests; `None` means all.
    pub fraction: Option<Fraction>,
}

/// One allowed origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CorsOrigin {
    /// `*`: every origin.
    Any,
    /// `https://example.com:8443`, compared exactly.
    Exact(String),
    /// `https://*.example.com`, `http://*:8080`: any number of labels in the place of the `*`.
    Wildcard {
        /// Up to the `*`.
        before: String,
        /// After the `*`.
        after: String,
    },
}

/// A list of names, or `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allow<T> {
    /// `*`: every one.
    Any,
    /// These; none where empty.
    Listed(Vec<T>),
}

/// Cross-origin resource sharing (Fetch standard; Gateway API `HTTPCORSFilter`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Who may ask.
    pub allow_origins: Vec<CorsOrigin>,
    /// Whether credentials may be sent.
    pub allow_credentials: bool,
    /// Methods.
    pub allow_methods: Allow<Method>,
    /// Request headers.
    pub allow_headers: Allow<HeaderName>,
    /// Response headers that scripts may read.
    pub expose_headers: Allow<HeaderName>,
    /// How long a preflight answer may be kept.
    pub max_age: Duration,
}
