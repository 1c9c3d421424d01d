//! Certificates of clients: whom a listener believes.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use xds::model::{ClientAuth, ObjectName};

/// Whom listeners believe. Sessions are resumed, and requests served, within one alone: what was
/// proved to one listener was not proved to another (CVE-2025-23419).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustDomain {
    /// The Gateway.
    pub gateway: ObjectName,
    /// Which certificates of clients it takes.
    pub client_auth: ClientAuth,
}

/// `AllowInsecureFallback`: asks for a certificate, and takes any or none.
#[derive(Debug)]
pub(super) struct Lenient(Arc<dyn ClientCertVerifier>);

impl Lenient {
    /// Asks as `verifier` does.
    pub(super) fn over(verifier: Arc<dyn ClientCertVerifier>) -> Self {
        Self(verifier)
    }
}

impl ClientCertVerifier for Lenient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        unless_forged(self.0.verify_tls12_signature(message, certificate, signed))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        unless_forged(self.0.verify_tls13_signature(message, certificate, signed))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// A certificate that we cannot read proves nothing and may pass; a signature that another key made
/// is an attack.
fn unless_forged(
    verified: Result<HandshakeSignatureValid, Error>,
) -> Result<HandshakeSignatureValid, Error> {
    match verified {
        Err(Error::InvalidCertificate(CertificateError::BadSignature)) => verified,
        _ => Ok(HandshakeSignatureValid::assertion()),
    }
}
