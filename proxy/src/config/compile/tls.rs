//! TLS of listeners and of backends. Unchanged settings are reused, and session tickets stay valid.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::server::ProducesTickets;
use xds::model::{
    self, BackendTls, Certificate, ListenerKey, ObjectName, Roots, ServerCertificate, TlsClient,
    TlsServer,
};

use crate::config::Protection;
use crate::tls::{CLIENT_PROTOCOLS, ServerTls, TlsError, TrustDomain, UpstreamTls, roots};

/// Builds the TLS settings of a model.
#[derive(Debug, Default)]
pub(super) struct TlsCompiler {
    domains: Vec<Domain>,
    listeners: HashMap<ListenerKey, Listener>,
    backends: HashMap<Arc<str>, Backend>,
    /// Counts the settings of backends that were built.
    settings: u32,
    /// The system's trust store, loaded on first use.
    system: Option<Arc<RootCertStore>>,
}

/// Identifies the TLS settings of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SettingsId(u32);

/// Settings that cannot be built. No connection is made with them, and plain-text connections from
/// before are not reused.
const UNUSABLE: SettingsId = SettingsId(0);

/// A backend's input and its built TLS settings.
#[derive(Debug)]
struct Backend {
    tls: BackendTls,
    certificate: Option<Certificate>,
    id: SettingsId,
    made: Arc<UpstreamTls>,
}

/// Listeners with the same client validation, which share session tickets.
#[derive(Debug)]
struct Domain {
    trust: Arc<TrustDomain>,
    /// Its keys rotate every six hours.
    tickets: Arc<dyn ProducesTickets>,
}

/// A listener's input and its built TLS settings.
#[derive(Debug)]
struct Listener {
    server: TlsServer,
    /// The pairs in use: those of the input, and for Secrets that are broken now, the previous ones.
    pairs: Vec<ServerCertificate>,
    made: Option<ServerTls>,
}

impl TlsCompiler {
    /// Forgets a removed listener.
    pub(super) fn forget_listener(&mut self, key: &ListenerKey) {
        if self.listeners.remove(key).is_some() {
            self.forget_unused_domains();
        }
    }

    /// Forgets a removed backend.
    pub(super) fn forget_backend(&mut self, name: &str) {
        self.backends.remove(name);
    }

    fn forget_unused_domains(&mut self) {
        let listeners = &self.listeners;
        self.domains.retain(|domain| {
            let mut made = listeners.values().filter_map(|it| it.made.as_ref());
            made.any(|made| Arc::ptr_eq(&made.domain, &domain.trust))
        });
    }

    /// TLS towards a backend of this name.
    pub(super) fn backend(
        &mut self,
        name: &Arc<str>,
        tls: &BackendTls,
        certificate: Option<&Certificate>,
        shards: NonZeroU32,
    ) -> (Option<SettingsId>, Protection) {
        if let Some(known) = self.backends.get(name)
            && known.tls == *tls
            && known.certificate.as_ref() == certificate
        {
            return (Some(known.id), Protection::Tls(Arc::clone(&known.made)));
        }
        let made = match tls {
            BackendTls::Verified(client) => self.make_upstream(client, certificate, shards),
            BackendTls::Unverified { server_name } => {
                UpstreamTls::unverified(server_name, certificate, shards)
            }
            BackendTls::Invalid => return (Some(UNUSABLE), Protection::Unusable),
        };
        let made = match made {
            Ok(made) => Arc::new(made),
            Err(error) => {
                self.backends.remove(name);
                tracing::error!(backend = %name, %error, "cannot set up TLS to the backend; requests to it are answered with 503");
                return (Some(UNUSABLE), Protection::Unusable);
            }
        };
        self.settings += 1;
        let id = SettingsId(self.settings);
        let backend = Backend {
            tls: tls.clone(),
            certificate: certificate.cloned(),
            id,
            made: Arc::clone(&made),
        };
        self.backends.insert(Arc::clone(name), backend);
        (Some(id), Protection::Tls(made))
    }

    fn make_upstream(
        &mut self,
        client: &TlsClient,
        certificate: Option<&Certificate>,
        shards: NonZeroU32,
    ) -> Result<UpstreamTls, TlsError> {
        let roots = match (&client.roots, &self.system) {
            (Roots::Certificates(roots), _) => roots::of(roots)?,
            (Roots::System, Some(known)) => Arc::clone(known),
            (Roots::System, None) => Arc::clone(self.system.insert(roots::of_system()?)),
        };
        UpstreamTls::compile(client, roots, certificate, shards)
    }

    /// A listener's TLS settings; `None` if they cannot be built, so that no handshake succeeds.
    pub(super) fn listener(
        &mut self,
        key: &ListenerKey,
        gateway: &ObjectName,
        server: &TlsServer,
    ) -> Option<ServerTls> {
        if let Some(known) = self.listeners.get(key)
            && known.server == *server
            && let Some(made) = &known.made
            && made.domain.gateway == *gateway
        {
            return Some(made.clone());
        }
        let pairs = self.pairs_in_use(key, server);
        let effective = TlsServer {
            certificates: pairs.clone(),
            ..server.clone()
        };
        let made = self.make(gateway, &effective);
        match &made {
            Ok(_) => {}
            Err(TlsError::NoCertificate) => {
                tracing::warn!(
                    listener = key.as_str(),
                    "the listener has no usable certificate; its TLS handshakes are rejected"
                );
            }
            Err(error) => {
                tracing::error!(listener = key.as_str(), %error, "the listener's TLS settings are invalid; its connections are rejected");
            }
        }
        let made = made.ok();
        let listener = Listener {
            server: server.clone(),
            pairs,
            made: made.clone(),
        };
        if self.listeners.insert(key.clone(), listener).is_some() {
            self.forget_unused_domains();
        }
        made
    }

    /// The certificates of a listener, with the previous pairs of Secrets that are broken. Pairs of
    /// other Secrets, such as deleted ones, are forgotten.
    fn pairs_in_use(&self, key: &ListenerKey, server: &TlsServer) -> Vec<ServerCertificate> {
        let before = self.listeners.get(key).map_or(&[][..], |it| &it.pairs);
        let in_use = |certificate: &ServerCertificate| {
            if certificate.pair.is_some() {
                return certificate.clone();
            }
            let mut before = before.iter();
            let previous = before.find(|it| it.secret.is_some() && it.secret == certificate.secret);
            previous.unwrap_or(certificate).clone()
        };
        server.certificates.iter().map(in_use).collect()
    }

    fn make(&mut self, gateway: &ObjectName, server: &TlsServer) -> Result<ServerTls, TlsError> {
        let (trust, tickets) = self.domain(gateway, &server.client_auth)?;
        ServerTls::compile(server, trust, tickets, CLIENT_PROTOCOLS)
    }

    fn domain(
        &mut self,
        gateway: &ObjectName,
        client_auth: &model::ClientAuth,
    ) -> Result<(Arc<TrustDomain>, Arc<dyn ProducesTickets>), TlsError> {
        let trust = TrustDomain {
            gateway: gateway.clone(),
            client_auth: client_auth.clone(),
        };
        let mut domains = self.domains.iter();
        if let Some(domain) = domains.find(|domain| *domain.trust == trust) {
            return Ok((Arc::clone(&domain.trust), Arc::clone(&domain.tickets)));
        }
        let (trust, tickets) = (Arc::new(trust), crate::tls::tickets()?);
        self.domains.push(Domain {
            trust: Arc::clone(&trust),
            tickets: Arc::clone(&tickets),
        });
        Ok((trust, tickets))
    }
}
