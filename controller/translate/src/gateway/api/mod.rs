//! Gateways and ListenerSets as they are written.

mod gateway;
mod gateway_tls;
mod listener_set;
mod recorded_listeners;

pub use gateway::{
    AllowedListeners, AllowedRoutes, FromNamespaces, Gateway, GatewayAddress,
    GatewayInfrastructure, GatewaySpec, Listener, ListenerNamespaces, ListenerTls,
    ParametersReference, ROUTABILITY_SENTINEL, ROUTABLE_IN_CLUSTER, RouteGroupKind,
    RouteNamespaces, TlsMode,
};
pub use gateway_tls::{
    FrontendTls, FrontendTlsConfig, FrontendTlsPort, FrontendValidation, FrontendValidationMode,
    GatewayBackendTls, GatewayTls, ObjectReference, SecretObjectReference,
};
pub use listener_set::{ListenerSet, ListenerSetSpec, ParentGatewayReference};
pub use recorded_listeners::RecordedListeners;
