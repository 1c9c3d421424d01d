//! Connections to endpoints: a new one, a stream of one, or one that becomes free.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use xds::model::Alpn;

use crate::config::{Address, Cluster, Endpoint, Protection, Protocol};
use crate::failure::{Failure, FailureKind};
use crate::memory::Buffer;
use crate::net::{HandshakeError, Stream};
use crate::policy::proxy_protocol::{self, Endpoints, Version};
use crate::shard::Shard;
use crate::shard::deadline::{Deadline, Expiry};
use crate::tls::UpstreamTlsFailure;
use crate::tls::session::{SessionError, TlsSession};

use super::connection_limit::{ConnectionSlot, Grant};
use super::endpoint_limit::{EndpointGrant, EndpointPermit};
use super::pool::{Connection, Pool};
use super::{Upstreams, h2};

/// The time that a request has to get a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectTime {
    /// For the wait at a connection limit, and after it again for connecting: the wait says nothing about how
    /// far the endpoint is.
    pub(crate) each: Option<Duration>,
    /// When both must have ended: the deadline of the request.
    pub(crate) until: Option<Instant>,
}

impl ConnectTime {
    /// When a step that begins now must have ended.
    fn end(self) -> Option<Instant> {
        self.end_from(Instant::now())
    }

    /// When a step that begins then must have ended.
    pub(super) fn end_from(self, begun: Instant) -> Option<Instant> {
        let end = self.each.map(|each| begun + each);
        match (end, self.until) {
            (Some(end), Some(until)) => Some(end.min(until)),
            (end, until) => end.or(until),
        }
    }
}

/// A connection to an endpoint for one exchange in a protocol, within `time`. Over HTTP/2 it is a
/// stream of any connection.
///
/// # Errors
///
/// As [`connect`], or the endpoint does not support the protocol.
pub(crate) async fn open(
    upstreams: &Upstreams,
    cluster: &Cluster,
    endpoint: &Endpoint,
    (protocol, requirements): (Protocol, ConnectionRequirements),
    time: ConnectTime,
) -> Result<Box<Connection>, Failure> {
    match protocol {
        Protocol::Http1 => {
            let requirements = ConnectionRequirements {
                speaks: Some(Alpn::Http11),
                ..requirements
            };
            connect(upstreams, cluster, endpoint, requirements, time).await
        }
        Protocol::Http2 => {
            let client = requirements.proxied.as_deref();
            if let Some(stream) = h2::open_at_once(upstreams, endpoint, client) {
                return Ok(stream);
            }
            // Waiting for a stream takes a larger future, and is rare.
            Box::pin(h2::open(upstreams, cluster, endpoint, requirements, time)).await
        }
    }
}

/// Requirements of a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionRequirements {
    /// The client, if the backend expects a PROXY header; the connection is then for that client
    /// only.
    pub(crate) proxied: Option<Box<Endpoints>>,
    /// The ALPN protocol that the endpoint has to agree on.
    pub(crate) speaks: Option<Alpn>,
    /// Whether it must not have been used before.
    pub(crate) fresh: bool,
    /// Whether a deadline that the client chose leaves less time than connecting may take.
    pub(crate) is_hurried: bool,
}

impl ConnectionRequirements {
    /// Whether a connection that another request has just finished with can be used.
    fn takes(&self, used: &Connection) -> bool {
        !self.fresh && self.proxied.is_none() && used.is_reusable()
    }

    /// A used connection, or its slot if a new one is needed.
    fn reserve(&self, used: Box<Connection>) -> Result<Reserved, Failure> {
        let takes = self.takes(&used);
        let used = Reserved::Connection(used);
        if takes {
            return Ok(used);
        }
        used.into_slot().map(Reserved::Slot)
    }
}

/// Connects to an endpoint within `time`. At a connection limit, waits for one to become free, which may be a
/// used one.
///
/// # Errors
///
/// None became free, too many are waiting already, or connecting failed or timed out.
pub(crate) async fn connect(
    upstreams: &Upstreams,
    cluster: &Cluster,
    endpoint: &Endpoint,
    requirements: ConnectionRequirements,
    time: ConnectTime,
) -> Result<Box<Connection>, Failure> {
    let slot = if let Some(slot) = enter(upstreams, cluster, endpoint)? {
        slot
    } else {
        let until = time.end();
        // Waiting is rare, and other requests should have a small future.
        match Box::pin(wait(upstreams, cluster, endpoint, &requirements, until)).await? {
            Reserved::Slot(slot) => slot,
            Reserved::Connection(used) => return Ok(used),
        }
    };
    let with = (cluster, requirements);
    connect_in(slot, upstreams, endpoint, with, time.end()).await
}

/// Connects to an endpoint in a slot, until then.
///
/// # Errors
///
/// Connecting failed or timed out.
pub(super) async fn connect_in(
    slot: ConnectionSlot,
    upstreams: &Upstreams,
    endpoint: &Endpoint,
    (cluster, requirements): (&Cluster, ConnectionRequirements),
    until: Option<Instant>,
) -> Result<Box<Connection>, Failure> {
    let shard = &upstreams.shard;
    let counters = shard.counters.endpoints.of(endpoint.id);
    // A pending connect may be dropped: its operation holds no buffer and no bytes.
    let mut stream = match within(left(until), dial(&endpoint.address)).await {
        Some(Ok(stream)) => stream,
        failed => {
            counters.failed_connects.increment();
            return Err(match failed {
                Some(Err(error)) => {
                    if let Some(libc::EMFILE | libc::ENFILE) = error.raw_os_error() {
                        shard.record_shortage();
                    }
                    FailureKind::ConnectFailed.into()
                }
                _ => FailureKind::ConnectTimeout.into(),
            });
        }
    };
    counters.connected.increment();
    if let Some(version) = cluster.proxy_protocol {
        send_proxy_header(&stream, version, requirements.proxied.as_deref()).await?;
    }
    match &cluster.protection {
        Protection::Plain => {}
        Protection::Tls(tls) => {
            let session = tls
                .session(shard.id, requirements.speaks)
                .map_err(|_| FailureKind::UpstreamTlsUnset)?;
            Box::pin(secure(shard, endpoint, &mut stream, session, until)).await?;
            if requirements.speaks == Some(Alpn::H2) && !agreed_on(&stream, Alpn::H2) {
                let why = UpstreamTlsFailure::NoProtocol;
                let error = why.detail();
                tracing::debug!(endpoint = %endpoint.name, error, "HTTP/2 connection to an endpoint failed");
                return Err(no_tls(shard, endpoint, why));
            }
        }
        Protection::Unusable => return Err(FailureKind::UpstreamTlsUnset.into()),
    }
    let mut connection = Connection::new(shard, stream, slot);
    connection.proxied = requirements.proxied;
    Ok(connection)
}

/// Sends the PROXY header at the start of a connection, which is then for that client only.
async fn send_proxy_header(
    stream: &Stream,
    version: Version,
    client: Option<&Endpoints>,
) -> Result<(), Failure> {
    let mut header = Vec::new();
    proxy_protocol::write(version, client.copied(), &mut header);
    // A new socket accepts this without waiting.
    let sent = stream.write_vec(&mut header).await;
    sent.map_err(|_| FailureKind::ConnectFailed.into())
}

/// Puts TLS over a new connection.
async fn secure(
    shard: &Rc<Shard>,
    endpoint: &Endpoint,
    stream: &mut Stream,
    session: TlsSession,
    until: Option<Instant>,
) -> Result<(), Failure> {
    let deadline = Deadline::new(shard, stream.fd());
    deadline.arm(left(until), Expiry::Disconnect);
    // Bytes from the peer before our first ones wait in the session.
    let (nothing, mut early) = (Buffer::default(), Buffer::default());
    let done = stream
        .handshake(session, nothing, &mut early, &shard.buffers)
        .await;
    if deadline.expired() {
        return Err(FailureKind::ConnectTimeout.into());
    }
    done.map_err(|error| {
        tracing::debug!(endpoint = %endpoint.name, %error, "upstream TLS handshake failed");
        let why = match &error {
            HandshakeError::Tls(error) => UpstreamTlsFailure::from(error),
            HandshakeError::Broken(_) => UpstreamTlsFailure::Broken,
        };
        no_tls(shard, endpoint, why)
    })
}

/// The failure for a connection whose read ended with this error before any byte of the response.
/// In TLS 1.3, our handshake completes before the backend checks our certificate (RFC 8446 section
/// 4.4.2.4): its alert arrives in place of the first response, and it has not processed the
/// request.
pub(crate) fn read_failure(
    shard: &Shard,
    endpoint: &Endpoint,
    connection: &Connection,
    error: &io::Error,
) -> Failure {
    let inner = error.get_ref();
    let Some(error) = inner.and_then(|inner| inner.downcast_ref::<SessionError>()) else {
        return FailureKind::UpstreamReset.into();
    };
    tracing::debug!(endpoint = %endpoint.name, %error, "TLS connection to an endpoint failed");
    let why = UpstreamTlsFailure::from(error);
    let failure = no_tls(shard, endpoint, why);
    if why == UpstreamTlsFailure::Distrusted && !connection.used {
        return failure;
    }
    Failure::because(FailureKind::UpstreamReset, why.detail())
}

/// Counts a connection whose TLS handshake failed.
fn no_tls(shard: &Shard, endpoint: &Endpoint, why: UpstreamTlsFailure) -> Failure {
    let counters = shard.counters.endpoints.of(endpoint.id);
    counters.tls_failures.count(why);
    Failure::because(FailureKind::UpstreamTls, why.detail())
}

/// Whether TLS has agreed on this protocol. HTTP/2 over TLS requires it (RFC 9113 section 3.2): an
/// HTTP/1.1 server would take our preface for a request.
fn agreed_on(stream: &Stream, protocol: Alpn) -> bool {
    let agreed = stream.with_session(|session| {
        session.agreed().alpn_protocol() == Some(protocol.as_str().as_bytes())
    });
    agreed == Some(true)
}

/// What a request may use after waiting.
pub(super) enum Reserved {
    /// The right to open a connection.
    Slot(ConnectionSlot),
    /// A connection that another request has finished with.
    Connection(Box<Connection>),
}

impl Reserved {
    /// The right to open a connection, in place of a used one.
    pub(super) fn into_slot(self) -> Result<ConnectionSlot, Failure> {
        match self {
            Self::Slot(slot) => Ok(slot),
            Self::Connection(used) => used.replace().ok_or(FailureKind::UpstreamFull.into()),
        }
    }
}

/// A slot for another connection of the service and of the endpoint, if neither is at its limit.
///
/// # Errors
///
/// No connection can be opened: the TLS settings of the service are unusable.
pub(super) fn enter(
    upstreams: &Upstreams,
    cluster: &Cluster,
    endpoint: &Endpoint,
) -> Result<Option<ConnectionSlot>, Failure> {
    if matches!(cluster.protection, Protection::Unusable) {
        return Err(FailureKind::UpstreamTlsUnset.into());
    }
    let Some(of_endpoint) = enter_endpoint(upstreams, cluster, endpoint) else {
        return Ok(None);
    };
    Ok(enter_service(upstreams, cluster).map(|mut slot| {
        slot.endpoint = of_endpoint;
        slot
    }))
}

/// A permit for another connection of the endpoint; an idle one of the shard is closed if needed.
fn enter_endpoint(
    upstreams: &Upstreams,
    cluster: &Cluster,
    endpoint: &Endpoint,
) -> Option<EndpointPermit> {
    let Some(max) = cluster.endpoint_connections else {
        return Some(EndpointPermit::Uncounted);
    };
    let limits = &upstreams.endpoint_limits;
    let permit = limits.enter(endpoint.id, max);
    if permit.is_some() || !upstreams.pool.close_idle(endpoint.id) {
        return permit;
    }
    limits.enter(endpoint.id, max)
}

/// A slot for another connection of the service; an idle connection to another endpoint is closed if needed. An
/// HTTP/2 connection closes asynchronously, and its slot goes to the next waiting request.
fn enter_service(upstreams: &Upstreams, cluster: &Cluster) -> Option<ConnectionSlot> {
    let pool = &upstreams.pool;
    let limit = pool.limit(cluster.id);
    let max = cluster.connections_per_shard.get();
    let endpoints = cluster.endpoints.iter().map(|endpoint| endpoint.id);
    let slot = limit.enter(max);
    if slot.is_some() {
        return slot;
    }
    if pool.evict(&limit, endpoints) {
        return limit.enter(max);
    }
    upstreams.sessions.evict(&limit);
    None
}

/// Waits until the endpoint and the service may have another connection, or one becomes free. A request that waits
/// for one of both holds no slot of the other, which others could use.
///
/// # Errors
///
/// None became free until then, or too many are waiting already.
pub(super) async fn wait(
    upstreams: &Upstreams,
    cluster: &Cluster,
    endpoint: &Endpoint,
    requirements: &ConnectionRequirements,
    until: Option<Instant>,
) -> Result<Reserved, Failure> {
    loop {
        let (service, of_endpoint) = if upstreams.is_full(cluster, endpoint.id) {
            match wait_for_endpoint(upstreams, cluster, endpoint, left(until)).await? {
                EndpointGrant::Permit(permit) => (enter_service(upstreams, cluster), Some(permit)),
                EndpointGrant::Connection(used) => return requirements.reserve(used),
            }
        } else {
            let service = match enter_service(upstreams, cluster) {
                Some(slot) => slot,
                None => {
                    match wait_for_service(&upstreams.pool, cluster, endpoint, left(until)).await? {
                        Grant::Slot(slot) => slot,
                        Grant::Connection(used) => return requirements.reserve(used),
                    }
                }
            };
            (Some(service), enter_endpoint(upstreams, cluster, endpoint))
        };
        if let (Some(mut slot), Some(of_endpoint)) = (service, of_endpoint) {
            slot.endpoint = of_endpoint;
            return Ok(Reserved::Slot(slot));
        }
    }
}

async fn wait_for_endpoint(
    upstreams: &Upstreams,
    cluster: &Cluster,
    endpoint: &Endpoint,
    timeout: Option<Duration>,
) -> Result<EndpointGrant, Failure> {
    let queued = upstreams.endpoint_limits.queue(endpoint.id, cluster);
    let queued = queued.ok_or(FailureKind::UpstreamFull)?;
    // One of this shard that the request cannot use, such as one of another protocol.
    upstreams.free_endpoint(endpoint.id);
    let granted = within(timeout, queued.granted()).await;
    granted.ok_or_else(|| FailureKind::UpstreamFull.into())
}

async fn wait_for_service(
    pool: &Pool,
    cluster: &Cluster,
    endpoint: &Endpoint,
    timeout: Option<Duration>,
) -> Result<Grant, Failure> {
    let limit = pool.limit(cluster.id);
    let waiting = limit
        .wait(endpoint.id, cluster.pending_per_shard.get())
        .ok_or(FailureKind::UpstreamFull)?;
    let granted = within(timeout, waiting).await;
    granted.ok_or_else(|| FailureKind::UpstreamFull.into())
}

/// The time until then, if it is limited.
pub(super) fn left(until: Option<Instant>) -> Option<Duration> {
    until.map(|until| until.saturating_duration_since(Instant::now()))
}

/// The result of a future, unless it times out.
pub(super) async fn within<F: Future>(timeout: Option<Duration>, future: F) -> Option<F::Output> {
    match timeout {
        Some(timeout) => monoio::time::timeout(timeout, future).await.ok(),
        None => Some(future.await),
    }
}

async fn dial(address: &Address) -> io::Result<Stream> {
    match address {
        Address::Tcp(address) => Stream::connect_tcp(*address).await,
        Address::Unix(path) => Stream::connect_unix(path).await,
    }
}
