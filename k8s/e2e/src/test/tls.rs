//! Certificates of tests, and TLS from a client's side.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio_rustls::TlsConnector;

use super::scope::Stream;

/// A Secret `shop` with a certificate for this name, and what a client trusts for it.
pub(super) fn certificate(name: &str) -> Result<(Value, CertificateDer<'static>)> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([name.to_owned()])?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "shop"},
        "stringData": {"tls.crt": cert.pem(), "tls.key": signing_key.serialize_pem()},
    });
    Ok((secret, cert.der().clone()))
}

/// A session over a connection, whose certificate has to be this one.
pub(super) async fn client(
    stream: Box<dyn Stream>,
    name: &str,
    trusted: CertificateDer<'static>,
) -> Result<Box<dyn Stream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned())?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .context("the TLS handshake failed")?;
    Ok(Box::new(stream))
}
