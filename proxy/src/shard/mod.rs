//! The state that every task on a shard may use: time and deadlines, scheduling, the task list,
//! panic isolation, buffers, counters, and the current configuration.
//!
//! A shard is a thread with a runtime. It shares only the published snapshot, the counters and the
//! inbox with other threads, so nothing locks, and a request's path through a shard is plain function
//! calls. Modules above add state of their own: `upstream` its pools, `exchange` what requests share;
//! `server` creates them all.

mod config;
pub(crate) mod cutoff;
pub(crate) mod deadline;
pub(crate) mod drain;
pub mod endpoint_counts;
pub(crate) mod fence;
pub(crate) mod half_closed;
pub mod inbox;
pub(crate) mod lingering;
pub mod open_connections;
mod options;
mod overload;
pub mod peers;
pub(crate) mod registry;
pub(crate) mod signals;
mod stall;
pub(crate) mod tasks;
pub(crate) mod turn;
pub(crate) mod waiting;
pub mod wheel;

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::http::engine::Pressure as WindowPressure;
use crate::http::engine::guard::{Abuse, Peer};
use crate::limits::{BIND_DESCRIPTORS, LINGER_TIMEOUT, LOG_PAUSE, OVERLOAD_KEEP_ALIVE, TRIM_AFTER};
use crate::machine::driver::WaitMode;
use crate::machine::memory::MemoryUse;
use crate::memory::{self, BufferPool};
use crate::net::Pipes;
use crate::observe::counters::ShardCounters;
use crate::observe::log_writer::LogSink;
use crate::observe::shed::ShedCause;

use self::deadline::ArmedDeadline;
use self::drain::Draining;
use self::endpoint_counts::EndpointCounts;
use self::half_closed::HalfClosed;
use self::lingering::Lingering;
use self::open_connections::OpenConnections;
use self::overload::{Overload, Pressure};
use self::peers::Peers;
use self::registry::Registry;
use self::tasks::Tasks;
use self::turn::Turns;
use self::waiting::WaitingConnections;
use self::wheel::{Tick, Wheel};

use self::config::ConfigCell;
pub(crate) use self::config::{ListenerHandle, RuleHandle, SnapshotHandle};
pub use self::options::ShardOptions;

/// The state that every task on a shard may use.
pub(crate) struct Shard {
    /// Number of the shard, from 0.
    pub(crate) id: u16,
    /// The shards of the process.
    pub(crate) peers: Arc<Peers>,
    /// Open connections of clients, over all shards.
    pub(crate) client_connections: Arc<OpenConnections>,
    /// Open connections to endpoints, over all shards.
    pub(crate) endpoint_connections: Arc<EndpointCounts>,
    /// How its runtime waits for sockets.
    pub(crate) waits: WaitMode,
    pub(crate) config: ConfigCell,
    pub(crate) turns: Rc<Turns>,
    pub(crate) clients: Registry,
    /// Client connections that wait for a request with a buffer.
    pub(crate) waiting: WaitingConnections,
    /// Client connections that receive the rest of a request after its response.
    pub(crate) lingering: Lingering,
    /// Client connections that are closed in one direction and wait for a response.
    pub(crate) half_closed: Rc<HalfClosed>,
    pub(crate) buffers: Rc<BufferPool>,
    pub(crate) pipes: Pipes,
    pub(crate) wheel: RefCell<Wheel<Rc<ArmedDeadline>>>,
    pub(crate) counters: Arc<ShardCounters>,
    pub(crate) log: RefCell<LogSink>,
    /// For load balancing; not for secrets.
    rng: RefCell<SmallRng>,
    pub(crate) tasks: Tasks,
    pub(crate) draining: Draining,
    /// When its ticks began.
    started: Cell<Instant>,
    /// Ticks since then: the wheel's time.
    tick: Cell<Tick>,
    overload: RefCell<Overload>,
    /// Memory usage of the process.
    memory: Arc<MemoryUse>,
    /// Limit of its buffers in bytes.
    buffer_bytes: Cell<usize>,
    /// Limit of its sockets.
    descriptors: usize,
    /// Limit of clients under the current configuration.
    room: Cell<usize>,
    /// Connections that became idle, and buffers freed, since memory was last returned.
    freed: Cell<usize>,
    /// When abuse was last logged.
    abuse_logged: Cell<Option<Tick>>,
    /// When the refusal of a connection was last logged.
    refusal_logged: Cell<Option<Tick>>,
}

impl Shard {
    pub(crate) fn new(options: ShardOptions, waits: WaitMode, turns: Rc<Turns>) -> Self {
        let buffer_bytes = options.memory.for_buffers(options.peers.count());
        Self {
            waits,
            turns,
            id: options.id,
            peers: options.peers,
            client_connections: options.client_connections,
            endpoint_connections: options.endpoint_connections,
            config: ConfigCell::new(options.published),
            clients: Registry::default(),
            waiting: WaitingConnections::default(),
            lingering: Lingering::default(),
            half_closed: Rc::default(),
            buffers: Rc::default(),
            pipes: Pipes::default(),
            wheel: RefCell::new(Wheel::new(Tick::default())),
            counters: options.counters,
            log: RefCell::new(options.log),
            rng: RefCell::new(SmallRng::from_rng(&mut rand::rng())),
            tasks: Tasks::default(),
            draining: Draining::default(),
            started: Cell::new(Instant::now()),
            tick: Cell::default(),
            overload: RefCell::default(),
            memory: options.memory,
            buffer_bytes: Cell::new(buffer_bytes),
            descriptors: options.descriptors as usize,
            room: Cell::new(options.descriptors as usize),
            freed: Cell::new(0),
            abuse_logged: Cell::new(None),
            refusal_logged: Cell::new(None),
        }
    }

    /// Records that a connection became idle.
    pub(crate) fn record_parked(&self) {
        self.freed.set(self.freed.get() + 1);
    }

    /// Counts a peer whose connection is closed for exceeding a flood limit. At most one is logged
    /// per second.
    pub(crate) fn record_abuse(&self, abuse: Abuse, peer: Peer, address: impl Display) {
        let (counter, whose) = match peer {
            Peer::Client => (&self.counters.abuses, "client"),
            Peer::Server => (&self.counters.upstream_abuses, "endpoint"),
        };
        counter.count(abuse);
        if self.is_due(&self.abuse_logged) {
            tracing::warn!(
                shard = self.id,
                peer = whose,
                %address,
                cause = abuse.reason(),
                "closed an HTTP/2 connection: too many {} from the {whose}",
                abuse.reason().replace('_', " ")
            );
        }
    }

    /// Whether to log that a connection is refused when it is accepted: at most one per second, since whoever is
    /// refused may come at any rate.
    pub(crate) fn logs_refusal(&self) -> bool {
        self.is_due(&self.refusal_logged)
    }

    /// Whether what was last logged then may be logged again, which is from now on.
    fn is_due(&self, logged: &Cell<Option<Tick>>) -> bool {
        let last = logged.get();
        let is_due = last.is_none_or(|last| self.now() >= last.after(LOG_PAUSE));
        if is_due {
            logged.set(Some(self.now()));
        }
        is_due
    }

    /// Cancels the longest-waiting reads with a buffer, if there are too many.
    pub(crate) fn end_surplus_waits(&self) {
        while let Some(deadline) = self.waiting.take_surplus(self.now()) {
            let armed = self.wheel.borrow_mut().value(deadline).cloned();
            if let Some(armed) = armed {
                armed.cancel_read();
            }
        }
    }

    /// Frees unused buffers; `others` is the number of other objects freed.
    pub(crate) fn trim_memory(&self, others: usize) {
        let trimmed = self.buffers.trim() + others;
        self.freed.set(self.freed.get() + trimmed);
    }

    /// Whether memory should be returned to the system as soon as it is free.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.overload.borrow().is_short_of_memory()
    }

    /// Returns memory of connections that became idle to the system, if they are many.
    pub(crate) fn trim_idle_memory(&self) {
        if self.freed.get() > TRIM_AFTER || self.is_short_of_memory() {
            self.freed.set(0);
            memory::trim();
        }
    }

    pub(crate) fn now(&self) -> Tick {
        self.tick.get()
    }

    /// Advances the time; returns the tick. Due deadlines expire.
    pub(crate) fn advance(&self, now: Instant) -> Tick {
        let tick = Tick::at(now.saturating_duration_since(self.started.get()));
        self.tick.set(tick);
        let mut wheel = self.wheel.borrow_mut();
        wheel.advance(tick, |armed| {
            let again = armed.expire(tick, &self.half_closed);
            again.map(|after| tick.after(after))
        });
        tick
    }

    /// Skips time before the next tick, for tests.
    #[cfg(feature = "test-hooks")]
    pub(crate) fn skip(&self, time: Duration) {
        let started = self.started.get();
        self.started
            .set(started.checked_sub(time).unwrap_or(started));
    }

    /// Borrows the random number generator for one call; not across an await.
    pub(crate) fn with_rng<R>(&self, draw: impl FnOnce(&mut SmallRng) -> R) -> R {
        draw(&mut self.rng.borrow_mut())
    }

    /// Whether connections of a bind close after their next response: on drain, because the bind
    /// was removed, or under overload.
    pub(crate) fn ends_connections(&self, bind: u32) -> bool {
        self.needs_room() || !self.config.has_bind(bind)
    }

    /// Whether nothing may wait long for a client that has its response: on drain, or under overload.
    pub(crate) fn needs_room(&self) -> bool {
        self.draining.get() || self.pressure() >= Pressure::CloseSoon
    }

    /// The keep-alive timeout, given the configured one.
    pub(crate) fn keep_alive(&self, timeout: Option<Duration>) -> Option<Duration> {
        if self.pressure() < Pressure::CloseIdle {
            return timeout;
        }
        let min = timeout.map_or(OVERLOAD_KEEP_ALIVE, |it| it.min(OVERLOAD_KEEP_ALIVE));
        Some(min)
    }

    /// Whether a request is rejected under overload; counts it.
    pub(crate) fn should_shed(&self) -> bool {
        let mut cause = self.overload.borrow().should_shed(self.now());
        if self.buffers.lent() > self.buffer_bytes.get() {
            cause = cause.or(Some(ShedCause::Buffers));
        }
        if let Some(cause) = cause {
            self.counters.shed.count(cause);
        }
        cause.is_some()
    }

    /// Whether bytes may be copied for a purpose that requests do not depend on: none
    /// begin while more than half of the memory for buffers is in use. Those made before stay, so that
    /// requests which need the rest of it are rejected earlier than without copies.
    pub(crate) fn may_copy(&self, bytes: usize) -> bool {
        self.buffers.lent().saturating_add(bytes) <= self.buffer_bytes.get() / 2
    }

    /// How far HTTP/2 peers are to hold back, since windows are promises of memory: small windows while
    /// more than half of the memory for buffers is in use, or from the first level of overload by memory on;
    /// and no new streams where no connections are accepted either.
    pub(crate) fn window_pressure(&self) -> WindowPressure {
        match self.overload.borrow().memory() {
            Pressure::Pause => WindowPressure::Hard,
            Pressure::Low if self.may_copy(0) => WindowPressure::None,
            _ => WindowPressure::Soft,
        }
    }

    /// Maximum number of client connections of this shard.
    pub(crate) fn room(&self) -> usize {
        self.room.get()
    }

    /// Whether another client can be accepted.
    pub(crate) fn has_room(&self) -> bool {
        self.pressure() < Pressure::Pause
    }

    /// Records that a connection to an endpoint failed for lack of descriptors.
    pub(crate) fn record_shortage(&self) {
        self.overload.borrow_mut().record_shortage(self.now());
    }

    fn pressure(&self) -> Pressure {
        let (clients, room) = (self.clients.open(), self.room.get());
        self.overload.borrow().pressure(clients, room, self.now())
    }

    /// Updates the overload state, once per tick with its delay.
    pub(crate) fn shed_connections(&self, lag: Duration) {
        {
            let mut overload = self.overload.borrow_mut();
            overload.record_tick(lag);
            overload.record_memory(self.memory.percent());
        }
        let buffer_bytes = self.memory.for_buffers(self.peers.count());
        self.buffer_bytes.set(buffer_bytes);
        self.counters.buffers.set(self.buffers.lent() as u64);
        self.config.let_go();
        let snapshot = self.config.load();
        let reserved = snapshot.upstream_connections_per_shard as usize
            + snapshot.binds.iter().flatten().count() * BIND_DESCRIPTORS;
        // A client needs at most one upstream connection, so half always suffices for both.
        let reserved = reserved.min(self.descriptors / 2);
        self.room.set(self.descriptors - reserved);
        self.half_closed.set_room(self.room());
        if self.pressure() >= Pressure::CloseIdle {
            let is_long_ago = |since: Tick| since.after(OVERLOAD_KEEP_ALIVE) <= self.now();
            self.clients.close_idle_since(is_long_ago);
            self.half_closed.end_since(is_long_ago);
        }
        if self.needs_room() {
            self.lingering
                .close_since(|since| since.after(LINGER_TIMEOUT) <= self.now());
        }
        let half_closed = self.half_closed.count() as u64;
        self.counters.half_closed.set(half_closed);
    }
}
