//! Filters of HTTP rules and of their backends.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::ExternalAuthFilter;
use crate::backend::api::BackendObjectReference;

/// A filter: its type, and the field of that type. Fields are boxed, since all but one are unset.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteFilter {
    /// Which field is set.
    #[serde(rename = "type")]
    pub kind: FilterType,
    #[serde(default)]
    pub request_header_modifier: Option<Box<HeaderFilter>>,
    #[serde(default)]
    pub response_header_modifier: Option<Box<HeaderFilter>>,
    #[serde(default)]
    pub request_mirror: Option<Box<MirrorFilter>>,
    /// Responds with a redirect.
    #[serde(default)]
    pub request_redirect: Option<Box<RedirectFilter>>,
    /// Rewrites host and path.
    #[serde(default)]
    pub url_rewrite: Option<Box<RewriteFilter>>,
    #[serde(default)]
    pub cors: Option<Box<CorsFilter>>,
    /// Calls an external authorization server.
    #[serde(default)]
    pub external_auth: Option<Box<ExternalAuthFilter>>,
    /// A filter of another kind.
    #[serde(default)]
    pub extension_ref: Option<Box<LocalObjectReference>>,
}

/// The types of filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum FilterType {
    RequestHeaderModifier,
    ResponseHeaderModifier,
    RequestMirror,
    /// Responds with a redirect.
    RequestRedirect,
    /// Rewrites host and path.
    URLRewrite,
    #[serde(rename = "CORS")]
    Cors,
    /// Calls an external authorization server.
    ExternalAuth,
    /// A filter of another kind.
    ExtensionRef,
    /// A value of a later version of the API.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct HeaderFilter {
    #[serde(default)]
    pub set: Vec<Header>,
    #[serde(default)]
    pub add: Vec<Header>,
    #[serde(default)]
    pub remove: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Header {
    pub name: String,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MirrorFilter {
    pub backend_ref: BackendObjectReference,
    /// Percentage of the requests.
    #[serde(default)]
    pub percent: Option<u32>,
    /// Fraction of the requests.
    #[serde(default)]
    pub fraction: Option<Fraction>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub struct Fraction {
    pub numerator: u32,
    /// The number of requests that the numerator is out of.
    #[serde(default = "hundred")]
    pub denominator: u32,
}

fn hundred() -> u32 {
    100
}

/// Responds with a redirect.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RedirectFilter {
    /// Scheme of the location: `http` or `https`.
    #[serde(default)]
    pub scheme: Option<String>,
    #[serde(default)]
    pub hostname: Option<String>,
    #[serde(default)]
    pub path: Option<PathModifier>,
    #[serde(default)]
    pub port: Option<NonZeroU16>,
    /// 301, 302, 303, 307 or 308.
    #[serde(default = "found")]
    pub status_code: u16,
}

fn found() -> u16 {
    302
}

/// Rewrites host and path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct RewriteFilter {
    #[serde(default)]
    pub hostname: Option<String>,
    #[serde(default)]
    pub path: Option<PathModifier>,
}

/// A new path: its type, and the field of that type.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathModifier {
    /// Which field is set.
    #[serde(rename = "type")]
    pub kind: PathModifierType,
    /// Replacement of the whole path.
    #[serde(default)]
    pub replace_full_path: Option<String>,
    /// Replacement of the matched prefix.
    #[serde(default)]
    pub replace_prefix_match: Option<String>,
}

/// Which part of a path is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum PathModifierType {
    ReplaceFullPath,
    ReplacePrefixMatch,
    /// A value of a later version of the API.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CorsFilter {
    /// Origins, such as `https://*.example.com`, or `*`.
    #[serde(default)]
    pub allow_origins: Vec<String>,
    /// Whether credentials may be sent.
    #[serde(default)]
    pub allow_credentials: Option<bool>,
    /// Methods, such as `PUT`, or `*`.
    #[serde(default)]
    pub allow_methods: Vec<String>,
    /// Request headers, or `*`.
    #[serde(default)]
    pub allow_headers: Vec<String>,
    /// Response headers that scripts may read, or `*`.
    #[serde(default)]
    pub expose_headers: Vec<String>,
    /// Seconds for which a preflight response may be cached.
    #[serde(default = "five")]
    pub max_age: u32,
}

fn five() -> u32 {
    5
}

/// An object in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct LocalObjectReference {
    pub group: String,
    pub kind: String,
    pub name: String,
}
