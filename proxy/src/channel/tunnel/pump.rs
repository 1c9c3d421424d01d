//! One direction of a tunnel.

use std::future::{Future, poll_fn};
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::task::Poll;

use super::websocket::{FrameTracker, Receiver, going_away};
use super::{End, TunnelEnd, TunnelState};
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
    flow: &'a TunnelState<'a>,
    from: End<'a>,
    to: End<'a>,
    content: DirectionContent,
    /// The reason if the sender's connection fails.
    sender_failed: TunnelEnd,
    moved: u64,
    passing: TransferMode,
    /// Bytes moved since the last yield.
    since_turn: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransferMode {
    /// Buffers, until enough bytes have passed.
    Buffers,
    /// Pipes, if one is free.
    Pipes,
    /// Buffers: these sockets cannot be spliced.
    BuffersOnly,
}

enum SpliceResult {
    /// The sender may have ended, which a plain read detects.
    AtEnd,
    /// No more bytes are available, after this many.
    Dry(usize),
    /// No pipe is free.
    NoPipe,
}

/// The content of a direction.
pub(super) enum DirectionContent {
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

impl DirectionContent {
    pub(super) fn frames_to(receiver: Receiver) -> Self {
        Self::Frames(FrameTracker::default(), receiver)
    }
}

enum FailedSide {
    Sender,
    Receiver,
    /// The sender sent something forbidden.
    Neither,
}

impl<'a> Pump<'a> {
    pub(super) fn new(
        shard: &'a Shard,
        flow: &'a TunnelState<'a>,
        [from, to]: [End<'a>; 2],
        content: DirectionContent,
        sender_failed: TunnelEnd,
    ) -> Self {
        Self {
            shard,
            flow,
            from,
            to,
            content,
            sender_failed,
            moved: 0,
            since_turn: 0,
            passing: match plain(from).zip(plain(to)) {
                Some(_) => TransferMode::Buffers,
                None => TransferMode::BuffersOnly,
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
        let failed = match self.carry(buffer).await {
            Ok(()) => match self.to.stream.finish().await {
                Ok(()) => return,
                Err(_) => self.receiver_failed(),
            },
            Err(FailedSide::Sender) => self.sender_failed,
            Err(FailedSide::Receiver) => self.receiver_failed(),
            Err(FailedSide::Neither) => TunnelEnd::Untrusted,
        };
        self.flow.record_end(failed);
        self.to.stream.reset();
        self.from.stream.reset();
    }

    fn receiver_failed(&self) -> TunnelEnd {
        match self.sender_failed {
            TunnelEnd::ClientFailed => TunnelEnd::BackendFailed,
            _ => TunnelEnd::ClientFailed,
        }
    }

    async fn carry(&mut self, buffer: &mut Buffer) -> Result<(), FailedSide> {
        let mut rested = false;
        loop {
            if !buffer.is_empty() || self.is_close_due() {
                self.check_start(buffer.filled())?;
                self.send(buffer).await.map_err(|_| FailedSide::Receiver)?;
            }
            if matches!(&self.content, DirectionContent::Over(tracker) if tracker.is_closing()) {
                return Ok(());
            }
            if self.takes_pipes() {
                match self.splice(buffer).await? {
                    // At urgent data, splice(2) returns nothing, or an end that comes after it; a
                    // plain read gets past it.
                    SpliceResult::Dry(0) if rested => rested = false,
                    SpliceResult::Dry(_) => {
                        self.rest().await.map_err(|_| FailedSide::Sender)?;
                        rested = true;
                        continue;
                    }
                    SpliceResult::AtEnd | SpliceResult::NoPipe => {}
                }
            }
            match self.fill(buffer).await {
                Ok(0) => return Ok(()),
                Err(error) if !is_canceled(&error) => return Err(FailedSide::Sender),
                _ => {}
            }
        }
    }

    /// Checks the sender's first bytes for a PROXY protocol header, if required.
    fn check_start(&mut self, bytes: &[u8]) -> Result<(), FailedSide> {
        let DirectionContent::Unproxied(watch) = &mut self.content else {
            return Ok(());
        };
        match watch.advance(bytes) {
            Start::Header(_) => return Err(FailedSide::Neither),
            Start::Data => self.content = DirectionContent::Bytes,
            Start::Undecided => {}
        }
        Ok(())
    }

    /// Whether enough bytes have passed to splice the rest.
    fn takes_pipes(&mut self) -> bool {
        let is_due = self.passing == TransferMode::Buffers
            && self.moved >= SPLICE_AFTER
            && matches!(self.content, DirectionContent::Bytes);
        if is_due {
            let mut ends = [self.from, self.to].into_iter().filter_map(plain);
            let ready = ends.all(|socket| never_block(socket.fd()).is_ok());
            self.passing = if ready {
                TransferMode::Pipes
            } else {
                TransferMode::BuffersOnly
            };
        }
        self.passing == TransferMode::Pipes
    }

    /// Splices available bytes through a pipe.
    async fn splice(&mut self, buffer: &mut Buffer) -> Result<SpliceResult, FailedSide> {
        self.shard.buffers.put(std::mem::take(buffer));
        let Some(mut pipe) = self.shard.pipes.take() else {
            return Ok(SpliceResult::NoPipe);
        };
        let spliced = self.splice_through(&mut pipe).await;
        self.shard.pipes.put(pipe);
        spliced
    }

    async fn splice_through(&mut self, pipe: &mut Pipe) -> Result<SpliceResult, FailedSide> {
        let Some((from, to)) = plain(self.from).zip(plain(self.to)) else {
            return Ok(SpliceResult::AtEnd);
        };
        let (mut since_turn, mut moved) = (0, 0_usize);
        loop {
            match pipe.fill(from.fd(), u64::MAX) {
                Ok(0) => return Ok(SpliceResult::AtEnd),
                Ok(count) => {
                    since_turn += count;
                    moved = moved.saturating_add(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(SpliceResult::Dry(moved));
                }
                Err(_) => return Err(FailedSide::Sender),
            }
            while !pipe.is_empty() {
                match pipe.empty(to.fd()) {
                    Ok(count) => {
                        self.moved = self.moved.saturating_add(count as u64);
                        self.flow.restart_idle();
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        to.writable().await.map_err(|_| FailedSide::Receiver)?;
                    }
                    Err(_) => return Err(FailedSide::Receiver),
                }
            }
            if since_turn >= SPLICE_BYTES_PER_POLL {
                self.shard.turns.wait_for_next_turn().await;
                since_turn = 0;
            }
        }
    }

    /// Whether the shard is drained and no frame is incomplete, so that a Close frame can be sent.
    fn is_close_due(&self) -> bool {
        matches!(&self.content, DirectionContent::Frames(tracker, _)
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
            self.flow.restart_idle();
        }
        self.since_turn += count;
        if self.since_turn >= BYTES_PER_POLL {
            self.since_turn = 0;
            self.shard.turns.yield_turn().await;
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
        let (tracker, receiver) = match &mut self.content {
            DirectionContent::Bytes | DirectionContent::Unproxied(_) => {
                return (0..bytes.len(), None);
            }
            DirectionContent::Over(tracker) => {
                tracker.advance(bytes);
                return (0..0, None);
            }
            DirectionContent::Frames(tracker, receiver) => (tracker, *receiver),
        };
        let was_between = tracker.is_between_frames();
        let whole = tracker.advance(bytes).or(was_between.then_some(0));
        match whole {
            Some(whole) if self.shard.draining.get() && !tracker.is_closing() => {
                self.content = DirectionContent::Over(std::mem::take(tracker));
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
        let handle = deadline.read_handle();
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
        match &self.content {
            DirectionContent::Frames(..) => either(readable, self.shard.draining.wait()).await,
            DirectionContent::Bytes
            | DirectionContent::Unproxied(_)
            | DirectionContent::Over(_) => readable.await,
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
