//! The Kubernetes objects that are read, as serde types of our own.
//!
//! A type holds what a user writes, without `apiVersion`, `kind` and `status`. Defaults of the API
//! are serde defaults, so that an object is complete once it is parsed; everything else that an
//! API server would refuse is refused by `admit`, before an object comes here.

mod backend;
mod backend_ref;
mod config;
mod endpoint_slice;
mod filter;
mod gateway;
mod http_route;
mod meta;
mod parent_ref;
mod reference_grant;
mod resource;
mod selector;
mod service;
mod traffic_policy;

pub use backend::{Backend, BackendDns, BackendHost, BackendProtocol, BackendSpec, BackendUnix};
pub use backend_ref::{BackendObjectReference, HttpBackendRef};
pub use config::{Base64, ConfigMap, Namespace, Secret};
pub use endpoint_slice::{
    AddressType, Endpoint, EndpointConditions, EndpointPort, EndpointSlice, SERVICE_NAME_LABEL,
};
pub use filter::{
    CorsFilter, FilterType, Fraction, Header, HeaderFilter, HttpRouteFilter, LocalObjectReference,
    MirrorFilter, PathModifier, PathModifierType, RedirectFilter, RewriteFilter,
};
pub use gateway::{
    AllowedRoutes, FromNamespaces, Gateway, GatewayAddress, GatewayInfrastructure, GatewaySpec,
    Listener, ListenerTls, ParametersReference, RouteGroupKind, RouteNamespaces,
    SecretObjectReference, TlsMode,
};
pub use http_route::{
    CookieConfig, CookieLifetime, HttpHeaderMatch, HttpPathMatch, HttpQueryParamMatch, HttpRoute,
    HttpRouteMatch, HttpRouteRetry, HttpRouteRule, HttpRouteSpec, HttpRouteTimeouts, PathMatchType,
    SessionPersistence, SessionPersistenceType, ValueMatchType,
};
pub use meta::ObjectMeta;
pub use parent_ref::ParentReference;
pub use reference_grant::{
    ReferenceGrant, ReferenceGrantFrom, ReferenceGrantSpec, ReferenceGrantTo,
};
pub use resource::Resource;
pub use selector::{LabelSelector, SelectorOperator, SelectorRequirement};
pub use service::{Service, ServicePort, ServiceSpec, TransportProtocol};
pub use traffic_policy::{
    AccessLogFilterSpec, AccessLogFormat, AccessLogSpec, EjectionSpec, EscapedSlashAction,
    LimitsSpec, PathOptionsSpec, PolicyTargetReference, ProxyProtocolIn, ProxyProtocolSpec,
    RetryBudgetSpec, TrafficPolicy, TrafficPolicySpec,
};

/// The group of Gateway API.
pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
/// The group of our own kinds.
pub const OWN_GROUP: &str = "gateway-system.io";

/// Reads a `null` as the default: Go writes empty lists and maps so.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de> + Default,
{
    <Option<T> as serde::Deserialize>::deserialize(deserializer).map(Option::unwrap_or_default)
}
