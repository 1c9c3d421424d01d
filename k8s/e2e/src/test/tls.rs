//! Certificates of tests, and a TLS client.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Error, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedKey, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, generate_simple_self_signed,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio_rustls::TlsConnector;

use super::scope::Stream;

/// A Secret `shop` with a certificate for this name, and the certificate that a client trusts for
/// it.
pub(super) fn certificate(name: &str) -> Result<(Value, CertificateDer<'static>)> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([name.to_owned()])?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "shop"},
        "stringData": {"tls.crt": cert.pem(), "tls.key": signing_key.serialize_pem()},
    });
    Ok((secret, cert.der().clone()))
}

/// The certificate and key of an authority for the xDS server.
pub(super) fn xds_authority(name: &str, life: Duration) -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.not_after = (SystemTime::now() + life).into();
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// The authority of client certificates.
pub(super) struct Authority {
    pub(super) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// The certificate of a client.
pub(super) struct Credential {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    pub(super) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self { pem, issuer })
    }

    /// A certificate for a client of this name.
    pub(super) fn client(&self, name: &str) -> Result<Credential> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new([name.to_owned()])?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(Error::msg)?;
        Ok(Credential {
            certificate: certificate.der().clone(),
            key,
        })
    }
}

/// A session over a connection, whose certificate has to be this one.
pub(super) async fn client(
    stream: Box<dyn Stream>,
    name: &str,
    trusted: CertificateDer<'static>,
) -> Result<Box<dyn Stream>> {
    client_with(stream, name, trusted, None).await
}

/// The same, for a client with an optional certificate.
pub(super) async fn client_with(
    stream: Box<dyn Stream>,
    name: &str,
    trusted: CertificateDer<'static>,
    shown: Option<&Credential>,
) -> Result<Box<dyn Stream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let config = match shown {
        None => config.with_no_client_auth(),
        Some(shown) => {
            config.with_client_auth_cert(vec![shown.certificate.clone()], shown.key.clone_key())?
        }
    };
    let name = ServerName::try_from(name.to_owned())?;
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .context("the TLS handshake failed")?;
    Ok(Box::new(stream))
}
