//! HTTP/2 connections to endpoints, shared by the requests of a shard.
//!
//! An endpoint has one per shard, and another when it allows no more streams on it. Each is driven
//! by its own task, which outlives the request that opened it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use xds::model::Alpn;

use crate::channel::Channel;
use crate::config::{Cluster, Endpoint};
use crate::failure::{Failure, FailureKind};
use crate::http::h2::guard::Peer;
use crate::http2::io::Link;
use crate::http2::library::LibraryStream;
use crate::http2::liveness::Liveness;
use crate::http2::pace::{BufferParking, Deadlines, Pace, Verdict};
use crate::http2::stream::Stream;
use crate::http2::usage::Usage;
use crate::limits::{
    H2_FRAME_BYTES, H2_SEND_BYTES, H2_STREAM_WINDOW_BYTES, H2_UPSTREAM_CONNECTION_WINDOW_BYTES,
    H2_UPSTREAM_STREAMS, H2_UPSTREAM_TIMEOUT, MAX_HEAD_BYTES, POOL_IDLE_TIMEOUT,
};
use crate::memory::Buffer;
use crate::names::{Interned, Table};
use crate::policy::proxy_protocol::Endpoints;
use crate::shard::Shard;
use crate::shard::deadline::Deadline;
use crate::shard::fence::fenced;
use crate::shard::tasks::Purpose;

mod time_budget;

use self::time_budget::{OutOfTime, TimeBudget};
use super::Upstreams;
use super::connect::{ConnectionRequirements, connect, within};
use super::connection_limit::ConnectionLimit;
use super::pool::Connection;

/// The shared connections of a shard, by endpoint.
#[derive(Default)]
pub(crate) struct H2Connections(RefCell<Table<Vec<Rc<H2Connection>>>>);

struct H2Connection {
    /// The client that it is dedicated to, if the endpoint expects a PROXY header.
    client: Option<Box<Endpoints>>,
    /// The connection limit of its service; the connection occupies one of its slots.
    limit: Rc<ConnectionLimit>,
    state: RefCell<State>,
    /// Requests sent over it, or waiting to be.
    requests: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

/// The handle that sends requests over a connection, and its stream counter.
type OpenConnection = (SendRequest<Bytes>, Rc<Usage>);

enum State {
    Dialing,
    Open {
        send: SendRequest<Bytes>,
        usage: Rc<Usage>,
    },
    /// It accepts no more requests.
    Closed(FailureKind),
    /// Connecting took longer than the request that opened it had for it: others may have more.
    OutOfTime(OutOfTime),
}

/// What became of a request that waited for a connection.
enum Opening {
    Open(OpenConnection),
    Failed(FailureKind),
    OutOfTime(OutOfTime),
}

impl H2Connections {
    /// Releases all connections; each ends with its last stream. Requests wait for those that are
    /// being opened.
    pub(crate) fn clear(&self) {
        for list in self.0.borrow_mut().entries_mut() {
            let opened = list.extract_if(.., |session| !session.is_dialing());
            opened.for_each(|session| session.close(FailureKind::ConnectFailed));
        }
    }

    /// The connection of an endpoint that accepts, or will accept, another request of the client.
    fn find(&self, endpoint: Interned, client: Option<&Endpoints>) -> Option<Rc<H2Connection>> {
        let mut sessions = self.0.borrow_mut();
        let list = sessions.find_mut(endpoint)?;
        list.retain(|session| !session.is_closed());
        list.iter()
            .find(|session| session.client.as_deref() == client && session.has_room())
            .cloned()
    }

    /// The connection of an endpoint with the fewest requests.
    fn least_used(
        &self,
        endpoint: Interned,
        client: Option<&Endpoints>,
    ) -> Option<Rc<H2Connection>> {
        let sessions = self.0.borrow();
        let open = sessions.find(endpoint)?.iter();
        open.filter(|session| session.client.as_deref() == client && !session.is_closed())
            .min_by_key(|session| session.streams())
            .cloned()
    }

    /// Closes an idle connection of the service with this limit. Its slot is freed once its driver
    /// has ended. `false` if none is idle.
    pub(super) fn evict(&self, limit: &Rc<ConnectionLimit>) -> bool {
        let is_idle =
            |session: &&Rc<H2Connection>| Rc::ptr_eq(&session.limit, limit) && session.is_idle();
        let idle = {
            let sessions = self.0.borrow();
            let all = sessions.iter().flat_map(|(_, list)| list);
            { all }.find(is_idle).cloned()
        };
        if let Some(idle) = &idle {
            idle.close(FailureKind::ConnectFailed);
        }
        idle.is_some()
    }

    fn add(&self, endpoint: Interned, session: &Rc<H2Connection>) {
        let mut sessions = self.0.borrow_mut();
        let list = sessions.find_or_insert(endpoint, Vec::new);
        list.push(Rc::clone(session));
    }
}

/// A stream of a connection to an endpoint, within `timeout`.
///
/// # Errors
///
/// As [`connect`], or the endpoint does not support HTTP/2.
pub(super) async fn open(
    upstreams: &Upstreams,
    cluster: &Cluster,
    endpoint: &Endpoint,
    requirements: ConnectionRequirements,
    timeout: Option<Duration>,
) -> Result<Box<Connection>, Failure> {
    let until = timeout.map(|timeout| Instant::now() + timeout);
    let left = || until.map(|until| until.saturating_duration_since(Instant::now()));
    let mut budget = timeout.map(|allowed| TimeBudget {
        allowed,
        left: allowed,
    });
    let (session, (send, usage)) = loop {
        let client = requirements.proxied.as_deref();
        let session = if let Some(session) = find(upstreams, cluster, endpoint, client) {
            session
        } else {
            dial(upstreams, cluster, endpoint, &requirements, budget).await?
        };
        let opened = within(left(), poll_fn(|context| session.poll_open(context))).await;
        budget = budget
            .zip(left())
            .map(|(own, left)| TimeBudget { left, ..own });
        let opened = match opened.unwrap_or(Opening::Failed(FailureKind::ConnectTimeout)) {
            Opening::Open(opened) => opened,
            Opening::Failed(kind) => return Err(kind.into()),
            Opening::OutOfTime(late) if late.may_be_repeated(budget) => continue,
            Opening::OutOfTime(late) => {
                return Err(late.failure(budget, requirements.is_hurried));
            }
        };
        // More requests may have waited for it together than the endpoint allows on one connection.
        let is_full = !session.has_room() && session.streams() > 0;
        if !(is_full && upstreams.pool.has_place(cluster)) {
            break (session, opened);
        }
    };
    if usage.streams() >= H2_UPSTREAM_STREAMS {
        return Err(FailureKind::UpstreamFull.into());
    }
    let used = session.requests.replace(session.requests.get() + 1) > 0;
    let stream = LibraryStream::to_open(send, Rc::clone(&usage));
    let stream = Channel::H2(Box::new(Stream::Library(stream)));
    Ok(Connection::shared(
        &upstreams.shard,
        stream,
        usage.enter(),
        used,
    ))
}

/// A connection to use. At the service's connection limit, requests queue on the existing ones.
fn find(
    upstreams: &Upstreams,
    cluster: &Cluster,
    endpoint: &Endpoint,
    client: Option<&Endpoints>,
) -> Option<Rc<H2Connection>> {
    let sessions = &upstreams.sessions;
    sessions.find(endpoint.id, client).or_else(|| {
        let full = !upstreams.pool.has_place(cluster);
        sessions.least_used(endpoint.id, client).filter(|_| full)
    })
}

/// Opens another connection within the time that is left; requests that arrive meanwhile wait for it.
async fn dial(
    upstreams: &Upstreams,
    cluster: &Cluster,
    endpoint: &Endpoint,
    requirements: &ConnectionRequirements,
    budget: Option<TimeBudget>,
) -> Result<Rc<H2Connection>, Failure> {
    let requirements = ConnectionRequirements {
        speaks: Some(Alpn::H2),
        // Used connections are HTTP/1, from before a change of the configuration.
        fresh: true,
        ..requirements.clone()
    };
    let left = budget.map(|budget| budget.left);
    let until = left.map(|left| Instant::now() + left);
    let session = Rc::new(H2Connection {
        client: requirements.proxied.clone(),
        limit: upstreams.pool.limit(cluster.id),
        state: RefCell::new(State::Dialing),
        requests: Cell::new(0),
        waiting: RefCell::default(),
    });
    upstreams.sessions.add(endpoint.id, &session);
    let dialing = Dialing(&session);
    let connection = match connect(upstreams, cluster, endpoint, requirements, left).await {
        Ok(connection) => connection,
        Err(failure) => {
            let is_late = until.is_some_and(|until| Instant::now() >= until);
            let kind = failure.kind;
            session.end(match budget.filter(|_| is_late) {
                Some(had) => State::OutOfTime(OutOfTime { kind, had }),
                None => State::Closed(kind),
            });
            return Err(failure);
        }
    };
    std::mem::forget(dialing);
    let name = Arc::clone(&endpoint.name);
    let shard = &upstreams.shard;
    let drive = drive(Rc::clone(shard), Rc::clone(&session), connection, name);
    monoio::spawn(fenced(shard, Purpose::UpstreamSession, drive));
    Ok(session)
}

/// Reports to the waiting requests if connecting is abandoned.
struct Dialing<'a>(&'a H2Connection);

impl Drop for Dialing<'_> {
    fn drop(&mut self) {
        self.0.close(FailureKind::ConnectFailed);
    }
}

/// Drives a connection until it ends.
async fn drive(
    shard: Rc<Shard>,
    session: Rc<H2Connection>,
    connection: Box<Connection>,
    endpoint: Arc<str>,
) {
    let _closes = Dialing(&session);
    let Channel::Socket(socket) = &connection.stream else {
        return;
    };
    let writes = Deadline::new(&shard, socket.fd());
    let deadlines = Deadlines {
        reads: &connection.deadline,
        writes: &writes,
    };
    let first = Buffer::default();
    let link = Link::new(&shard, socket, deadlines, PACE, Peer::Server, first);
    let Ok((send, mut connection)) = builder().handshake::<_, Bytes>(link.io()).await else {
        return;
    };
    let liveness = Liveness::of(connection.ping_pong());
    let mut driver = Driver {
        session: &session,
        link: &link,
        send: Some(send),
        liveness,
    };
    let mut connection = pin!(connection);
    let ended = poll_fn(|context| driver.poll(connection.as_mut(), context)).await;
    let verdict = link.verdict();
    let failure = match (&ended, verdict) {
        (_, Some(Verdict::Abuse(abuse))) => {
            shard.record_abuse(abuse, Peer::Server, &endpoint);
            FailureKind::UpstreamGarbage
        }
        (Some(error), _) if error.is_library() => FailureKind::UpstreamGarbage,
        _ => FailureKind::ConnectFailed,
    };
    tracing::debug!(%endpoint, error = ?ended, ?verdict, "an upstream HTTP/2 connection ended");
    session.close(failure);
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(H2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(H2_UPSTREAM_CONNECTION_WINDOW_BYTES)
        .max_frame_size(H2_FRAME_BYTES)
        .max_header_list_size(MAX_HEAD_BYTES)
        .max_send_buffer_size(H2_SEND_BYTES);
    builder
}

/// The driver of one connection.
struct Driver<'l, 'a> {
    session: &'l H2Connection,
    link: &'l Link<'a>,
    /// The handle for the session, once the endpoint's SETTINGS have arrived.
    send: Option<SendRequest<Bytes>>,
    liveness: Liveness,
}

impl Driver<'_, '_> {
    /// Polls until the connection ends, with or without an error.
    fn poll(
        &mut self,
        mut connection: Pin<&mut impl Future<Output = Result<(), h2::Error>>>,
        context: &mut Context<'_>,
    ) -> Poll<Option<h2::Error>> {
        let (link, session) = (self.link, self.session);
        link.begin_turn();
        let mut polled = connection.as_mut().poll(context);
        if polled.is_pending() && self.liveness.is_asked_for(link, context) {
            polled = connection.as_mut().poll(context);
        }
        // Before SETTINGS, its limits and extensions are unknown.
        if link.has_settings()
            && let Some(send) = self.send.take()
        {
            let usage = Rc::clone(link.usage());
            session.set(State::Open { send, usage });
        }
        // While `h2` ends the connection, it would refuse further requests.
        if link.is_leaving() || link.has_ended() {
            session.close(FailureKind::ConnectFailed);
        }
        let polled = match (polled, link.verdict()) {
            (Poll::Ready(ended), _) => Poll::Ready(ended.err()),
            // When it cannot be used any more, `h2` sends GOAWAY.
            (Poll::Pending, verdict) if !session.is_closed() && session.is_evictable(verdict) => {
                session.close(FailureKind::ConnectFailed);
                connection.as_mut().poll(context).map(Result::err)
            }
            (Poll::Pending, None | Some(Verdict::Idle)) => Poll::Pending,
            (Poll::Pending, Some(_)) => Poll::Ready(None),
        };
        match link.end_turn(context) {
            Err(_) if polled.is_pending() => Poll::Ready(None),
            _ => polled,
        }
    }
}

const PACE: Pace = Pace {
    head: Some(H2_UPSTREAM_TIMEOUT),
    idle: Some(POOL_IDLE_TIMEOUT),
    write: Some(H2_UPSTREAM_TIMEOUT),
    parks: BufferParking::No,
};

impl H2Connection {
    fn is_dialing(&self) -> bool {
        matches!(*self.state.borrow(), State::Dialing)
    }

    fn is_closed(&self) -> bool {
        matches!(*self.state.borrow(), State::Closed(_) | State::OutOfTime(_))
    }

    /// Whether it has served requests and has no stream now. A new connection is not idle: its first
    /// request is about to open a stream.
    fn is_idle(&self) -> bool {
        let is_open = matches!(*self.state.borrow(), State::Open { .. });
        is_open && self.streams() == 0 && self.requests.get() > 0
    }

    /// Whether it is idle for too long, or while a request waits for its slot: one to another endpoint,
    /// since others would use it.
    fn is_evictable(&self, verdict: Option<Verdict>) -> bool {
        match verdict {
            Some(verdict) => matches!(verdict, Verdict::Idle),
            None => self.is_idle() && self.limit.is_wanted(),
        }
    }

    fn streams(&self) -> u32 {
        match &*self.state.borrow() {
            State::Open { usage, .. } => usage.streams(),
            State::Dialing | State::Closed(_) | State::OutOfTime(_) => 0,
        }
    }

    /// Whether the peer allows another stream, as far as known.
    fn has_room(&self) -> bool {
        match &*self.state.borrow() {
            State::Dialing => true,
            State::Open { send, usage } => {
                let allowed = send.current_max_send_streams();
                (usage.streams() as usize) < allowed.min(H2_UPSTREAM_STREAMS as usize)
            }
            State::Closed(_) | State::OutOfTime(_) => false,
        }
    }

    fn poll_open(&self, context: &mut Context<'_>) -> Poll<Opening> {
        match &*self.state.borrow() {
            State::Dialing => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
            State::Open { send, usage } => {
                Poll::Ready(Opening::Open((send.clone(), Rc::clone(usage))))
            }
            State::Closed(kind) => Poll::Ready(Opening::Failed(*kind)),
            State::OutOfTime(late) => Poll::Ready(Opening::OutOfTime(*late)),
        }
    }

    fn set(&self, state: State) {
        *self.state.borrow_mut() = state;
        self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }

    /// Accepts no more requests; those in progress continue.
    fn close(&self, kind: FailureKind) {
        self.end(State::Closed(kind));
    }

    /// Puts it into its last state.
    fn end(&self, state: State) {
        if self.is_closed() {
            return;
        }
        let state = self.state.replace(state);
        if let State::Open { usage, .. } = &state {
            usage.wake();
        }
        drop(state);
        self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

/// The failure for an error before the response head.
pub(crate) fn failure_before_head(error: &h2::Error) -> Failure {
    let turned_away = error.is_remote() && (error.is_go_away() || is_refusal(error));
    let unsent = is_refusal(error) && !error.is_reset();
    let kind = if turned_away || unsent {
        FailureKind::UpstreamRefused
    } else if error.is_library() || is_malformed(error) {
        FailureKind::UpstreamGarbage
    } else if error.is_io() {
        FailureKind::UpstreamClosed
    } else {
        FailureKind::UpstreamReset
    };
    kind.into()
}

/// It was received, but is malformed (RFC 9113 section 8.1.1).
fn is_malformed(error: &h2::Error) -> bool {
    !error.is_remote() && error.reason() == Some(h2::Reason::PROTOCOL_ERROR)
}

/// RFC 9113 section 8.7: the request was not processed.
fn is_refusal(error: &h2::Error) -> bool {
    error.reason() == Some(h2::Reason::REFUSED_STREAM)
}
