//! Backends as they are written, and the Kubernetes objects behind them.

mod endpoint_slice;
mod own;
mod pod;
mod pool;
mod reference;
mod service;
mod x_backend;

pub use endpoint_slice::{
    AddressType, Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice,
    HintTarget, SERVICE_NAME_LABEL,
};
pub use own::{
    Backend, BackendDns, BackendHost, BackendProtocol, BackendSpec, BackendUnix,
    ProxyProtocolVersion,
};
pub use pod::{Pod, PodCondition, PodStatus};
pub use pool::{
    EndpointPickerFailureMode, EndpointPickerReference, InferencePool, InferencePoolSpec, PoolPort,
    PoolProtocol, PoolSelector,
};
pub use reference::{BackendObjectReference, BackendRef};
pub(crate) use reference::{BackendReference, one, references, service};
pub use service::{
    Service, ServicePort, ServiceSpec, SessionAffinity, TrafficDistribution, TransportProtocol,
};
pub use x_backend::{
    ExternalHostname, XBackend, XBackendPort, XBackendProtocol, XBackendSpec, XBackendTls,
    XBackendTlsMode, XBackendType,
};
