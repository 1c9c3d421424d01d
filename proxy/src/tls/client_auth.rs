//! Certificates of clients: whom a listener believes, and what is told of them.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use xds::model::{ClientAuth, Der, ObjectName};

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

/// What a client's certificate says, for logs and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Whether somebody whom the listener believes vouches for it.
    pub trust: Trusted,
    /// SHA-256 of the certificate in hexadecimal.
    pub fingerprint: Box<str>,
    /// The subject, as DER (a sequence of relative distinguished names).
    pub subject: Box<[u8]>,
    /// DNS names among the subject's alternative names.
    pub dns_names: Vec<Box<str>>,
    /// URIs among them, as of SPIFFE.
    pub uris: Vec<Box<str>>,
}

/// Whether a certificate was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trusted {
    /// By a root of the listener.
    Verified,
    /// By nobody: the listener takes any.
    Unverified,
}

impl ClientCertificate {
    /// What the certificate says that a client has shown, the first one of its chain.
    #[must_use]
    pub fn read(chain: &[CertificateDer<'_>], verifier: &dyn ClientCertVerifier) -> Option<Self> {
        let (certificate, others) = chain.split_first()?;
        let verified = verifier.verify_client_cert(certificate, others, UnixTime::now());
        let mut read = Self {
            trust: match verified {
                Ok(_) => Trusted::Verified,
                Err(_) => Trusted::Unverified,
            },
            fingerprint: Der::new(certificate).fingerprint().into(),
            subject: Box::default(),
            dns_names: Vec::new(),
            uris: Vec::new(),
        };
        if let Ok(parsed) = webpki::EndEntityCert::try_from(certificate) {
            read.subject = parsed.subject().into();
            read.dns_names = parsed.valid_dns_names().map(Into::into).collect();
            read.uris = parsed.valid_uri_names().map(Into::into).collect();
        }
        Some(read)
    }
}
