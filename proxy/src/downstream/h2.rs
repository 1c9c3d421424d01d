//! HTTP/2 from clients: one task drives a connection, and each stream is a task that takes the same
//! request path as HTTP/1.

mod early_response;
mod engine;
pub(crate) mod tasks;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;

use super::Downstream;
use crate::channel::Channel;
use crate::exchange::client::Shared;
use crate::exchange::scratch::Scratch;
use crate::exchange::{Client, ConnectionOutcome, NextStep};
use crate::http::h1::{HeadLimits, RequestError};
use crate::http::h2::guard::Peer;
use crate::http::h2::request::{BodyPresence, Fragment, convert, outline};
use crate::http2::io::{Io, Link};
use crate::http2::library::LibraryStream;
use crate::http2::liveness::Liveness;
use crate::http2::pace::{BufferParking, Deadlines, Pace, Verdict};
use crate::http2::stream::Stream;
use crate::http2::usage::InUse;
use crate::http2::{self, Http2Engine};
use crate::limits::{
    H2_FRAME_BYTES, H2_RESETS_PER_SECOND, H2_SEND_BYTES, Limits, REQUESTS_PER_POLL,
};
use crate::memory::Buffer;
use crate::names::Interned;
use crate::observe::counters::GaugeGuard;
use crate::request;
use crate::shard::Shard;
use crate::shard::deadline::Deadline;
use crate::shard::tasks::{Purpose, TaskEntry};

use self::tasks::Job;

/// Serves a connection until it ends. `early` holds the bytes received so far, including the
/// preface.
pub(crate) async fn serve(downstream: &Rc<Downstream>, client: &mut Client, early: Buffer) {
    match downstream.http2_engine {
        Http2Engine::Own => engine::serve(downstream, client, early).await,
        Http2Engine::H2 => serve_by_library(downstream, client, early).await,
    }
}

async fn serve_by_library(downstream: &Rc<Downstream>, client: &mut Client, early: Buffer) {
    let shard = &downstream.proxy.shard;
    let Some(limits) = limits(shard, client.bind) else {
        return;
    };
    let Channel::Socket(socket) = &client.stream else {
        return;
    };
    let writes = Deadline::new(shard, socket.fd());
    let deadlines = Deadlines {
        reads: &client.deadline,
        writes: &writes,
    };
    let pace = Pace {
        head: limits.head_timeout,
        idle: limits.keep_alive_timeout,
        write: limits.write_idle_timeout,
        parks: BufferParking::Yes,
    };
    let link = Link::new(shard, socket, deadlines, pace, Peer::Client, early);
    if let Some(mut connection) = negotiate(shard, client, &link, &limits).await {
        let liveness = Liveness::of(connection.ping_pong());
        let mut driver = Driver {
            downstream,
            shard,
            client,
            streams: client.shared(),
            link: &link,
            limits,
            connection,
            liveness,
            requests: 0,
            ending: CloseState::None,
            configuration: 0,
        };
        driver.run().await;
    }
    link.linger().await;
}

/// Limits that apply before the request's listener is known; `None` if the bind was removed.
fn limits(shard: &Shard, bind: u32) -> Option<Limits> {
    let snapshot = shard.config.load();
    Some(snapshot.bind(bind)?.limits)
}

async fn negotiate<'l, 'a>(
    shard: &Shard,
    client: &Client,
    link: &'l Link<'a>,
    limits: &Limits,
) -> Option<Connection<Io<'l, 'a>, Bytes>> {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.http2_streams)
        .initial_window_size(limits.http2_stream_window_bytes)
        .initial_connection_window_size(limits.http2_connection_window())
        .max_frame_size(H2_FRAME_BYTES)
        .max_header_list_size(limits.http2_header_list_bytes())
        // The guard limits resets per second: a second burst may come at the start of the next
        // second.
        .max_pending_accept_reset_streams(2 * H2_RESETS_PER_SECOND as usize)
        .max_send_buffer_size(H2_SEND_BYTES)
        .enable_connect_protocol();
    let mut opening = pin!(builder.handshake(link.io()));
    poll_fn(|context| {
        link.begin_turn();
        let opened = opening.as_mut().poll(context);
        let sent = link.end_turn(context);
        match (opened, link.verdict()) {
            (Poll::Ready(Ok(connection)), _) => Poll::Ready(Some(connection)),
            (Poll::Ready(Err(error)), _) => {
                record_error(shard, client, link, &error);
                Poll::Ready(None)
            }
            // If the preface has arrived, wait for it, so that the client can be informed why it is
            // rejected.
            (Poll::Pending, Some(_)) if !link.has_bytes() => Poll::Ready(None),
            (Poll::Pending, _) if sent.is_err() => Poll::Ready(None),
            (Poll::Pending, _) => Poll::Pending,
        }
    })
    .await
}

/// Counts a connection that ended because of a protocol error or a flood limit.
fn record_error(shard: &Shard, client: &Client, link: &Link<'_>, error: &h2::Error) {
    let client = client.hop.address();
    tracing::debug!(%client, %error, "an HTTP/2 connection failed");
    let errors = &shard.counters.http2_errors;
    match error.reason() {
        Some(reason) if error.is_library() => errors.count(reason.into()),
        None if link.is_cut_off() => errors.count_cut_off(),
        _ => {}
    }
}

/// How a connection is being closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CloseState {
    None,
    /// GOAWAY, and open streams may finish (RFC 9113 section 6.8).
    Gracefully,
    /// GOAWAY with an error, immediately.
    AtOnce,
}

/// The driver of one connection.
struct Driver<'l, 'a> {
    downstream: &'a Rc<Downstream>,
    shard: &'a Rc<Shard>,
    client: &'a Client,
    /// The connection's data shared with its streams.
    streams: Shared,
    link: &'l Link<'a>,
    limits: Limits,
    connection: Connection<Io<'l, 'a>, Bytes>,
    liveness: Liveness,
    requests: u64,
    ending: CloseState,
    /// Version of the configuration by which the connection is current.
    configuration: u64,
}

type Respond = SendResponse<Bytes>;

type LibraryRequest = (Request<RecvStream>, Respond);

impl Driver<'_, '_> {
    async fn run(&mut self) {
        poll_fn(|context| {
            self.client.listen_for_drain(context.waker());
            Poll::Ready(())
        })
        .await;
        poll_fn(|context| self.poll_turn(context)).await;
    }

    /// One iteration: accepts a bounded number of requests and sends pending frames. Ready when the
    /// connection has ended.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.link.begin_turn();
        self.send_goaway_when_due();
        let last = self.requests.saturating_add(REQUESTS_PER_POLL.into());
        let over = loop {
            if self.requests == last {
                self.shard.turns.wake_next_turn(context);
                break false;
            }
            match self.poll_next(context) {
                Poll::Ready(Some((request, respond))) => {
                    self.requests = self.requests.saturating_add(1);
                    self.serve(request, respond, context);
                }
                Poll::Ready(None) => break true,
                Poll::Pending => break false,
            }
        };
        let sent = self.link.end_turn(context);
        if over || sent.is_err() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Polls until there is a request, or the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<LibraryRequest>> {
        let mut polled = self.poll_accept(context);
        if polled.is_pending() && self.liveness.is_asked_for(self.link, context) {
            polled = self.poll_accept(context);
        }
        if let Some(verdict) = self.link.verdict()
            && self.ending != CloseState::AtOnce
        {
            self.ending = CloseState::AtOnce;
            self.connection.abrupt_shutdown(self.reason(verdict));
            polled = self.connection.poll_accept(context);
        }
        match polled {
            Poll::Ready(Some(Ok(accepted))) => Poll::Ready(Some(accepted)),
            Poll::Ready(Some(Err(error))) => {
                if self.ending != CloseState::AtOnce {
                    record_error(self.shard, self.client, self.link, &error);
                }
                Poll::Ready(None)
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Accepts a request once all received frames are processed: one that was reset meanwhile is
    /// dropped.
    fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<LibraryRequest, h2::Error>>> {
        match self.connection.poll_closed(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
            Poll::Pending if self.link.has_bytes() => Poll::Pending,
            Poll::Ready(Ok(())) | Poll::Pending => self.connection.poll_accept(context),
        }
    }

    /// Sends GOAWAY when the connection has reached its request limit or age, the shard is drained,
    /// or the listener's TLS settings have changed.
    fn send_goaway_when_due(&mut self) {
        let is_due = self.ending == CloseState::None
            && (self.shard.draining.get()
                || !self.limits.allows_request_after(self.requests)
                || self.client.is_old(self.shard.now())
                || self.is_outdated());
        if is_due {
            self.ending = CloseState::Gracefully;
            self.connection.graceful_shutdown();
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

    fn reason(&self, verdict: Verdict) -> Reason {
        let client = self.client.hop.address();
        match verdict {
            Verdict::Abuse(abuse) => {
                self.shard.record_abuse(abuse, Peer::Client, client);
                Reason::ENHANCE_YOUR_CALM
            }
            Verdict::HeadLate | Verdict::Silent => {
                tracing::debug!(%client, ?verdict, "ended an HTTP/2 connection");
                Reason::NO_ERROR
            }
            Verdict::Idle => Reason::NO_ERROR,
        }
    }

    /// Starts a task for a request. A stream beyond the client's limit, which counts reset streams
    /// until they have ended, is refused. A request that is already reset is dropped: in a flood,
    /// opening a connection to an endpoint for each of them delayed other clients by milliseconds.
    fn serve(
        &self,
        mut request: Request<RecvStream>,
        mut respond: Respond,
        context: &mut Context<'_>,
    ) {
        if self.link.take_fragment(request.body().stream_id()) {
            request.extensions_mut().insert(Fragment);
        }
        if respond.poll_reset(context).is_ready() {
            return;
        }
        let usage = self.link.usage();
        if usage.streams() >= self.limits.http2_streams {
            return respond.send_reset(Reason::REFUSED_STREAM);
        }
        let served = ServedStream {
            downstream: Rc::clone(self.downstream),
            connection: self.streams.clone(),
            bind: self.client.bind,
        };
        let limits = HeadLimits::of_request(&self.limits);
        self.downstream.stream_tasks.serve(Job {
            place: TaskEntry::new(self.shard, Purpose::Stream),
            served,
            accepted: Accepted::Library(request, respond, usage.enter(), limits),
        });
    }
}

/// A stream being served.
struct ServedStream {
    downstream: Rc<Downstream>,
    connection: Shared,
    bind: u32,
}

/// A request of either engine.
enum Accepted {
    Library(Request<RecvStream>, Respond, InUse, HeadLimits),
    Engine(Opened),
}

/// A stream that a client has opened.
struct Opened {
    stream: http2::engine::Stream,
    /// It has the request's head.
    scratch: Box<Scratch>,
    /// Why it is to be rejected.
    rejected: Option<RequestError>,
}

impl ServedStream {
    async fn run(self, accepted: Accepted) {
        let proxy = &self.downstream.proxy;
        let shard = &proxy.shard;
        let counters = shard.counters.binds.of(Interned::bind(self.bind));
        let _counted = GaugeGuard::new(&counters.streams);
        // Until the stream is dropped, its place is taken.
        let (stream, mut scratch, rejected, _in_use) = match accepted {
            Accepted::Library(request, respond, in_use, limits) => {
                let scratch = proxy.scratch.take();
                let (stream, scratch, rejected) =
                    of_library(request, respond, &in_use, &limits, scratch);
                (stream, scratch, rejected, Some(in_use))
            }
            Accepted::Engine(opened) => {
                let (stream, scratch, rejected) = of_engine(opened);
                (stream, scratch, rejected, None)
            }
        };
        let channel = Channel::H2(Box::new(stream));
        let client = Client::of_stream(shard, channel, self.connection, self.bind);
        let mut buffer = shard.buffers.without_memory();
        let next = match rejected {
            None => {
                let handling = request::handle(proxy, &client, &mut buffer, &mut scratch);
                match until_reset(&client, pin!(handling)).await {
                    ConnectionOutcome::KeepAlive => NextStep::Close,
                    ConnectionOutcome::End(next) => next,
                }
            }
            Some(error) => {
                request::refuse(proxy, &client, &mut buffer, &mut scratch, error.into()).await
            }
        };
        shard.buffers.put(buffer);
        proxy.scratch.put(scratch);
        if next == NextStep::Reset {
            client.stream.reset_on_close();
        } else {
            early_response::drop_rest_of_request(shard, &client).await;
        }
    }
}

/// A stream with the head of its request, and why it is to be rejected.
type Received = (Stream, Box<Scratch>, Option<RequestError>);

fn of_library(
    request: Request<RecvStream>,
    respond: Respond,
    in_use: &InUse,
    limits: &HeadLimits,
    mut scratch: Box<Scratch>,
) -> Received {
    let (parts, body) = request.into_parts();
    let follows = if body.is_end_stream() {
        BodyPresence::Nothing
    } else {
        BodyPresence::Body
    };
    let stream = LibraryStream::accepted(body, respond, Rc::clone(in_use.usage()));
    let received = &mut scratch.received;
    let taken = convert(
        &parts,
        follows,
        limits,
        &mut received.bytes,
        &mut received.head,
    );
    if taken.is_err() {
        received.keep_outline(&outline(&parts));
    }
    (Stream::Library(stream), scratch, taken.err())
}

fn of_engine(opened: Opened) -> Received {
    let Opened {
        stream,
        mut scratch,
        rejected,
    } = opened;
    if rejected.is_some() {
        scratch.received.reduce_to_outline();
    }
    (Stream::Engine(stream), scratch, rejected)
}

/// Runs an exchange, and lets it check its client as soon as the stream is reset.
async fn until_reset<T>(client: &Client, mut exchange: Pin<&mut impl Future<Output = T>>) -> T {
    let mut gone = false;
    poll_fn(|context| {
        let polled = exchange.as_mut().poll(context);
        let stream = client.stream.as_h2();
        if gone
            || polled.is_ready()
            || !stream.is_some_and(|stream| stream.poll_closed(context).is_ready())
        {
            return polled;
        }
        gone = true;
        client.deadline.check_peer();
        exchange.as_mut().poll(context)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::{Accepted, ServedStream};

    fn of_run<F>(_: impl Fn(ServedStream, Accepted) -> F) -> usize {
        size_of::<F>()
    }

    /// It was twice that while it passed the exchange's future on by value.
    #[test]
    fn the_future_of_a_stream_is_bounded() {
        assert!(
            of_run(ServedStream::run) <= 8 * 1024,
            "{} bytes",
            of_run(ServedStream::run)
        );
    }
}
