//! The socket of an HTTP/2 connection, as the I/O of the `h2` crate.
//!
//! One recv is in progress, into a pooled buffer; writes of `h2` are collected and sent once per
//! iteration ([`Outbox`]). Timeouts are enforced here: for incomplete heads, for idle connections,
//! and for peers that owe bytes and do not respond to a PING. So is the flood [`Guard`].

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use h2::StreamId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::outbox::Outbox;
use super::pace::{BufferParking, Deadlines, Pace, Verdict};
use super::read_budget::{Allowance, ReadBudget};
use super::usage::Usage;
use crate::http::h2::guard::{Guard, Peer};
use crate::limits::{
    H2_PING_AFTER, H2_PING_TIMEOUT, H2_READS_PER_POLL, LINGER_BYTES, LINGER_TIMEOUT, PARK_AFTER,
};
use crate::memory::Buffer;
use crate::net::Stream;
use crate::shard::Shard;
use crate::shard::deadline::Expiry;

pub(crate) struct Link<'a> {
    shard: &'a Rc<Shard>,
    stream: &'a Stream,
    deadlines: Deadlines<'a>,
    pace: Pace,
    usage: Rc<Usage>,
    began: Instant,
    guard: RefCell<Guard>,
    reading: RefCell<Reading<'a>>,
    outbox: RefCell<Outbox<'a>>,
    verdict: Cell<Option<Verdict>>,
    wants_ping: Cell<bool>,
    /// Whether the current read was polled in this iteration: it will not complete before the next
    /// one.
    read_polled: Cell<bool>,
}

/// What the connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The rest of the head with this number; 0 is the connection preface.
    Head(u64),
    /// Streams, which have their own timeouts.
    Busy,
    /// The response to a PING.
    Pinged,
    Idle,
}

struct Reading<'a> {
    /// Received bytes not consumed yet; without memory while the kernel has it, or while parked.
    buffer: Buffer,
    operation: Option<Operation<'a, (io::Result<usize>, Buffer)>>,
    /// What the deadline was set for.
    phase: Option<Phase>,
    parked: bool,
    pinged: bool,
    ended: bool,
    /// Consecutive reads that completed without waiting.
    at_once: u32,
    read_budget: ReadBudget,
}

type Operation<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

impl<'a> Link<'a> {
    /// A connection over `stream`, of which `first` was read already.
    pub(crate) fn new(
        shard: &'a Rc<Shard>,
        stream: &'a Stream,
        deadlines: Deadlines<'a>,
        pace: Pace,
        peer: Peer,
        first: Buffer,
    ) -> Self {
        let link = Self {
            shard,
            stream,
            deadlines,
            pace,
            usage: Rc::default(),
            began: Instant::now(),
            guard: RefCell::new(Guard::against(peer)),
            reading: RefCell::new(Reading {
                buffer: first,
                operation: None,
                phase: None,
                parked: false,
                pinged: false,
                ended: false,
                at_once: 0,
                read_budget: ReadBudget::default(),
            }),
            outbox: RefCell::new(Outbox::new(
                stream,
                &shard.buffers,
                deadlines.writes,
                pace.write,
            )),
            verdict: Cell::new(None),
            wants_ping: Cell::new(false),
            read_polled: Cell::new(false),
        };
        link.check_received(&mut link.reading.borrow_mut());
        link
    }

    /// The I/O for `h2`.
    pub(crate) fn io(&self) -> Io<'_, 'a> {
        Io(self)
    }

    /// The streams that use the connection.
    pub(crate) fn usage(&self) -> &Rc<Usage> {
        &self.usage
    }

    /// Why the connection has to end, if it does: checked after each step.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        self.verdict.get()
    }

    /// Whether a PING should be sent now.
    pub(crate) fn takes_ping(&self) -> bool {
        self.wants_ping.take()
    }

    /// Whether received bytes are not consumed yet.
    pub(crate) fn has_bytes(&self) -> bool {
        !self.reading.borrow().buffer.is_empty()
    }

    /// Whether the peer's SETTINGS were received.
    pub(crate) fn has_settings(&self) -> bool {
        self.guard.borrow().has_settings()
    }

    /// Whether the peer has closed the connection.
    pub(crate) fn has_ended(&self) -> bool {
        self.reading.borrow().ended
    }

    /// Whether the peer has closed the connection within a frame.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.reading.borrow().ended && self.guard.borrow().is_within_frame()
    }

    /// Whether the path of a stream's head has a fragment; true only once.
    pub(crate) fn take_fragment(&self, stream: StreamId) -> bool {
        self.guard.borrow_mut().take_fragment(stream.into())
    }

    /// Whether the peer has sent GOAWAY.
    pub(crate) fn is_leaving(&self) -> bool {
        self.guard.borrow().is_leaving()
    }

    /// Begins an iteration of the task that drives the connection.
    pub(crate) fn begin_turn(&self) {
        self.usage.forget_driver();
        self.read_polled.set(false);
    }

    /// Ends an iteration: sends what was written, and restarts the timeout if the number of streams
    /// has changed.
    ///
    /// # Errors
    ///
    /// The peer does not accept more bytes.
    pub(crate) fn end_turn(&self, context: &mut Context<'_>) -> io::Result<()> {
        let sent = self.outbox.borrow_mut().poll_send(context);
        let mut reading = self.reading.borrow_mut();
        if reading.operation.is_some() {
            self.arm(&mut reading);
        }
        self.usage.set_driver(context);
        match sent {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// Reads and drops what follows for a while: closing with unread bytes would reset the
    /// connection, and the reset could overtake our last bytes.
    pub(crate) async fn linger(&self) {
        self.deadlines
            .reads
            .arm(Some(LINGER_TIMEOUT), Expiry::Disconnect);
        self.stream.shutdown_write().await;
        let mut dropped = 0_usize;
        while dropped < LINGER_BYTES {
            let Some(operation) = self.next_operation() else {
                return;
            };
            let (read, buffer) = operation.await;
            self.reading.borrow_mut().buffer = buffer;
            match read {
                Ok(0) => return,
                Ok(count) => dropped = dropped.saturating_add(count),
                Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => {}
                Err(_) => return,
            }
        }
    }

    /// The current read, or another one into the same buffer; `None` after the end.
    fn next_operation(&self) -> Option<Operation<'a, (io::Result<usize>, Buffer)>> {
        let mut reading = self.reading.borrow_mut();
        if reading.ended {
            return None;
        }
        reading.buffer.clear();
        let operation = reading.operation.take();
        Some(operation.unwrap_or_else(|| self.start_read(&mut reading)))
    }

    fn phase(&self, reading: &Reading<'_>) -> Phase {
        let guard = self.guard.borrow();
        if !guard.has_settings() {
            Phase::Head(0)
        } else if guard.is_within_head() {
            Phase::Head(guard.heads())
        } else if reading.pinged {
            Phase::Pinged
        } else if self.usage.streams() > 0 {
            Phase::Busy
        } else {
            Phase::Idle
        }
    }

    /// Sets the timeout of the current read, unless it waits for the same as before.
    fn arm(&self, reading: &mut Reading<'_>) {
        let phase = self.phase(reading);
        if reading.phase == Some(phase) {
            return;
        }
        reading.phase = Some(phase);
        let (after, expiry) = match (phase, self.pace.parks) {
            (Phase::Head(_), _) => (self.pace.head, Expiry::StopReading),
            (Phase::Busy, _) => (Some(H2_PING_AFTER), Expiry::CancelRead),
            (Phase::Pinged, _) => (Some(H2_PING_TIMEOUT), Expiry::StopReading),
            (Phase::Idle, BufferParking::Yes) => (Some(PARK_AFTER), Expiry::CancelRead),
            (Phase::Idle, BufferParking::No) => (self.pace.idle, Expiry::StopReading),
        };
        self.deadlines.reads.arm(after, expiry);
    }

    fn start_read(&self, reading: &mut Reading<'_>) -> Operation<'a, (io::Result<usize>, Buffer)> {
        let (stream, handle) = (self.stream, self.deadlines.reads.cancel_handle());
        let mut buffer = std::mem::take(&mut reading.buffer);
        if buffer.room() == 0 {
            buffer = self.shard.buffers.take();
        }
        let turns = (reading.at_once >= H2_READS_PER_POLL).then_some(&self.shard.turns);
        Box::pin(async move {
            if let Some(turns) = turns {
                turns.yield_turn().await;
            }
            let read = stream.read_until_canceled(&mut buffer, handle).await;
            (read, buffer)
        })
    }

    /// Waits for bytes without a buffer; then a read finds them.
    fn park(&self, reading: &mut Reading<'_>) -> Operation<'a, (io::Result<usize>, Buffer)> {
        let buffer = std::mem::take(&mut reading.buffer);
        self.shard.buffers.put(buffer);
        self.shard.record_parked();
        reading.parked = true;
        let timeout = self.pace.idle.map(|idle| idle.saturating_sub(PARK_AFTER));
        self.deadlines.reads.arm(timeout, Expiry::StopReading);
        let stream = self.stream;
        Box::pin(async move {
            let readable = stream.readable().await;
            let canceled = || io::Error::from_raw_os_error(libc::ECANCELED);
            (readable.and_then(|()| Err(canceled())), Buffer::default())
        })
    }

    /// Polls until the buffer has bytes, or the connection has ended.
    fn poll_fill(
        &self,
        context: &mut Context<'_>,
        reading: &mut Reading<'a>,
    ) -> Poll<io::Result<()>> {
        while reading.buffer.is_empty() && !reading.ended {
            if self.verdict.get().is_some() {
                // The driver checks the verdict; further bytes do not matter.
                return Poll::Pending;
            }
            let fresh = reading.operation.is_none();
            if self.read_polled.get() && !fresh {
                return Poll::Pending;
            }
            if fresh {
                // For a busy peer, any bytes count as a response to a PING.
                reading.phase = reading
                    .phase
                    .filter(|phase| matches!(phase, Phase::Head(_)));
                self.arm(reading);
                reading.operation = Some(self.start_read(reading));
            }
            let Some(operation) = &mut reading.operation else {
                return Poll::Pending;
            };
            let polled = operation.as_mut().poll(context);
            self.read_polled.set(polled.is_pending());
            reading.at_once = match (fresh, polled.is_ready()) {
                (true, true) => reading.at_once.saturating_add(1),
                (true, false) => 0,
                (false, _) => reading.at_once,
            };
            let (read, buffer) = ready!(polled);
            reading.operation = None;
            reading.buffer = buffer;
            self.settle(reading, read)?;
        }
        Poll::Ready(Ok(()))
    }

    fn settle(&self, reading: &mut Reading<'a>, read: io::Result<usize>) -> io::Result<()> {
        match read {
            Ok(0) => {
                reading.ended = true;
                if self.deadlines.reads.expired() {
                    self.verdict.set(Some(match reading.phase {
                        Some(Phase::Head(_)) | None => Verdict::HeadLate,
                        Some(Phase::Pinged | Phase::Busy) => Verdict::Silent,
                        Some(Phase::Idle) => Verdict::Idle,
                    }));
                    reading.ended = false;
                }
                Ok(())
            }
            Ok(_) => {
                reading.pinged = false;
                self.check_received(reading);
                Ok(())
            }
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => {
                self.on_read_timeout(reading);
                Ok(())
            }
            Err(error) => {
                reading.ended = true;
                Err(error)
            }
        }
    }

    /// Handles an idle timeout, or the readiness of a parked connection's socket.
    fn on_read_timeout(&self, reading: &mut Reading<'a>) {
        if std::mem::take(&mut reading.parked) {
            reading.phase = None;
            if self.deadlines.reads.expired() {
                self.verdict.set(Some(Verdict::Idle));
            }
            return;
        }
        match self.phase(reading) {
            Phase::Idle => reading.operation = Some(self.park(reading)),
            Phase::Busy => {
                reading.pinged = true;
                self.wants_ping.set(true);
            }
            Phase::Head(_) | Phase::Pinged => reading.phase = None,
        }
    }

    /// Checks received bytes with the guard. If they exceed a limit, they are dropped except for
    /// the preface, without which the reason cannot be sent to the client.
    fn check_received(&self, reading: &mut Reading<'_>) {
        let mut guard = self.guard.borrow_mut();
        let (preface, heads) = (guard.preface_left(), guard.heads());
        let buffer = &mut reading.buffer;
        let received = guard.received(buffer.filled(), self.began.elapsed());
        // A server only responds to requests.
        if guard.peer() == Peer::Client {
            let heads = guard.heads().saturating_sub(heads);
            reading.read_budget.read(buffer.len(), heads);
        }
        self.usage
            .record_malformed(guard.take_malformed(), guard.take_invalid());
        guard
            .drain_ended()
            .for_each(|stream| self.usage.record_ended(stream));
        if let Err(abuse) = received {
            buffer.truncate(preface);
            self.verdict.set(Some(Verdict::Abuse(abuse)));
        }
    }

    fn poll_write(
        &self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut outbox = self.outbox.borrow_mut();
        let mut room = ready!(outbox.poll_room(context))?;
        let mut taken = 0_usize;
        for piece in pieces {
            let part = piece.get(..room.min(piece.len())).unwrap_or_default();
            if let Err(abuse) = self.guard.borrow_mut().sent(part) {
                self.verdict.set(Some(Verdict::Abuse(abuse)));
            }
            outbox.push(part);
            room = room.saturating_sub(part.len());
            taken = taken.saturating_add(part.len());
        }
        Poll::Ready(Ok(taken))
    }
}

impl Drop for Link<'_> {
    /// The pending operation returns, so that nothing keeps the socket open.
    fn drop(&mut self) {
        self.stream.disconnect();
        let reading = self.reading.get_mut();
        self.shard.buffers.put(std::mem::take(&mut reading.buffer));
    }
}

/// A connection's socket for `h2`.
pub(crate) struct Io<'l, 'a>(&'l Link<'a>);

impl AsyncRead for Io<'_, '_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut reading = self.0.reading.borrow_mut();
        ready!(self.0.poll_fill(context, &mut reading))?;
        let count = into.remaining().min(reading.buffer.len());
        let turns = &self.0.shard.turns;
        let count = match reading.read_budget.take(count, turns.number()) {
            Allowance::Now(count) => count,
            Allowance::NextTurn => {
                turns.wake_next_turn(context);
                return Poll::Pending;
            }
            Allowance::Later => return Poll::Pending,
        };
        into.put_slice(reading.buffer.filled().get(..count).unwrap_or_default());
        reading.buffer.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io<'_, '_> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Written bytes are sent at the end of the iteration.
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.outbox.borrow_mut().poll_end(context)
    }
}

#[cfg(test)]
mod tests;
