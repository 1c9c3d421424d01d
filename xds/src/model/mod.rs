//! The configuration of a proxy: seven kinds of resources, flat, each child naming its parent.
//!
//! A value of a model type is correct by construction: its constructors reject what the data plane
//! could not apply, so later stages do not check again.

mod answer;
mod api_keys;
mod attachment;
mod authorization;
mod backend;
mod balance;
mod basic_auth;
mod bind;
mod change;
mod dangling;
mod duration;
mod external_auth;
mod feature;
mod filter;
mod health_check;
mod health_path;
mod host;
mod json;
mod jwt;
mod key;
pub mod limits;
mod listener;
mod locality;
mod matching;
mod networks;
mod path_rewrite;
mod pattern;
mod policy;
mod rate_limit;
mod resource;
mod resources;
mod restrictions;
mod route;
mod session;
mod session_key;
mod tls;
mod workload;

pub use answer::{
    AnswerContent, AnswerStatus, Body, Content, ErrorPage, ErrorSource, InvalidAnswerStatus,
    InvalidStatusRange, PageContent, RespondPolicy, StatusRange,
};
pub use api_keys::{ApiKey, ApiKeyPolicy, ApiKeys, KeyDigest};
pub use attachment::{Attachment, Attachments};
pub use authorization::{AuthorizationPolicy, AuthorizationRule};
pub use backend::{
    Backend, BackendProtocol, Host, HostAddress, Hosts, Member, Picker, PickerFailureMode, Pool,
    ProxyProtocolVersion,
};
pub use balance::{
    Balance, BoundedLoad, HashBalance, HashKey, HashTableSize, InvalidHash, InvalidSlowStart,
    SlowStart,
};
pub use basic_auth::{
    BasicAuthPolicy, BcryptCost, InvalidBcryptCost, PasswordHash, PasswordUser, PasswordUsers,
};
pub use bind::{Bind, Transport};
pub use change::{Change, ResourceKey};
pub use dangling::{Dangling, Missing};
pub use duration::{GatewayDuration, InvalidDuration, Timeout};
pub use external_auth::{
    AuthPathPrefix, ExternalAuth, ExternalAuthProtocol, InvalidAuthPathPrefix,
};
pub use feature::{Feature, Features};
pub use filter::{
    Allow, Cors, CorsOrigin, FilterSet, Filters, Fraction, HeaderEdit, InvalidFraction,
    InvalidOrigin, InvalidPathEdit, Mirror, PathEdit, Redirect, Rewrite, Scheme,
};
pub use health_check::{HealthCheck, HealthProbe, InitialHealth, InvalidProbePath, ProbePath};
pub use health_path::{HealthPath, InvalidHealthPath};
pub use host::{Hostname, InvalidExactHostname, InvalidHostname, is_local_address};
pub use jwt::{
    ClaimHeader, JwksLocation, JwtExpiry, JwtForward, JwtKeys, JwtMode, JwtPolicy, JwtProvider,
    JwtSource,
};
pub use key::{
    BackendKey, BindKey, InvalidKey, InvalidObjectName, ListenerKey, NameParts, ObjectName,
    PolicyKey, RouteKey, ServiceKey, WorkloadKey,
};
pub use limits::Limits;
pub use listener::{Listener, ListenerProtocol};
pub use locality::{Locality, LocalityMode, Spill};
pub use matching::{HeaderMatch, HttpMatch, InvalidPath, PathMatch, QueryMatch, StringMatch};
pub use networks::{NetworkList, NetworkPolicy, SharedLists};
pub use path_rewrite::{
    InvalidEre, InvalidPathPattern, InvalidSubstitution, PathRewrite, PathRewriteRule,
    Substitution, SubstitutionPart,
};
pub use pattern::{
    Finder, FinderMemory, Found, InvalidPattern, MatchMemory, MatchWork, Matcher, Pattern,
    PatternBudget, WorkExceeded,
};
pub use policy::{
    AccessLog, AccessLogFilter, Ejection, EscapedSlash, LogFormat, PathOptions, Policy, PolicySpec,
    PolicyTarget, Precedence, ProxyProtocolIn, ProxyProtocolMode, RetryBudget, RetryConstraint,
    RetryRate, Trust,
};
pub use rate_limit::{
    Rate, RateError, RateLimitHeaders, RateLimitKey, RateLimitPolicy, RateLimitRule,
    RateLimitStatus, RatePeriod,
};
pub use resource::{Kind, Resource};
pub use resources::{Keyed, Resources};
pub use restrictions::Restrictions;
pub use route::{
    HttpRule, InvalidBackend, L4Backend, L4Rule, Order, RequestProtocol, Retry, Route,
    RouteBackend, RouteRule, RuleAtListener, Target, Timeouts,
};
pub use session::{
    CookiePath, InvalidCookiePath, SessionLifetime, SessionPersistence, SessionToken,
};
pub use session_key::{
    InvalidSessionKey, InvalidSessionKeys, SessionKey, SessionKeyForm, SessionKeyId, SessionKeys,
};
pub use tls::{
    Alpn, BackendTls, Certificate, ClientAuth, Der, PrivateKey, Roots, ServerCertificate,
    SubjectAltName, TlsClient, TlsServer, TlsVersion,
};
pub use workload::{
    Health, Serves, Service, ServicePort, SessionAffinity, TopologyHints, Workload,
};

/// The whole configuration of one proxy, by kind and key. Resources are shared, so a clone copies
/// only pointers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    /// Sockets to listen on.
    pub binds: Resources<Bind>,
    /// Gateway listeners, each of one bind.
    pub listeners: Resources<Listener>,
    /// Route rules, each with its listeners.
    pub routes: Resources<Route>,
    /// `Backend` objects and inference pools.
    pub backends: Resources<Backend>,
    /// Policies, each with its target.
    pub policies: Resources<Policy>,
    /// Pods (or other machines) that serve services.
    pub workloads: Resources<Workload>,
    /// Services: ports, and through workloads their endpoints.
    pub services: Resources<Service>,
}
