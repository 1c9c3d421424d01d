//! TLS to a listener, with curl's words for whom to believe.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::args::TraceArgs;
use crate::files::{self, FILE_BYTES};

/// How TLS is spoken, and to whom.
pub(super) struct Secure {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Secure {
    /// To a host, believing whom the user says.
    ///
    /// # Errors
    /// There are no certificates to believe.
    pub(super) fn to(host: &str, args: &TraceArgs, timeout: Duration) -> Result<Self> {
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(name.to_owned());
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider as Arc<CryptoProvider>)
            .with_safe_default_protocol_versions()?;
        let mut config = if args.insecure {
            let anybody = Arc::new(Anybody(algorithms));
            let builder = builder.dangerous();
            let builder = builder.with_custom_certificate_verifier(anybody);
            builder.with_no_client_auth()
        } else {
            let roots = roots(args.cacert.as_deref(), timeout)?;
            builder.with_root_certificates(roots).with_no_client_auth()
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            connector: Arc::new(config).into(),
            name: name.with_context(|| format!("`{host}` is no name that TLS knows"))?,
        })
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// One side does not accept the other.
    pub(super) async fn shake_hands(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>> {
        let shaken = self.connector.connect(self.name.clone(), stream).await;
        shaken.context(
            "the TLS handshake failed; is it a listener of HTTPS? --cacert FILE names who signed \
             its certificate, and -k takes any",
        )
    }
}

fn roots(file: Option<&Path>, timeout: Duration) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = file {
        let name = file.display();
        let pem = files::whole(file, FILE_BYTES, timeout)?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.with_context(|| format!("{name} is not PEM"))?;
            let added = roots.add(certificate);
            added.with_context(|| format!("{name} has a certificate that cannot be used"))?;
        }
    } else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
    }
    if roots.is_empty() {
        bail!("there are no certificates to believe; name some with --cacert FILE, or use -k");
    }
    Ok(roots)
}

/// Believes anybody, as the user asked: a trace is about where a request goes, and shows nothing
/// that the gateway at the other end does not know.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
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
