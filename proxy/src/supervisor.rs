//! Starts the shards, keeps their sockets, restarts a dead one, and brings all of it to its end.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it runs on the main thread, and talks to shards by their inboxes"
)]

mod drain;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use tracing::{error, info, warn};
use xds::model::Transport;

use crate::config::Published;
use crate::limits::{HANDOVER, HANDOVER_PAUSE, SHARD_RESTART_PAUSE, SHARD_START_TIMEOUT};
use crate::machine::driver::{DriverChoice, DriverReport};
use crate::machine::memory::{MemoryUse, MemoryWatch};
use crate::machine::sockets::Listening;
use crate::observe::counters::ShardCounters;
use crate::observe::log_writer::{LogQueue, LogSink};
use crate::observe::panics;
use crate::server::{self, ServerOptions};
use crate::shard::ShardOptions;
use crate::shard::inbox::{Ask, Inbox, inbox};
use crate::shard::peers::Peers;

/// How the shards are to be.
#[derive(Clone)]
pub struct ShardPlan {
    /// How many.
    pub shards: NonZeroU32,
    /// Their runtime.
    pub driver: DriverChoice,
    /// The core of each, where they are bound to one.
    pub cores: Option<Vec<usize>>,
    /// Sockets of one shard, of clients and of endpoints.
    pub descriptors: u32,
    /// Seals session tokens.
    pub session_key: ring::hmac::Key,
}

/// What happens to the supervisor.
pub enum Event {
    /// A shard's thread ended.
    Ended(u16),
    /// The operator or the system wants an end.
    Stop(Urgency),
}

/// How an end is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// SIGTERM: load balancers have to learn of it first.
    Graceful,
    /// SIGINT: nobody new is coming.
    Prompt,
}

/// The shards, for whoever asks something of them. Clones are the same shards.
#[derive(Clone)]
pub struct Shards(Arc<Inner>);

struct Inner {
    plan: ShardPlan,
    published: Published,
    log: Arc<LogQueue>,
    events: Sender<Event>,
    counters: Vec<Arc<ShardCounters>>,
    draining: AtomicBool,
    memory: Arc<MemoryUse>,
    peers: Arc<Peers>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inboxes: Vec<Option<Inbox>>,
    threads: Vec<Option<JoinHandle<()>>>,
    /// The listening sockets, by bind id.
    sockets: HashMap<u32, Arc<Listening>>,
    /// Those that shards may still be taking the last connections from.
    given_up: Vec<GivenUp>,
    drivers: Vec<Option<DriverReport>>,
}

/// Listening sockets that are wanted no more.
struct GivenUp {
    bind: u32,
    port: u16,
    since: Instant,
    sockets: Weak<Listening>,
}

impl Shards {
    /// Starts them; they serve nobody yet.
    ///
    /// # Errors
    /// A shard cannot have a runtime.
    pub fn start(
        plan: ShardPlan,
        published: Published,
        log: Arc<LogQueue>,
    ) -> io::Result<(Self, Receiver<Event>, Sender<Event>)> {
        let (events, receiver) = unbounded();
        let count = plan.shards.get() as usize;
        let state = State {
            inboxes: (0..count).map(|_| None).collect(),
            threads: (0..count).map(|_| None).collect(),
            drivers: vec![None; count],
            sockets: HashMap::new(),
            given_up: Vec::new(),
        };
        let counters: Vec<_> = (0..count).map(|_| Arc::default()).collect();
        let shards = Self(Arc::new(Inner {
            peers: Arc::new(Peers::new(&counters)),
            counters,
            plan,
            published,
            log,
            draining: AtomicBool::new(false),
            memory: Arc::default(),
            events: events.clone(),
            state: Mutex::new(state),
        }));
        for id in 0..count {
            shards.spawn(u16::try_from(id).unwrap_or(u16::MAX))?;
        }
        Ok((shards, receiver, events))
    }

    /// Starts or restarts a shard's thread, and lends it the sockets of every bind.
    fn spawn(&self, id: u16) -> io::Result<()> {
        let inner = &self.0;
        let index = usize::from(id);
        let (sender, reader) = inbox()?;
        let shard = ShardOptions {
            id,
            descriptors: inner.plan.descriptors,
            memory: Arc::clone(&inner.memory),
            published: Arc::clone(&inner.published),
            peers: Arc::clone(&inner.peers),
            counters: Arc::clone(&inner.counters[index]),
            log: LogSink::new(Arc::clone(&inner.log)),
        };
        let options = ServerOptions {
            shard,
            driver: inner.plan.driver,
            core: inner
                .plan
                .cores
                .as_ref()
                .and_then(|cores| cores.get(index).copied()),
            session_key: inner.plan.session_key.clone(),
        };
        let (started, starting) = bounded(1);
        let events = inner.events.clone();
        let thread = thread::Builder::new()
            .name(format!("shard-{id}"))
            .spawn(move || {
                let failed = started.clone();
                let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    server::run(options, reader, |report| drop(started.send(Ok(report))))
                }));
                match ran {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => drop(failed.try_send(Err(error))),
                    Err(_) => error!(
                        target: panics::TARGET,
                        shard = id,
                        "the shard panicked; please report the message above"
                    ),
                }
                drop(events.send(Event::Ended(id)));
            })?;
        let report = starting
            .recv_timeout(SHARD_START_TIMEOUT)
            .map_err(|_| io::Error::other(format!("shard {id} did not start")))??;
        info!(shard = id, driver = %report, "shard started");
        let mut state = self.state();
        for (bind, sockets) in &state.sockets {
            sender.ask(Ask::Listen {
                bind: *bind,
                sockets: Arc::clone(sockets),
            });
        }
        inner.peers.set(id, Some(sender.clone()));
        state.inboxes[index] = Some(sender);
        state.threads[index] = Some(thread);
        state.drivers[index] = Some(report);
        Ok(())
    }

    /// Puts a dead shard back: its sockets and what waits in their queues are still there.
    pub fn restart(&self, id: u16) {
        self.0.peers.set(id, None);
        warn!(
            shard = id,
            "the shard ended; its connections are lost, restarting it"
        );
        // One that dies at once must not take a core with it.
        thread::sleep(SHARD_RESTART_PAUSE);
        if let Err(error) = self.spawn(id) {
            error!(shard = id, %error, "the shard could not be started; trying again");
            drop(self.0.events.send(Event::Ended(id)));
        }
    }

    /// Listens on these binds, and no longer on others. What could not be listened on, and why.
    pub fn listen_on(
        &self,
        wanted: impl Iterator<Item = (u32, Transport, SocketAddr)>,
    ) -> Vec<(u32, io::Error)> {
        let wanted = wanted.map(|(bind, transport, address)| (bind, (transport, address)));
        let wanted: HashMap<u32, (Transport, SocketAddr)> = wanted.collect();
        let present: Vec<u32> = self.state().sockets.keys().copied().collect();
        for bind in present.iter().filter(|bind| !wanted.contains_key(bind)) {
            self.unlisten(*bind);
        }
        let missing = wanted
            .into_iter()
            .filter(|(bind, _)| !present.contains(bind));
        missing
            .filter_map(|(bind, (transport, address))| {
                let listening = self.listen(bind, transport, address);
                listening.err().map(|error| (bind, error))
            })
            .collect()
    }

    fn listen(&self, bind: u32, transport: Transport, address: SocketAddr) -> io::Result<()> {
        let sockets = self.sockets_of(bind, transport, address)?;
        let mut state = self.state();
        for inbox in state.inboxes.iter().flatten() {
            inbox.ask(Ask::Listen {
                bind,
                sockets: Arc::clone(&sockets),
            });
        }
        state.sockets.insert(bind, sockets);
        Ok(())
    }

    /// The sockets that were given up a moment ago, or fresh ones. Where another address of a port
    /// was given up, waits until shards have let go of it.
    fn sockets_of(
        &self,
        bind: u32,
        transport: Transport,
        address: SocketAddr,
    ) -> io::Result<Arc<Listening>> {
        loop {
            if let Some(sockets) = self.state().take_back(bind) {
                return Ok(sockets);
            }
            match Listening::bind(transport, address, self.0.counters.len()) {
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse
                        && self.state().gave_up(address.port()) =>
                {
                    thread::sleep(HANDOVER_PAUSE);
                }
                result => return result.map(Arc::new),
            }
        }
    }

    fn unlisten(&self, bind: u32) {
        let mut state = self.state();
        state.give_up(bind);
        state
            .inboxes
            .iter()
            .flatten()
            .for_each(|inbox| inbox.ask(Ask::Unlisten { bind }));
    }

    /// Accepts no more, on any bind. A shard that is started again does not either.
    fn stop_accepting(&self) {
        self.state().sockets.clear();
        self.ask(|| Ask::StopAccepting);
    }

    fn ask(&self, ask: impl Fn() -> Ask) {
        self.state()
            .inboxes
            .iter()
            .flatten()
            .for_each(|inbox| inbox.ask(ask()));
    }

    /// Asks one shard, unless it is being started again.
    pub fn ask_one(&self, id: usize, ask: Ask) {
        let state = self.state();
        if let Some(Some(inbox)) = state.inboxes.get(id) {
            inbox.ask(ask);
        }
    }

    /// How they are to be.
    #[must_use]
    pub fn plan(&self) -> &ShardPlan {
        &self.0.plan
    }

    /// What each runs on.
    #[must_use]
    pub fn drivers(&self) -> Vec<Option<DriverReport>> {
        self.state().drivers.clone()
    }

    /// Whether all of them run.
    #[must_use]
    pub fn are_up(&self) -> bool {
        self.state().drivers.iter().all(Option::is_some)
    }

    /// Whether they are being brought to their end.
    #[must_use]
    pub fn are_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    /// Lines of the access log that nobody took in time.
    #[must_use]
    pub fn dropped_log_lines(&self) -> u64 {
        self.0.log.dropped_lines()
    }

    /// What the process uses of its memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<MemoryUse> {
        &self.0.memory
    }

    /// Client connections open on all shards.
    #[must_use]
    pub fn clients(&self) -> u64 {
        self.0
            .counters
            .iter()
            .map(|counters| counters.clients.value())
            .sum()
    }

    /// What each shard counts.
    #[must_use]
    pub fn counters(&self) -> &[Arc<ShardCounters>] {
        &self.0.counters
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic while it was held left single assignments undone at worst.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn give_up(&mut self, bind: u32) {
        if let Some(sockets) = self.sockets.remove(&bind) {
            self.given_up.push(GivenUp {
                bind,
                port: sockets.address().port(),
                since: Instant::now(),
                sockets: Arc::downgrade(&sockets),
            });
        }
    }

    /// Sockets of a bind that were given up and that some shard still has: each shard takes its
    /// own back after it was done with it.
    fn take_back(&mut self, bind: u32) -> Option<Arc<Listening>> {
        let mut given_up = self.given_up.iter();
        given_up.find_map(|it| (it.bind == bind).then(|| it.sockets.upgrade())?)
    }

    /// Whether sockets of this port were given up so recently that they may still be open.
    fn gave_up(&mut self, port: u16) -> bool {
        self.given_up
            .retain(|it| it.sockets.strong_count() > 0 || it.since.elapsed() < HANDOVER);
        let mut given_up = self.given_up.iter();
        given_up.any(|it| it.port == port && it.since.elapsed() < HANDOVER)
    }
}

/// How long the end may take.
#[derive(Debug, Clone, Copy)]
pub struct DrainPlan {
    /// For how long new connections are still taken.
    pub accept: Duration,
    /// When what is left is reset.
    pub deadline: Duration,
}

/// Watches over the shards until an end is wanted, then brings it about.
pub fn supervise(shards: &Shards, events: &Receiver<Event>, plan: DrainPlan) {
    let mut memory = MemoryWatch::new(Arc::clone(shards.memory()));
    loop {
        match events.recv_timeout(memory.patience()) {
            Ok(Event::Ended(id)) => shards.restart(id),
            Ok(Event::Stop(urgency)) => {
                return drain::run(shards, events, &mut memory, plan, urgency);
            }
            Err(RecvTimeoutError::Timeout) => memory.look(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
