//! TLS termination of a listener: certificates and client validation. Built on the configuration
//! thread; handshakes on the shards only read it.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, VerifierBuilderError,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use thiserror::Error;
use xds::model::{self, Alpn, ClientAuth, Der, TlsVersion};

use super::client_auth::{Lenient, TrustDomain};
use super::resumption::IssueOnlyTickets;
use super::roots;

/// TLS settings of a listener, ready for handshakes.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// The settings of a handshake.
    pub config: Arc<ServerConfig>,
    /// The same without resumption, if a client certificate is required.
    pub(super) full_handshake: Option<Arc<ServerConfig>>,
    /// Its trust domain: connections to listeners of another one cannot use this one.
    pub domain: Arc<TrustDomain>,
    /// Verifies client certificates, if they are requested.
    pub clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// Why TLS settings are invalid.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The listener has no certificate.
    #[error("there is no certificate")]
    NoCertificate,
    /// A certificate cannot be parsed, or does not match its key.
    #[error("certificate {position} is unusable: {error}")]
    Certificate {
        /// Position in the list, from 1.
        position: usize,
        /// The error from rustls.
        error: rustls::Error,
    },
    /// A root certificate cannot be parsed.
    #[error("a root certificate is unusable: {0}")]
    Root(rustls::Error),
    /// The roots are unusable.
    #[error("the root certificates are unusable: {0}")]
    Roots(#[from] VerifierBuilderError),
    /// The system's roots are unavailable.
    #[error("the system's root certificates cannot be read: {0}")]
    SystemRoots(String),
    /// Any other error of rustls.
    #[error("invalid TLS settings: {0}")]
    Tls(#[from] rustls::Error),
}

impl ServerTls {
    /// Builds it from the model. Tickets of `tickets` are accepted, so only listeners of one trust
    /// domain may share them. Offers those of its protocols that are in `supported`.
    ///
    /// # Errors
    ///
    /// A certificate, key or root is unusable.
    pub fn compile(
        server: &model::TlsServer,
        domain: Arc<TrustDomain>,
        tickets: Arc<dyn ProducesTickets>,
        supported: &[Alpn],
    ) -> Result<Self, TlsError> {
        let provider = super::provider();
        let versions: &[_] = match server.min_version {
            TlsVersion::V12 => &[&TLS13, &TLS12],
            TlsVersion::V13 => &[&TLS13],
        };
        let certificates = Certificates::load(server.pairs(), &provider)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)?;
        let clients = match &server.client_auth {
            ClientAuth::None => None,
            ClientAuth::Required { roots } | ClientAuth::Optional { roots } => {
                let roots = roots::of(roots)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                Some(verifier.build()?)
            }
        };
        let builder = match (&clients, &server.client_auth) {
            (None, _) => builder.with_no_client_auth(),
            (Some(clients), ClientAuth::Optional { .. }) => {
                builder.with_client_cert_verifier(Arc::new(Lenient::over(Arc::clone(clients))))
            }
            (Some(clients), _) => builder.with_client_cert_verifier(Arc::clone(clients)),
        };
        let mut config = builder.with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = (server.alpn.iter())
            .filter(|protocol| supported.contains(protocol))
            .map(|protocol| protocol.as_str().as_bytes().to_vec())
            .collect();
        config.ticketer = tickets;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // A client uses one; each costs a record and its encryption.
        config.send_tls13_tickets = 1;
        let full_handshake = matches!(server.client_auth, ClientAuth::Required { .. }).then(|| {
            let mut config = config.clone();
            config.ticketer = Arc::new(IssueOnlyTickets(Arc::clone(&config.ticketer)));
            Arc::new(config)
        });
        Ok(Self {
            config: Arc::new(config),
            full_handshake,
            domain,
            clients,
        })
    }
}

/// The certificates of a listener.
struct Certificates(Vec<Choice>);

struct Choice {
    /// DNS names of the certificates, sorted for binary search.
    names: Vec<Box<str>>,
    key: Arc<CertifiedKey>,
}

impl Certificates {
    fn load<'a>(
        certificates: impl Iterator<Item = &'a model::Certificate>,
        provider: &CryptoProvider,
    ) -> Result<Self, TlsError> {
        let load = |(position, certificate)| {
            Choice::load(certificate, provider)
                .map_err(|error| TlsError::Certificate { position, error })
        };
        let choices: Vec<_> = (1..)
            .zip(certificates)
            .map(load)
            .collect::<Result<_, _>>()?;
        if choices.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        Ok(Self(choices))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|choice| &choice.names);
        f.debug_tuple("Certificates")
            .field(&names.collect::<Vec<_>>())
            .finish()
    }
}

impl ResolvesServerCert for Certificates {
    /// The first certificate that has the name and whose key type the client supports, otherwise
    /// the first of the latter regardless of its name: a client reports a wrong name, but not a
    /// closed connection.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        let schemes = hello.signature_schemes();
        let understood = |choice: &&Choice| choice.key.key.choose_scheme(schemes).is_some();
        let named = |choice: &&Choice| name.is_some_and(|name| choice.serves(name));
        let mut choices = self.0.iter().filter(understood);
        let first = choices.next()?;
        let named = std::iter::once(first).chain(choices).find(named);
        Some(Arc::clone(&named.unwrap_or(first).key))
    }
}

impl Choice {
    fn load(
        certificate: &model::Certificate,
        provider: &CryptoProvider,
    ) -> Result<Self, rustls::Error> {
        let key = certified_key(certificate, provider)?;
        let names = match key.cert.first().map(webpki::EndEntityCert::try_from) {
            Some(Ok(parsed)) => parsed.valid_dns_names().map(lower_case).collect(),
            _ => Vec::new(),
        };
        let mut choice = Self {
            names,
            key: Arc::new(key),
        };
        choice.names.sort_unstable();
        Ok(choice)
    }

    /// RFC 6125 section 6.4.3: a wildcard stands for one label.
    fn serves(&self, name: &str) -> bool {
        let has = |name: &str| {
            let found = self.names.binary_search_by(|known| (**known).cmp(name));
            found.is_ok()
        };
        has(name) || {
            let parent = name.split_once('.').map(|(_, parent)| parent);
            parent.is_some_and(|parent| has(&format!("*.{parent}")))
        }
    }
}

fn lower_case(name: &str) -> Box<str> {
    name.to_ascii_lowercase().into()
}

/// A certificate with its matching key.
pub(super) fn certified_key(
    certificate: &model::Certificate,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, rustls::Error> {
    let chain = certificate.chain.iter().map(der).collect();
    let key = PrivateKeyDer::try_from(certificate.key.secret_der().to_vec())
        .map_err(|error| rustls::Error::General(error.to_owned()))?;
    CertifiedKey::from_der(chain, key, provider)
}

/// A certificate in rustls' type.
pub(super) fn der(certificate: &Der) -> CertificateDer<'static> {
    CertificateDer::from(certificate.as_bytes().to_vec())
}
