//! A client's connection.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use rand::RngExt;
use xds::model::{Alpn, Scheme};

use crate::channel::Channel;
use crate::config::{Accepts, Bind, BindProtocol, Cluster, Listener};
use crate::limits::{CONNECTION_AGE_JITTER_PERCENT, Limits};
use crate::memory::Buffer;
use crate::names::Interned;
use crate::net::{Liveness, Stream};
use crate::policy::forwarded::Hop;
use crate::policy::proxy_protocol::{Endpoints, Expectation};
use crate::shard::Shard;
use crate::shard::deadline::{Deadline, Expiry};
use crate::shard::open_connections::Entry;
use crate::shard::registry::{ClientState, Registered};
use crate::shard::wheel::Tick;
use crate::tls::session::TlsSession;
use crate::tls::{CertificateTrust, ClientCertificate, TrustDomain};
use crate::trace::Tracer;

use super::Proxy;

pub(crate) struct Client {
    /// Timeout of the current operation; dropped before the stream that it can end, whose memory is used again.
    pub(crate) deadline: Deadline,
    /// The connection's socket, or the request's stream.
    pub(crate) stream: Channel,
    /// The client's address: the peer's, or from its PROXY protocol header.
    pub(crate) hop: Hop,
    /// Both addresses from the PROXY protocol header.
    pub(crate) ends: Option<Rc<Endpoints>>,
    /// The protocol that its connection begins with.
    pub(crate) opening: BindProtocol,
    /// Whether a PROXY protocol header is expected.
    pub(crate) expects: Expectation,
    /// Bytes received before the protocol was known.
    pub(crate) early: Option<Box<Buffer>>,
    /// The result of the TLS handshake.
    pub(crate) tls: Option<Rc<ClientTls>>,
    /// Index of the bind that accepted it.
    pub(crate) bind: u32,
    pub(crate) requests: u64,
    /// When it has to close, so that connections spread over replicas again.
    retires_at: Tick,
    /// Its entry in the list of open connections; streams have none.
    registered: Option<Registered>,
}

/// The connection's data shared with its streams.
#[derive(Clone)]
pub(crate) struct Shared {
    hop: Hop,
    ends: Option<Rc<Endpoints>>,
    tls: Option<Rc<ClientTls>>,
}

impl Client {
    /// A connection accepted by `bind`.
    pub(crate) fn accepted(
        shard: &Rc<Shard>,
        stream: Stream,
        address: SocketAddr,
        bind: u32,
    ) -> Self {
        let snapshot = shard.config.load();
        let deadline = Deadline::new(shard, stream.fd());
        let (opening, expects) = match snapshot.bind(bind) {
            Some(bind) => {
                deadline.serve_half_closed(bind.limits.half_close_timeout);
                (bind.opening, bind.proxy_protocol.expectation(address.ip()))
            }
            None => (BindProtocol::Http, Expectation::Nothing),
        };
        Self {
            deadline,
            registered: Some(Registered::new(shard, stream.fd(), bind)),
            stream: stream.into(),
            hop: Hop::new(address.ip(), Scheme::Http),
            ends: None,
            opening,
            expects,
            tls: None,
            bind,
            requests: 0,
            retires_at: retirement(shard, bind),
            early: None,
        }
    }

    /// A client for one stream of a connection.
    pub(crate) fn of_stream(
        shard: &Rc<Shard>,
        stream: Channel,
        connection: Shared,
        bind: u32,
    ) -> Self {
        Self {
            deadline: Deadline::new(shard, stream.cutoff()),
            registered: None,
            stream,
            hop: connection.hop,
            ends: connection.ends,
            opening: BindProtocol::Http,
            expects: Expectation::Nothing,
            tls: connection.tls,
            bind,
            requests: 0,
            retires_at: Tick::NEVER,
            early: None,
        }
    }

    /// Counts the connection by its client's address, where the number of a client's connections is limited.
    /// `false` if the client has as many as it may have. An address in the trusted sources is not limited: the
    /// connections of a load balancer are those of many clients.
    pub(crate) fn is_within_limit(&self, proxy: &Proxy) -> bool {
        let shard = &proxy.shard;
        let snapshot = shard.config.load();
        let Some(bind) = snapshot.bind(self.bind) else {
            return true;
        };
        let Some(max) = bind.limits.client_connections else {
            return true;
        };
        let address = self.hop.address();
        if bind.trust.has_source(address) {
            return true;
        }
        let key = shard.client_connections.client(self.bind, address);
        match shard.client_connections.enter(key, max) {
            Entry::Counted => {
                if let Some(registered) = &self.registered {
                    registered.count_by(key);
                }
                true
            }
            Entry::Uncounted => true,
            Entry::Full => {
                let counters = shard.counters.binds.of(Interned::bind(self.bind));
                counters.client_limit_refusals.increment();
                if proxy.watches.are_armed() {
                    let why = (
                        None,
                        "its client has as many as limits.clientConnections allows",
                    );
                    let traces = (&proxy.watches, &**shard);
                    Tracer::refused_connection(traces, (bind, snapshot.version), address, why);
                }
                if shard.logs_refusal() {
                    let port = bind.address.port();
                    tracing::info!(client = %address, port, max, "refused a connection: its client has as many as limits.clientConnections allows; others of this second are only counted");
                }
                false
            }
        }
    }

    /// Starts the handshake timeout of its listener's policy.
    pub(crate) fn limit_handshake(&self, shard: &Shard) {
        let snapshot = shard.config.load();
        // Defaults apply if the listener was removed.
        let limits = snapshot
            .bind(self.bind)
            .map_or_else(Limits::default, |bind| bind.limits);
        self.deadline
            .arm(limits.handshake_timeout, Expiry::Disconnect);
    }

    /// Registers `waker` to be woken on drain.
    pub(crate) fn listen_for_drain(&self, waker: &Waker) {
        if let Some(registered) = &self.registered {
            registered.listen_for_drain(waker);
        }
    }

    /// Sets the connection's state for the task list.
    pub(crate) fn set(&self, state: ClientState) {
        if let Some(registered) = &self.registered {
            registered.set(state);
        }
    }

    /// Whether a request has arrived on a connection that should be closed. It is served, and its
    /// response announces the close.
    pub(crate) fn has_last_request(&mut self, shard: &Shard) -> bool {
        self.retires_at = shard.now();
        matches!(
            self.stream.liveness(),
            Liveness::Readable | Liveness::Ending
        )
    }

    /// Whether a header or handshake precedes its first request, or bytes are proxied instead.
    pub(crate) fn has_opening(&self) -> bool {
        self.opening != BindProtocol::Http || self.expects != Expectation::Nothing
    }

    /// Whether its address is known only after a PROXY protocol header.
    pub(crate) fn awaits_address(&self) -> bool {
        matches!(self.expects, Expectation::Optional | Expectation::Required)
    }

    /// Both addresses, if the backend receives a PROXY protocol header.
    pub(crate) fn proxied_to(&self, cluster: &Cluster) -> Option<Box<Endpoints>> {
        cluster.proxy_protocol?;
        self.ends().map(|ends| Box::new(*ends))
    }

    fn ends(&self) -> Option<Rc<Endpoints>> {
        if let Some(ends) = &self.ends {
            return Some(Rc::clone(ends));
        }
        let (source, destination) = self.stream.as_socket()?.addresses()?;
        Some(Rc::new(Endpoints {
            source,
            destination,
        }))
    }

    /// The data shared with its streams.
    pub(crate) fn shared(&self) -> Shared {
        Shared {
            hop: self.hop,
            ends: self.ends(),
            tls: self.tls.clone(),
        }
    }

    /// The client's certificate, if it was verified.
    pub(crate) fn verified_certificate(&self) -> Option<&ClientCertificate> {
        let certificate = self.tls.as_deref()?.certificate.as_ref()?;
        (certificate.trust == CertificateTrust::Verified).then_some(certificate)
    }

    /// The protocol selected by ALPN.
    pub(crate) fn agreed_protocol(&self) -> Option<Alpn> {
        self.tls.as_deref()?.protocol
    }

    /// Counts an error that ended its TLS after the handshake.
    pub(crate) fn count_fault(&self, shard: &Shard) {
        let socket = self.tls.as_ref().and_then(|_| self.stream.as_socket());
        let fault = socket.and_then(|socket| socket.with_session(TlsSession::fault).flatten());
        if let Some(fault) = fault {
            shard.counters.handshakes.broken.count(fault);
        }
    }

    /// Whether a connection like this one could be opened now: with or without TLS and, with it, by a
    /// listener that trusts the same clients.
    pub(crate) fn is_current(&self, bind: &Bind) -> bool {
        match &self.tls {
            None => bind.opening == BindProtocol::Http,
            Some(tls) => tls
                .listener_now(bind)
                .is_some_and(|listener| tls.trusts_same_clients(listener)),
        }
    }

    /// Whether it may carry requests to a listener. One without TLS may not after the listener has
    /// changed to HTTPS.
    pub(crate) fn is_for(&self, bind: &Bind, listener: &Listener) -> bool {
        match (&self.tls, &listener.accepts) {
            (Some(tls), _) => tls.is_for(bind, listener),
            (None, Accepts::Plain) => bind.opening == BindProtocol::Http,
            (None, Accepts::Tls(_) | Accepts::Nothing) => false,
        }
    }

    /// Whether it has reached its maximum age.
    pub(crate) fn is_old(&self, now: Tick) -> bool {
        now >= self.retires_at
    }
}

/// When a connection that starts now has to close: with jitter, so that clients that connected
/// together do not reconnect together.
fn retirement(shard: &Shard, bind: u32) -> Tick {
    let snapshot = shard.config.load();
    let age = snapshot
        .bind(bind)
        .and_then(|bind| bind.limits.connection_age);
    let Some(age) = age else {
        return Tick::NEVER;
    };
    let percent = shard.with_rng(|rng| rng.random_range(100 - CONNECTION_AGE_JITTER_PERCENT..=100));
    shard.now().after(age / 100 * percent)
}

/// The result of a client's TLS handshake.
#[derive(Debug)]
pub(crate) struct ClientTls {
    /// The listener that terminated TLS.
    pub(crate) listener: Interned,
    /// The server name that selected it.
    pub(crate) server_name: Option<Box<str>>,
    /// The CAs that the listener trusted.
    pub(crate) domain: Arc<TrustDomain>,
    /// The client's certificate, if it sent one.
    pub(crate) certificate: Option<ClientCertificate>,
    /// The protocol selected by ALPN; `None` if the client offered none.
    pub(crate) protocol: Option<Alpn>,
}

impl ClientTls {
    /// Whether the listener accepted the handshake, or would accept it now: a listener keeps its
    /// connections when it is renamed.
    fn is_for(&self, bind: &Bind, listener: &Listener) -> bool {
        let is_selected = || {
            self.listener_now(bind)
                .is_some_and(|now| now.id == listener.id)
        };
        (listener.id == self.listener || is_selected()) && self.trusts_same_clients(listener)
    }

    /// The listener that the server name selects now.
    fn listener_now<'b>(&self, bind: &'b Bind) -> Option<&'b Listener> {
        bind.listener(self.server_name.as_deref().unwrap_or_default())
    }

    fn trusts_same_clients(&self, listener: &Listener) -> bool {
        match &listener.accepts {
            Accepts::Tls(tls) => *tls.domain == *self.domain,
            Accepts::Plain | Accepts::Nothing => false,
        }
    }
}
