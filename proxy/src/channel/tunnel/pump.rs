//! One direction of a tunnel.

use std::future::{Future, poll_fn};
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;

use super::websocket::{FrameTracker, Receiver, going_away};
use super::{End, Ended, Flow};
use crate::channel::Channel;
use crate::limits::{
    BYTES_PER_POLL, PARK_AFTER, SPLICE_AFTER, SPLICE_BYTES_PER_POLL, WEBSOCKET_CLOSE_TIMEOUT,
};
use crate::memory::Buffer;
use crate::net::{Pipe, Stream, never_block};
use crate::policy::proxy_protocol::{Start, StartWatch};
use crate::shard::Shard;
use crate::shard::deadline::Expiry;

/// One direction of a tunnel.
pub(super) struct Pump<'a> {
    shard: &'a Shard,
    flow: &'a Flow<'a>,
    from: End<'a>,
    to: End<'a>,
    speech: Speech,
    /// The reason if the sender's connection fails.
    sender_broke: Ended,
    moved: u64,
    passing: Passing,
    /// Bytes moved since the last yield.
    since_turn: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passing {
    /// Buffers, until enough bytes have passed.
    Buffers,
    /// Pipes, if one is free.
    Pipes,
    /// Buffers: these sockets cannot be spliced.
    BuffersOnly,
}

/// Result of splicing.
enum Spliced {
    /// The sender may have ended: a plain read will tell.
    AtEnd,
    /// No more bytes are available, after so many.
    Dry(usize),
    /// No pipe is free.
    NoPipe,
}

/// The content of a direction.
pub(super) enum Speech {
    /// Bytes.
    Bytes,
    /// Bytes whose start may still turn out to be a PROXY protocol header. They are forwarded as
    /// they come, except those that complete one: without them the receiver does not see a header
    /// either.
    Unproxied(StartWatch),
    /// WebSocket frames sent to this end.
    Frames(FrameTracker, Receiver),
    /// Nothing any more: a Close frame was sent.
    Over(FrameTracker),
}

impl Speech {
    pub(super) fn frames_to(receiver: Receiver) -> Self {
        Self::Frames(FrameTracker::default(), receiver)
    }
}

enum Broke {
    Sender,
    Receiver,
    /// The sender sent something forbidden.
    Neither,
}

impl<'a> Pump<'a> {
    pub(super) fn new(
        shard: &'a Shard,
        flow: &'a Flow<'a>,
        [from, to]: [End<'a>; 2],
        speech: Speech,
        sender_broke: Ended,
    ) -> Self {
        Self {
            shard,
            flow,
            from,
            to,
            speech,
            sender_broke,
            moved: 0,
            since_turn: 0,
            passing: match plain(from).zip(plain(to)) {
                Some(_) => Passing::Buffers,
                None => Passing::BuffersOnly,
            },
        }
    }

    /// Bytes delivered to the receiver.
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    /// Moves bytes until the sender ends, then passes the end on. If this direction fails, both
    /// end.
    pub(super) async fn run(&mut self, buffer: &mut Buffer) {
        let broke = match self.carry(buffer).await {
            Ok(()) => match self.to.stream.finish().await {
                Ok(()) => return,
                Err(_) => self.receiver_broke(),
            },
            Err(Broke::Sender) => self.sender_broke,
            Err(Broke::Receiver) => self.receiver_broke(),
            Err(Broke::Neither) => Ended::Untrusted,
        };
        self.flow.note(broke);
        self.to.stream.reset();
        self.from.stream.reset();
    }

    fn receiver_broke(&self) -> Ended {
        match self.sender_broke {
            Ended::ClientBroke => Ended::BackendBroke,
            _ => Ended::ClientBroke,
        }
    }

    async fn carry(&mut self, buffer: &mut Buffer) -> Result<(), Broke> {
        let mut rested = false;
        loop {
            if !buffer.is_empty() || self.is_last_word_due() {
                self.judge_start(buffer.filled())?;
                self.send(buffer).await.map_err(|_| Broke::Receiver)?;
            }
            if matches!(&self.speech, Speech::Over(tracker) if tracker.is_closing()) {
                return Ok(());
            }
            if self.takes_pipes() {
                match self.splice(buffer).await? {
                    // At urgent data, splice(2) returns nothing, or an end that comes after it; a
                    // plain read gets past it.
                    Spliced::Dry(0) if rested => rested = false,
                    Spliced::Dry(_) => {
                        self.rest().await.map_err(|_| Broke::Sender)?;
                        rested = true;
                        continue;
                    }
                    Spliced::AtEnd | Spliced::NoPipe => {}
                }
            }
            match self.fill(buffer).await {
                Ok(0) => return Ok(()),
                Err(error) if !is_canceled(&error) => return Err(Broke::Sender),
                _ => {}
            }
        }
    }

    /// Checks the sender's first bytes for a PROXY protocol header, if required.
    fn judge_start(&mut self, bytes: &[u8]) -> Result<(), Broke> {
        let Speech::Unproxied(watch) = &mut self.speech else {
            return Ok(());
        };
        match watch.advance(bytes) {
            Start::Header(_) => return Err(Broke::Neither),
            Start::Data => self.speech = Speech::Bytes,
            Start::Undecided => {}
        }
        Ok(())
    }

    /// Whether enough bytes have passed to splice the rest.
    fn takes_pipes(&mut self) -> bool {
        let is_due = self.passing == Passing::Buffers
            && self.moved >= SPLICE_AFTER
            && matches!(self.speech, Speech::Bytes);
        if is_due {
            let mut ends = [self.from, self.to].into_iter().filter_map(plain);
            let ready = ends.all(|socket| never_block(socket.fd()).is_ok());
            self.passing = if ready {
                Passing::Pipes
            } else {
                Passing::BuffersOnly
            };
        }
        self.passing == Passing::Pipes
    }

    /// Splices available bytes through a pipe.
    async fn splice(&mut self, buffer: &mut Buffer) -> Result<Spliced, Broke> {
        self.shard.buffers.put(std::mem::take(buffer));
        let Some(mut pipe) = self.shard.pipes.take() else {
            return Ok(Spliced::NoPipe);
        };
        let spliced = self.splice_through(&mut pipe).await;
        self.shard.pipes.put(pipe);
        spliced
    }

    async fn splice_through(&mut self, pipe: &mut Pipe) -> Result<Spliced, Broke> {
        let Some((from, to)) = plain(self.from).zip(plain(self.to)) else {
            return Ok(Spliced::AtEnd);
        };
        let (mut since_turn, mut moved) = (0, 0_usize);
        loop {
            match pipe.fill(from.fd(), u64::MAX) {
                Ok(0) => return Ok(Spliced::AtEnd),
                Ok(count) => {
                    since_turn += count;
                    moved = moved.saturating_add(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Spliced::Dry(moved));
                }
                Err(_) => return Err(Broke::Sender),
            }
            while !pipe.is_empty() {
                match pipe.empty(to.fd()) {
                    Ok(count) => {
                        self.moved = self.moved.saturating_add(count as u64);
                        self.flow.moves();
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        to.writable().await.map_err(|_| Broke::Receiver)?;
                    }
                    Err(_) => return Err(Broke::Receiver),
                }
            }
            if since_turn >= SPLICE_BYTES_PER_POLL {
                self.shard.turns.wait_a_turn().await;
                since_turn = 0;
            }
        }
    }

    /// Whether the shard is drained and no frame is incomplete, so that a Close frame can be sent.
    fn is_last_word_due(&self) -> bool {
        matches!(&self.speech, Speech::Frames(tracker, _)
            if self.shard.draining.get() && tracker.is_between_frames() && !tracker.is_closing())
    }

    /// Sends the buffer's bytes for the receiver, and a Close frame if due: afterwards only the
    /// sender's Close is awaited.
    async fn send(&mut self, buffer: &mut Buffer) -> io::Result<()> {
        let (range, last_word) = self.follow(buffer.filled());
        let count = range.len();
        if count > 0 {
            self.to.stream.write(buffer, range).await?;
            self.moved = self.moved.saturating_add(count as u64);
            self.flow.moves();
        }
        self.since_turn += count;
        if self.since_turn >= BYTES_PER_POLL {
            self.since_turn = 0;
            self.shard.turns.give_way().await;
        }
        buffer.clear();
        let Some(receiver) = last_word else {
            return Ok(());
        };
        self.flow.expects_end_within(WEBSOCKET_CLOSE_TIMEOUT);
        let mut last = going_away(receiver).to_vec();
        self.to.stream.write_vec(&mut last).await
    }

    /// Which of these bytes are forwarded, and to whom a Close frame must follow.
    fn follow(&mut self, bytes: &[u8]) -> (Range<usize>, Option<Receiver>) {
        let (tracker, receiver) = match &mut self.speech {
            Speech::Bytes | Speech::Unproxied(_) => return (0..bytes.len(), None),
            Speech::Over(tracker) => {
                tracker.advance(bytes);
                return (0..0, None);
            }
            Speech::Frames(tracker, receiver) => (tracker, *receiver),
        };
        let was_between = tracker.is_between_frames();
        let whole = tracker.advance(bytes).or(was_between.then_some(0));
        match whole {
            Some(whole) if self.shard.draining.get() && !tracker.is_closing() => {
                self.speech = Speech::Over(std::mem::take(tracker));
                (0..whole, Some(receiver))
            }
            _ => (0..bytes.len(), None),
        }
    }

    /// Reads more. After a while without bytes, returns the buffer to the pool and waits without
    /// one; `ECANCELED` then, or when the shard is drained.
    async fn fill(&self, buffer: &mut Buffer) -> io::Result<usize> {
        if buffer.room() == 0 {
            *buffer = match self.from.stream {
                Channel::Socket(_) => self.shard.buffers.take(),
                Channel::H2(_) => self.shard.buffers.without_memory(),
            };
        }
        let (stream, deadline) = (self.from.stream, self.from.deadline);
        let handle = deadline.cancel_handle();
        deadline.arm(Some(PARK_AFTER), Expiry::CancelRead);
        let read = stream.read_until_canceled(buffer, handle).await;
        deadline.disarm();
        if read.as_ref().is_err_and(is_canceled) {
            self.shard.buffers.put(std::mem::take(buffer));
            self.rest().await?;
        }
        read
    }

    /// Waits until bytes are available. Cancel-safe: it holds no bytes.
    async fn rest(&self) -> io::Result<()> {
        let readable = self.from.stream.readable();
        match &self.speech {
            Speech::Frames(..) => either(readable, self.shard.draining.wait()).await,
            Speech::Bytes | Speech::Unproxied(_) | Speech::Over(_) => readable.await,
        }
    }
}

/// The socket of an end without TLS.
fn plain(end: End<'_>) -> Option<&Stream> {
    end.stream.as_socket().filter(|socket| socket.is_plain())
}

/// The first future's output, or `None` if the second completes first.
pub(crate) async fn either(
    first: impl Future<Output = io::Result<()>>,
    second: impl Future<Output = ()>,
) -> io::Result<()> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| match first.as_mut().poll(context) {
        Poll::Pending => second.as_mut().poll(context).map(Ok),
        done @ Poll::Ready(_) => done,
    })
    .await
}

fn is_canceled(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECANCELED)
}
