//! Filters of rules and backend references.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::Target;

/// The filters of a rule or of a backend reference.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filters {
    /// Changes to request headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<HeaderEdit>,
    /// Changes to response headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<HeaderEdit>,
    /// Responds with a redirect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Redirect>,
    /// Rewrites host and path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<Rewrite>,
    /// Copies requests to other backends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<Mirror>,
    /// Cross-origin resource sharing (CORS), as the Fetch standard defines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<Cors>,
    /// External authorization servers, which are called in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub external_auth: Vec<ExternalAuth>,
}

/// An external authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuth {
    /// The authorization server that is called.
    pub target: Target,
    /// Protocol to the server: `HTTP` or `GRPC`.
    pub protocol: String,
    /// Prefix of the path of requests to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path_prefix: String,
    /// Header fields of the request that are sent to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request_headers: Vec<String>,
    /// Header fields of its response that are copied into the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub response_headers: Vec<String>,
    /// Maximum bytes of the request's body that are sent to it; None sends no body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<NonZeroU32>,
}

impl Filters {
    /// Whether no filter is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Changes to the header fields of a request or response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderEdit {
    /// Headers to replace or add.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<HeaderLine>,
    /// Headers to append to existing ones of the same name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<HeaderLine>,
    /// Names of headers to remove.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

/// A header field that an edit sets or appends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderLine {
    /// Name in lower case.
    pub name: String,
    /// Masked where it is secret.
    pub value: String,
}

/// A change to a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value")]
pub enum PathEdit {
    /// Replaces the whole path.
    ReplaceFullPath(String),
    /// Replaces the matched prefix.
    ReplacePrefixMatch(String),
}

/// A redirect. Absent parts are those of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// Scheme of the location: `http` or `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Host of the location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Change to the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathEdit>,
    /// Port of the location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Status code of the response.
    pub status: u16,
}

/// A rewrite of the request target. Absent parts are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// Host that replaces the request's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Change to the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathEdit>,
}

/// A backend that receives copies of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// The backend; its responses are discarded.
    pub target: Target,
    /// Share of the requests that are copied; None for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<Fraction>,
}

/// `numerator` out of every `denominator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fraction {
    /// At most the denominator.
    pub numerator: u32,
    /// The number of requests that `numerator` is out of, at least 1.
    pub denominator: u32,
}

/// Cross-origin resource sharing; `*` in a list means all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// Allowed origins, such as `https://*.example.com`.
    pub allow_origins: Vec<String>,
    /// Whether requests with credentials are allowed.
    pub allow_credentials: bool,
    /// Allowed methods; safelisted ones are always allowed.
    pub allow_methods: Vec<String>,
    /// Request headers allowed besides the safelisted ones.
    pub allow_headers: Vec<String>,
    /// Response headers that scripts may read.
    pub expose_headers: Vec<String>,
    /// How long browsers may cache a preflight response.
    pub max_age: String,
}
