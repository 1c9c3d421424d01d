//! The state that every task on a shard may use: time and deadlines, scheduling, the task list, panic
//! isolation, buffers, counters, and the configuration in force.
//!
//! A shard is a thread with a runtime. It shares only the published snapshot, the counters and the
//! inbox with other threads, so nothing locks, and a request's path through a shard is plain function
//! calls. Modules above add state of their own: `upstream` its pools, `exchange` what requests share;
//! `server` creates them all.

pub(crate) mod cutoff;
pub(crate) mod deadline;
pub(crate) mod drain;
pub(crate) mod fence;
pub mod inbox;
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

use crate::config::{Published, Snapshot};
use crate::http::h2::guard::{Abuse, Peer};
use crate::limits::{ABUSE_LOG_PAUSE, BIND_DESCRIPTORS, OVERLOAD_KEEP_ALIVE, TRIM_AFTER};
use crate::machine::driver::Waits;
use crate::machine::memory::MemoryUse;
use crate::memory::{self, BufferPool};
use crate::net::Pipes;
use crate::observe::counters::ShardCounters;
use crate::observe::log_writer::LogSink;
use crate::observe::shed::ShedCause;

use self::deadline::Armed;
use self::drain::Draining;
use self::overload::{Overload, Pressure};
use self::peers::Peers;
use self::registry::Registry;
use self::tasks::Tasks;
use self::turn::Turns;
use self::waiting::Waiting;
use self::wheel::{Tick, Wheel};

pub use self::options::ShardOptions;

/// The state that every task on a shard may use.
pub(crate) struct Shard {
    /// Its number, from 0.
    pub(crate) id: u16,
    /// It and the others.
    pub(crate) peers: Arc<Peers>,
    /// How its runtime waits for sockets.
    pub(crate) waits: Waits,
    /// The configuration in force.
    pub(crate) config: ConfigCell,
    /// Who lets others run.
    pub(crate) turns: Rc<Turns>,
    /// Open client connections.
    pub(crate) clients: Registry,
    /// Client connections that wait for a request with a buffer in hand.
    pub(crate) waiting: Waiting,
    /// Free buffers.
    pub(crate) buffers: Rc<BufferPool>,
    /// Pipes that bytes pass through.
    pub(crate) pipes: Pipes,
    /// Deadlines of sockets.
    pub(crate) wheel: RefCell<Wheel<Rc<Armed>>>,
    /// What is counted.
    pub(crate) counters: Arc<ShardCounters>,
    /// Where access log lines go.
    pub(crate) log: RefCell<LogSink>,
    /// Spreads load, and nothing that has to be secret.
    rng: RefCell<SmallRng>,
    /// What it is at.
    pub(crate) tasks: Tasks,
    /// Whether connections are being brought to their end.
    pub(crate) draining: Draining,
    /// When its ticks began.
    started: Cell<Instant>,
    /// Ticks since then; the wheel's time.
    tick: Cell<Tick>,
    /// What presses it.
    overload: RefCell<Overload>,
    /// What the process uses of its memory.
    memory: Arc<MemoryUse>,
    /// Bytes that its buffers may come to.
    buffer_bytes: Cell<usize>,
    /// Sockets that it may have.
    descriptors: usize,
    /// Clients that there is room for, in the configuration in force.
    room: Cell<usize>,
    /// Connections that went idle, and buffers freed, since memory was last given back.
    freed: Cell<usize>,
    /// When abuse was last told of in the log.
    abuse_told: Cell<Option<Tick>>,
}

impl Shard {
    pub(crate) fn new(options: ShardOptions, waits: Waits, turns: Rc<Turns>) -> Self {
        Self {
            waits,
            turns,
            id: options.id,
            peers: options.peers,
            config: ConfigCell::new(options.published),
            clients: Registry::default(),
            waiting: Waiting::default(),
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
            buffer_bytes: Cell::new(usize::MAX),
            descriptors: options.descriptors as usize,
            room: Cell::new(options.descriptors as usize),
            freed: Cell::new(0),
            abuse_told: Cell::new(None),
        }
    }

    /// Notes that a connection went idle.
    pub(crate) fn note_parked(&self) {
        self.freed.set(self.freed.get() + 1);
    }

    /// Counts a peer whose connection is ended for what it did too often. One a second is told
    /// of in the log: there may be thousands.
    pub(crate) fn note_abuse(&self, abuse: Abuse, peer: Peer, address: impl Display) {
        let (counter, whose) = match peer {
            Peer::Client => (&self.counters.abuses, "client"),
            Peer::Server => (&self.counters.upstream_abuses, "endpoint"),
        };
        counter.count(abuse);
        let told = self.abuse_told.get();
        if told.is_none_or(|told| self.now() >= told.after(ABUSE_LOG_PAUSE)) {
            self.abuse_told.set(Some(self.now()));
            tracing::warn!(
                shard = self.id,
                peer = whose,
                %address,
                cause = abuse.reason(),
                "closed an HTTP/2 connection: its peer sent too many of these"
            );
        }
    }

    /// Ends the reads that hold a buffer and have waited longest, where too many do.
    pub(crate) fn end_surplus_waits(&self) {
        while let Some(deadline) = self.waiting.take_surplus(self.now()) {
            let armed = self.wheel.borrow_mut().value(deadline).cloned();
            if let Some(armed) = armed {
                armed.cancel_read();
            }
        }
    }

    /// Frees buffers that nobody needs, beside so many other things that were trimmed.
    pub(crate) fn trim_memory(&self, others: usize) {
        let trimmed = self.buffers.trim() + others;
        self.freed.set(self.freed.get() + trimmed);
    }

    /// Whether memory is to be given back as soon as it is free.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.overload.borrow().is_short_of_memory()
    }

    /// Gives back to the system what connections that went idle have freed, where they are many.
    pub(crate) fn give_memory_back(&self) {
        if self.freed.get() > TRIM_AFTER || self.is_short_of_memory() {
            self.freed.set(0);
            memory::trim();
        }
    }

    /// The current tick.
    pub(crate) fn now(&self) -> Tick {
        self.tick.get()
    }

    /// Goes on to a time, and returns its tick: what is due expires.
    pub(crate) fn advance(&self, now: Instant) -> Tick {
        let tick = Tick::at(now.saturating_duration_since(self.started.get()));
        self.tick.set(tick);
        let mut wheel = self.wheel.borrow_mut();
        wheel.advance(tick, |armed| {
            armed.expire(tick).map(|after| tick.after(after))
        });
        tick
    }

    /// Has the next tick come so much later.
    #[cfg(feature = "test-hooks")]
    pub(crate) fn skip(&self, time: Duration) {
        let started = self.started.get();
        self.started
            .set(started.checked_sub(time).unwrap_or(started));
    }

    /// Lends the random numbers, for one call: they are not to be held while anything is awaited.
    pub(crate) fn with_rng<R>(&self, draw: impl FnOnce(&mut SmallRng) -> R) -> R {
        draw(&mut self.rng.borrow_mut())
    }

    /// Whether connections of a bind end with their next response: with the whole process, because
    /// the bind is gone, or to make room.
    pub(crate) fn ends_connections(&self, bind: u32) -> bool {
        self.draining.get()
            || self.pressure() >= Pressure::CloseSoon
            || self.config.load().bind(bind).is_none()
    }

    /// For how long a connection may be idle, where the configuration says `wanted`.
    pub(crate) fn keep_alive(&self, wanted: Option<Duration>) -> Option<Duration> {
        if self.pressure() < Pressure::CloseIdle {
            return wanted;
        }
        let least = wanted.map_or(OVERLOAD_KEEP_ALIVE, |it| it.min(OVERLOAD_KEEP_ALIVE));
        Some(least)
    }

    /// Whether a request is refused, so that others can be served; counts it.
    pub(crate) fn sheds(&self) -> bool {
        let mut cause = self.overload.borrow().sheds(self.now());
        if self.buffers.lent() > self.buffer_bytes.get() {
            cause = cause.or(Some(ShedCause::Buffers));
        }
        if let Some(cause) = cause {
            self.counters.shed.count(cause);
        }
        cause.is_some()
    }

    /// How many clients there is room for.
    pub(crate) fn room(&self) -> usize {
        self.room.get()
    }

    /// Whether another client can be accepted.
    pub(crate) fn has_room(&self) -> bool {
        self.pressure() < Pressure::Pause
    }

    /// Takes note that a connection to an endpoint found no descriptor.
    pub(crate) fn note_shortage(&self) {
        self.overload.borrow_mut().note_shortage(self.now());
    }

    fn pressure(&self) -> Pressure {
        let (clients, room) = (self.clients.open(), self.room.get());
        self.overload.borrow().pressure(clients, room, self.now())
    }

    /// Looks at how it is pressed, once a tick, which came so late.
    pub(crate) fn relieve(&self, lag: Duration) {
        {
            let mut overload = self.overload.borrow_mut();
            overload.note_tick(lag);
            overload.note_memory(self.memory.percent());
        }
        let buffer_bytes = self.memory.for_buffers(self.peers.count());
        self.buffer_bytes.set(buffer_bytes);
        self.counters.buffers.set(self.buffers.lent() as u64);
        let snapshot = self.config.load();
        let reserved = snapshot.upstream_connections_per_shard as usize
            + snapshot.binds.iter().flatten().count() * BIND_DESCRIPTORS;
        // A client needs one upstream connection at most, so half is always enough for both.
        let reserved = reserved.min(self.descriptors / 2);
        self.room.set(self.descriptors - reserved);
        if self.pressure() >= Pressure::CloseIdle {
            self.clients
                .close_idle_since(|since| since.after(OVERLOAD_KEEP_ALIVE) <= self.now());
        }
    }
}

/// A snapshot in the hands of one shard's requests, which count on the outer counter: that one is
/// not atomic, and stays in this core's cache.
pub(crate) type Held = Rc<Arc<Snapshot>>;

/// The shard's view of the published configuration.
pub(crate) struct ConfigCell {
    published: RefCell<arc_swap::Cache<Published, Arc<Snapshot>>>,
    current: RefCell<Held>,
}

impl ConfigCell {
    pub(crate) fn new(published: Published) -> Self {
        let mut published = arc_swap::Cache::new(published);
        let current = Rc::new(Arc::clone(published.load()));
        Self {
            published: RefCell::new(published),
            current: RefCell::new(current),
        }
    }

    /// The configuration in force, for one request to hold.
    pub(crate) fn load(&self) -> Held {
        let mut published = self.published.borrow_mut();
        let latest = published.load();
        let mut current = self.current.borrow_mut();
        if !Arc::ptr_eq(latest, &current) {
            *current = Rc::new(Arc::clone(latest));
        }
        Rc::clone(&current)
    }
}
