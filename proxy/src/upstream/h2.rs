//! HTTP/2 connections to endpoints, shared by the requests of a shard.
//!
//! An endpoint has one per shard, and another when it allows no more streams on it. Each is driven
//! by its own task, which outlives the request that opened it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use xds::model::Alpn;

use crate::channel::Channel;
use crate::config::{Cluster, Endpoint};
use crate::failure::{Failure, FailureKind};
use crate::http::engine::error::ResetCause;
use crate::http2::{NoHead, Session, StreamEnd};
use crate::limits::H2_UPSTREAM_STREAMS;
use crate::names::{Interned, Table};
use crate::policy::proxy_protocol::Endpoints;
use crate::shard::Shard;
use crate::shard::fence::fenced;
use crate::shard::tasks::Purpose;

mod driver;
mod time_budget;

use self::time_budget::{OutOfTime, Step, StepTimes};
use super::Upstreams;
use super::connect::{
    ConnectTime, ConnectionRequirements, Reserved, connect_in, enter, left, wait, within,
};
use super::connection_limit::ConnectionLimit;
use super::endpoint_limit::EndpointLimits;
use super::pool::Connection;

/// The shared connections of a shard, by endpoint.
#[derive(Default)]
pub(crate) struct H2Connections(RefCell<Table<Vec<Rc<H2Connection>>>>);

struct H2Connection {
    /// The client that it is dedicated to, if the endpoint expects a PROXY header.
    client: Option<Box<Endpoints>>,
    /// The connection limit of its service; the connection occupies one of its slots.
    limit: Rc<ConnectionLimit>,
    /// Its endpoint, if the connections of that are limited.
    limited: Option<(Rc<EndpointLimits>, Interned)>,
    state: RefCell<State>,
    /// Requests sent over it, or waiting to be.
    requests: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

enum State {
    /// The request that opens it waits at a connection limit.
    Queued,
    Dialing,
    Open(Rc<Session>),
    /// It accepts no more requests.
    Closed(FailureKind),
    /// The request that opened it was cancelled meanwhile: others connect again.
    Abandoned,
    /// Connecting took longer than the request that opened it had for it: others may have more.
    OutOfTime(OutOfTime),
}

/// What became of a request that waited for a connection.
enum Opening {
    Open(Rc<Session>),
    Failed(FailureKind),
    Abandoned,
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

    /// Whether a connection of an endpoint is open and accepts another request.
    pub(super) fn has_room(&self, endpoint: Interned) -> bool {
        let sessions = self.0.borrow();
        let mut all = sessions.find(endpoint).into_iter().flatten();
        all.any(|session| !session.is_dialing() && session.has_room())
    }

    /// Closes an idle connection to an endpoint. Its slot is freed once its driver has ended.
    pub(super) fn close_idle(&self, endpoint: Interned) {
        let idle = {
            let sessions = self.0.borrow();
            let mut all = sessions.find(endpoint).into_iter().flatten();
            all.find(|session| session.is_idle()).cloned()
        };
        if let Some(idle) = idle {
            idle.close(FailureKind::ConnectFailed);
        }
    }

    /// Closes all idle connections to an endpoint. Their slots are freed once their drivers have ended.
    pub(super) fn close_all_idle(&self, endpoint: Interned) {
        let idle: Vec<_> = {
            let sessions = self.0.borrow();
            let all = sessions.find(endpoint).into_iter().flatten();
            all.filter(|session| session.is_idle()).cloned().collect()
        };
        for session in idle {
            session.close(FailureKind::ConnectFailed);
        }
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

/// A stream of a connection that is open and has room for it.
pub(super) fn open_at_once(
    upstreams: &Upstreams,
    endpoint: &Endpoint,
    client: Option<&Endpoints>,
) -> Option<Box<Connection>> {
    let connection = upstreams.sessions.find(endpoint.id, client)?;
    match &*connection.state.borrow() {
        State::Open(session) => Some(connection.open_stream(&upstreams.shard, session)),
        State::Queued
        | State::Dialing
        | State::Closed(_)
        | State::Abandoned
        | State::OutOfTime(_) => None,
    }
}

/// A stream of a connection to an endpoint, within `time`. Requests that wait for a connection that another one
/// opens have the same times as that one: for the wait at a connection limit, and after it for connecting.
///
/// # Errors
///
/// As [`connect`](super::connect::connect), or the endpoint does not support HTTP/2.
pub(super) async fn open(
    upstreams: &Upstreams,
    cluster: &Cluster,
    endpoint: &Endpoint,
    requirements: ConnectionRequirements,
    time: ConnectTime,
) -> Result<Box<Connection>, Failure> {
    let mut times = StepTimes::begin(time);
    let (connection, session) = loop {
        let client = requirements.proxied.as_deref();
        let connection = if let Some(connection) = find(upstreams, cluster, endpoint, client) {
            connection.wait_for_slot(&mut times).await?;
            connection
        } else {
            dial(upstreams, (cluster, endpoint), &requirements, &mut times).await?
        };
        let opened = within(
            left(times.connect().until),
            poll_fn(|context| connection.poll_open(context)),
        )
        .await;
        let budget = times.budget();
        let session = match opened.unwrap_or(Opening::Failed(FailureKind::ConnectTimeout)) {
            Opening::Open(session) => session,
            Opening::Failed(kind) => return Err(kind.into()),
            Opening::Abandoned => continue,
            Opening::OutOfTime(late) if late.may_be_repeated(budget) => continue,
            Opening::OutOfTime(late) => {
                return Err(late.failure(budget, requirements.is_hurried));
            }
        };
        // More requests may have waited for it together than the endpoint allows on one connection.
        let is_full = !connection.has_room() && connection.streams() > 0;
        if !(is_full && has_place(upstreams, cluster, endpoint)) {
            break (connection, session);
        }
    };
    if session.users() >= H2_UPSTREAM_STREAMS {
        return Err(FailureKind::UpstreamFull.into());
    }
    Ok(connection.open_stream(&upstreams.shard, &session))
}

/// Whether the service and the endpoint may have one more connection.
fn has_place(upstreams: &Upstreams, cluster: &Cluster, endpoint: &Endpoint) -> bool {
    let limits = &upstreams.endpoint_limits;
    let max = cluster.endpoint_connections;
    upstreams.pool.has_place(cluster) && max.is_none_or(|max| !limits.is_full(endpoint.id, max))
}

/// A connection to use. At a connection limit, requests queue on the existing ones.
fn find(
    upstreams: &Upstreams,
    cluster: &Cluster,
    endpoint: &Endpoint,
    client: Option<&Endpoints>,
) -> Option<Rc<H2Connection>> {
    let sessions = &upstreams.sessions;
    sessions.find(endpoint.id, client).or_else(|| {
        let full = !has_place(upstreams, cluster, endpoint);
        sessions.least_used(endpoint.id, client).filter(|_| full)
    })
}

/// Opens another connection, at a connection limit after waiting for its slot; requests that arrive meanwhile
/// wait for it.
async fn dial(
    upstreams: &Upstreams,
    (cluster, endpoint): (&Cluster, &Endpoint),
    requirements: &ConnectionRequirements,
    times: &mut StepTimes,
) -> Result<Rc<H2Connection>, Failure> {
    let requirements = ConnectionRequirements {
        speaks: Some(Alpn::H2),
        // Used connections are HTTP/1, from before a change of the configuration.
        fresh: true,
        ..requirements.clone()
    };
    let session = Rc::new(H2Connection {
        client: requirements.proxied.clone(),
        limit: upstreams.pool.limit(cluster.id),
        limited: (cluster.endpoint_connections)
            .map(|_| (Rc::clone(&upstreams.endpoint_limits), endpoint.id)),
        state: RefCell::new(State::Queued),
        requests: Cell::new(0),
        waiting: RefCell::default(),
    });
    upstreams.sessions.add(endpoint.id, &session);
    let dialing = AbandonedDial(&session);
    let step = times.wait();
    let slot = match enter(upstreams, cluster, endpoint) {
        Ok(Some(slot)) => slot,
        Ok(None) => {
            let slot = wait(upstreams, cluster, endpoint, &requirements, step.until).await;
            let slot = slot.and_then(Reserved::into_slot);
            let slot = slot.map_err(|failure| session.fail(step, failure))?;
            times.end_wait();
            slot
        }
        Err(failure) => return Err(session.fail(step, failure)),
    };
    session.set(State::Dialing);
    let step = times.connect();
    let with = (cluster, requirements);
    let connected = connect_in(slot, upstreams, endpoint, with, step.until).await;
    let connection = connected.map_err(|failure| session.fail(step, failure))?;
    std::mem::forget(dialing);
    let (shard, memory) = (&upstreams.shard, &upstreams.http2_memory);
    let driven = driver::Driven {
        shard: Rc::clone(shard),
        memory: Rc::clone(memory),
        session: Rc::clone(&session),
        endpoint: Arc::clone(&endpoint.name),
    };
    let drive = driver::drive(driven, connection);
    monoio::spawn(fenced(shard, Purpose::UpstreamSession, drive));
    Ok(session)
}

/// Lets the waiting requests connect again if the request that opens a connection is cancelled.
struct AbandonedDial<'a>(&'a H2Connection);

impl Drop for AbandonedDial<'_> {
    fn drop(&mut self) {
        self.0.end(State::Abandoned);
    }
}

/// Reports the end of a connection to the waiting requests.
struct ClosesAtEnd<'a>(&'a H2Connection);

impl Drop for ClosesAtEnd<'_> {
    fn drop(&mut self) {
        self.0.close(FailureKind::ConnectFailed);
    }
}

impl H2Connection {
    fn is_dialing(&self) -> bool {
        matches!(*self.state.borrow(), State::Queued | State::Dialing)
    }

    fn is_queued(&self) -> bool {
        matches!(*self.state.borrow(), State::Queued)
    }

    fn is_closed(&self) -> bool {
        matches!(
            *self.state.borrow(),
            State::Closed(_) | State::Abandoned | State::OutOfTime(_)
        )
    }

    /// Whether it has served requests and has no stream now. A new connection is not idle: its first
    /// request is about to open a stream.
    fn is_idle(&self) -> bool {
        let is_open = matches!(*self.state.borrow(), State::Open(_));
        is_open && self.streams() == 0 && self.requests.get() > 0
    }

    /// Whether it is idle while a request waits for its slot: one to another endpoint or of another shard, since
    /// others would use it.
    fn is_evictable(&self) -> bool {
        self.is_idle() && (self.limit.is_wanted() || self.is_wanted_by_endpoint())
    }

    fn is_wanted_by_endpoint(&self) -> bool {
        let limited = self.limited.as_ref();
        limited.is_some_and(|(limits, endpoint)| limits.is_wanted(*endpoint))
    }

    fn streams(&self) -> u32 {
        match &*self.state.borrow() {
            State::Open(session) => session.users(),
            State::Queued
            | State::Dialing
            | State::Closed(_)
            | State::Abandoned
            | State::OutOfTime(_) => 0,
        }
    }

    /// Whether the peer allows another stream, as far as known.
    fn has_room(&self) -> bool {
        match &*self.state.borrow() {
            State::Queued | State::Dialing => true,
            State::Open(session) => {
                let allowed = session.stream_limit();
                (session.users() as usize) < allowed.min(H2_UPSTREAM_STREAMS as usize)
            }
            State::Closed(_) | State::Abandoned | State::OutOfTime(_) => false,
        }
    }

    /// A stream for another request.
    fn open_stream(&self, shard: &Rc<Shard>, session: &Rc<Session>) -> Box<Connection> {
        let used = self.requests.replace(self.requests.get() + 1) > 0;
        let stream = Channel::H2(session.stream_to_open());
        Connection::shared(shard, stream, used)
    }

    fn poll_open(&self, context: &mut Context<'_>) -> Poll<Opening> {
        match &*self.state.borrow() {
            State::Queued | State::Dialing => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
            State::Open(session) => Poll::Ready(Opening::Open(Rc::clone(session))),
            State::Closed(kind) => Poll::Ready(Opening::Failed(*kind)),
            State::Abandoned => Poll::Ready(Opening::Abandoned),
            State::OutOfTime(late) => Poll::Ready(Opening::OutOfTime(*late)),
        }
    }

    /// Waits while the request that opens it waits at a connection limit.
    async fn wait_for_slot(&self, times: &mut StepTimes) -> Result<(), Failure> {
        if !self.is_queued() {
            return Ok(());
        }
        let waiting = poll_fn(|context| self.poll_slot(context));
        let waited = within(left(times.wait().until), waiting).await;
        waited.ok_or(FailureKind::UpstreamFull)?;
        if !self.is_closed() {
            times.end_wait();
        }
        Ok(())
    }

    fn poll_slot(&self, context: &Context<'_>) -> Poll<()> {
        if !self.is_queued() {
            return Poll::Ready(());
        }
        self.waiting.borrow_mut().push(context.waker().clone());
        Poll::Pending
    }

    fn set(&self, state: State) {
        *self.state.borrow_mut() = state;
        self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }

    /// Accepts no more requests; those in progress continue.
    fn close(&self, kind: FailureKind) {
        self.end(State::Closed(kind));
    }

    /// Opening it failed in this step of the request that did; returns the failure.
    fn fail(&self, step: Step, failure: Failure) -> Failure {
        let late = step.out_of_time(failure.kind);
        self.end(late.map_or(State::Closed(failure.kind), State::OutOfTime));
        failure
    }

    /// Puts it into its last state.
    fn end(&self, state: State) {
        if self.is_closed() {
            return;
        }
        let state = self.state.replace(state);
        if let State::Open(session) = &state {
            session.wake_driver();
        }
        drop(state);
        self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
    }
}

/// The failure of a request without a response head.
pub(crate) fn failure_before_head(why: NoHead) -> Failure {
    let kind = match why {
        // RFC 9113 section 8.7: the request was not processed.
        NoHead::Ended(StreamEnd::Unsent | StreamEnd::Reset(ResetCause::Unprocessed)) => {
            FailureKind::UpstreamRefused
        }
        NoHead::Ended(StreamEnd::Reset(ResetCause::Response(error))) => return error.into(),
        // Section 8.1.1.
        NoHead::Ended(StreamEnd::Violation | StreamEnd::Reset(ResetCause::Malformed(_))) => {
            FailureKind::UpstreamGarbage
        }
        NoHead::Ended(StreamEnd::Closed) => FailureKind::UpstreamClosed,
        NoHead::Ended(StreamEnd::Reset(ResetCause::Peer(_))) | NoHead::Abandoned => {
            FailureKind::UpstreamReset
        }
    };
    kind.into()
}
