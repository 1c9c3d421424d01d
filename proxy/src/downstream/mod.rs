//! Clients' connections: from accept to close, and the requests that come over them.

pub(crate) mod answer;
pub(crate) mod connection;
mod h1;
pub(crate) mod h2;
mod open;
pub(crate) mod proxy_protocol;
pub(crate) mod tls;

use xds::model::Alpn;

/// The protocols that clients may choose from in a TLS handshake.
pub(crate) const SPOKEN: &[Alpn] = &[Alpn::H2, Alpn::Http11];
