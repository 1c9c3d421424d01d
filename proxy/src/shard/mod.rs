//! One shard: a thread with a runtime, and everything a request touches on it.
//!
//! Nothing in here is shared with another thread but the published snapshot, the counters and the
//! inbox. So nothing locks, and a request's path through a shard is plain function calls.

pub(crate) mod accept;
pub(crate) mod deadline;
pub(crate) mod fence;
pub mod inbox;
pub mod interned;
pub(crate) mod registry;
mod run;
pub mod wheel;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::config::{Published, Snapshot};
use crate::driver::Waits;
use crate::limits::POOLED_BUFFERS;
use crate::memory;
use crate::net::BufferPool;
use crate::observe::counters::ShardCounters;
use crate::observe::log_writer::LogSink;
use crate::request::scratch::ScratchPool;
use crate::route::RegexCache;
use crate::upstream::health::Upstreams;
use crate::upstream::pool::Pool;

use self::accept::Acceptors;
use self::deadline::Armed;
use self::interned::Table;
use self::registry::Registry;
use self::wheel::{Tick, Wheel};

pub use self::run::{ShardOptions, run};

/// What one request core has.
pub(crate) struct Shard {
    /// Its number, from 0.
    pub(crate) id: u16,
    /// How its runtime waits for sockets.
    pub(crate) waits: Waits,
    /// The configuration in force.
    pub(crate) config: ConfigCell,
    /// Listening sockets.
    pub(crate) acceptors: Acceptors,
    /// Open client connections.
    pub(crate) clients: Registry,
    /// Free buffers.
    pub(crate) buffers: BufferPool,
    /// Free working memory of requests.
    pub(crate) scratch: ScratchPool,
    /// Deadlines of sockets.
    pub(crate) wheel: RefCell<Wheel<Rc<Armed>>>,
    /// Idle connections to endpoints.
    pub(crate) pool: Pool,
    /// What is known of endpoints and services.
    pub(crate) endpoints: Upstreams,
    /// Memory that the listeners' regular expressions are matched with.
    pub(crate) regexes: RefCell<Table<RegexCache>>,
    /// What is counted.
    pub(crate) counters: Arc<ShardCounters>,
    /// Where access log lines go.
    pub(crate) log: RefCell<LogSink>,
    /// Seals session tokens.
    pub(crate) session_key: ring::hmac::Key,
    /// Spreads load, and nothing that has to be secret.
    rng: RefCell<SmallRng>,
    /// Whether connections are being brought to their end.
    pub(crate) draining: Cell<bool>,
    /// Ticks since the start; the wheel's time.
    tick: Cell<Tick>,
    most_clients: usize,
    /// Connections that went idle since memory was last given back.
    parked: Cell<usize>,
}

impl Shard {
    fn new(options: ShardOptions, waits: Waits) -> Self {
        Self {
            waits,
            id: options.id,
            config: ConfigCell::new(options.published),
            acceptors: Acceptors::default(),
            clients: Registry::default(),
            buffers: BufferPool::default(),
            scratch: ScratchPool::default(),
            wheel: RefCell::new(Wheel::new(Tick::default())),
            pool: Pool::default(),
            endpoints: Upstreams::default(),
            regexes: RefCell::default(),
            counters: options.counters,
            log: RefCell::new(options.log),
            session_key: options.session_key,
            rng: RefCell::new(SmallRng::from_rng(&mut rand::rng())),
            draining: Cell::new(false),
            tick: Cell::default(),
            most_clients: options.connections as usize,
            parked: Cell::new(0),
        }
    }

    /// Notes that a connection went idle.
    pub(crate) fn note_parked(&self) {
        self.parked.set(self.parked.get() + 1);
    }

    /// Gives back what connections that went idle have freed. A few are not worth the time.
    fn trim_memory(&self) {
        if self.buffers.trim() > 0 || self.parked.get() > POOLED_BUFFERS {
            self.parked.set(0);
            memory::trim();
        }
    }

    /// The current tick.
    pub(crate) fn now(&self) -> Tick {
        self.tick.get()
    }

    /// Goes on to a tick: what is due expires.
    fn advance(&self, tick: Tick) {
        self.tick.set(tick);
        let mut wheel = self.wheel.borrow_mut();
        wheel.advance(tick, |armed| armed.expire().map(|after| tick.after(after)));
    }

    /// Lends the random numbers, for one call: they are not to be held while anything is awaited.
    pub(crate) fn with_rng<R>(&self, draw: impl FnOnce(&mut SmallRng) -> R) -> R {
        draw(&mut self.rng.borrow_mut())
    }

    /// Whether another client can be accepted.
    pub(crate) fn has_room(&self) -> bool {
        self.clients.open() < self.most_clients
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
