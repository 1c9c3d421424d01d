//! HTTPRoute.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{DefaultScope, HttpRouteFilter, ParentReference};
use crate::objects::api::ObjectMeta;
use crate::route::api::HttpBackendRef;

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct HttpRoute {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: HttpRouteSpec,
}

/// The desired state of an HTTPRoute.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// Gateways, listeners or Services that it attaches to.
    #[serde(
        default,
        deserialize_with = "super::parent_ref::read",
        serialize_with = "super::parent_ref::write"
    )]
    pub parent_refs: Vec<Arc<ParentReference>>,
    /// The default Gateways that it attaches to, beside those that it names.
    #[serde(default)]
    pub use_default_gateways: DefaultScope,
    /// Its hosts; none means every host.
    #[serde(default)]
    pub hostnames: Vec<String>,
    #[serde(default = "default_rules")]
    pub rules: Vec<HttpRouteRule>,
}

fn default_rules() -> Vec<HttpRouteRule> {
    vec![HttpRouteRule::default()]
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteRule {
    #[serde(default)]
    pub name: Option<String>,
    /// Matches, one of which has to apply.
    #[serde(default = "default_matches")]
    pub matches: Vec<HttpRouteMatch>,
    #[serde(default)]
    pub filters: Vec<HttpRouteFilter>,
    #[serde(default)]
    pub backend_refs: Vec<HttpBackendRef>,
    #[serde(default)]
    pub timeouts: Option<Box<HttpRouteTimeouts>>,
    #[serde(default)]
    pub retry: Option<Box<HttpRouteRetry>>,
    #[serde(default)]
    pub session_persistence: Option<Box<SessionPersistence>>,
}

impl Default for HttpRouteRule {
    fn default() -> Self {
        Self {
            name: None,
            matches: default_matches(),
            filters: Vec::new(),
            backend_refs: Vec::new(),
            timeouts: None,
            retry: None,
            session_persistence: None,
        }
    }
}

fn default_matches() -> Vec<HttpRouteMatch> {
    vec![HttpRouteMatch::default()]
}

/// A match: all of its parts must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteMatch {
    #[serde(default)]
    pub path: HttpPathMatch,
    #[serde(default)]
    pub headers: Vec<HttpHeaderMatch>,
    #[serde(default)]
    pub query_params: Vec<HttpQueryParamMatch>,
    #[serde(default)]
    pub method: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpPathMatch {
    #[serde(rename = "type", default)]
    pub kind: PathMatchType,
    #[serde(default = "slash")]
    pub value: String,
}

impl Default for HttpPathMatch {
    fn default() -> Self {
        Self {
            kind: PathMatchType::default(),
            value: slash(),
        }
    }
}

fn slash() -> String {
    "/".to_owned()
}

/// How a path is matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum PathMatchType {
    Exact,
    #[default]
    PathPrefix,
    /// The whole text matches a regular expression.
    RegularExpression,
    /// A type of a later version of the API.
    #[serde(other)]
    Unknown,
}

/// How a value is matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ValueMatchType {
    #[default]
    Exact,
    /// The whole text matches a regular expression.
    RegularExpression,
    /// A type of a later version of the API.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpHeaderMatch {
    #[serde(rename = "type", default)]
    pub kind: ValueMatchType,
    pub name: String,
    pub value: String,
}

/// Matches a query parameter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpQueryParamMatch {
    #[serde(rename = "type", default)]
    pub kind: ValueMatchType,
    pub name: String,
    pub value: String,
}

/// Timeouts of a rule, as durations of Gateway API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteTimeouts {
    #[serde(default)]
    pub request: Option<String>,
    #[serde(default)]
    pub backend_request: Option<String>,
}

/// Retries of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpRouteRetry {
    /// Status codes that are retried.
    #[serde(default)]
    pub codes: Vec<u16>,
    /// Number of retries; 0 disables all, including those that are always safe.
    #[serde(default)]
    pub attempts: Option<u32>,
    /// Least wait before a retry.
    #[serde(default)]
    pub backoff: Option<String>,
}

/// Session persistence of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPersistence {
    /// Name of the cookie or header; chosen by the gateway if omitted. In Gateway API until v1.6.
    #[serde(default)]
    pub session_name: Option<String>,
    /// Maximum lifetime of a session.
    #[serde(default)]
    pub absolute_timeout: Option<String>,
    /// Lifetime of a session after its last request. Removed from Gateway API after v1.5.
    #[serde(default)]
    pub idle_timeout: Option<String>,
    /// How clients return the token.
    #[serde(rename = "type", default)]
    pub kind: SessionPersistenceType,
    /// Settings of the cookie, in Gateway API up to v1.6.
    #[serde(default)]
    pub cookie_config: Option<CookieConfig>,
    #[serde(default)]
    pub cookie: Option<SessionCookie>,
    #[serde(default)]
    pub header: Option<SessionHeader>,
}

/// How clients return a session's token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum SessionPersistenceType {
    #[default]
    Cookie,
    Header,
    /// A type of a later version of the API.
    #[serde(other)]
    Unknown,
}

/// The cookie of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionCookie {
    /// Name of the cookie; chosen by the gateway if omitted.
    #[serde(default)]
    pub name: Option<String>,
    /// The paths that a browser sends it to; all by default.
    #[serde(default)]
    pub path: Option<String>,
    /// Whether it outlives the browser's session.
    #[serde(default)]
    pub lifetime_type: CookieLifetime,
}

/// The header of a session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct SessionHeader {
    pub name: String,
}

/// The cookie of a session, as Gateway API had it up to v1.6.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieConfig {
    /// Whether it outlives the browser's session.
    #[serde(default)]
    pub lifetime_type: CookieLifetime,
}

/// Lifetime of a cookie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum CookieLifetime {
    /// Until the absolute timeout.
    Permanent,
    /// Until the browser closes.
    #[default]
    Session,
}
