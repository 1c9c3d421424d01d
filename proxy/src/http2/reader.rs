//! Reads a connection's socket: one recv in progress, into a pooled buffer. Timeouts are enforced here: for
//! incomplete heads, for idle connections, and for peers that owe bytes and do not respond to a PING.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::http2::pace::{BufferParking, Pace, Verdict};
use crate::limits::{
    H2_PING_AFTER, H2_PING_AGAIN_AFTER, H2_PING_TIMEOUT, H2_READS_PER_POLL, LINGER_BYTES,
    LINGER_TIMEOUT, PARK_AFTER,
};
use crate::memory::Buffer;
use crate::net::Stream;
use crate::shard::Shard;
use crate::shard::deadline::{Deadline, Expiry};

/// The receiving side of a connection's socket.
pub(crate) struct Reader<'a> {
    shard: &'a Rc<Shard>,
    stream: &'a Stream,
    deadline: &'a Deadline,
    pace: Pace,
    /// Received bytes not consumed yet; without memory while the kernel has it, or while parked.
    pub(crate) buffer: Buffer,
    operation: Option<Operation<'a>>,
    /// What the deadline was set for.
    phase: Option<Phase>,
    state: State,
    /// Whether the peer has answered the last PING, and sent no message since.
    is_quiet: bool,
    /// Whether the read was polled in this turn: it will not complete before the next one.
    was_polled: bool,
    /// Consecutive reads that completed without waiting.
    at_once: u32,
}

type Operation<'a> = Pin<Box<dyn Future<Output = (io::Result<usize>, Buffer)> + 'a>>;

/// How far the input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// A PING is not answered yet.
    Pinged,
    /// It waits without a buffer.
    Parked,
    Ended,
}

/// What is expected of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The rest of the head with this number; 0 is the connection preface.
    Head(u64),
    /// Whatever its streams need, which have their own timeouts.
    Streams,
    /// The rest of a frame, or a first stream.
    Anything,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Awaited(Awaited),
    /// The response to a PING.
    Pinged,
    /// As [`Awaited::Anything`], with a part of a frame in the buffer.
    WithinFrame,
}

/// What waiting for the peer has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// There are more bytes in the buffer.
    Bytes,
    /// The peer has closed the connection, or it is broken.
    End,
    /// It is idle, and waits without a buffer from now on.
    Parked,
    /// A PING is to be sent.
    PingDue,
    Verdict(Verdict),
}

impl<'a> Reader<'a> {
    /// A reader of which `first` was read already.
    pub(crate) fn new(
        shard: &'a Rc<Shard>,
        stream: &'a Stream,
        deadline: &'a Deadline,
        pace: Pace,
        first: Buffer,
    ) -> Self {
        Self {
            shard,
            stream,
            deadline,
            pace,
            buffer: first,
            operation: None,
            phase: None,
            state: State::Reading,
            is_quiet: false,
            was_polled: false,
            at_once: 0,
        }
    }

    pub(crate) fn begin_turn(&mut self) {
        self.was_polled = false;
    }

    /// Whether the last that the peer sent was the answer to a PING, and not a part of a message.
    pub(crate) fn set_quiet(&mut self, is_quiet: bool) {
        self.is_quiet = is_quiet;
    }

    /// Whether it waits for the kernel, which has the buffer.
    pub(crate) fn is_waiting(&self) -> bool {
        self.operation.is_some()
    }

    /// Restarts the timeout of the current read, if something else is awaited by now.
    pub(crate) fn end_turn(&mut self, awaited: Awaited) {
        if self.operation.is_some() && self.state != State::Parked {
            self.arm(awaited);
        }
    }

    /// Polls for more bytes behind those in the buffer.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, awaited: Awaited) -> Poll<Arrival> {
        loop {
            if self.state == State::Ended {
                return Poll::Ready(Arrival::End);
            }
            let is_fresh = self.operation.is_none();
            if self.was_polled && !is_fresh {
                return Poll::Pending;
            }
            if is_fresh {
                // For a busy peer, any bytes count as a response to a PING.
                let kept = |phase: &Phase| matches!(phase, Phase::Awaited(Awaited::Head(_)));
                self.phase = self.phase.filter(kept);
                self.arm(awaited);
                self.operation = Some(self.start_read());
            }
            let Some(operation) = &mut self.operation else {
                return Poll::Pending;
            };
            let polled = operation.as_mut().poll(context);
            self.was_polled = polled.is_pending();
            self.at_once = match (is_fresh, polled.is_ready()) {
                (true, true) => self.at_once.saturating_add(1),
                (true, false) => 0,
                (false, _) => self.at_once,
            };
            let (read, buffer) = ready!(polled);
            self.operation = None;
            self.buffer = buffer;
            if let Some(arrival) = self.settle(read, awaited) {
                return Poll::Ready(arrival);
            }
        }
    }

    /// What a completed operation means; `None` if it is to be followed by another one.
    fn settle(&mut self, read: io::Result<usize>, awaited: Awaited) -> Option<Arrival> {
        match read {
            Ok(0) if self.deadline.expired() => Some(Arrival::Verdict(self.verdict())),
            Ok(0) => {
                self.state = State::Ended;
                Some(Arrival::End)
            }
            Ok(_) => {
                self.state = State::Reading;
                Some(Arrival::Bytes)
            }
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => {
                self.on_read_timeout(awaited)
            }
            // Over TLS, the end that the deadline makes is an error: a session ends with an alert.
            Err(_) if self.deadline.expired() => Some(Arrival::Verdict(self.verdict())),
            Err(_) => {
                self.state = State::Ended;
                Some(Arrival::End)
            }
        }
    }

    /// Why the deadline has closed the connection.
    fn verdict(&self) -> Verdict {
        match self.phase {
            Some(Phase::Awaited(Awaited::Head(_))) | None => Verdict::HeadLate,
            Some(Phase::Pinged | Phase::Awaited(Awaited::Streams)) => Verdict::Silent,
            Some(Phase::WithinFrame | Phase::Awaited(Awaited::Anything)) => Verdict::Idle,
        }
    }

    /// Handles an idle timeout, or the readiness of a parked connection's socket.
    fn on_read_timeout(&mut self, awaited: Awaited) -> Option<Arrival> {
        if self.state == State::Parked {
            self.state = State::Reading;
            self.phase = None;
            let has_expired = self.deadline.expired();
            return has_expired.then_some(Arrival::Verdict(Verdict::Idle));
        }
        let phase = self.phase_of(awaited);
        if self.phase != Some(phase) {
            // Something else is awaited since the timeout, as by a new stream.
            self.phase = None;
            return None;
        }
        match (phase, self.pace.parks) {
            (Phase::Awaited(Awaited::Anything), BufferParking::No) => {
                Some(Arrival::Verdict(Verdict::Idle))
            }
            (Phase::Awaited(Awaited::Anything), BufferParking::Yes) => {
                self.operation = Some(self.park());
                Some(Arrival::Parked)
            }
            (Phase::Awaited(Awaited::Streams), _) => {
                self.state = State::Pinged;
                Some(Arrival::PingDue)
            }
            (Phase::Awaited(Awaited::Head(_)) | Phase::Pinged | Phase::WithinFrame, _) => {
                self.phase = None;
                None
            }
        }
    }

    fn phase_of(&self, awaited: Awaited) -> Phase {
        match awaited {
            Awaited::Head(_) => Phase::Awaited(awaited),
            _ if self.state == State::Pinged => Phase::Pinged,
            Awaited::Anything if !self.buffer.is_empty() => Phase::WithinFrame,
            Awaited::Streams | Awaited::Anything => Phase::Awaited(awaited),
        }
    }

    /// Sets the timeout of the current read, unless it waits for the same as before.
    fn arm(&mut self, awaited: Awaited) {
        let phase = match (self.phase_of(awaited), self.phase) {
            // The kernel has the buffer: what is in it does not change meanwhile.
            (Phase::Awaited(Awaited::Anything), Some(Phase::WithinFrame))
                if self.operation.is_some() =>
            {
                Phase::WithinFrame
            }
            (phase, _) => phase,
        };
        if self.phase == Some(phase) {
            return;
        }
        self.phase = Some(phase);
        let (after, expiry) = match (phase, self.pace.parks) {
            (Phase::Awaited(Awaited::Head(_)), _) => (self.pace.head, Expiry::StopReading),
            // Servers of gRPC end a connection with frequent PINGs.
            (Phase::Awaited(Awaited::Streams), BufferParking::No) if self.is_quiet => {
                (Some(H2_PING_AGAIN_AFTER), Expiry::CancelRead)
            }
            (Phase::Awaited(Awaited::Streams), _) => (Some(H2_PING_AFTER), Expiry::CancelRead),
            (Phase::Pinged, _) => (Some(H2_PING_TIMEOUT), Expiry::StopReading),
            (Phase::Awaited(Awaited::Anything), BufferParking::Yes) => {
                (Some(PARK_AFTER), Expiry::CancelRead)
            }
            // A stream may be opened until its driver sees the timeout: the connection stays usable.
            (Phase::Awaited(Awaited::Anything), BufferParking::No) => {
                (self.pace.idle, Expiry::CancelRead)
            }
            (Phase::WithinFrame, _) => (self.pace.idle, Expiry::StopReading),
        };
        self.deadline.arm(after, expiry);
    }

    fn start_read(&mut self) -> Operation<'a> {
        let (stream, handle) = (self.stream, self.deadline.cancel_handle());
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.room() == 0 && buffer.is_empty() {
            buffer = self.shard.buffers.take();
        }
        buffer.make_room();
        let turns = (self.at_once >= H2_READS_PER_POLL).then_some(&self.shard.turns);
        Box::pin(async move {
            if let Some(turns) = turns {
                turns.yield_turn().await;
            }
            let read = stream.read_until_canceled(&mut buffer, handle).await;
            (read, buffer)
        })
    }

    /// Waits for bytes without a buffer; then a read finds them.
    fn park(&mut self) -> Operation<'a> {
        self.shard.buffers.put(std::mem::take(&mut self.buffer));
        self.shard.record_parked();
        self.state = State::Parked;
        let timeout = self.pace.idle.map(|idle| idle.saturating_sub(PARK_AFTER));
        self.deadline.arm(timeout, Expiry::StopReading);
        let stream = self.stream;
        Box::pin(async move {
            let readable = stream.readable().await;
            let canceled = || io::Error::from_raw_os_error(libc::ECANCELED);
            (readable.and_then(|()| Err(canceled())), Buffer::default())
        })
    }

    /// Reads and drops what follows for a while: closing with unread bytes would reset the connection, and
    /// the reset could overtake our last bytes.
    pub(crate) async fn linger(&mut self) {
        self.deadline.arm(Some(LINGER_TIMEOUT), Expiry::Disconnect);
        self.stream.shutdown_write().await;
        let mut dropped = 0_usize;
        while dropped < LINGER_BYTES && self.state != State::Ended {
            self.buffer.clear();
            let operation = match self.operation.take() {
                Some(operation) => operation,
                None => self.start_read(),
            };
            let (read, buffer) = operation.await;
            self.buffer = buffer;
            match read {
                Ok(0) => return,
                Ok(count) => dropped = dropped.saturating_add(count),
                Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => {}
                Err(_) => return,
            }
        }
    }
}

impl Drop for Reader<'_> {
    /// The pending operation returns, so that nothing keeps the socket open.
    fn drop(&mut self) {
        self.stream.disconnect();
        self.shard.buffers.put(std::mem::take(&mut self.buffer));
    }
}
