//! The application protocol of a Service port: `appProtocol`, and TLS from a policy.

use xds::model::{BackendProtocol, BackendTls};

use super::api::ServicePort;

/// The protocol of a port, by its `appProtocol` and TLS settings. Names without a domain are
/// IANA's, case-insensitive (`HTTPS`).
pub(crate) fn protocol(port: &ServicePort, tls: Option<&BackendTls>) -> BackendProtocol {
    let name = port.app_protocol.as_deref().unwrap_or_default();
    let name = if name.contains('/') {
        name.to_owned()
    } else {
        name.to_ascii_lowercase()
    };
    match (&*name, tls) {
        ("" | "http" | "kubernetes.io/ws", None) => BackendProtocol::Http,
        ("h2c" | "http2" | "grpc" | "kubernetes.io/h2c", None) => BackendProtocol::H2c,
        ("" | "http" | "https" | "kubernetes.io/ws" | "kubernetes.io/wss", Some(_)) => {
            BackendProtocol::Https
        }
        ("h2c" | "http2" | "grpc" | "kubernetes.io/h2c", Some(_)) => BackendProtocol::H2,
        // L4 routes carry any protocol.
        _ => BackendProtocol::Tcp,
    }
}

/// Why a port cannot receive HTTP requests. Completes the sentence `port 80 of Service a/b …`.
pub(crate) fn no_http(port: &ServicePort, tls: Option<&BackendTls>) -> Option<String> {
    if protocol(port, tls) != BackendProtocol::Tcp {
        return None;
    }
    let name = port.app_protocol.as_deref().unwrap_or_default();
    let wants_tls = ["https", "kubernetes.io/wss"].contains(&&*name.to_ascii_lowercase());
    Some(if wants_tls {
        format!("has appProtocol `{name}`: add a BackendTLSPolicy to verify its certificate")
    } else {
        format!(
            "has appProtocol `{name}`, which is not supported: use http, https, grpc, \
             kubernetes.io/h2c, kubernetes.io/ws or kubernetes.io/wss, or leave it out"
        )
    })
}
