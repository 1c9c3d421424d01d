//! TLS to backends: verification, client certificates and session resumption. Built on the
//! configuration thread; handshakes on the shards only read it.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::SingleCertAndKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use xds::model::{Alpn, Certificate, Der, Hostname, Roots, SubjectAltName, TlsClient};

use super::server::{TlsError, certified_key};
use super::session::{SessionError, TlsSession};
use crate::limits::RESUMABLE_SERVERS;

/// TLS settings of a cluster's endpoints.
pub struct UpstreamTls {
    server_name: ServerName<'static>,
    /// By shard: each has its own session cache, without contention.
    shards: Box<[Configs]>,
}

/// One configuration for each ALPN protocol that is offered.
struct Configs {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    bytes: Arc<ClientConfig>,
}

impl fmt::Debug for UpstreamTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("UpstreamTls");
        debug
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

impl UpstreamTls {
    /// Builds it from the model. `certificate` is sent if a backend requests one.
    ///
    /// # Errors
    ///
    /// A certificate, key or root is unusable.
    pub(crate) fn compile(
        client: &TlsClient,
        roots: Arc<RootCertStore>,
        certificate: Option<&Certificate>,
        shards: NonZeroU32,
    ) -> Result<Self, TlsError> {
        let provider = super::provider();
        let verifier = Arc::new(Verifier {
            roots,
            named: match &client.roots {
                Roots::System => Vec::new(),
                Roots::Certificates(certificates) => certificates.clone(),
            },
            identities: match &*client.identities {
                [] => vec![SubjectAltName::Dns(client.server_name.clone())],
                identities => identities.to_vec(),
            },
            provider,
        });
        Self::trusting(verifier, &client.server_name, certificate, shards)
    }

    /// TLS without verification of the certificate.
    ///
    /// # Errors
    ///
    /// The client certificate is unusable.
    pub(crate) fn unverified(
        server_name: &Hostname,
        certificate: Option<&Certificate>,
        shards: NonZeroU32,
    ) -> Result<Self, TlsError> {
        let verifier = Arc::new(Unverified(super::provider()));
        Self::trusting(verifier, server_name, certificate, shards)
    }

    fn trusting(
        verifier: Arc<dyn ServerCertVerifier>,
        server_name: &Hostname,
        certificate: Option<&Certificate>,
        shards: NonZeroU32,
    ) -> Result<Self, TlsError> {
        let provider = super::provider();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match certificate {
            None => builder.with_no_client_auth(),
            Some(certificate) => {
                let key = certified_key(certificate, &provider)
                    .map_err(|error| TlsError::Certificate { position: 1, error })?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)))
            }
        };
        let server_name = ServerName::try_from(server_name.as_str().to_owned())
            .map_err(|error| Error::General(error.to_string()))?;
        Ok(Self {
            server_name,
            shards: (0..shards.get())
                .map(|_| Configs::per_shard(&config))
                .collect(),
        })
    }

    /// The settings for a protocol off the shards, with the server name. Without session resumption:
    /// the caches have locks, and shards must not wait.
    pub(crate) fn off_shards(
        &self,
        protocol: Option<Alpn>,
    ) -> Option<(ClientConfig, ServerName<'static>)> {
        let mut config = ClientConfig::clone(self.shards.first()?.of(protocol));
        config.resumption = Resumption::disabled();
        Some((config, self.server_name.clone()))
    }

    /// A session of a shard for `protocol`; `None` leaves it to ALPN.
    ///
    /// # Errors
    ///
    /// The settings are unusable.
    pub(crate) fn session(
        &self,
        shard: u16,
        protocol: Option<Alpn>,
    ) -> Result<TlsSession, SessionError> {
        let configs = self
            .shards
            .get(usize::from(shard))
            .ok_or(SessionError::NotOpen)?;
        TlsSession::client(Arc::clone(configs.of(protocol)), self.server_name.clone())
    }
}

impl Configs {
    /// The configuration that offers a protocol; `None` leaves it to ALPN.
    fn of(&self, protocol: Option<Alpn>) -> &Arc<ClientConfig> {
        match protocol {
            Some(Alpn::Http11) => &self.http1,
            Some(Alpn::H2) => &self.http2,
            None => &self.bytes,
        }
    }

    fn per_shard(config: &ClientConfig) -> Self {
        let with_alpn = |protocol: Option<Alpn>| {
            let mut config = config.clone();
            config.alpn_protocols = protocol
                .iter()
                .map(|protocol| protocol.as_str().as_bytes().to_vec())
                .collect();
            config.resumption = Resumption::in_memory_sessions(RESUMABLE_SERVERS);
            Arc::new(config)
        };
        Self {
            http1: with_alpn(Some(Alpn::Http11)),
            http2: with_alpn(Some(Alpn::H2)),
            bytes: with_alpn(None),
        }
    }
}

/// Verifies that a certificate has one of several names, regardless of the SNI (GEP-3155).
#[derive(Debug)]
struct Verifier {
    roots: Arc<RootCertStore>,
    /// The roots in the policy.
    named: Vec<Der>,
    identities: Vec<SubjectAltName>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// Whether a certificate is trusted directly: it is one of the roots itself, and that is its
    /// only flaw (expiry is checked before). Self-signed certificates are often like that.
    fn is_named(&self, certificate: &CertificateDer<'_>, error: &Error) -> bool {
        let Error::InvalidCertificate(CertificateError::Other(why)) = error else {
            return false;
        };
        let why = why.0.downcast_ref::<webpki::Error>();
        why == Some(&webpki::Error::CaUsedAsEndEntity)
            && self
                .named
                .iter()
                .any(|root| root.as_bytes() == certificate.as_ref())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let verified = verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        );
        if let Err(error) = verified
            && !self.is_named(end_entity, &error)
        {
            return Err(error);
        }
        let names = webpki::EndEntityCert::try_from(end_entity)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let has = |identity: &SubjectAltName| match identity {
            SubjectAltName::Uri(uri) => names.valid_uri_names().any(|name| name == uri),
            SubjectAltName::Dns(name) => match name.wildcard_suffix() {
                Some(suffix) => names
                    .valid_dns_names()
                    .any(|name| is_subdomain(name, suffix)),
                None => has_dns_name(&certificate, name),
            },
        };
        if self.identities.iter().any(has) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::NotValidForName))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Accepts any certificate, but checks that the peer has its key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn has_dns_name(certificate: &ParsedCertificate<'_>, name: &Hostname) -> bool {
    ServerName::try_from(name.as_str())
        .is_ok_and(|name| verify_server_name(certificate, &name).is_ok())
}

/// Whether a name of a certificate is under `suffix`; a wildcard is too.
fn is_subdomain(name: &str, suffix: &str) -> bool {
    let Some(at) = name.len().checked_sub(suffix.len()) else {
        return false;
    };
    let (above, below) = name.split_at_checked(at).unwrap_or_default();
    below.eq_ignore_ascii_case(suffix) && above.len() > 1 && above.ends_with('.')
}

#[cfg(test)]
mod tests {
    use super::is_subdomain;

    #[test]
    fn subdomains_are_compared_by_whole_labels() {
        for name in [
            "a.example.org",
            "a.b.example.org",
            "*.example.org",
            "A.EXAMPLE.org",
        ] {
            assert!(is_subdomain(name, "example.org"), "{name}");
        }
        for name in [
            "example.org",
            ".example.org",
            "badexample.org",
            "org",
            "a.example.com",
        ] {
            assert!(!is_subdomain(name, "example.org"), "{name}");
        }
    }
}
