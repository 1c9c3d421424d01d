//! The trait of all kinds of objects.

use super::ObjectMeta;

/// A kind of object.
pub trait Resource {
    /// Its API group; empty for the core group.
    const GROUP: &'static str;
    /// The API version that is read.
    const VERSION: &'static str;
    const KIND: &'static str;

    fn metadata(&self) -> &ObjectMeta;
}

macro_rules! resources {
    ($($type:ident: $group:expr, $version:literal, $kind:literal;)*) => {$(
        impl Resource for crate::api::$type {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = $kind;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
        }
    )*};
}

resources! {
    Gateway: super::GATEWAY_GROUP, "v1", "Gateway";
    HttpRoute: super::GATEWAY_GROUP, "v1", "HTTPRoute";
    GrpcRoute: super::GATEWAY_GROUP, "v1", "GRPCRoute";
    TlsRoute: super::GATEWAY_GROUP, "v1", "TLSRoute";
    TcpRoute: super::GATEWAY_GROUP, "v1", "TCPRoute";
    UdpRoute: super::GATEWAY_GROUP, "v1", "UDPRoute";
    ListenerSet: super::GATEWAY_GROUP, "v1", "ListenerSet";
    BackendTlsPolicy: super::GATEWAY_GROUP, "v1", "BackendTLSPolicy";
    ReferenceGrant: super::GATEWAY_GROUP, "v1", "ReferenceGrant";
    Service: "", "v1", "Service";
    Pod: "", "v1", "Pod";
    InferencePool: super::INFERENCE_GROUP, "v1", "InferencePool";
    XBackend: super::EXPERIMENTAL_GROUP, "v1alpha1", "XBackend";
    XBackendTrafficPolicy: super::EXPERIMENTAL_GROUP, "v1alpha1", "XBackendTrafficPolicy";
    EndpointSlice: "discovery.k8s.io", "v1", "EndpointSlice";
    Secret: "", "v1", "Secret";
    ConfigMap: "", "v1", "ConfigMap";
    Namespace: "", "v1", "Namespace";
    ClusterTrustBundle: "certificates.k8s.io", "v1", "ClusterTrustBundle";
    Backend: super::OWN_GROUP, "v1alpha1", "Backend";
    TrafficPolicy: super::OWN_GROUP, "v1alpha1", "TrafficPolicy";
}
