//! The objects that tests put into a cluster, and into a gateway's configuration.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::scope::{Images, address};

/// The protocol of an echo backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EchoProtocol {
    /// HTTP/1 and WebSocket on port 3000, HTTP/2 in plain text on port 3001.
    Http,
    Grpc,
    /// Lines on port 3000.
    Tcp,
    Udp,
}

impl EchoProtocol {
    fn environment(self) -> &'static str {
        match self {
            Self::Http => "HTTP_ECHO_SERVER",
            Self::Grpc => "GRPC_ECHO_SERVER",
            Self::Tcp => "TCP_ECHO_SERVER",
            Self::Udp => "UDP_ECHO_SERVER",
        }
    }

    fn probe(self) -> Value {
        match self {
            Self::Http => json!({"httpGet": {"path": "/health", "port": 3000}, "periodSeconds": 1}),
            Self::Grpc | Self::Tcp => json!({"tcpSocket": {"port": 3000}, "periodSeconds": 1}),
            Self::Udp => Value::Null,
        }
    }
}

/// A pod that responds with the request that it received.
pub(super) fn echo(images: &Images, name: &str, speech: EchoProtocol) -> Value {
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "echo", "image": images.echo,
                "env": [
                    {"name": "POD_NAME", "valueFrom": field("metadata.name")},
                    {"name": "NAMESPACE", "valueFrom": field("metadata.namespace")},
                    {"name": speech.environment(), "value": "yes"},
                ],
                "readinessProbe": speech.probe(),
            }],
        },
    })
}

/// Pins an object to a node.
pub(super) fn on_node(mut object: Value, node: &str) -> Value {
    object["spec"]["nodeName"] = json!(node);
    object
}

/// The Gateway of a configuration, with these listeners.
pub(super) fn gateway(listeners: &[Value]) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "edge"},
        "spec": {"gatewayClassName": "gateway", "listeners": listeners},
    })
}

/// A listener, named after its port.
pub(super) fn listener(port: u16, protocol: &str) -> Value {
    json!({"name": format!("port-{port}"), "port": port, "protocol": protocol})
}

/// A route of all requests at a listener's port to a Service of this name.
pub(super) fn route(kind: &str, port: u16, backend: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
        "metadata": {"name": format!("{backend}-{port}")},
        "spec": {
            "parentRefs": [{"name": "edge", "port": port}],
            "rules": [{"backendRefs": [{"name": backend, "port": 80}]}],
        },
    })
}

/// A Service on port 80, and its one endpoint.
pub(super) fn service(name: &str, pod: &Pod, port: &Value) -> anyhow::Result<[Value; 2]> {
    let mut service_port = port.clone();
    service_port["name"] = json!("main");
    service_port["targetPort"] = service_port["port"].take();
    service_port["port"] = json!(80);
    let mut slice_port = port.clone();
    slice_port["name"] = json!("main");
    Ok([
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
               "spec": {"ports": [service_port]}}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
               "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
               "addressType": "IPv4", "ports": [slice_port],
               "endpoints": [{"addresses": [address(pod)?], "conditions": {"ready": true}}]}),
    ])
}

/// The usual configuration: port 80 is routed to an HTTP echo backend.
pub(super) fn http_to(backend: &Pod) -> anyhow::Result<Vec<Value>> {
    let mut objects = vec![
        gateway(&[listener(80, "HTTP")]),
        route("HTTPRoute", 80, "echo"),
    ];
    objects.extend(service("echo", backend, &json!({"port": 3000}))?);
    Ok(objects)
}

/// Objects in a ConfigMap as gateways read it.
pub(super) fn config_map(objects: &[Value]) -> Value {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gateway"},
        "data": {"gateway.json": list.to_string()},
    })
}

/// A data plane pod, hardened: not root, read-only file system, no capabilities. Its configuration
/// is the ConfigMap `gateway`.
#[derive(Debug, Clone, Default)]
pub(super) struct GatewayPod {
    name: String,
    image: String,
    seccomp: Value,
    resources: Value,
}

impl GatewayPod {
    pub(super) fn named(images: &Images, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            image: images.gateway.clone(),
            ..Self::default()
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Uses this seccomp profile instead of none.
    pub(super) fn seccomp(mut self, profile: Value) -> Self {
        self.seccomp = profile;
        self
    }

    /// Sets requests and limits.
    pub(super) fn resources(mut self, resources: Value) -> Self {
        self.resources = resources;
        self
    }

    pub(super) fn object(&self) -> Value {
        let mut security = json!({
            "runAsNonRoot": true, "readOnlyRootFilesystem": true,
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        });
        if !self.seccomp.is_null() {
            security["seccompProfile"] = self.seccomp.clone();
        }
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.name, "labels": {"app": "gateway"}},
            "spec": {
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 60,
                "containers": [{
                    "name": "gateway", "image": self.image,
                    "args": ["run", "--config=/etc/gateway"],
                    "ports": [{"containerPort": 80}, {"containerPort": 443}],
                    "resources": self.resources,
                    "readinessProbe": {
                        "httpGet": {"path": "/healthz/ready", "port": 15021}, "periodSeconds": 1},
                    "securityContext": security,
                    "volumeMounts": [{"name": "configuration", "mountPath": "/etc/gateway"}],
                }],
                "volumes": [{"name": "configuration", "configMap": {"name": "gateway"}}],
            },
        })
    }
}
