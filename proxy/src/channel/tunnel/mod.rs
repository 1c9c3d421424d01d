//! Two connections made one: bytes both ways, until both sides are done.
//!
//! What a tunnel carries is none of its business, but for a WebSocket, which is told when we go
//! away. A direction at rest holds no buffer. An end that breaks is passed on as a reset, so that
//! nobody takes what they got for whole; an end in order is passed on as one.

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
use self::pump::{Pump, Speech};
use self::websocket::Receiver;

/// One end of a tunnel.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) stream: &'a Channel,
    pub(crate) deadline: &'a Deadline,
}

/// Two connections that are to be one.
pub(crate) struct Tunnel<'a> {
    pub(crate) shard: &'a Rc<Shard>,
    pub(crate) client: End<'a>,
    pub(crate) backend: End<'a>,
    /// For how long neither may say anything.
    pub(crate) idle: Option<Duration>,
    pub(crate) carries: Carries,
}

/// What a tunnel carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carries {
    /// Bytes.
    Anything,
    /// Bytes, of which a client's must not begin with a PROXY protocol header.
    Unproxied,
    /// The frames of a WebSocket.
    WebSocket,
}

/// How a tunnel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Both sides were done.
    Whole,
    /// Nobody said anything for too long.
    Idle,
    /// The shard came to its end.
    Drained,
    /// The client broke off, or the connection to it.
    ClientBroke,
    /// The backend broke off, or the connection to it.
    BackendBroke,
    /// The client began with a PROXY protocol header that is not believed.
    Untrusted,
}

/// What a tunnel has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Bytes from the client.
    pub(crate) up: u64,
    /// Bytes to the client.
    pub(crate) down: u64,
    /// Why it is over.
    pub(crate) ended: Ended,
}

/// What both directions know.
struct Flow<'a> {
    shard: &'a Shard,
    /// Comes when neither has moved for too long.
    deadline: Deadline,
    after: Cell<Option<Duration>>,
    other: Cutoff,
    ended: Cell<Option<Ended>>,
}

impl Flow<'_> {
    /// Something moved, or is about to.
    fn moves(&self) {
        let other = self.other.clone();
        self.deadline.arm(self.after.get(), Expiry::Reset { other });
    }

    /// Nothing more is to come than an end, which is waited for that long.
    fn expects_end_within(&self, time: Duration) {
        self.after.set(Some(time));
        self.moves();
    }

    /// Notes why the tunnel is over, unless that is known.
    fn note(&self, ended: Ended) {
        if self.ended.get().is_none() {
            let ended = match (self.deadline.expired(), self.shard.draining.is_over()) {
                (true, _) => Ended::Idle,
                (false, true) => Ended::Drained,
                (false, false) => ended,
            };
            self.ended.set(Some(ended));
        }
    }
}

impl Tunnel<'_> {
    /// Carries bytes to the end. The buffers hold what each side has sent already.
    pub(crate) async fn run(&self, from_client: &mut Buffer, from_backend: &mut Buffer) -> Carried {
        let flow = Flow {
            shard: self.shard,
            deadline: Deadline::new(self.shard, self.client.stream.cutoff()),
            after: Cell::new(self.idle),
            other: self.backend.stream.cutoff(),
            ended: Cell::new(None),
        };
        flow.moves();
        let speech = |receiver| match self.carries {
            Carries::Unproxied if receiver == Receiver::Server => {
                Speech::Unproxied(StartWatch::default())
            }
            Carries::Anything | Carries::Unproxied => Speech::Bytes,
            Carries::WebSocket => Speech::frames_to(receiver),
        };
        let pump =
            |from, to, speech, broke| Pump::new(self.shard, &flow, [from, to], speech, broke);
        let (client, backend) = (self.client, self.backend);
        let mut up = pump(
            client,
            backend,
            speech(Receiver::Server),
            Ended::ClientBroke,
        );
        let mut down = pump(
            backend,
            client,
            speech(Receiver::Client),
            Ended::BackendBroke,
        );
        both(pin!(up.run(from_client)), pin!(down.run(from_backend))).await;
        let (up, down) = (up.moved(), down.moved());
        Carried {
            up,
            down,
            ended: flow.ended.get().unwrap_or(Ended::Whole),
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
