//! Deadlines of channels.
//!
//! Arming is one store into the shard's timer wheel. A pending operation is never dropped (its
//! buffer would be lost): expiry shuts the channel down or cancels the read, the operation returns,
//! and its owner gets the reason from [`Deadline::expired`].

use std::cell::{Cell, OnceCell, RefCell};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use super::Shard;
use super::half_closed::{HalfClosed, HalfClosedPlace};
use super::signals::Signals;
use super::stall::Stall;
use super::waiting::WaitingHandle;
use super::wheel::{Handle, Tick};
use crate::limits::WHEEL_TICK;
use crate::net::{CancelHandle, Canceller, Liveness};
use crate::shard::cutoff::Cutoff;

/// The action at a deadline.
pub(crate) enum Expiry {
    /// Shut down the receiving direction; a response can still be sent.
    StopReading,
    /// Shut down both directions.
    Disconnect,
    /// The same, if the peer is below its minimum rate.
    Stalled(Stall),
    /// Reset the channel and `other`.
    Reset {
        /// The other side of a tunnel.
        other: Cutoff,
    },
    /// Cancel the pending read with `ECANCELED`.
    CancelRead,
    /// If the peer of a socket has disconnected, shut down `other` in both directions; otherwise check
    /// again. Set by [`Deadline::watch`].
    Watch {
        /// The channel that works for the watched peer.
        other: Cutoff,
        /// Interval of the checks.
        again: Duration,
        /// Its place among the half-closed ones, once a check found that it had closed its direction.
        half_closed: Option<HalfClosedPlace>,
    },
}

/// The deadline of a channel, owned by its task.
pub(crate) struct Deadline {
    shard: Rc<Shard>,
    place: Place,
}

/// What a deadline has of its own, by the kind of channel.
enum Place {
    /// That of a socket.
    Socket(Rc<ArmedDeadline>),
    /// That of a stream. Boxed, so that idle connections do not hold room for it.
    Stream(Box<OfStream>),
}

/// The deadline of a stream.
struct OfStream {
    signals: Rc<Signals>,
    /// Made when it is first needed: most streams wait for nothing that has a timeout.
    armed: OnceCell<Rc<ArmedDeadline>>,
    /// What works for the watched peer. A watch needs no time: the task of a stream is told when it is reset.
    watched_for: RefCell<Option<Cutoff>>,
    /// Whether the watched peer was found to be gone.
    is_gone: Cell<bool>,
}

/// How a pending read of a channel is cancelled by its deadline.
#[derive(Clone)]
pub(crate) enum ReadHandle {
    /// That of a socket: by the runtime.
    Socket(CancelHandle),
    /// That of a stream: by its signals.
    Stream,
}

/// The wheel's part of a deadline. Every idle connection has one.
pub(crate) struct ArmedDeadline {
    handle: Handle,
    cutoff: Cutoff,
    expiry: Cell<Expiry>,
    expired: Cell<bool>,
    /// For how many ticks a watched peer may have closed its direction; `None` if it has then
    /// disconnected.
    half_close: Cell<Option<NonZeroU32>>,
    canceller: Cell<Option<Canceller>>,
}

impl Deadline {
    /// A deadline for a channel, not armed.
    pub(crate) fn new(shard: &Rc<Shard>, cutoff: impl Into<Cutoff>) -> Self {
        let place = match cutoff.into() {
            Cutoff::Stream(signals) => Place::Stream(Box::new(OfStream {
                signals,
                armed: OnceCell::new(),
                watched_for: RefCell::default(),
                is_gone: Cell::default(),
            })),
            socket @ Cutoff::Socket(_) => Place::Socket(ArmedDeadline::insert(shard, socket)),
        };
        Self {
            shard: Rc::clone(shard),
            place,
        }
    }

    /// Its part in the wheel, which is made at the first call.
    fn armed(&self) -> &Rc<ArmedDeadline> {
        match &self.place {
            Place::Socket(armed) => armed,
            Place::Stream(it) => it.armed.get_or_init(|| {
                let cutoff = Cutoff::Stream(Rc::clone(&it.signals));
                ArmedDeadline::insert(&self.shard, cutoff)
            }),
        }
    }

    /// The same, if it was made.
    fn made(&self) -> Option<&Rc<ArmedDeadline>> {
        match &self.place {
            Place::Socket(armed) => Some(armed),
            Place::Stream(it) => it.armed.get(),
        }
    }

    /// A watched peer that closes its direction is served for this long from then on; `None` for any
    /// time. By default it counts as disconnected.
    pub(crate) fn serve_half_closed(&self, timeout: Option<Duration>) {
        let ticks = timeout.map_or(u128::MAX, |timeout| {
            timeout.as_millis().div_ceil(WHEEL_TICK.as_millis())
        });
        let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
        self.armed().half_close.set(NonZeroU32::new(ticks));
    }

    /// A watched peer that closes its direction counts as disconnected, as over TLS, where it says
    /// more than that.
    pub(crate) fn end_half_closed(&self) {
        if let Some(armed) = self.made() {
            armed.half_close.set(None);
        }
    }

    /// Sets action and time; `None` disables it. Replaces the previous setting.
    pub(crate) fn arm(&self, after: Option<Duration>, expiry: Expiry) {
        let Some(after) = after else {
            return self.disarm();
        };
        self.end_stream_watch();
        let armed = self.armed();
        armed.expiry.set(expiry);
        let mut wheel = self.shard.wheel.borrow_mut();
        wheel.arm(armed.handle, self.shard.now().after(after));
    }

    /// Shuts the channel down if its peer is below its minimum rate for this long from now on, and
    /// in any case after the time `left`.
    pub(crate) fn arm_write(&self, timeout: Option<Duration>, left: Option<Duration>) {
        let Some(timeout) = timeout else {
            return self.arm(left, Expiry::Disconnect);
        };
        let until = left.map_or(Tick::NEVER, |left| self.shard.now().after(left));
        let stall = Stall::new(timeout, until);
        let first = stall.interval();
        let first = left.map_or(first, |left| first.min(left));
        self.arm(Some(first), Expiry::Stalled(stall));
    }

    /// Watches the peer, for which `other` works: once it has disconnected, `other` is shut down in both
    /// directions. A socket is checked at this interval, a stream by [`Self::on_stream_reset`]. Replaces the
    /// previous setting.
    pub(crate) fn watch(&self, other: Cutoff, interval: Duration) {
        let Some(stream) = self.of_stream() else {
            let expiry = Expiry::Watch {
                other,
                again: interval,
                half_closed: None,
            };
            return self.arm(Some(interval), expiry);
        };
        self.disarm();
        stream.watched_for.replace(Some(other));
        if stream.signals.liveness() == Liveness::Gone {
            self.on_stream_reset();
        }
    }

    pub(crate) fn disarm(&self) {
        self.end_stream_watch();
        if let Some(armed) = self.made() {
            armed.expiry.set(Expiry::Disconnect);
            self.shard.wheel.borrow_mut().disarm(armed.handle);
        }
    }

    fn of_stream(&self) -> Option<&OfStream> {
        match &self.place {
            Place::Socket(_) => None,
            Place::Stream(it) => Some(it),
        }
    }

    fn end_stream_watch(&self) {
        if let Some(stream) = self.of_stream() {
            drop(stream.watched_for.take());
        }
    }

    /// Whether it expired, or a watched peer is gone, since the last call.
    pub(crate) fn expired(&self) -> bool {
        let is_gone = self.of_stream().is_some_and(|it| it.is_gone.take());
        self.made().is_some_and(|armed| armed.expired.take()) || is_gone
    }

    /// The same, and the next call tells it again.
    pub(crate) fn has_expired(&self) -> bool {
        self.of_stream().is_some_and(|it| it.is_gone.get())
            || self.made().is_some_and(|armed| armed.expired.get())
    }

    /// The peer of a stream is gone: if it is watched, ends what works for it.
    pub(crate) fn on_stream_reset(&self) {
        if let Some(stream) = self.of_stream()
            && let Some(other) = stream.watched_for.take()
        {
            other.disconnect();
            stream.is_gone.set(true);
        }
    }

    /// A handle for a read that [`Expiry::CancelRead`] cancels, of a socket or a stream.
    pub(crate) fn read_handle(&self) -> ReadHandle {
        match &self.place {
            Place::Socket(_) => ReadHandle::Socket(self.cancel_handle()),
            Place::Stream(it) => {
                it.signals.forget_cancel();
                ReadHandle::Stream
            }
        }
    }

    /// The same, of a socket.
    pub(crate) fn cancel_handle(&self) -> CancelHandle {
        let armed = self.armed();
        let canceller = armed.canceller.take().unwrap_or_default();
        let handle = canceller.handle();
        armed.canceller.set(Some(canceller));
        handle
    }

    /// Cancels the read with the handle.
    pub(crate) fn cancel_read(&self) {
        match &self.place {
            Place::Socket(armed) => armed.cancel_read(),
            Place::Stream(it) => it.signals.cancel_read(),
        }
    }

    /// Arms it for a read that waits with a buffer, until the returned value is dropped: after a
    /// while, or when too many wait, the read ends with `ECANCELED`. Call [`Self::read_handle`]
    /// first.
    pub(crate) fn wait_with_buffer(&self) -> impl Drop {
        let (place, timeout) = self
            .shard
            .waiting
            .enter(self.armed().handle, self.shard.now());
        self.arm(Some(timeout), Expiry::CancelRead);
        self.shard.end_surplus_waits();
        WaitingGuard {
            shard: &self.shard,
            place,
        }
    }

    /// Yields to the shard's other tasks.
    pub(crate) async fn yield_turn(&self) {
        self.shard.turns.yield_turn().await;
    }

    /// [`Turns::wait_for_next_turn`](super::turn::Turns::wait_for_next_turn) of the shard.
    pub(crate) async fn wait_for_next_turn(&self) {
        self.shard.turns.wait_for_next_turn().await;
    }

    /// [`Turns::postpone`](super::turn::Turns::postpone) of the shard.
    pub(crate) async fn postpone<T>(&self, read: impl FnOnce() -> Option<T>) -> Option<T> {
        self.shard.turns.postpone(read).await
    }

    /// Disables it, and returns what only a busy connection needs.
    pub(crate) fn park(&self) {
        self.disarm();
        if let Some(armed) = self.made() {
            armed.canceller.set(None);
        }
    }
}

/// Removes a connection from the waiting ones on drop.
struct WaitingGuard<'a> {
    shard: &'a Shard,
    place: WaitingHandle,
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.shard.waiting.leave(self.place);
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        if let Some(armed) = self.made() {
            self.shard.wheel.borrow_mut().remove(armed.handle);
        }
    }
}

impl ArmedDeadline {
    /// A deadline that is not armed, in the wheel.
    fn insert(shard: &Shard, cutoff: Cutoff) -> Rc<Self> {
        let mut wheel = shard.wheel.borrow_mut();
        let armed = wheel.insert_with(|handle| {
            Rc::new(Self {
                handle,
                cutoff,
                expiry: Cell::new(Expiry::Disconnect),
                expired: Cell::new(false),
                half_close: Cell::new(None),
                canceller: Cell::new(None),
            })
        });
        Rc::clone(armed)
    }

    /// Cancels the read with the handle.
    pub(super) fn cancel_read(&self) {
        if let Cutoff::Stream(signals) = &self.cutoff {
            return signals.cancel_read();
        }
        let canceller = self.canceller.take();
        self.canceller.set(canceller.map(Canceller::cancel));
    }

    /// Performs the action. Returns when to check again, if at all.
    pub(crate) fn expire(
        self: &Rc<Self>,
        now: Tick,
        half_closed: &Rc<HalfClosed>,
    ) -> Option<Duration> {
        let mut expiry = self.expiry.replace(Expiry::Disconnect);
        let again = self.carry_out(&mut expiry, now, half_closed);
        self.expiry.set(expiry);
        again
    }

    /// The watched peer counts as gone.
    pub(super) fn end_watch(&self) {
        let expiry = self.expiry.replace(Expiry::Disconnect);
        if let Expiry::Watch { other, .. } = &expiry {
            other.disconnect();
            self.expired.set(true);
        }
        self.expiry.set(expiry);
    }

    fn carry_out(
        self: &Rc<Self>,
        expiry: &mut Expiry,
        now: Tick,
        half_closed_clients: &Rc<HalfClosed>,
    ) -> Option<Duration> {
        match expiry {
            Expiry::StopReading => self.cutoff.stop_reading(),
            Expiry::Disconnect => self.cutoff.disconnect(),
            Expiry::Stalled(stall) => {
                if let Some(again) = stall.measure(self.cutoff.taken(), now) {
                    return Some(again);
                }
                self.cutoff.disconnect();
            }
            Expiry::Reset { other } => {
                self.cutoff.reset();
                other.reset();
            }
            Expiry::CancelRead => {
                self.cancel_read();
                return None;
            }
            Expiry::Watch {
                other,
                again,
                half_closed,
            } => {
                if self.expired.get() {
                    // It counts as gone already, and its task is about to notice.
                    return None;
                }
                let since = || {
                    let place = half_closed.get_or_insert_with(|| {
                        self.cutoff.probe();
                        half_closed_clients.enter(self, now)
                    });
                    place.since()
                };
                if let Some(left) = self.watched_peer_may_stay(since, now) {
                    return Some(left.min(*again));
                }
                other.disconnect();
            }
        }
        self.expired.set(true);
        None
    }

    /// For how long the watched peer may stay as it is; `None` if it is gone.
    /// `half_closed` returns since when it is half-closed.
    fn watched_peer_may_stay(
        &self,
        half_closed: impl FnOnce() -> Tick,
        now: Tick,
    ) -> Option<Duration> {
        match self.cutoff.liveness() {
            Liveness::Quiet | Liveness::Readable => Some(Duration::MAX),
            Liveness::HalfClosed | Liveness::Ending => {
                let ticks = self.half_close.get()?;
                let left = (WHEEL_TICK * ticks.get()).saturating_sub(now.since(half_closed()));
                (!left.is_zero()).then_some(left)
            }
            Liveness::Gone => None,
        }
    }
}
