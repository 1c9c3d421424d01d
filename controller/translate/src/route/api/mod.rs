//! Routes as they are written.

mod backend_ref;
mod external_auth;
mod filter;
mod grpc_route;
mod http_route;
mod l4_route;
mod listener_filter;
mod parent_ref;

pub use backend_ref::HttpBackendRef;
pub use external_auth::{
    ExternalAuthFilter, ExternalAuthProtocol, ForwardBody, GrpcAuthConfig, HttpAuthConfig,
};
pub use filter::{
    CorsFilter, FilterType, Fraction, Header, HeaderFilter, HttpRouteFilter, LocalObjectReference,
    MirrorFilter, PathModifier, PathModifierType, RedirectFilter, RewriteFilter,
};
pub use grpc_route::{GrpcMethodMatch, GrpcRoute, GrpcRouteMatch, GrpcRouteRule, GrpcRouteSpec};
pub use http_route::{
    CookieConfig, CookieLifetime, HttpHeaderMatch, HttpPathMatch, HttpQueryParamMatch, HttpRoute,
    HttpRouteMatch, HttpRouteRetry, HttpRouteRule, HttpRouteSpec, HttpRouteTimeouts, PathMatchType,
    SessionCookie, SessionHeader, SessionPersistence, SessionPersistenceType, ValueMatchType,
};
pub use l4_route::{L4RouteRule, L4RouteSpec, TcpRoute, TlsRoute, TlsRouteSpec, UdpRoute};
pub use listener_filter::{ListenerFilter, ListenerFilters};
pub use parent_ref::{DefaultScope, ParentReference};
