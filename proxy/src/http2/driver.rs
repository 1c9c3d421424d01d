//! What the drivers of connections have in common: a turn, in which everything that has arrived is
//! processed, and everything that was written is sent.

use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::outbox::Outbox;
use super::reader::{Arrival, Awaited, Reader};
use super::session::Session;
use super::stream::StreamEnd;
use crate::http::engine::error::{Code, ConnectionError};
use crate::http::engine::{EndOfInput, Event, Step, StreamKey, Then};
use crate::http::h1::RequestError;
use crate::http2::pace::Verdict;
use crate::shard::turn::Turns;

/// A connection with its socket.
pub(crate) struct Link<'a> {
    pub(crate) session: Rc<Session>,
    pub(crate) reader: Reader<'a>,
    outbox: Outbox<'a>,
    /// The number of the head of which a part has arrived.
    head: Option<u64>,
    /// Whether nothing more is received.
    is_over: bool,
}

/// Who a connection is driven for. What concerns one stream is passed to it without them.
pub(crate) trait Owner {
    /// A client has opened a stream, whose head was just decoded.
    fn accept(
        &mut self,
        session: &Rc<Session>,
        key: StreamKey,
        then: Then,
        rejected: Option<RequestError>,
    );

    /// The peer's settings have arrived or changed.
    fn on_settings(&mut self);

    /// The connection is idle, and waits without a buffer: what only a busy one needs is to be freed.
    fn on_parked(&mut self);

    /// The peer ends the connection with the last of its streams.
    fn on_go_away(&mut self);

    /// The peer has closed the connection, and accepts nothing more. Returns whether what it sent before is still
    /// to be read.
    fn on_send_failure(&mut self) -> bool;

    /// The peer has violated the protocol or a limit, which has ended the connection.
    fn on_error(&mut self, error: ConnectionError);

    /// A timeout has ended the connection.
    fn on_verdict(&mut self, verdict: Verdict);

    /// The peer has closed the connection.
    fn on_end(&mut self, end: EndOfInput);
}

/// What receiving has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It waits for more bytes.
    Waits,
    /// There is more to do: in the next turn.
    Unfinished,
    /// It waits until the output was sent.
    OutputFull,
}

impl<'a> Link<'a> {
    pub(crate) fn new(session: Rc<Session>, reader: Reader<'a>, outbox: Outbox<'a>) -> Self {
        Self {
            session,
            reader,
            outbox,
            head: None,
            is_over: false,
        }
    }

    /// Begins a turn. `now` is relative to any fixed moment.
    pub(crate) fn begin_turn(&mut self, now: Duration) {
        self.session.begin_turn(now);
        self.reader.begin_turn();
    }

    /// Processes what has arrived, and what arrives meanwhile.
    pub(crate) fn receive(&mut self, context: &mut Context<'_>, owner: &mut impl Owner) -> Turn {
        loop {
            if self.is_over {
                return Turn::Waits;
            }
            let turn = self.process(owner);
            if turn != Turn::Waits {
                return turn;
            }
            if self.is_over {
                continue;
            }
            match self.reader.poll(context, self.awaited()) {
                Poll::Pending => return Turn::Waits,
                Poll::Ready(arrival) => self.on_arrival(arrival, owner),
            }
        }
    }

    /// Processes the received bytes, up to a part of a frame.
    fn process(&mut self, owner: &mut impl Owner) -> Turn {
        let (mut at, mut is_quiet) = (0, None);
        let turn = loop {
            let input = self.reader.buffer.filled();
            match self.session.receive(input, &mut at) {
                Ok(Step::Event(event)) => {
                    is_quiet = quiet_after(&event).or(is_quiet);
                    pass(&self.session, event, input, owner);
                }
                Ok(Step::NeedMore) => break Turn::Waits,
                Ok(Step::NextTurn) => break Turn::Unfinished,
                Ok(Step::OutputFull) => break Turn::OutputFull,
                Err(error) => {
                    owner.on_error(error);
                    self.finish(StreamEnd::Violation);
                    break Turn::Waits;
                }
            }
        };
        self.reader.buffer.consume(at);
        if let Some(is_quiet) = is_quiet {
            self.reader.set_quiet(is_quiet);
        }
        // While the kernel has the buffer, what is unread is as it was.
        if !self.reader.is_waiting() {
            let unread = self.reader.buffer.filled();
            self.head = self.session.head_being_received(unread);
        }
        turn
    }

    fn on_arrival(&mut self, arrival: Arrival, owner: &mut impl Owner) {
        match arrival {
            Arrival::Bytes => {}
            Arrival::End => {
                let unread = self.reader.buffer.filled();
                owner.on_end(self.session.end_of_input(unread));
                self.finish(StreamEnd::Closed);
            }
            Arrival::Parked => {
                self.session.release_memory();
                owner.on_parked();
            }
            Arrival::PingDue => self.session.ping(),
            Arrival::Verdict(verdict) => {
                owner.on_verdict(verdict);
                self.end();
            }
        }
    }

    /// Ends the connection with GOAWAY.
    pub(crate) fn end(&mut self) {
        self.session.fail(Code::NO_ERROR);
        self.finish(StreamEnd::Closed);
    }

    /// Nothing more is received: what is in the output is sent, and the connection closed.
    fn finish(&mut self, why: StreamEnd) {
        self.is_over = true;
        self.session.end_streams(why);
    }

    /// Whether nothing more is received.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    fn awaited(&self) -> Awaited {
        if !self.session.has_settings() {
            Awaited::Head(0)
        } else if let Some(head) = self.head {
            Awaited::Head(head)
        } else if self.session.users() > 0 {
            Awaited::Streams
        } else {
            Awaited::Anything
        }
    }

    /// Whether reading goes on although the peer accepts no more: what it sent before it closed the connection may
    /// be the responses to its streams (RFC 9113 section 8.1), and its end follows them.
    fn reads_on(&self, error: &io::Error, owner: &mut impl Owner) -> bool {
        let closed_by_peer = matches!(
            error.kind(),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
        );
        if self.is_over || !closed_by_peer || !owner.on_send_failure() {
            return false;
        }
        self.session.end_unopened();
        self.session.users() > 0
    }

    /// Ends a turn: sends what was written. Ready when the connection has ended.
    pub(crate) fn poll_end_turn(
        &mut self,
        context: &mut Context<'_>,
        turn: Turn,
        turns: &Turns,
        owner: &mut impl Owner,
    ) -> Poll<()> {
        let flushed = self.outbox.poll_flush(context, &self.session);
        let has_ended = match &flushed {
            Poll::Ready(Ok(())) => self.is_over || self.session.is_finished(),
            Poll::Ready(Err(error)) => !self.reads_on(error, owner),
            Poll::Pending => false,
        };
        if has_ended {
            self.session.end_streams(StreamEnd::Closed);
            return Poll::Ready(());
        }
        if turn == Turn::Unfinished || (turn == Turn::OutputFull && flushed.is_ready()) {
            turns.wake_next_turn(context);
        }
        self.reader.end_turn(self.awaited());
        self.session.end_turn(context);
        Poll::Pending
    }
}

impl Drop for Link<'_> {
    /// Streams do not wait for a driver that is gone, as after a panic.
    fn drop(&mut self) {
        self.session.end_streams(StreamEnd::Closed);
    }
}

/// Passes an event to its stream, or to the connection's owner. Ranges are those of `input`.
pub(super) fn pass(session: &Rc<Session>, event: Event, input: &[u8], owner: &mut impl Owner) {
    match event {
        Event::Request {
            key,
            then,
            rejected,
        } => owner.accept(session, key, then, rejected),
        Event::Interim { key } => session.pass_response(key, Then::More),
        Event::Response { key, then } => {
            session.pass_response(key, then);
            open_others(session, then);
        }
        Event::Data { key, range, then } => {
            session.pass_data(key, input.get(range).unwrap_or_default(), then);
            open_others(session, then);
        }
        Event::Trailers { key } => {
            session.pass_trailers(key);
            open_others(session, Then::End);
        }
        Event::Reset { key, cause } => {
            session.pass_reset(key, cause);
            open_others(session, Then::End);
        }
        Event::Writable { key } => session.pass_window(key),
        Event::Settings => {
            owner.on_settings();
            session.open_waiting();
        }
        Event::GoAway { .. } => {
            owner.on_go_away();
            session.end_unopened();
        }
        Event::Pong => {}
    }
}

/// Whether the peer is quiet after an event: it has answered a PING, and no message of its goes on. `None` if
/// it says neither.
fn quiet_after(event: &Event) -> Option<bool> {
    match event {
        Event::Pong => Some(true),
        Event::Request { .. }
        | Event::Interim { .. }
        | Event::Response { .. }
        | Event::Data { .. }
        | Event::Trailers { .. } => Some(false),
        Event::Reset { .. } | Event::Writable { .. } | Event::Settings | Event::GoAway { .. } => {
            None
        }
    }
}

/// A stream that has ended leaves its place to one that waits to be opened.
fn open_others(session: &Session, then: Then) {
    if then == Then::End {
        session.open_waiting();
    }
}
