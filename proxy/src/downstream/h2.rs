//! HTTP/2 from clients: one task drives a connection, and each of its streams is a task that takes
//! the request path of any other request.

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
use crate::exchange::{After, Client, Next};
use crate::http::h1::HeadLimits;
use crate::http::h2::guard::Peer;
use crate::http::h2::request::{Follows, Fragment, outline, take_in};
use crate::http2::io::{Io, Link};
use crate::http2::liveness::Liveness;
use crate::http2::pace::{Deadlines, Pace, Parks, Verdict};
use crate::http2::stream::Stream;
use crate::http2::usage::InUse;
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

/// Serves a connection until it ends. `early` is what came of it already, the preface included.
pub(crate) async fn serve(downstream: &Rc<Downstream>, client: &mut Client, early: Buffer) {
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
        parks: Parks::Yes,
    };
    let link = Link::new(shard, socket, deadlines, pace, Peer::Client, early);
    if let Some(mut connection) = shake_hands(shard, client, &link, &limits).await {
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
            ending: Ending::None,
        };
        driver.run().await;
    }
    link.linger().await;
}

/// What holds before the request's listener is known; `None` where the bind is gone.
fn limits(shard: &Shard, bind: u32) -> Option<Limits> {
    let snapshot = shard.config.load();
    Some(snapshot.bind(bind)?.limits)
}

async fn shake_hands<'l, 'a>(
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
        .max_header_list_size(limits.head_bytes)
        // The guard judges resets, by the second: as many again may come as the next one begins.
        .max_pending_accept_reset_streams(2 * H2_RESETS_PER_SECOND as usize)
        .max_send_buffer_size(H2_SEND_BYTES)
        .enable_connect_protocol();
    let mut shaking = pin!(builder.handshake(link.io()));
    poll_fn(|context| {
        link.begin_turn();
        let shaken = shaking.as_mut().poll(context);
        let sent = link.end_turn(context);
        match (shaken, link.verdict()) {
            (Poll::Ready(Ok(connection)), _) => Poll::Ready(Some(connection)),
            (Poll::Ready(Err(error)), _) => {
                note_error(shard, client, link, &error);
                Poll::Ready(None)
            }
            // The preface is worth waiting for where it is there: who sent it can be told why.
            (Poll::Pending, Some(_)) if !link.has_bytes() => Poll::Ready(None),
            (Poll::Pending, _) if sent.is_err() => Poll::Ready(None),
            (Poll::Pending, _) => Poll::Pending,
        }
    })
    .await
}

/// Counts a connection that a client has brought to its end, if by what we may not let pass.
fn note_error(shard: &Shard, client: &Client, link: &Link<'_>, error: &h2::Error) {
    let client = client.hop.address();
    tracing::debug!(%client, %error, "an HTTP/2 connection failed");
    let errors = &shard.counters.http2_errors;
    match error.reason() {
        Some(reason) if error.is_library() => errors.count(reason.into()),
        None if link.is_cut_off() => errors.count_cut_off(),
        _ => {}
    }
}

/// Whether a connection is being brought to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    None,
    /// Streams that are open may end (RFC 9113 section 6.8).
    Gracefully,
    /// It is told why, and that is all.
    AtOnce,
}

/// What drives one connection.
struct Driver<'l, 'a> {
    downstream: &'a Rc<Downstream>,
    shard: &'a Rc<Shard>,
    client: &'a Client,
    /// What its streams have of it.
    streams: Shared,
    link: &'l Link<'a>,
    limits: Limits,
    connection: Connection<Io<'l, 'a>, Bytes>,
    liveness: Liveness,
    requests: u64,
    ending: Ending,
}

type Respond = SendResponse<Bytes>;

type Accepted = (Request<RecvStream>, Respond);

impl Driver<'_, '_> {
    async fn run(&mut self) {
        poll_fn(|context| {
            self.client.listen_for_drain(context.waker());
            Poll::Ready(())
        })
        .await;
        poll_fn(|context| self.poll_turn(context)).await;
    }

    /// One turn: takes the requests that are there, so many at most, and sends what there is to say.
    /// Ready when the connection is over.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.link.begin_turn();
        self.take_leave_in_time();
        let last = self.requests.saturating_add(REQUESTS_PER_POLL.into());
        let over = loop {
            if self.requests == last {
                self.shard.turns.come_back(context);
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

    /// Goes on until there is a request, or the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Accepted>> {
        let mut polled = self.poll_accept(context);
        if polled.is_pending() && self.liveness.is_asked_for(self.link, context) {
            polled = self.poll_accept(context);
        }
        if let Some(verdict) = self.link.verdict()
            && self.ending != Ending::AtOnce
        {
            self.ending = Ending::AtOnce;
            self.connection.abrupt_shutdown(self.reason(verdict));
            polled = self.connection.poll_accept(context);
        }
        match polled {
            Poll::Ready(Some(Ok(accepted))) => Poll::Ready(Some(accepted)),
            Poll::Ready(Some(Err(error))) => {
                if self.ending != Ending::AtOnce {
                    note_error(self.shard, self.client, self.link, &error);
                }
                Poll::Ready(None)
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Takes a request, once all that was read is known: one that was reset by then is nobody's.
    fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Accepted, h2::Error>>> {
        match self.connection.poll_closed(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
            Poll::Pending if self.link.has_bytes() => Poll::Pending,
            Poll::Ready(Ok(())) | Poll::Pending => self.connection.poll_accept(context),
        }
    }

    /// Tells the client to open no more streams when the connection has had its share, or the shard
    /// its time.
    fn take_leave_in_time(&mut self) {
        let is_due = self.ending == Ending::None
            && (self.shard.draining.get()
                || self.requests >= self.limits.requests_per_connection.get()
                || self.client.is_old(self.shard.now())
                || self.shard.config.load().bind(self.client.bind).is_none());
        if is_due {
            self.ending = Ending::Gracefully;
            self.connection.graceful_shutdown();
        }
    }

    fn reason(&self, verdict: Verdict) -> Reason {
        let client = self.client.hop.address();
        match verdict {
            Verdict::Abuse(abuse) => {
                self.shard.note_abuse(abuse, Peer::Client, client);
                Reason::ENHANCE_YOUR_CALM
            }
            Verdict::HeadLate | Verdict::Silent => {
                tracing::debug!(%client, ?verdict, "ended an HTTP/2 connection");
                Reason::NO_ERROR
            }
            Verdict::Idle => Reason::NO_ERROR,
        }
    }

    /// Gives a request a task of its own. One whose client has as many as it may, some of them
    /// reset and not at their end yet, is refused: it has no right to more work than that. One that
    /// what came behind its head has ended already is nobody's: for those of a flood, a connection
    /// to an endpoint each made a neighbour wait for milliseconds.
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
        let served = Served {
            downstream: Rc::clone(self.downstream),
            connection: self.streams.clone(),
            bind: self.client.bind,
            limits: HeadLimits::of_request(&self.limits),
            _in_use: usage.enter(),
        };
        self.downstream.stream_tasks.serve(Job {
            place: TaskEntry::new(self.shard, Purpose::Stream),
            served,
            request,
            respond,
        });
    }
}

/// One stream of a connection.
struct Served {
    downstream: Rc<Downstream>,
    connection: Shared,
    bind: u32,
    limits: HeadLimits,
    _in_use: InUse,
}

impl Served {
    async fn run(self, request: Request<RecvStream>, respond: Respond) {
        let proxy = &self.downstream.proxy;
        let shard = &proxy.shard;
        let counters = shard.counters.binds.of(Interned::bind(self.bind));
        let _counted = GaugeGuard::new(&counters.streams);
        let (parts, body) = request.into_parts();
        let follows = if body.is_end_stream() {
            Follows::Nothing
        } else {
            Follows::Body
        };
        let channel = Channel::H2(Box::new(Stream::accepted(body, respond)));
        let client = Client::of_stream(shard, channel, self.connection, self.bind);
        let mut scratch = proxy.scratch.take();
        let mut buffer = shard.buffers.without_memory();
        let received = &mut scratch.received;
        let taken = take_in(
            &parts,
            follows,
            &self.limits,
            &mut received.bytes,
            &mut received.head,
        );
        if taken.is_err() {
            received.keep_outline(&outline(&parts));
        }
        drop(parts);
        let next = match taken {
            Ok(()) => {
                let handling = request::handle(proxy, &client, &mut buffer, &mut scratch);
                match while_wanted(&client, pin!(handling)).await {
                    After::KeepAlive => Next::Close,
                    After::End(next) => next,
                }
            }
            Err(error) => {
                request::refuse(proxy, &client, &mut buffer, &mut scratch, error.into()).await
            }
        };
        if next == Next::Reset {
            client.stream.reset_on_close();
        }
        shard.buffers.put(buffer);
        proxy.scratch.put(scratch);
    }
}

/// Runs an exchange, and has it look at its client as soon as that resets the stream.
async fn while_wanted<T>(client: &Client, mut exchange: Pin<&mut impl Future<Output = T>>) -> T {
    let mut gone = false;
    poll_fn(|context| {
        let polled = exchange.as_mut().poll(context);
        let stream = client.stream.as_h2();
        if gone
            || polled.is_ready()
            || !stream.is_some_and(|stream| stream.poll_gone(context).is_ready())
        {
            return polled;
        }
        gone = true;
        client.deadline.look();
        exchange.as_mut().poll(context)
    })
    .await
}

#[cfg(test)]
mod tests {
    use h2::RecvStream;
    use http::Request;

    use super::{Respond, Served};

    fn of_run<F>(_: impl Fn(Served, Request<RecvStream>, Respond) -> F) -> usize {
        size_of::<F>()
    }

    /// It was twice that while it passed the exchange's future on by value.
    #[test]
    fn the_future_of_a_stream_is_bounded() {
        assert!(
            of_run(Served::run) <= 8 * 1024,
            "{} bytes",
            of_run(Served::run)
        );
    }
}
