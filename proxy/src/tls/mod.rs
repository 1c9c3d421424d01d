//! TLS: what is read of it before the handshake, the two ends of a session, and what of the
//! configuration they are made with.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::ProducesTickets;
use xds::model::Alpn;

mod client;
mod client_auth;
mod client_certificate;
pub mod client_hello;
pub(crate) mod flaw;
mod resumption;
pub(crate) mod roots;
mod server;
pub mod session;
mod upstream_failure;

pub use client::UpstreamTls;
pub use client_auth::TrustDomain;
pub use client_certificate::{ClientCertificate, FORWARDED_CLIENT_CERT, Trusted};
pub use server::{ServerTls, TlsError};
pub use upstream_failure::UpstreamTlsFailure;

/// The protocols that clients may choose from in a handshake.
pub(crate) const CLIENT_PROTOCOLS: &[Alpn] = &[Alpn::H2, Alpn::Http11];

/// Keys for the tickets of one trust domain: they change every six hours, and what was sealed with
/// the ones before is still opened.
///
/// # Errors
/// The system has no randomness.
pub(crate) fn tickets() -> Result<Arc<dyn ProducesTickets>, TlsError> {
    Ok(ring::Ticketer::new()?)
}

/// The cryptography of every session.
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
