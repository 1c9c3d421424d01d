//! TLS to a listener or an identity provider, with curl's options for trust: `--cacert` and `-k`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use xds::model::Der;

use crate::files::{self, FILE_BYTES};
use crate::server::Stream;

/// Which certificates are accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trust<'a> {
    /// The CA certificates of the system's trust store, or of a PEM file.
    Verified(Option<&'a Path>),
    Any,
}

impl<'a> Trust<'a> {
    /// As with the options of curl.
    pub(crate) fn new(cacert: Option<&'a Path>, insecure: bool) -> Self {
        if insecure {
            Self::Any
        } else {
            Self::Verified(cacert)
        }
    }
}

/// TLS client configuration for one server name.
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// For a host, with the trust options of the command line.
    ///
    /// # Errors
    /// There are no CA certificates, or the host is not a valid server name.
    pub(crate) fn new(host: &str, trust: Trust<'_>, timeout: Duration) -> Result<Self> {
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(name.to_owned());
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider as Arc<CryptoProvider>)
            .with_safe_default_protocol_versions()?;
        let mut config = match trust {
            Trust::Any => {
                let verifier = Arc::new(AcceptAny(algorithms));
                let builder = builder.dangerous();
                let builder = builder.with_custom_certificate_verifier(verifier);
                builder.with_no_client_auth()
            }
            Trust::Verified(cacert) => {
                let (roots, given) = roots(cacert, timeout)?;
                let provider = Arc::new(ring::default_provider());
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = Arc::new(AsCurl {
                    inner: verifier.build()?,
                    given,
                });
                let builder = builder.dangerous();
                let builder = builder.with_custom_certificate_verifier(verifier);
                builder.with_no_client_auth()
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            connector: Arc::new(config).into(),
            name: name.with_context(|| format!("`{host}` is not a valid TLS server name"))?,
        })
    }

    /// Performs the handshake.
    ///
    /// # Errors
    /// The handshake fails, for example because the certificate is not trusted.
    pub(crate) async fn handshake<S: Stream>(&self, stream: S) -> Result<TlsStream<S>> {
        let connected = self.connector.connect(self.name.clone(), stream).await;
        connected.map_err(|error| {
            let name = self.name.to_str();
            let inner = error.get_ref().and_then(|it| it.downcast_ref());
            match inner.and_then(|it| refusal(it, &name)) {
                Some(why) => anyhow!(why),
                None => anyhow!(error).context(
                    "the TLS handshake failed; is it an HTTPS listener? Trust its CA with --cacert FILE, or \
                     skip verification with -k",
                ),
            }
        })
    }
}

/// Why a certificate is refused, with advice.
fn refusal(error: &rustls::Error, name: &str) -> Option<String> {
    use CertificateError as Error;
    let error = match error {
        rustls::Error::InvalidCertificate(error) => error,
        rustls::Error::AlertReceived(AlertDescription::UnrecognisedName) => {
            return Some(format!(
                "the gateway has no certificate for `{name}` on this port, as no listener is for this host or its \
                 certificate cannot be used: see `gwctl status`"
            ));
        }
        _ => return None,
    };
    let why = match error {
        Error::UnknownIssuer => {
            "the listener's certificate is of a CA that is not trusted: trust it with --cacert FILE"
                .to_owned()
        }
        Error::NotValidForName | Error::NotValidForNameContext { .. } => format!(
            "the listener's certificate is not for `{name}`: use a URL with a host of the certificate"
        ),
        Error::Expired | Error::ExpiredContext { .. } => {
            "the listener's certificate has expired: renew it".to_owned()
        }
        Error::NotValidYet | Error::NotValidYetContext { .. } => {
            "the listener's certificate is not valid yet: check the clocks".to_owned()
        }
        _ => return None,
    };
    Some(format!("{why}, or skip verification with -k"))
}

/// The trusted certificates, and those among them that were given in a file.
fn roots(
    file: Option<&Path>,
    timeout: Duration,
) -> Result<(RootCertStore, Vec<CertificateDer<'static>>)> {
    let mut given = Vec::new();
    let mut roots = RootCertStore::empty();
    if let Some(file) = file {
        let name = file.display();
        let pem = files::read_to_end(file, FILE_BYTES, timeout)?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.with_context(|| format!("{name} is not PEM"))?;
            given.push(certificate.clone());
            let added = roots.add(certificate);
            added.with_context(|| format!("{name} has an unusable CA certificate"))?;
        }
    } else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
    }
    if roots.is_empty() {
        bail!(
            "no CA certificates found; give some with --cacert FILE, or skip verification with -k"
        );
    }
    Ok((roots, given))
}

/// Accepts what curl accepts: also a certificate that is trusted itself, as `openssl req -x509` makes them. It
/// is a CA then, which webpki takes for no server's.
#[derive(Debug)]
struct AsCurl {
    inner: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl AsCurl {
    fn is_trusted_itself(
        &self,
        end_entity: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<bool, rustls::Error> {
        if !self.given.iter().any(|it| it == end_entity) {
            return Ok(false);
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        match translate::expiry::validity(&Der::new(end_entity)) {
            None => Err(CertificateError::BadEncoding.into()),
            Some((from, _)) if now < from.as_second() => Err(CertificateError::NotValidYet.into()),
            Some((_, to)) if now > to.as_second() => Err(CertificateError::Expired.into()),
            Some(_) => Ok(true),
        }
    }
}

impl ServerCertVerifier for AsCurl {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let inner = &self.inner;
        let verified = inner.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        if verified.is_err() && self.is_trusted_itself(end_entity, name, now)? {
            return Ok(ServerCertVerified::assertion());
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let inner = &self.inner;
        inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let inner = &self.inner;
        inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Accepts any certificate, for `-k`.
#[derive(Debug)]
struct AcceptAny(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_certificate_that_is_trusted_itself_is_accepted_while_it_is_valid() {
        let mut params = CertificateParams::new(["shop.example".to_owned()]).expect("a name");
        // As `openssl req -x509` makes it.
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2030, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let own = params.self_signed(&key).expect("a certificate");
        let own = own.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(own.clone()).expect("a CA");
        let provider = Arc::new(ring::default_provider());
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = AsCurl {
            inner: inner.build().expect("a verifier"),
            given: vec![own.clone()],
        };
        let year =
            |year: u64| UnixTime::since_unix_epoch(Duration::from_hours((year - 1970) * 8766));
        for (at, name, expected) in [
            (2025, "shop.example", None),
            (2025, "other.example", Some("is not for `other.example`")),
            (2019, "shop.example", Some("not valid yet")),
            (2031, "shop.example", Some("has expired")),
        ] {
            let server = ServerName::try_from(name).expect("a name");
            let result = verifier.verify_server_cert(&own, &[], &server, &[], year(at));
            let refused = result.err().and_then(|it| refusal(&it, name));
            let is_expected = match (&refused, expected) {
                (None, None) => true,
                (Some(refused), Some(expected)) => refused.contains(expected),
                _ => false,
            };
            assert!(is_expected, "{at} {name}: {refused:?}");
        }
    }
}
