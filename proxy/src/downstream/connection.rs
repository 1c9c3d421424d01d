//! The life of one client connection.
//!
//! Between requests a connection is parked: it holds no buffer and waits for the socket to become
//! readable. What a busy connection needs lives in a box that exists while it is busy, so an idle
//! one costs a few hundred bytes.

use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Waker;

use rand::RngExt;
use xds::model::Scheme;

use crate::channel::Channel;
use crate::config::{Cluster, Opening};
use crate::limits::{
    CONNECTION_AGE_JITTER_PERCENT, LINGER_BYTES, LINGER_TIMEOUT, Limits, ORPHAN_GRACE,
};
use crate::net::{Buffer, Liveness, Stream};
use crate::policy::forwarded::Hop;
use crate::policy::proxy_protocol::{Endpoints, Expectation};
use crate::request::After;
use crate::shard::Shard;
use crate::shard::deadline::{Deadline, Expiry};
use crate::shard::registry::{ClientState, Registered};
use crate::shard::tasks::TaskState;
use crate::shard::wheel::Tick;
use crate::tls::session::Session;
use crate::tls::{ClientCertificate, Trusted};

use super::tls::ClientTls;
use super::{h1, h2, open};

/// A client's connection.
pub(crate) struct Client {
    /// Its socket, or the stream of it that a request came on.
    pub(crate) stream: Channel,
    /// Deadline of whatever the connection waits for.
    pub(crate) deadline: Deadline,
    /// Where it comes from: the peer, or whom its PROXY protocol header names.
    pub(crate) hop: Hop,
    /// Both ends of it, as its PROXY protocol header names them.
    pub(super) ends: Option<Rc<Endpoints>>,
    /// What it begins with.
    pub(super) opening: Opening,
    /// What its first bytes are to be.
    pub(crate) expects: Expectation,
    /// Bytes that came before whoever serves it.
    pub(super) early: Option<Box<Buffer>>,
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
pub(super) struct Shared {
    hop: Hop,
    ends: Option<Rc<Endpoints>>,
    tls: Option<Rc<ClientTls>>,
}

/// What becomes of a connection after it was busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing has come for a while: park it.
    Park,
    /// Close it; everything that was sent has a reader.
    Close,
    /// An answer is on its way to a client that may still be sending: see that it arrives.
    Linger,
    /// Reset it, so that nobody takes what was sent for whole.
    Reset,
    /// Serve it as HTTP/2: that is what it began with.
    SpeakH2,
}

impl Client {
    fn accepted(shard: &Rc<Shard>, stream: Stream, address: SocketAddr, bind: u32) -> Self {
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
    pub(super) fn of_stream(
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
    pub(super) fn limit_handshake(&self, shard: &Shard) {
        let snapshot = shard.config.load();
        // Of a listener that is gone, nobody says anything else any more.
        let limits = snapshot
            .bind(self.bind)
            .map_or_else(Limits::default, |bind| bind.limits);
        self.deadline
            .arm(limits.handshake_timeout, Expiry::Disconnect);
    }

    /// Has `waker` woken when connections are brought to their end.
    pub(super) fn listen_for_drain(&self, waker: &Waker) {
        if let Some(registered) = &self.registered {
            registered.listen_for_drain(waker);
        }
    }

    fn set(&self, state: ClientState) {
        if let Some(registered) = &self.registered {
            registered.set(state);
        }
    }

    /// Whether a request has come to a connection that was to be closed. That one is served, and
    /// its response says that it was the last.
    fn has_last_request(&mut self, shard: &Shard) -> bool {
        self.retires_at = shard.now();
        self.stream.liveness() == Liveness::Readable
    }

    /// Whether something comes before its first request, or in place of requests.
    fn has_opening(&self) -> bool {
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
    pub(super) fn shared(&self) -> Shared {
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

    /// Counts it where an error has ended its TLS, after the handshake.
    fn count_fault(&self, shard: &Shard) {
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

impl After {
    /// The connection ends, when the client has what was sent.
    pub(crate) fn close(stream: &Channel) -> Self {
        match stream.liveness() {
            Liveness::Quiet => Self::End(Next::Close),
            Liveness::Readable | Liveness::Gone => Self::End(Next::Linger),
        }
    }
}

/// Serves a connection until it ends. It counts from now on: of a burst that is accepted at one go,
/// the last ones have to meet the limit before the first ones were served.
pub(crate) fn serve(
    shard: Rc<Shard>,
    stream: Stream,
    address: SocketAddr,
    bind: u32,
) -> impl Future<Output = ()> {
    // Made outside of the future, which would have room for the arguments and for this.
    let mut client = Client::accepted(&shard, stream, address, bind);
    async move {
        let mut next = Next::Park;
        if client.has_opening() {
            match Box::pin(open::open(&shard, &mut client)).await {
                Ok(early) => client.early = Some(Box::new(early)),
                Err(ended) => next = ended,
            }
        }
        while next == Next::Park {
            client.set(ClientState::Busy);
            next = Box::pin(h1::serve(&shard, &mut client)).await;
            if next == Next::SpeakH2 {
                let early = client.early.take().map(|early| *early).unwrap_or_default();
                Box::pin(h2::serve(&shard, &mut client, early)).await;
            }
            if next == Next::Park && !park(&shard, &mut client).await {
                next = Next::Close;
            }
        }
        client.count_fault(&shard);
        Box::pin(end(&shard, &client, next)).await;
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

/// Waits for the next request. `false` where none will come.
async fn park(shard: &Shard, client: &mut Client) -> bool {
    if shard.draining.get() {
        return client.has_last_request(shard);
    }
    let snapshot = shard.config.load();
    let timeout = match snapshot.bind(client.bind) {
        Some(bind) => shard.keep_alive(bind.limits.keep_alive_timeout),
        // Whoever asks a listener that is gone is told so.
        None => Some(ORPHAN_GRACE),
    };
    drop(snapshot);
    client.set(ClientState::Idle);
    shard.note(TaskState::Idle);
    shard.note_parked();
    // What is left to say, over TLS, can still be said then.
    client.deadline.arm(timeout, Expiry::StopReading);
    let readable = client.stream.readable().await;
    readable.is_ok() && (!client.deadline.expired() || client.has_last_request(shard))
}

/// Ends a connection.
async fn end(shard: &Shard, client: &Client, next: Next) {
    match next {
        Next::Close | Next::Park => close(shard, client).await,
        // Its last word was said in HTTP/2.
        Next::SpeakH2 => {}
        Next::Linger => linger(shard, client).await,
        Next::Reset => client.stream.reset_on_close(),
    }
}

/// Closes a connection in order: over TLS that takes a word (RFC 8446 section 6.1).
async fn close(shard: &Shard, client: &Client) {
    if client.tls.is_none() {
        return;
    }
    let snapshot = shard.config.load();
    let timeout = snapshot
        .bind(client.bind)
        .and_then(|bind| bind.limits.write_idle_timeout);
    drop(snapshot);
    client
        .deadline
        .arm(Some(timeout.unwrap_or(LINGER_TIMEOUT)), Expiry::Disconnect);
    client.stream.shutdown_write().await;
}

/// Lets a final answer arrive: a close with bytes unread would reset the connection, and the reset
/// could overtake the answer (RFC 9112 section 9.6).
async fn linger(shard: &Shard, client: &Client) {
    client
        .deadline
        .arm(Some(LINGER_TIMEOUT), Expiry::Disconnect);
    client.stream.shutdown_write().await;
    let mut buffer = shard.buffers.take();
    let mut dropped = 0;
    while dropped < LINGER_BYTES {
        match client.stream.discard(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => dropped += count,
        }
        buffer.clear();
    }
    shard.buffers.put(buffer);
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::{Client, h1, serve};
    use crate::shard::Shard;

    fn of_idle<A, B, C, D, F>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    fn of_busy<'a, F>(_: impl Fn(&'a Rc<Shard>, &'a mut Client) -> F) -> usize {
        size_of::<F>()
    }

    /// An idle connection is a task of this future; with what the runtime adds, it fits into an
    /// allocation of 512 bytes.
    #[test]
    fn the_future_of_an_idle_connection_is_small() {
        assert!(of_idle(serve) <= 448, "{} bytes", of_idle(serve));
    }

    /// Boxed while requests come, and gone with the pause after them.
    #[test]
    fn the_future_of_a_request_is_bounded() {
        assert!(
            of_busy(h1::serve) <= 8 * 1024,
            "{} bytes",
            of_busy(h1::serve)
        );
    }
}
