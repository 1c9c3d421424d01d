//! The kinds that the API server serves.

/// API version, kind and plural of each kind.
pub(crate) const SERVED: [(&str, &str, &str); 20] = [
    ("v1", "Namespace", "namespaces"),
    ("v1", "Service", "services"),
    ("v1", "Secret", "secrets"),
    ("v1", "ConfigMap", "configmaps"),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
    (
        "gateway.networking.k8s.io/v1",
        "GatewayClass",
        "gatewayclasses",
    ),
    ("gateway.networking.k8s.io/v1", "Gateway", "gateways"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes"),
    ("gateway.networking.k8s.io/v1", "GRPCRoute", "grpcroutes"),
    (
        "gateway.networking.k8s.io/v1",
        "BackendTLSPolicy",
        "backendtlspolicies",
    ),
    (
        "gateway.networking.k8s.io/v1",
        "ListenerSet",
        "listenersets",
    ),
    (
        "gateway.networking.k8s.io/v1beta1",
        "ReferenceGrant",
        "referencegrants",
    ),
    (
        "gateway.networking.k8s.io/v1alpha3",
        "TLSRoute",
        "tlsroutes",
    ),
    (
        "gateway.networking.k8s.io/v1alpha2",
        "TCPRoute",
        "tcproutes",
    ),
    (
        "gateway.networking.k8s.io/v1alpha2",
        "UDPRoute",
        "udproutes",
    ),
    ("gateway-system.io/v1alpha1", "Backend", "backends"),
    (
        "gateway-system.io/v1alpha1",
        "TrafficPolicy",
        "trafficpolicies",
    ),
    (
        "gateway-system.io/v1alpha1",
        "GatewayParameters",
        "gatewayparameters",
    ),
    ("coordination.k8s.io/v1", "Lease", "leases"),
    (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ),
];
