//! The driver of a connection to an endpoint.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::channel::Channel;
use crate::failure::FailureKind;
use crate::http::engine::error::ConnectionError;
use crate::http::engine::guard::Peer;
use crate::http::engine::{EndOfInput, Options, Role, StreamKey, Then};
use crate::http::h1::{HeadLimits, RequestError};
use crate::http2::pace::{BufferParking, Pace, Verdict};
use crate::http2::{Link, Memory, Outbox, Owner, Reader, Session, Turn};
use crate::limits::{
    H2_STREAM_WINDOW_BYTES, H2_UPSTREAM_CONNECTION_WINDOW_BYTES, H2_UPSTREAM_STREAMS,
    H2_UPSTREAM_TIMEOUT, POOL_IDLE_TIMEOUT,
};
use crate::memory::Buffer;
use crate::shard::Shard;
use crate::shard::deadline::Deadline;
use crate::upstream::pool::Connection;

use super::{ClosesAtEnd, H2Connection, State};

/// What is driven.
pub(super) struct Driven {
    pub(super) shard: Rc<Shard>,
    pub(super) memory: Rc<Memory>,
    pub(super) session: Rc<H2Connection>,
    /// Name of the endpoint.
    pub(super) endpoint: Arc<str>,
}

/// Drives a connection until it ends.
pub(super) async fn drive(driven: Driven, connection: Box<Connection>) {
    let _closes = ClosesAtEnd(&driven.session);
    let Channel::Socket(socket) = &connection.stream else {
        return;
    };
    let shard = &driven.shard;
    // PINGs are rare while it is silent.
    connection.stream.cutoff().probe();
    let writes = Deadline::new(shard, socket.fd());
    let memory = Rc::clone(&driven.memory);
    let session = Session::new(OPTIONS, memory, Rc::clone(&shard.buffers));
    let first = Buffer::default();
    let reader = Reader::new(shard, socket, &connection.deadline, PACE, first);
    let outbox = Outbox::new(socket, &writes, PACE.write);
    let mut requests = Requests {
        shard,
        connection: &driven.session,
        session: Rc::clone(&session),
        endpoint: &driven.endpoint,
    };
    let began = shard.now();
    let mut link = Link::new(session, reader, outbox);
    poll_fn(|context| {
        link.begin_turn(shard.now().since(began));
        requests.poll_turn(&mut link, context)
    })
    .await;
}

const PACE: Pace = Pace {
    head: Some(H2_UPSTREAM_TIMEOUT),
    idle: Some(POOL_IDLE_TIMEOUT),
    write: Some(H2_UPSTREAM_TIMEOUT),
    parks: BufferParking::No,
};

/// Heads are received within the largest limits; those of a request are checked when it takes its response.
const OPTIONS: Options = Options {
    role: Role::Client,
    streams: H2_UPSTREAM_STREAMS,
    stream_window: H2_STREAM_WINDOW_BYTES,
    connection_window: H2_UPSTREAM_CONNECTION_WINDOW_BYTES,
    heads: HeadLimits {
        line_bytes: HeadLimits::MAX_HEAD_BYTES,
        head_bytes: HeadLimits::MAX_HEAD_BYTES,
        fields: HeadLimits::MAX_FIELDS,
    },
};

/// The requests of one connection.
struct Requests<'a> {
    shard: &'a Rc<Shard>,
    connection: &'a H2Connection,
    session: Rc<Session>,
    endpoint: &'a str,
}

impl Requests<'_> {
    /// One iteration. Ready when the connection has ended.
    fn poll_turn(&mut self, link: &mut Link<'_>, context: &mut Context<'_>) -> Poll<()> {
        let turn = link.receive(context, self);
        if self.connection.is_evictable() || !link.session.opens_streams() {
            self.connection.close(FailureKind::ConnectFailed);
        }
        if turn != Turn::Unfinished
            && !link.is_over()
            && self.connection.is_closed()
            && link.session.users() == 0
        {
            link.end();
        }
        let shard = self.shard;
        link.poll_end_turn(context, turn, &shard.turns, self)
    }
}

impl Owner for Requests<'_> {
    fn accept(&mut self, _: &Rc<Session>, _: StreamKey, _: Then, _: Option<RequestError>) {
        debug_assert!(false, "servers open no streams");
    }

    /// Before its settings, its limits and extensions are unknown.
    fn on_settings(&mut self) {
        if self.connection.is_dialing() {
            self.connection.set(State::Open(Rc::clone(&self.session)));
        }
    }

    /// Connections to endpoints keep their buffers.
    fn on_parked(&mut self) {}

    fn on_go_away(&mut self) {
        self.connection.close(FailureKind::ConnectFailed);
    }

    /// A server may respond before it has read a request, and close the connection.
    fn on_send_failure(&mut self) -> bool {
        self.connection.close(FailureKind::ConnectFailed);
        true
    }

    fn on_error(&mut self, error: ConnectionError) {
        let endpoint = self.endpoint;
        tracing::debug!(%endpoint, %error, "an upstream HTTP/2 connection failed");
        if let ConnectionError::Abuse(abuse) = error {
            self.shard.record_abuse(abuse, Peer::Server, endpoint);
        }
        self.connection.close(FailureKind::UpstreamGarbage);
    }

    fn on_verdict(&mut self, verdict: Verdict) {
        let endpoint = self.endpoint;
        tracing::debug!(%endpoint, ?verdict, "ended an upstream HTTP/2 connection");
        self.connection.close(FailureKind::ConnectFailed);
    }

    fn on_end(&mut self, end: EndOfInput) {
        let endpoint = self.endpoint;
        tracing::debug!(%endpoint, ?end, "an upstream HTTP/2 connection ended");
        self.connection.close(FailureKind::ConnectFailed);
    }
}
