//! How a listener ends TLS: its certificates, whom it asks for one, and what of the model cannot be
//! used. Made on the configuration thread; handshakes on the shards only read it.

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
use super::resumption::Unopened;
use super::roots;

/// How a listener ends TLS, ready for handshakes.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// What a handshake needs.
    pub config: Arc<ServerConfig>,
    /// The same, where a certificate is required, to take up no earlier session.
    pub(super) anew: Option<Arc<ServerConfig>>,
    /// Whom it believes: a connection to a listener of another domain is none to this one.
    pub domain: Arc<TrustDomain>,
    /// Tells whether a client's certificate is believed, where one is asked for.
    pub clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// Why TLS cannot be ended as the model says.
#[derive(Debug, Error)]
pub enum TlsError {
    /// There is no certificate to show.
    #[error("there is no certificate")]
    NoCertificate,
    /// A certificate cannot be parsed, or is not for its key.
    #[error("certificate {position} cannot be used: {error}")]
    Certificate {
        /// Which one, from 1.
        position: usize,
        /// What is wrong.
        error: rustls::Error,
    },
    /// A root certificate cannot be parsed.
    #[error("a root certificate cannot be used: {0}")]
    Root(rustls::Error),
    /// The roots cannot vouch for anybody.
    #[error("the root certificates cannot be used: {0}")]
    Roots(#[from] VerifierBuilderError),
    /// The system has none.
    #[error("the system's root certificates cannot be read: {0}")]
    SystemRoots(String),
    /// Any other.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

impl ServerTls {
    /// Makes it of the model. Tickets of `tickets` are believed, so only listeners of one trust
    /// domain may have the same. Of its protocols those are offered that are `spoken`.
    ///
    /// # Errors
    /// A certificate, key or root is unusable.
    pub fn compile(
        server: &model::TlsServer,
        domain: Arc<TrustDomain>,
        tickets: Arc<dyn ProducesTickets>,
        spoken: &[Alpn],
    ) -> Result<Self, TlsError> {
        let provider = super::provider();
        let versions: &[_] = match server.min_version {
            TlsVersion::V12 => &[&TLS13, &TLS12],
            TlsVersion::V13 => &[&TLS13],
        };
        let certificates = Certificates::load(&server.certificates, &provider)?;
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
            .filter(|protocol| spoken.contains(protocol))
            .map(|protocol| protocol.as_str().as_bytes().to_vec())
            .collect();
        config.ticketer = tickets;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // One is what a client uses; each costs a record and its sealing.
        config.send_tls13_tickets = 1;
        let anew = matches!(server.client_auth, ClientAuth::Required { .. }).then(|| {
            let mut config = config.clone();
            config.ticketer = Arc::new(Unopened(Arc::clone(&config.ticketer)));
            Arc::new(config)
        });
        Ok(Self {
            config: Arc::new(config),
            anew,
            domain,
            clients,
        })
    }
}

/// The certificates of a listener.
struct Certificates(Vec<Choice>);

struct Choice {
    /// DNS names, sorted.
    names: Vec<Box<str>>,
    key: Arc<CertifiedKey>,
}

impl Certificates {
    fn load(
        certificates: &[model::Certificate],
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
    /// The first one that has the name and whose key the client understands, then the first one of
    /// these whatever its name: a client that sees the wrong name says so, one that is cut off
    /// cannot.
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

/// A certificate with its key, which is one for it.
pub(super) fn certified_key(
    certificate: &model::Certificate,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, rustls::Error> {
    let chain = certificate.chain.iter().map(der).collect();
    let key = PrivateKeyDer::try_from(certificate.key.secret_der().to_vec())
        .map_err(|error| rustls::Error::General(error.to_owned()))?;
    CertifiedKey::from_der(chain, key, provider)
}

/// A certificate as rustls has it.
pub(super) fn der(certificate: &Der) -> CertificateDer<'static> {
    CertificateDer::from(certificate.as_bytes().to_vec())
}
