//! A client's connection.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use rand::RngExt;
use xds::model::{Alpn, Scheme};

use crate::channel::Channel;
use crate::config::{Accepts, Cluster, Listener, Opening};
use crate::limits::{CONNECTION_AGE_JITTER_PERCENT, Limits};
use crate::memory::Buffer;
use crate::names::Interned;
use crate::net::{Liveness, Stream};
use crate::policy::forwarded::Hop;
use crate::policy::proxy_protocol::{Endpoints, Expectation};
use crate::shard::Shard;
use crate::shard::deadline::{Deadline, Expiry};
use crate::shard::registry::{ClientState, Registered};
use crate::shard::wheel::Tick;
use crate::tls::session::Session;
use crate::tls::{ClientCertificate, TrustDomain, Trusted};

/// A client's connection.
pub(crate) struct Client {
    /// Its socket, or the stream of it that a request came on.
    pub(crate) stream: Channel,
    /// Deadline of whatever the connection waits for.
    pub(crate) deadline: Deadline,
    /// Where it comes from: the peer, or whom its PROXY protocol header names.
    pub(crate) hop: Hop,
    /// Both ends of it, as its PROXY protocol header names them.
    pub(crate) ends: Option<Rc<Endpoints>>,
    /// What it begins with.
    pub(crate) opening: Opening,
    /// What its first bytes are to be.
    pub(crate) expects: Expectation,
    /// Bytes that came before whoever serves it.
    pub(crate) early: Option<Box<Buffer>>,
    /// What its TLS handshake came to.
    pub(crate) tls: Option<Rc<ClientTls>>,
    /// The bind that accepted it.
    pub(crate) bind: u32,
    /// Requests begun.
    pub(crate) requests: u64,
    /// When it has to end, so that load spreads again now and then.
    retires_at: Tick,
    /// Its place among the open connections; a stream has none of its own.
    registered: Option<Registered>,
}

/// What the streams of a connection have of it.
#[derive(Clone)]
pub(crate) struct Shared {
    hop: Hop,
    ends: Option<Rc<Endpoints>>,
    tls: Option<Rc<ClientTls>>,
}

impl Client {
    /// A connection that `bind` has accepted.
    pub(crate) fn accepted(
        shard: &Rc<Shard>,
        stream: Stream,
        address: SocketAddr,
        bind: u32,
    ) -> Self {
        let snapshot = shard.config.load();
        let (opening, expects) = match snapshot.bind(bind) {
            Some(bind) => (bind.opening, bind.proxy_protocol.expectation(address.ip())),
            None => (Opening::Http, Expectation::Nothing),
        };
        Self {
            deadline: Deadline::new(shard, stream.fd()),
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

    /// One request on a connection of many: everything but the stream is the connection's.
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
            opening: Opening::Http,
            expects: Expectation::Nothing,
            tls: connection.tls,
            bind,
            requests: 0,
            retires_at: Tick::NEVER,
            early: None,
        }
    }

    /// From here on its handshake has to come to an end, by the policy of its listener.
    pub(crate) fn limit_handshake(&self, shard: &Shard) {
        let snapshot = shard.config.load();
        // Of a listener that is gone, nobody says anything else any more.
        let limits = snapshot
            .bind(self.bind)
            .map_or_else(Limits::default, |bind| bind.limits);
        self.deadline
            .arm(limits.handshake_timeout, Expiry::Disconnect);
    }

    /// Has `waker` woken when connections are brought to their end.
    pub(crate) fn listen_for_drain(&self, waker: &Waker) {
        if let Some(registered) = &self.registered {
            registered.listen_for_drain(waker);
        }
    }

    /// Notes what the connection is doing.
    pub(crate) fn set(&self, state: ClientState) {
        if let Some(registered) = &self.registered {
            registered.set(state);
        }
    }

    /// Whether a request has come to a connection that was to be closed. That one is served, and
    /// its response says that it was the last.
    pub(crate) fn has_last_request(&mut self, shard: &Shard) -> bool {
        self.retires_at = shard.now();
        self.stream.liveness() == Liveness::Readable
    }

    /// Whether something comes before its first request, or in place of requests.
    pub(crate) fn has_opening(&self) -> bool {
        self.opening != Opening::Http || self.expects != Expectation::Nothing
    }

    /// Both of its ends, where a backend is told of them.
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

    /// What its streams have of it.
    pub(crate) fn shared(&self) -> Shared {
        Shared {
            hop: self.hop,
            ends: self.ends(),
            tls: self.tls.clone(),
        }
    }

    /// Its certificate, where it has shown one that was verified.
    pub(crate) fn verified_certificate(&self) -> Option<&ClientCertificate> {
        let certificate = self.tls.as_deref()?.certificate.as_ref()?;
        (certificate.trust == Trusted::Verified).then_some(certificate)
    }

    /// The protocol that its TLS has agreed on, if any.
    pub(crate) fn agreed_protocol(&self) -> Option<Alpn> {
        self.tls.as_deref()?.protocol
    }

    /// Counts it where an error has ended its TLS, after the handshake.
    pub(crate) fn count_fault(&self, shard: &Shard) {
        let socket = self.tls.as_ref().and_then(|_| self.stream.as_socket());
        let fault = socket.and_then(|socket| socket.with_session(Session::fault).flatten());
        if let Some(fault) = fault {
            shard.counters.handshakes.broken.count(fault);
        }
    }

    /// Whether it has reached its age.
    pub(crate) fn is_old(&self, now: Tick) -> bool {
        now >= self.retires_at
    }
}

/// When a connection that begins now has to end: some way before its age for some, so that clients
/// that came together do not come again together.
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

/// What a client's handshake came to.
#[derive(Debug)]
pub(crate) struct ClientTls {
    /// The listener it was with.
    pub(crate) listener: Interned,
    /// Whom that listener believed.
    pub(crate) domain: Arc<TrustDomain>,
    /// The certificate that the client has shown.
    pub(crate) certificate: Option<ClientCertificate>,
    /// The protocol that was agreed on; none where the client offered none.
    pub(crate) protocol: Option<Alpn>,
}

impl ClientTls {
    /// Whether a listener would have made the same of it.
    pub(crate) fn is_for(&self, listener: &Listener) -> bool {
        let believes_the_same = match &listener.accepts {
            Accepts::Tls(tls) => *tls.domain == *self.domain,
            Accepts::Plain | Accepts::Nothing => false,
        };
        listener.id == self.listener && believes_the_same
    }
}
