//! Verification of client certificates by a listener.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use xds::model::{ClientAuth, ObjectName};

/// The trust settings of listeners. Sessions are resumed, and requests served, only within one
/// domain: authentication to one listener does not count for another (CVE-2025-23419).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustDomain {
    /// Gateway of the listeners.
    pub gateway: ObjectName,
    /// Client validation of the listeners.
    pub client_auth: ClientAuth,
}

/// `AllowInsecureFallback`: requests a certificate, and accepts any or none.
#[derive(Debug)]
pub(super) struct Lenient(Arc<dyn ClientCertVerifier>);

impl Lenient {
    /// Requests certificates as `verifier` does.
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
        accept_unless_forged(self.0.verify_tls12_signature(message, certificate, signed))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        accept_unless_forged(self.0.verify_tls13_signature(message, certificate, signed))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// An unreadable certificate proves nothing and is accepted; a signature by another key is an
/// attack.
fn accept_unless_forged(
    verified: Result<HandshakeSignatureValid, Error>,
) -> Result<HandshakeSignatureValid, Error> {
    match verified {
        Err(Error::InvalidCertificate(CertificateError::BadSignature)) => verified,
        _ => Ok(HandshakeSignatureValid::assertion()),
    }
}
