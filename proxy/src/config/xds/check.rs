//! Checks whether this proxy can apply a valid resource: only the TLS library parses certificates
//! and keys.

use std::num::NonZeroU32;
use std::sync::Arc;

use xds::model::{
    BackendTls, ClientAuth, Der, Hosts, Listener, ListenerProtocol, ObjectName, Resource, Roots,
    TlsClient, TlsServer,
};

use crate::tls::{CLIENT_PROTOCOLS, ServerTls, TlsError, TrustDomain, UpstreamTls, roots, tickets};

/// Returns why a resource cannot be applied.
pub(super) fn check(resource: &Resource) -> Result<(), String> {
    let checked = match resource {
        Resource::Listener(listener) => server(listener),
        Resource::Backend(backend) => client(backend.tls.as_ref()).and_then(|()| {
            let Hosts::Pool(pool) = &backend.hosts else {
                return Ok(());
            };
            client(pool.picker.as_ref().and_then(|picker| picker.tls.as_ref()))
        }),
        Resource::Service(service) => {
            let ports = service.ports.iter();
            let mut ports = ports.map(|port| client(port.tls.as_deref()));
            ports.find(Result::is_err).unwrap_or(Ok(()))
        }
        _ => Ok(()),
    };
    checked.map_err(|error| error.to_string())
}

fn server(listener: &Listener) -> Result<(), TlsError> {
    let (ListenerProtocol::Https(server) | ListenerProtocol::Tls(server)) = &listener.protocol
    else {
        return Ok(());
    };
    compile(&listener.gateway, server, &server.client_auth)
}

fn compile(
    gateway: &ObjectName,
    server: &TlsServer,
    client_auth: &ClientAuth,
) -> Result<(), TlsError> {
    let trust = Arc::new(TrustDomain {
        gateway: gateway.clone(),
        client_auth: client_auth.clone(),
    });
    match ServerTls::compile(server, trust, tickets()?, CLIENT_PROTOCOLS) {
        // A certificate was withdrawn, or is broken: the listener is told so, and refuses handshakes
        // or keeps the pair that it has. To reject it would keep one that was withdrawn.
        Ok(_) | Err(TlsError::NoCertificate) => Ok(()),
        Err(error) => Err(error),
    }
}

fn client(tls: Option<&BackendTls>) -> Result<(), TlsError> {
    let Some(BackendTls::Verified(client)) = tls else {
        return Ok(());
    };
    // The system's roots are not part of the configuration.
    let Roots::Certificates(certificates) = &client.roots else {
        return Ok(());
    };
    upstream(client, certificates)
}

fn upstream(client: &TlsClient, certificates: &[Der]) -> Result<(), TlsError> {
    let roots = roots::of(certificates)?;
    UpstreamTls::compile(client, roots, None, NonZeroU32::MIN).map(drop)
}
