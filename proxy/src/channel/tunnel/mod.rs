//! Connects two channels: moves bytes in both directions until both sides have ended.
//!
//! The content is opaque, except that a WebSocket is closed properly on drain. An idle direction
//! holds no buffer. A failed connection is passed on as a reset, so that a truncated stream is not
//! mistaken for a complete one; an orderly end is passed on as such.

mod pump;
pub(crate) mod websocket;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use crate::channel::Channel;
use crate::memory::Buffer;
use crate::policy::proxy_protocol::StartWatch;
use crate::shard::Shard;
use crate::shard::cutoff::Cutoff;
use crate::shard::deadline::{Deadline, Expiry};

pub(crate) use self::pump::either;
use self::pump::{DirectionContent, Pump};
use self::websocket::Receiver;

/// One side of a tunnel.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) stream: &'a Channel,
    pub(crate) deadline: &'a Deadline,
}

/// A tunnel between two channels.
pub(crate) struct Tunnel<'a> {
    pub(crate) shard: &'a Rc<Shard>,
    pub(crate) client: End<'a>,
    pub(crate) backend: End<'a>,
    /// Idle timeout of both directions together.
    pub(crate) idle: Option<Duration>,
    pub(crate) content: TunnelContent,
}

/// The content of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TunnelContent {
    /// Opaque bytes in both directions.
    Anything,
    /// Opaque bytes; the client's must not begin with a PROXY protocol header.
    Unproxied,
    /// The frames of a WebSocket.
    WebSocket,
}

/// Why a tunnel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TunnelEnd {
    /// Both sides ended in order.
    Whole,
    Idle,
    /// The shard was drained.
    Drained,
    /// The client's connection failed.
    ClientFailed,
    /// The backend's connection failed.
    BackendFailed,
    /// The client sent an untrusted PROXY protocol header.
    Untrusted,
}

/// The totals of a finished tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TunnelTotals {
    /// Bytes from the client.
    pub(crate) up: u64,
    /// Bytes to the client.
    pub(crate) down: u64,
    pub(crate) ended: TunnelEnd,
}

/// State shared by both directions.
struct TunnelState<'a> {
    shard: &'a Shard,
    /// The idle timeout of both directions together.
    deadline: Deadline,
    after: Cell<Option<Duration>>,
    other: Cutoff,
    ended: Cell<Option<TunnelEnd>>,
}

impl TunnelState<'_> {
    /// Restarts the idle timeout.
    fn restart_idle(&self) {
        let other = self.other.clone();
        self.deadline.arm(self.after.get(), Expiry::Reset { other });
    }

    /// Shortens the timeout: only an end is expected.
    fn expects_end_within(&self, time: Duration) {
        self.after.set(Some(time));
        self.restart_idle();
    }

    /// Records why the tunnel ended; the first reason wins.
    fn record_end(&self, ended: TunnelEnd) {
        if self.ended.get().is_none() {
            let ended = match (self.deadline.expired(), self.shard.draining.is_over()) {
                (true, _) => TunnelEnd::Idle,
                (false, true) => TunnelEnd::Drained,
                (false, false) => ended,
            };
            self.ended.set(Some(ended));
        }
    }
}

impl Tunnel<'_> {
    /// Runs until both directions have ended. The buffers hold what each side has sent already.
    pub(crate) async fn run(
        &self,
        from_client: &mut Buffer,
        from_backend: &mut Buffer,
    ) -> TunnelTotals {
        let flow = TunnelState {
            shard: self.shard,
            deadline: Deadline::new(self.shard, self.client.stream.cutoff()),
            after: Cell::new(self.idle),
            other: self.backend.stream.cutoff(),
            ended: Cell::new(None),
        };
        flow.restart_idle();
        let direction_content = |receiver| match self.content {
            TunnelContent::Unproxied if receiver == Receiver::Server => {
                DirectionContent::Unproxied(StartWatch::default())
            }
            TunnelContent::Anything | TunnelContent::Unproxied => DirectionContent::Bytes,
            TunnelContent::WebSocket => DirectionContent::frames_to(receiver),
        };
        let pump = |from, to, direction_content, failed| {
            Pump::new(self.shard, &flow, [from, to], direction_content, failed)
        };
        let (client, backend) = (self.client, self.backend);
        let mut up = pump(
            client,
            backend,
            direction_content(Receiver::Server),
            TunnelEnd::ClientFailed,
        );
        let mut down = pump(
            backend,
            client,
            direction_content(Receiver::Client),
            TunnelEnd::BackendFailed,
        );
        both(pin!(up.run(from_client)), pin!(down.run(from_backend))).await;
        let (up, down) = (up.moved(), down.moved());
        TunnelTotals {
            up,
            down,
            ended: flow.ended.get().unwrap_or(TunnelEnd::Whole),
        }
    }
}

async fn both(
    mut first: Pin<&mut impl Future<Output = ()>>,
    mut second: Pin<&mut impl Future<Output = ()>>,
) {
    let mut running = (true, true);
    poll_fn(|context| {
        running.0 = running.0 && first.as_mut().poll(context).is_pending();
        running.1 = running.1 && second.as_mut().poll(context).is_pending();
        if running == (false, false) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}
