//! A UDP session: one client, one endpoint, and a socket for the two.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::SessionKey;
use crate::config::{Address, ClusterIndex, L4Rule, Listener, Snapshot};
use crate::exchange::Proxy;
use crate::exchange::choice::{choose, draw, key_of_address};
use crate::failure::FailureKind;
use crate::l4::{ConnectionRecord, Protocol};
use crate::names::Interned;
use crate::net::Datagrams;
use crate::shard::Shard;
use crate::upstream::Upstreams;
use crate::upstream::health::{EndpointUse, Outcome};

/// The datagrams between one client and the endpoint that was chosen for it.
pub(super) struct UdpSession {
    socket: Datagrams,
    record: RefCell<ConnectionRecord<'static>>,
    endpoint_use: EndpointUse,
    /// The cluster of its endpoint, while it exists.
    cluster: (ClusterIndex, Interned),
    begun: Instant,
    /// Whether its endpoint has responded.
    is_answered: Cell<bool>,
    idle: Option<Duration>,
    ended: Cell<SessionEnd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionEnd {
    NotYet,
    InOrder,
    By(FailureKind),
}

impl UdpSession {
    /// Starts a session by the rule of its listener.
    ///
    /// # Errors
    ///
    /// There is no rule, backend or endpoint for it, or no descriptor left.
    pub(super) fn begin(proxy: &Proxy, bind: u32, key: SessionKey) -> Result<Self, FailureKind> {
        let shard = &proxy.shard;
        let snapshot = shard.config.load();
        let bind = snapshot.bind(bind).ok_or(FailureKind::NoListener)?;
        let listener = bind.listeners.first().ok_or(FailureKind::NoListener)?;
        let mut record = ConnectionRecord::begin(Protocol::Udp, None, bind, Some(listener));
        if proxy.watches.are_armed() {
            let client = key.client.ip().to_canonical();
            record.begin_trace(proxy, client, &snapshot, (bind, Some(listener)));
            if let Some(trace) = record.trace.as_deref()
                && let Some(rule) = listener.l4.find(None)
            {
                trace.networks(client, &rule.networks);
            }
        }
        let reached = reach(&proxy.upstreams, &snapshot, (listener, key), &mut record);
        let reached = reached.inspect_err(|kind| record.end_trace(Some((*kind).into())))?;
        tracing::trace!(client = %key.client, endpoint = ?record.endpoint, "started a session");
        record.takes(shard, reached.rule);
        Ok(Self {
            socket: reached.socket,
            record: RefCell::new(record),
            endpoint_use: reached.endpoint_use,
            cluster: reached.cluster,
            begun: reached.begun,
            is_answered: Cell::new(false),
            idle: reached.rule.limits.session_idle(),
            ended: Cell::new(SessionEnd::NotYet),
        })
    }

    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        self.idle
    }

    /// Whether it has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.ended.get() == SessionEnd::NotYet
    }

    /// Waits for a response, an error or the end of the session.
    pub(super) async fn readable(&self) {
        if self.socket.readable().await.is_err() {
            self.end(FailureKind::UpstreamReset);
        }
    }

    /// Sends a client's datagram to the endpoint.
    ///
    /// # Errors
    ///
    /// It was not sent; a network error also ends the session.
    pub(super) fn send(&self, upstreams: &Upstreams, bytes: &[u8]) -> Result<(), FailureKind> {
        match self.socket.send_to_peer(bytes) {
            Ok(()) => {
                self.record.borrow_mut().bytes_in += bytes.len() as u64;
                Ok(())
            }
            Err(error) if is_of_path(&error) => {
                self.report(upstreams, Outcome::Failure);
                self.end(FailureKind::ConnectFailed);
                Err(FailureKind::ConnectFailed)
            }
            Err(_) => Err(FailureKind::UpstreamFull),
        }
    }

    /// Receives a datagram of the endpoint; returns its length.
    pub(super) fn receive(&self, upstreams: &Upstreams, memory: &mut [u8]) -> Option<usize> {
        loop {
            if !self.is_open() {
                return None;
            }
            match self.socket.receive_from_peer(memory) {
                Ok((length, false)) => {
                    if !self.is_answered.replace(true) {
                        self.report(upstreams, Outcome::Success(self.begun.elapsed()));
                    }
                    return Some(length);
                }
                Ok((_, true)) => {
                    let dropped = &upstreams.shard.counters.dropped_datagrams;
                    dropped.count(FailureKind::DatagramCut);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.report(upstreams, Outcome::Failure);
                    self.end(FailureKind::ConnectFailed);
                    return None;
                }
            }
        }
    }

    /// Records a response of this many bytes.
    pub(super) fn record_response(&self, bytes: usize) {
        self.record.borrow_mut().bytes_out += bytes as u64;
    }

    /// Ends it in order.
    pub(super) fn end_in_order(&self) {
        self.end_as(SessionEnd::InOrder);
    }

    /// Ends it with a failure.
    pub(super) fn end(&self, why: FailureKind) {
        self.end_as(SessionEnd::By(why));
    }

    fn end_as(&self, ended: SessionEnd) {
        if self.is_open() {
            self.ended.set(ended);
            self.socket.wake();
        }
    }

    /// Counts and logs it.
    pub(super) fn finish(&self, shard: &Rc<Shard>, client: IpAddr) {
        let failure = match self.ended.get() {
            SessionEnd::By(kind) => Some(kind.into()),
            SessionEnd::InOrder | SessionEnd::NotYet => None,
        };
        self.record.borrow().finish(shard, client, failure);
    }

    /// Reports the endpoint's result, unless its service was removed meanwhile.
    fn report(&self, upstreams: &Upstreams, outcome: Outcome) {
        let (index, id) = self.cluster;
        let snapshot = upstreams.shard.config.load();
        let cluster = snapshot.clusters.get(index.0);
        if let Some(cluster) = cluster.filter(|cluster| cluster.id == id) {
            let (states, now) = (&upstreams.endpoints, Instant::now());
            self.endpoint_use.report(states, &cluster.set, outcome, now);
        }
    }
}

/// Refuses a client by the policies of the listener's rule.
pub(super) fn admit(proxy: &Proxy, bind: u32, key: SessionKey) -> Result<(), FailureKind> {
    let snapshot = proxy.shard.config.load();
    let bind = snapshot.bind(bind);
    let listener = bind.and_then(|bind| bind.listeners.first());
    let rule = listener.and_then(|listener| listener.l4.find(None));
    let (Some(bind), Some(rule)) = (bind, rule) else {
        // There is no session without them.
        return Ok(());
    };
    let client = key.client.ip().to_canonical();
    let mut record = None;
    if proxy.watches.are_armed() && !rule.accepts(client) {
        let record = record.insert(ConnectionRecord::begin(Protocol::Udp, None, bind, listener));
        record.begin_trace(proxy, client, &snapshot, (bind, listener));
    }
    let trace = record.as_ref().and_then(|record| record.trace.as_deref());
    let admitted = crate::l4::admit::admit(&proxy.shard, rule, client, trace);
    admitted.map_err(|failure| {
        if let Some(record) = &record {
            record.end_trace(Some(failure));
        }
        failure.kind
    })
}

/// A socket to an endpoint, with the rule.
struct EndpointSocket<'a> {
    rule: &'a Arc<L4Rule>,
    socket: Datagrams,
    endpoint_use: EndpointUse,
    cluster: (ClusterIndex, Interned),
    begun: Instant,
}

/// Selects an endpoint by the listener's rule, and opens a socket to it.
fn reach<'a>(
    upstreams: &Upstreams,
    snapshot: &'a Snapshot,
    (listener, key): (&'a Listener, SessionKey),
    record: &mut ConnectionRecord<'_>,
) -> Result<EndpointSocket<'a>, FailureKind> {
    let rule = listener.l4.find(None).ok_or(FailureKind::NoRoute)?;
    let trace = record.trace.as_deref();
    let backends = (&rule.draw, rule.backends.as_slice());
    let client = key.client.ip().to_canonical();
    let key = key_of_address(&upstreams.shard, rule.hashed_draw.as_deref(), client);
    let drawn = draw(&upstreams.shard, backends, key, trace);
    let (_, index) = drawn.map_err(|failure| failure.kind)?;
    let cluster = snapshot.cluster(index);
    record.cluster = Some((cluster.id, Arc::clone(&cluster.name)));
    let begun = Instant::now();
    let hashed = cluster.hashed.as_deref();
    let key = key_of_address(&upstreams.shard, hashed.map(|it| &it.keys), client);
    let trace = record.trace.as_deref_mut();
    let chosen = choose(upstreams, cluster, None, key, &mut Vec::new(), trace, begun);
    let (endpoint, endpoint_use) = chosen.map_err(|failure| failure.kind)?;
    record.endpoint = Some(Arc::clone(&endpoint.name));
    let Address::Tcp(address) = endpoint.address else {
        return Err(FailureKind::NoValidBackend);
    };
    let socket = Datagrams::connected(address).map_err(|_| FailureKind::ConnectFailed)?;
    if let Some(trace) = &record.trace {
        trace.connected(endpoint, Some(begun.elapsed()));
    }
    Ok(EndpointSocket {
        rule,
        socket,
        endpoint_use,
        cluster: (index, cluster.id),
        begun,
    })
}

/// Whether an error concerns the path to the endpoint, rather than our own lack of memory.
fn is_of_path(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable
    )
}
