//! TLS: the ClientHello, both ends of a session, and their configuration.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::ProducesTickets;
use xds::model::Alpn;

pub(crate) mod certificate_flaw;
mod client;
mod client_auth;
mod client_certificate;
pub mod client_hello;
mod resumption;
pub(crate) mod roots;
mod server;
pub mod session;
mod upstream_failure;

pub use client::UpstreamTls;
pub use client_auth::TrustDomain;
pub use client_certificate::{CertificateTrust, ClientCertificate, FORWARDED_CLIENT_CERT};
pub use server::{ServerTls, TlsError};
pub use upstream_failure::UpstreamTlsFailure;

/// The ALPN protocols offered to clients.
pub(crate) const CLIENT_PROTOCOLS: &[Alpn] = &[Alpn::H2, Alpn::Http11];

/// Ticket keys of one trust domain: rotated every six hours; tickets of the previous keys are still
/// accepted.
///
/// # Errors
///
/// The system has no randomness.
pub(crate) fn tickets() -> Result<Arc<dyn ProducesTickets>, TlsError> {
    Ok(ring::Ticketer::new()?)
}

/// The crypto provider of every session.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

#[cfg(test)]
#[expect(dead_code, reason = "the wire tests use the rest")]
#[path = "../../tests/support/pki.rs"]
pub(crate) mod pki;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
