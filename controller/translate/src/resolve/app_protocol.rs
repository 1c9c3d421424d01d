//! What a port of a Service speaks: `appProtocol`, and TLS if a policy asks for it.

use xds::model::{BackendProtocol, BackendTls};

use crate::api;

/// What a port speaks, by its `appProtocol` and whether TLS is asked for. Names without a domain are
/// IANA's, in any case (`HTTPS`).
pub(crate) fn protocol(port: &api::ServicePort, tls: Option<&BackendTls>) -> BackendProtocol {
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
        // Routes that look at connections alone carry whatever is spoken there.
        _ => BackendProtocol::Tcp,
    }
}

/// Why no request of HTTP can be sent to a port. Completes the sentence `port 80 of Service a/b …`.
pub(crate) fn no_http(port: &api::ServicePort, tls: Option<&BackendTls>) -> Option<String> {
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
