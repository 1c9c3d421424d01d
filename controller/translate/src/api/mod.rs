//! The Kubernetes objects that are read, as serde types of our own.
//!
//! A type holds what a user writes, without `apiVersion`, `kind` and `status`. Defaults of the API
//! are serde defaults, so that an object is complete once it is parsed; everything else that an
//! API server would reject is rejected by `admit` first.

mod authorization;
mod backend;
mod backend_ref;
mod backend_tls_policy;
mod config;
mod endpoint_slice;
mod external_auth;
mod filter;
mod gateway;
mod gateway_tls;
mod grpc_route;
mod http_route;
mod inference_pool;
mod jwt;
mod l4_route;
mod listener_set;
mod meta;
mod networks;
mod parent_ref;
mod pod;
mod policy_entries;
mod rate_limit;
mod recorded_listeners;
mod reference_grant;
mod resource;
mod selector;
mod service;
mod text;
mod traffic_policy;
mod trust_bundle;
mod x_backend;
mod x_backend_traffic_policy;

pub use authorization::{AuthorizationRuleSpec, AuthorizationSpec};
pub use backend::{
    Backend, BackendDns, BackendHost, BackendProtocol, BackendSpec, BackendUnix,
    ProxyProtocolVersion,
};
pub(crate) use backend_ref::BackendReference;
pub use backend_ref::{BackendObjectReference, BackendRef, HttpBackendRef};
pub use backend_tls_policy::{
    BackendTlsPolicy, BackendTlsPolicySpec, BackendTlsValidation, SubjectAltName,
    SubjectAltNameType,
};
pub(crate) use config::AUTHORITIES;
pub use config::{Base64, ConfigMap, Namespace, READ_ENTRIES, Secret};
pub use endpoint_slice::{
    AddressType, Endpoint, EndpointConditions, EndpointPort, EndpointSlice, SERVICE_NAME_LABEL,
};
pub use external_auth::{
    ExternalAuthFilter, ExternalAuthProtocol, ForwardBody, GrpcAuthConfig, HttpAuthConfig,
    ListenerFilter, ListenerFilters,
};
pub use filter::{
    CorsFilter, FilterType, Fraction, Header, HeaderFilter, HttpRouteFilter, LocalObjectReference,
    MirrorFilter, PathModifier, PathModifierType, RedirectFilter, RewriteFilter,
};
pub use gateway::{
    AllowedListeners, AllowedRoutes, FromNamespaces, Gateway, GatewayAddress,
    GatewayInfrastructure, GatewaySpec, Listener, ListenerNamespaces, ListenerTls,
    ParametersReference, ROUTABILITY_SENTINEL, ROUTABLE_IN_CLUSTER, RouteGroupKind,
    RouteNamespaces, SecretObjectReference, TlsMode,
};
pub use gateway_tls::{
    FrontendTls, FrontendTlsConfig, FrontendTlsPort, FrontendValidation, FrontendValidationMode,
    GatewayBackendTls, GatewayTls, ObjectReference,
};
pub use grpc_route::{GrpcMethodMatch, GrpcRoute, GrpcRouteMatch, GrpcRouteRule, GrpcRouteSpec};
pub use http_route::{
    CookieConfig, CookieLifetime, HttpHeaderMatch, HttpPathMatch, HttpQueryParamMatch, HttpRoute,
    HttpRouteMatch, HttpRouteRetry, HttpRouteRule, HttpRouteSpec, HttpRouteTimeouts, PathMatchType,
    SessionCookie, SessionHeader, SessionPersistence, SessionPersistenceType, ValueMatchType,
};
pub use inference_pool::{
    EndpointPickerFailureMode, EndpointPickerReference, InferencePool, InferencePoolSpec, PoolPort,
    PoolProtocol, PoolSelector,
};
pub use jwt::{
    ClaimHeaderSpec, JwksSpec, JwtFromSpec, JwtHeaderSpec, JwtModeSpec, JwtProviderSpec, JwtSpec,
    RemoteJwksSpec,
};
pub use l4_route::{L4RouteRule, L4RouteSpec, TcpRoute, TlsRoute, TlsRouteSpec, UdpRoute};
pub use listener_set::{ListenerSet, ListenerSetSpec, ParentGatewayReference};
pub use meta::{Labels, ObjectMeta};
pub use networks::{NetworkListRef, NetworksSpec};
pub use parent_ref::{DefaultScope, ParentReference};
pub use pod::{Pod, PodCondition, PodStatus};
pub use policy_entries::{PolicyEntries, PolicyEntry};
pub use rate_limit::{
    ClientAddressKeySpec, RateLimitHeadersSpec, RateLimitKeySpec, RateLimitRuleSpec, RateLimitSpec,
    RatePeriodSpec, WholeKeySpec,
};
pub use recorded_listeners::RecordedListeners;
pub use reference_grant::{
    ReferenceGrant, ReferenceGrantFrom, ReferenceGrantSpec, ReferenceGrantTo,
};
pub use resource::Resource;
pub use selector::{LabelSelector, SelectorOperator, SelectorRequirement};
pub use service::{Service, ServicePort, ServiceSpec, TransportProtocol};
pub use text::Text;
pub use traffic_policy::{
    AccessLogFilterSpec, AccessLogFormat, AccessLogSpec, EjectionSpec, EscapedSlashAction,
    LimitsSpec, PathOptionsSpec, PolicyStanding, PolicyTargetReference, PrecedenceSpec,
    ProxyProtocolIn, ProxyProtocolSpec, RejectedPolicy, Restrictions, RetryBudgetSpec,
    TrafficPolicy, TrafficPolicySpec,
};
pub use trust_bundle::{ClusterTrustBundle, ClusterTrustBundleSpec};
pub use x_backend::{
    ExternalHostname, XBackend, XBackendPort, XBackendProtocol, XBackendSpec, XBackendTls,
    XBackendTlsMode, XBackendType,
};
pub use x_backend_traffic_policy::{
    RequestRate, RetryConstraint, RetryConstraintBudget, XBackendTrafficPolicy,
    XBackendTrafficPolicySpec,
};

/// The group of Gateway API.
pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
/// The group of the Gateway API Inference Extension.
pub const INFERENCE_GROUP: &str = "inference.networking.k8s.io";
/// The group of experimental kinds of Gateway API.
pub const EXPERIMENTAL_GROUP: &str = "gateway.networking.x-k8s.io";
/// The group of our own kinds.
pub const OWN_GROUP: &str = "gateway-system.io";

/// The kind of classes of Gateways.
pub const CLASS_KIND: &str = "GatewayClass";
/// The kind of the parameters that a Gateway is deployed with.
pub const PARAMETERS_KIND: &str = "GatewayParameters";

/// Reads `null` as the default: Go encodes empty lists and maps as `null`.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de> + Default,
{
    <Option<T> as serde::Deserialize>::deserialize(deserializer).map(Option::unwrap_or_default)
}
