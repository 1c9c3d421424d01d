//! One shard: a thread with a runtime, and everything a request touches on it.
//!
//! Nothing in here is shared with another thread but the published snapshot, the counters and the
//! inbox. So nothing locks, and a request's path through a shard is plain function calls.

pub(crate) mod accept;
mod answers;
pub(crate) mod deadline;
pub(crate) mod drain;
pub(crate) mod fence;
pub mod inbox;
pub mod interned;
mod overload;
pub mod peers;
pub(crate) mod registry;
mod run;
mod scheduling;
pub(crate) mod tasks;
pub(crate) mod turn;
pub mod wheel;

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::config::{Published, Snapshot};
use crate::downstream::h2::tasks::StreamTasks;
use crate::driver::Waits;
use crate::http::h2::guard::{Abuse, Peer};
use crate::l4::udp::UdpListeners;
use crate::limits::{ABUSE_LOG_PAUSE, BIND_DESCRIPTORS, OVERLOAD_KEEP_ALIVE, TRIM_AFTER};
use crate::memory;
use crate::net::{BufferPool, Pipes};
use crate::observe::counters::ShardCounters;
use crate::observe::log_writer::LogSink;
use crate::policy::jwt::TokenCache;
use crate::request::scratch::ScratchPool;
use crate::route::RegexCache;
use crate::trace::Watches;
use crate::upstream::h2::Sessions;
use crate::upstream::health::Upstreams;
use crate::upstream::pool::Pool;

use self::accept::Acceptors;
use self::deadline::Armed;
use self::drain::Draining;
use self::interned::Table;
use self::overload::{Overload, Pressure};
use self::peers::Peers;
use self::registry::Registry;
use self::tasks::Tasks;
use self::turn::Turns;
use self::wheel::{Tick, Wheel};

pub use self::run::{ShardOptions, run};

/// What one request core has.
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
    /// Listening sockets.
    pub(crate) acceptors: Acceptors,
    /// UDP listeners.
    pub(crate) udp: UdpListeners,
    /// Memory for one datagram, while it is passed on.
    pub(crate) datagram: RefCell<Box<[u8]>>,
    /// Open client connections.
    pub(crate) clients: Registry,
    /// Free buffers.
    pub(crate) buffers: Rc<BufferPool>,
    /// Pipes that bytes pass through.
    pub(crate) pipes: Pipes,
    /// Free working memory of requests.
    pub(crate) scratch: ScratchPool,
    /// Tasks of HTTP/2 streams that have none at the moment.
    pub(crate) stream_tasks: StreamTasks,
    /// Deadlines of sockets.
    pub(crate) wheel: RefCell<Wheel<Rc<Armed>>>,
    /// Idle connections to endpoints.
    pub(crate) pool: Pool,
    /// Connections to endpoints that requests share.
    pub(crate) sessions: Sessions,
    /// What is known of endpoints and services.
    pub(crate) endpoints: Upstreams,
    /// Memory that the listeners' regular expressions are matched with.
    pub(crate) regexes: RefCell<Table<RegexCache>>,
    /// Tokens that were verified.
    pub(crate) tokens: RefCell<TokenCache>,
    /// What is counted.
    pub(crate) counters: Arc<ShardCounters>,
    /// Where access log lines go.
    pub(crate) log: RefCell<LogSink>,
    /// Seals session tokens.
    pub(crate) session_key: ring::hmac::Key,
    /// Spreads load, and nothing that has to be secret.
    rng: RefCell<SmallRng>,
    /// What it is at.
    pub(crate) tasks: Tasks,
    /// Who watches its requests.
    pub(crate) watches: Watches,
    /// Whether connections are being brought to their end.
    pub(crate) draining: Draining,
    /// When its ticks began.
    started: Cell<Instant>,
    /// Ticks since then; the wheel's time.
    tick: Cell<Tick>,
    /// What presses it.
    overload: RefCell<Overload>,
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
            acceptors: Acceptors::default(),
            udp: UdpListeners::default(),
            datagram: RefCell::default(),
            clients: Registry::default(),
            buffers: Rc::default(),
            pipes: Pipes::default(),
            scratch: ScratchPool::default(),
            stream_tasks: StreamTasks::default(),
            wheel: RefCell::new(Wheel::new(Tick::default())),
            pool: Pool::default(),
            sessions: Sessions::default(),
            endpoints: Upstreams::default(),
            regexes: RefCell::default(),
            tokens: RefCell::default(),
            counters: options.counters,
            log: RefCell::new(options.log),
            session_key: options.session_key,
            rng: RefCell::new(SmallRng::from_rng(&mut rand::rng())),
            tasks: Tasks::default(),
            watches: Watches::default(),
            draining: Draining::default(),
            started: Cell::new(Instant::now()),
            tick: Cell::default(),
            overload: RefCell::default(),
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
                "ended an HTTP/2 connection: its peer does this too often"
            );
        }
    }

    /// Frees what nobody needs, and gives back what that and connections that went idle have freed.
    fn trim_memory(&self) {
        let trimmed = self.buffers.trim() + self.scratch.trim() + self.stream_tasks.trim();
        let freed = self.freed.get() + trimmed;
        if freed <= TRIM_AFTER {
            return self.freed.set(freed);
        }
        self.freed.set(0);
        memory::trim();
    }

    /// The current tick.
    pub(crate) fn now(&self) -> Tick {
        self.tick.get()
    }

    /// Goes on to a time, and returns its tick: what is due expires.
    fn advance(&self, now: Instant) -> Tick {
        let tick = Tick::at(now.saturating_duration_since(self.started.get()));
        self.tick.set(tick);
        let mut wheel = self.wheel.borrow_mut();
        wheel.advance(tick, |armed| armed.expire().map(|after| tick.after(after)));
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
        let sheds = self.overload.borrow().sheds(self.now());
        self.counters.shed.add(u64::from(sheds));
        sheds
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
        self.overload.borrow_mut().note_tick(lag);
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
