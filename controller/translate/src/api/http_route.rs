//! HTTPRoute.

use serde::{Deserialize, Serialize};

use super::{DefaultScope, HttpBackendRef, HttpRouteFilter, ObjectMeta, ParentReference};

/// An HTTPRoute.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct HttpRoute {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: HttpRouteSpec,
}

/// What an HTTPRoute is to do.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentReference>,
    /// The default Gateways that it attaches to, beside those that it names.
    #[serde(default)]
    pub use_default_gateways: DefaultScope,
    /// Its hosts; none means every host.
    #[serde(default)]
    pub hostnames: Vec<String>,
    /// Its rules.
    #[serde(default = "default_rules")]
    pub rules: Vec<HttpRouteRule>,
}

fn default_rules() -> Vec<HttpRouteRule> {
    vec![HttpRouteRule::default()]
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteRule {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// What it matches: any of these.
    #[serde(default = "default_matches")]
    pub matches: Vec<HttpRouteMatch>,
    /// What it does.
    #[serde(default)]
    pub filters: Vec<HttpRouteFilter>,
    /// Where requests go.
    #[serde(default)]
    pub backend_refs: Vec<HttpBackendRef>,
    /// Its timeouts.
    #[serde(default)]
    pub timeouts: Option<HttpRouteTimeouts>,
    /// Its retries.
    #[serde(default)]
    pub retry: Option<HttpRouteRetry>,
    /// Its session persistence.
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
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
    /// Path.
    #[serde(default)]
    pub path: HttpPathMatch,
    /// Headers.
    #[serde(default)]
    pub headers: Vec<HttpHeaderMatch>,
    /// Query parameters.
    #[serde(default)]
    pub query_params: Vec<HttpQueryParamMatch>,
    /// Method.
    #[serde(default)]
    pub method: Option<String>,
}

/// Matches the path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpPathMatch {
    /// How.
    #[serde(rename = "type", default)]
    pub kind: PathMatchType,
    /// What.
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
    /// All of it.
    Exact,
    /// Its leading segments.
    #[default]
    PathPrefix,
    /// All of it against a regular expression.
    RegularExpression,
    /// A type of a later version of the API.
    #[serde(other)]
    Unknown,
}

/// How a value is matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ValueMatchType {
    /// Equal.
    #[default]
    Exact,
    /// All of it against a regular expression.
    RegularExpression,
    /// A type of a later version of the API.
    #[serde(other)]
    Unknown,
}

/// Matches a header.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpHeaderMatch {
    /// How.
    #[serde(rename = "type", default)]
    pub kind: ValueMatchType,
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// Matches a query parameter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpQueryParamMatch {
    /// How.
    #[serde(rename = "type", default)]
    pub kind: ValueMatchType,
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// Timeouts of a rule, as durations of Gateway API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteTimeouts {
    /// The whole exchange.
    #[serde(default)]
    pub request: Option<String>,
    /// One try.
    #[serde(default)]
    pub backend_request: Option<String>,
}

/// Retries of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct HttpRouteRetry {
    /// Status codes that are retried.
    #[serde(default)]
    pub codes: Vec<u16>,
    /// Extra tries; 0 means none, whatever fails.
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
    /// Name of the cookie or of the header; ours to choose where there is none. Gateway API had it up to
    /// v1.6.
    #[serde(default)]
    pub session_name: Option<String>,
    /// A session ends so long after it began.
    #[serde(default)]
    pub absolute_timeout: Option<String>,
    /// A session ends so long after its last request. Gateway API had it up to v1.5.
    #[serde(default)]
    pub idle_timeout: Option<String>,
    /// Where the token lives.
    #[serde(rename = "type", default)]
    pub kind: SessionPersistenceType,
    /// More about the cookie. Gateway API had it up to v1.6.
    #[serde(default)]
    pub cookie_config: Option<CookieConfig>,
    /// The cookie.
    #[serde(default)]
    pub cookie: Option<SessionCookie>,
    /// The header.
    #[serde(default)]
    pub header: Option<SessionHeader>,
}

/// Where a session's token lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum SessionPersistenceType {
    /// In a cookie.
    #[default]
    Cookie,
    /// In a header.
    Header,
    /// A type of a later version of the API.
    #[serde(other)]
    Unknown,
}

/// The cookie of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionCookie {
    /// Its name; ours to choose where there is none.
    #[serde(default)]
    pub name: Option<String>,
    /// The paths that a browser sends it to; all by default.
    #[serde(default)]
    pub path: Option<String>,
    /// Whether the browser keeps it.
    #[serde(default)]
    pub lifetime_type: CookieLifetime,
}

/// The header of a session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct SessionHeader {
    /// Its name.
    pub name: String,
}

/// The cookie of a session, as Gateway API had it up to v1.6.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieConfig {
    /// Whether the browser keeps it.
    #[serde(default)]
    pub lifetime_type: CookieLifetime,
}

/// How long a cookie lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum CookieLifetime {
    /// Until the absolute timeout.
    Permanent,
    /// Until the browser closes.
    #[default]
    Session,
}
