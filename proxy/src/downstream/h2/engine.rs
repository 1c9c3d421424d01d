//! The driver of a client's connection on our own engine.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::tasks::Job;
use super::{Accepted, Opened, ServedStream, limits};
use crate::channel::Channel;
use crate::downstream::Downstream;
use crate::exchange::Client;
use crate::exchange::client::Shared;
use crate::http::engine::error::{Code, ConnectionError};
use crate::http::engine::{EndOfInput, Event, Options, Role, Step, StreamKey, Then};
use crate::http::h1::{HeadLimits, RequestError};
use crate::http::h2::guard::Peer;
use crate::http2::engine::{Arrival, Awaited, Outbox, Reader, Session};
use crate::http2::pace::{BufferParking, Pace, Verdict};
use crate::limits::{Limits, REQUESTS_PER_POLL};
use crate::memory::Buffer;
use crate::shard::Shard;
use crate::shard::deadline::Deadline;
use crate::shard::tasks::{Purpose, TaskEntry};
use crate::shard::wheel::Tick;

/// Serves a connection until it ends. `early` holds the bytes received so far, including the preface.
pub(super) async fn serve(downstream: &Rc<Downstream>, client: &mut Client, early: Buffer) {
    let shard = &downstream.proxy.shard;
    let Some(limits) = limits(shard, client.bind) else {
        return;
    };
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
    let memory = Rc::clone(&downstream.http2_memory);
    let pool = Rc::clone(&shard.buffers);
    let mut driver = Driver {
        downstream,
        shard,
        client,
        streams: client.shared(),
        session: Session::new(options(&limits), memory, pool),
        reader: Reader::new(shard, socket, &client.deadline, pace, early),
        outbox: Outbox::new(socket, &writes, pace.write),
        limits,
        began: shard.now(),
        accepted: VecDeque::new(),
        requests: 0,
        head: None,
        is_closing: false,
        is_leaving: false,
        is_over: false,
        configuration: 0,
    };
    driver.run().await;
    driver.reader.linger().await;
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

/// The driver of one connection.
struct Driver<'a> {
    downstream: &'a Rc<Downstream>,
    shard: &'a Rc<Shard>,
    client: &'a Client,
    /// The connection's data shared with its streams.
    streams: Shared,
    session: Rc<Session>,
    reader: Reader<'a>,
    outbox: Outbox<'a>,
    limits: Limits,
    began: Tick,
    /// Streams whose requests are not served yet.
    accepted: VecDeque<Opened>,
    requests: u64,
    /// The number of the head of which a part has arrived.
    head: Option<u64>,
    /// Whether GOAWAY was sent, and open streams may finish.
    is_closing: bool,
    /// Whether the client has sent GOAWAY: the connection ends with its last stream.
    is_leaving: bool,
    /// Whether nothing more is received.
    is_over: bool,
    /// Version of the configuration by which the connection is current.
    configuration: u64,
}

/// What a turn has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It waits for more bytes.
    Waits,
    /// There is more to do: in the next turn.
    Unfinished,
    /// It waits until the output was sent.
    OutputFull,
}

impl Driver<'_> {
    async fn run(&mut self) {
        poll_fn(|context| {
            self.client.listen_for_drain(context.waker());
            Poll::Ready(())
        })
        .await;
        poll_fn(|context| self.poll_turn(context)).await;
    }

    /// One iteration: processes what has arrived, starts a bounded number of requests, and sends what is
    /// pending. Ready when the connection has ended.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.session.begin_turn(self.shard.now().since(self.began));
        self.reader.begin_turn();
        self.send_goaway_when_due();
        let mut turn = self.receive(context);
        if turn != Turn::Unfinished && self.serve_accepted() {
            turn = Turn::Unfinished;
        }
        if self.is_leaving && !self.is_over && self.session.streams() == 0 {
            self.session.fail(Code::NO_ERROR);
            self.finish();
        }
        let flushed = self.outbox.poll_flush(context, &self.session);
        let is_over = match flushed {
            Poll::Ready(Ok(())) => self.is_over || self.session.is_finished(),
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_over {
            self.session.end_streams();
            return Poll::Ready(());
        }
        if turn == Turn::Unfinished || (turn == Turn::OutputFull && flushed.is_ready()) {
            self.shard.turns.wake_next_turn(context);
        }
        self.reader.end_turn(self.awaited());
        self.session.end_turn(context);
        Poll::Pending
    }

    /// Processes what has arrived, and what arrives meanwhile.
    fn receive(&mut self, context: &mut Context<'_>) -> Turn {
        loop {
            if self.is_over {
                return Turn::Waits;
            }
            let turn = self.process();
            if turn != Turn::Waits {
                return turn;
            }
            if self.is_over {
                continue;
            }
            match self.reader.poll(context, self.awaited()) {
                Poll::Pending => return Turn::Waits,
                Poll::Ready(arrival) => self.on_arrival(arrival),
            }
        }
    }

    /// Processes the received bytes, up to a part of a frame.
    fn process(&mut self) -> Turn {
        let mut at = 0;
        let turn = loop {
            let input = self.reader.buffer.filled();
            match self.session.receive(input, &mut at) {
                Ok(Step::Event(event)) => self.on_event(event),
                Ok(Step::NeedMore) => break Turn::Waits,
                Ok(Step::NextTurn) => break Turn::Unfinished,
                Ok(Step::OutputFull) => break Turn::OutputFull,
                Err(error) => {
                    self.on_error(error);
                    break Turn::Waits;
                }
            }
        };
        self.reader.buffer.consume(at);
        self.head = self
            .session
            .head_being_received(self.reader.buffer.filled());
        turn
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Request {
                key,
                then,
                rejected,
            } => self.accept(key, then, rejected),
            Event::Data { key, range, then } => {
                let bytes = self.reader.buffer.filled().get(range);
                self.session.pass_data(key, bytes.unwrap_or_default(), then);
            }
            Event::Trailers { key } => self.session.pass_trailers(key),
            Event::Reset { key, cause } => self.session.pass_reset(key, cause),
            Event::Writable { key } => self.session.pass_window(key),
            Event::GoAway { .. } => self.is_leaving = true,
            // Responses are for clients.
            Event::Interim { .. } | Event::Response { .. } | Event::Settings | Event::Pong => {}
        }
    }

    /// Takes a request's head: it is served once what has arrived with it was processed, since it may be
    /// reset by then.
    fn accept(&mut self, key: StreamKey, then: Then, rejected: Option<RequestError>) {
        let mut scratch = self.downstream.proxy.scratch.take();
        let decoded = &mut *self.session.memory().decoded.borrow_mut();
        std::mem::swap(&mut scratch.received.bytes, &mut decoded.bytes);
        std::mem::swap(&mut scratch.received.head, &mut decoded.request);
        self.accepted.push_back(Opened {
            stream: self.session.accept(key, then),
            scratch,
            rejected,
        });
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
            accepted: Accepted::Engine(opened),
        });
    }

    fn on_arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Bytes => {}
            Arrival::End => self.on_end(),
            Arrival::Parked => self.session.release_memory(),
            Arrival::PingDue => self.session.ping(),
            Arrival::Verdict(verdict) => self.end_for(verdict),
        }
    }

    /// The client has closed the connection.
    fn on_end(&mut self) {
        let unread = self.reader.buffer.filled();
        if self.session.end_of_input(unread) == EndOfInput::CutOff {
            self.shard.counters.http2_errors.count_cut_off();
        }
        self.finish();
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
        self.finish();
    }

    fn end_for(&mut self, verdict: Verdict) {
        let client = self.client.hop.address();
        match verdict {
            Verdict::HeadLate | Verdict::Silent => {
                tracing::debug!(%client, ?verdict, "ended an HTTP/2 connection");
            }
            Verdict::Abuse(_) | Verdict::Idle => {}
        }
        self.session.fail(Code::NO_ERROR);
        self.finish();
    }

    /// Nothing more is received: what is in the output is sent, and the connection closed.
    fn finish(&mut self) {
        self.is_over = true;
        self.accepted.clear();
        self.session.end_streams();
    }

    fn awaited(&self) -> Awaited {
        if !self.session.has_settings() {
            Awaited::Head(0)
        } else if let Some(head) = self.head {
            Awaited::Head(head)
        } else if self.session.streams() > 0 {
            Awaited::Streams
        } else {
            Awaited::Anything
        }
    }

    /// Sends GOAWAY when the connection has reached its request limit or age, the shard is drained, or the
    /// listener's TLS settings have changed.
    fn send_goaway_when_due(&mut self) {
        let is_due = !self.is_closing
            && (self.shard.draining.get()
                || !self.limits.allows_request_after(self.requests)
                || self.client.is_old(self.shard.now())
                || self.is_outdated());
        if is_due {
            self.is_closing = true;
            self.session.shut_down();
        }
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
