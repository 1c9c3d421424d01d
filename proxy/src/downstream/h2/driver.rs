//! The driver of a client's connection.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::tasks::Job;
use super::{Opened, ServedStream};
use crate::channel::Channel;
use crate::downstream::Downstream;
use crate::exchange::Client;
use crate::exchange::client::Shared;
use crate::http::engine::error::ConnectionError;
use crate::http::engine::guard::Peer;
use crate::http::engine::{EndOfInput, Options, Role, StreamKey, Then};
use crate::http::h1::{HeadLimits, RequestError};
use crate::http2::pace::{BufferParking, Pace, Verdict};
use crate::http2::{Link, Outbox, Owner, Reader, Session, Turn};
use crate::limits::{Limits, REQUESTS_PER_POLL};
use crate::memory::Buffer;
use crate::shard::Shard;
use crate::shard::deadline::Deadline;
use crate::shard::tasks::{Purpose, TaskEntry};

/// Serves a connection until it ends. `early` holds the bytes received so far, including the preface.
pub(crate) async fn serve(downstream: &Rc<Downstream>, client: &mut Client, early: Buffer) {
    let shard = &downstream.proxy.shard;
    // Those that apply before the request's listener is known; none if the bind was removed.
    let snapshot = shard.config.load();
    let Some(limits) = snapshot.bind(client.bind).map(|bind| bind.limits) else {
        return;
    };
    drop(snapshot);
    let Channel::Socket(socket) = &client.stream else {
        return;
    };
    let writes = Deadline::new(shard, socket.fd());
    let pace = Pace {
        head: limits.head_timeout,
        idle: limits.keep_alive_timeout,
        write: limits.write_idle_timeout,
        parks: BufferParking::Yes,
    };
    let memory = Rc::clone(&downstream.proxy.upstreams.http2_memory);
    let session = Session::new(options(&limits), memory, Rc::clone(&shard.buffers));
    let reader = Reader::new(shard, socket, &client.deadline, pace, early);
    let outbox = Outbox::new(socket, &writes, pace.write);
    let began = shard.now();
    let mut link = Link::new(session, reader, outbox);
    let mut serving = Serving {
        downstream,
        shard,
        client,
        streams: client.shared(),
        most_requests: limits.requests_per_connection,
        accepted: VecDeque::new(),
        requests: 0,
        is_closing: false,
        is_leaving: false,
        configuration: 0,
    };
    poll_fn(|context| {
        client.listen_for_drain(context.waker());
        Poll::Ready(())
    })
    .await;
    poll_fn(|context| {
        link.begin_turn(shard.now().since(began));
        serving.poll_turn(&mut link, context)
    })
    .await;
    // Boxed: an idle connection would otherwise reserve space for its end.
    Box::pin(link.reader.linger()).await;
}

fn options(limits: &Limits) -> Options {
    Options {
        role: Role::Server,
        streams: limits.http2_streams,
        stream_window: limits.http2_stream_window_bytes,
        connection_window: limits.http2_connection_window(),
        heads: HeadLimits::of_request(limits),
    }
}

/// One connection being served.
struct Serving<'a> {
    downstream: &'a Rc<Downstream>,
    shard: &'a Rc<Shard>,
    client: &'a Client,
    /// The connection's data shared with its streams.
    streams: Shared,
    /// The most requests that the connection may carry.
    most_requests: Option<NonZeroU64>,
    /// Streams whose requests are not served yet.
    accepted: VecDeque<Opened>,
    requests: u64,
    /// Whether GOAWAY was sent, and open streams may finish.
    is_closing: bool,
    /// Whether the client has sent GOAWAY: the connection ends with its last stream.
    is_leaving: bool,
    /// Version of the configuration by which the connection is current.
    configuration: u64,
}

impl Serving<'_> {
    /// One iteration: processes what has arrived, starts a bounded number of requests, and sends what is
    /// pending. Ready when the connection has ended.
    fn poll_turn(&mut self, link: &mut Link<'_>, context: &mut Context<'_>) -> Poll<()> {
        if self.is_goaway_due() {
            self.is_closing = true;
            link.session.shut_down();
        }
        let mut turn = link.receive(context, self);
        if link.is_over() {
            self.accepted.clear();
        }
        if turn != Turn::Unfinished && self.serve_accepted() {
            turn = Turn::Unfinished;
        }
        if self.is_leaving && !link.is_over() && link.session.users() == 0 {
            link.end();
        }
        let shard = self.shard;
        link.poll_end_turn(context, turn, &shard.turns, self)
    }

    /// Starts tasks for requests, up to a limit. Returns whether more are left.
    ///
    /// A request that is already reset is dropped: in a flood, opening a connection to an endpoint for each
    /// of them delayed other clients by milliseconds.
    fn serve_accepted(&mut self) -> bool {
        let mut left = REQUESTS_PER_POLL;
        while left > 0
            && let Some(opened) = self.accepted.pop_front()
        {
            if opened.stream.is_gone() {
                self.downstream.proxy.scratch.put(opened.scratch);
                continue;
            }
            left = left.saturating_sub(1);
            self.requests = self.requests.saturating_add(1);
            self.serve(opened);
        }
        !self.accepted.is_empty()
    }

    fn serve(&self, opened: Opened) {
        let served = ServedStream {
            downstream: Rc::clone(self.downstream),
            connection: self.streams.clone(),
            bind: self.client.bind,
        };
        self.downstream.stream_tasks.serve(Job {
            place: TaskEntry::new(self.shard, Purpose::Stream),
            served,
            opened,
        });
    }

    /// Whether to send GOAWAY: when the connection has reached its request limit or age, the shard is
    /// drained, or the listener's TLS settings have changed.
    fn is_goaway_due(&mut self) -> bool {
        !self.is_closing
            && (self.shard.draining.get()
                || (self.most_requests).is_some_and(|most| self.requests >= most.get())
                || self.client.is_old(self.shard.now())
                || self.is_outdated())
    }

    /// Whether the configuration allows no such connection any more.
    fn is_outdated(&mut self) -> bool {
        let snapshot = self.shard.config.load();
        let Some(bind) = snapshot.bind(self.client.bind) else {
            return true;
        };
        let before = std::mem::replace(&mut self.configuration, snapshot.version);
        before != snapshot.version && !self.client.is_current(bind)
    }
}

impl Owner for Serving<'_> {
    /// Takes a request's head: it is served once what has arrived with it was processed, since it may be
    /// reset by then.
    fn accept(
        &mut self,
        session: &Rc<Session>,
        key: StreamKey,
        then: Then,
        rejected: Option<RequestError>,
    ) {
        let mut scratch = self.downstream.proxy.scratch.take();
        let decoded = &mut *session.memory().decoded.borrow_mut();
        std::mem::swap(&mut scratch.received.bytes, &mut decoded.bytes);
        std::mem::swap(&mut scratch.received.head, &mut decoded.request);
        self.accepted.push_back(Opened {
            stream: session.accept(key, then),
            scratch,
            rejected,
        });
    }

    fn on_settings(&mut self) {}

    fn on_parked(&mut self) {
        self.accepted.shrink_to_fit();
    }

    fn on_go_away(&mut self) {
        self.is_leaving = true;
    }

    /// Nobody would receive the responses.
    fn on_send_failure(&mut self) -> bool {
        false
    }

    fn on_error(&mut self, error: ConnectionError) {
        let client = self.client.hop.address();
        match error {
            ConnectionError::Violation(_) => {
                tracing::debug!(%client, %error, "an HTTP/2 connection failed");
                self.shard.counters.http2_errors.count(error.code().0);
            }
            ConnectionError::Abuse(abuse) => {
                self.shard.record_abuse(abuse, Peer::Client, client);
            }
        }
    }

    fn on_verdict(&mut self, verdict: Verdict) {
        let client = self.client.hop.address();
        match verdict {
            Verdict::HeadLate | Verdict::Silent => {
                tracing::debug!(%client, ?verdict, "ended an HTTP/2 connection");
            }
            Verdict::Idle => {}
        }
    }

    fn on_end(&mut self, end: EndOfInput) {
        if end == EndOfInput::CutOff {
            self.shard.counters.http2_errors.count_cut_off();
        }
    }
}
