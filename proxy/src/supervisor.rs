//! Starts the shards, holds their listening sockets, restarts dead shards, and drains all of them.

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
use crate::shard::endpoint_counts::EndpointCounts;
use crate::shard::inbox::{Inbox, ShardMessage, inbox};
use crate::shard::open_connections::OpenConnections;
use crate::shard::peers::Peers;

/// How to run the shards.
#[derive(Clone)]
pub struct ShardPlan {
    /// How many shards to start.
    pub shards: NonZeroU32,
    /// I/O driver of the shards.
    pub driver: DriverChoice,
    /// The core of each shard, if they are pinned.
    pub cores: Option<Vec<usize>>,
    /// Most connections of one shard, to clients and endpoints together.
    pub descriptors: u32,
}

/// Events of the supervisor.
pub enum Event {
    /// A shard's thread ended.
    Ended(u16),
    /// Shutdown was requested by the operator or the system.
    Stop(ShutdownMode),
}

/// How to shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownMode {
    /// SIGTERM: keeps accepting until load balancers have noticed.
    Graceful,
    /// SIGINT: stops accepting at once.
    Prompt,
}

/// Handle of the shards. Clones share them.
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
    client_connections: Arc<OpenConnections>,
    endpoint_connections: Arc<EndpointCounts>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inboxes: Vec<Option<Inbox>>,
    threads: Vec<Option<JoinHandle<()>>>,
    /// The listening sockets, by bind id.
    sockets: HashMap<u32, Arc<Listening>>,
    /// Stopped sockets from which shards may still be accepting the last connections.
    stopped: Vec<StoppedSockets>,
    drivers: Vec<Option<DriverReport>>,
}

/// A stopped listening socket.
struct StoppedSockets {
    bind: u32,
    port: u16,
    since: Instant,
    sockets: Weak<Listening>,
}

impl Shards {
    /// Starts the shards, without binds.
    ///
    /// # Errors
    ///
    /// A shard's runtime cannot be built.
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
            stopped: Vec::new(),
        };
        let counters: Vec<_> = (0..count).map(|_| Arc::default()).collect();
        let descriptors = count.saturating_mul(plan.descriptors as usize);
        let shards = Self(Arc::new(Inner {
            peers: Arc::new(Peers::new(&counters)),
            client_connections: Arc::new(OpenConnections::new(descriptors)),
            endpoint_connections: Arc::new(EndpointCounts::new(descriptors, count)),
            counters,
            plan,
            published,
            log,
            draining: AtomicBool::new(false),
            memory: MemoryUse::measured(),
            events: events.clone(),
            state: Mutex::new(state),
        }));
        for id in 0..count {
            shards.spawn(u16::try_from(id).unwrap_or(u16::MAX))?;
        }
        Ok((shards, receiver, events))
    }

    /// Starts or restarts a shard's thread, with the sockets of every bind.
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
            client_connections: Arc::clone(&inner.client_connections),
            endpoint_connections: Arc::clone(&inner.endpoint_connections),
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
            sender.send(ShardMessage::Listen {
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

    /// Restarts a dead shard: its sockets and their accept queues still exist.
    pub fn restart(&self, id: u16) {
        self.0.peers.set(id, None);
        warn!(
            shard = id,
            "the shard ended and is restarted; its connections are lost"
        );
        // A shard that dies immediately must not use up a core.
        thread::sleep(SHARD_RESTART_PAUSE);
        if let Err(error) = self.spawn(id) {
            error!(shard = id, %error, "cannot start the shard; retrying");
            drop(self.0.events.send(Event::Ended(id)));
        } else if self.are_draining() {
            self.send_to(usize::from(id), ShardMessage::AnnounceDrain);
        }
    }

    /// Listens on these binds, and stops listening on others. Returns the binds that failed, and
    /// why.
    pub fn listen_on(
        &self,
        desired: impl Iterator<Item = (u32, Transport, SocketAddr)>,
    ) -> Vec<(u32, io::Error)> {
        let desired = desired.map(|(bind, transport, address)| (bind, (transport, address)));
        let desired: HashMap<u32, (Transport, SocketAddr)> = desired.collect();
        let present: Vec<u32> = self.state().sockets.keys().copied().collect();
        for bind in present.iter().filter(|bind| !desired.contains_key(bind)) {
            self.unlisten(*bind);
        }
        let missing = desired
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
            inbox.send(ShardMessage::Listen {
                bind,
                sockets: Arc::clone(&sockets),
            });
        }
        state.sockets.insert(bind, sockets);
        Ok(())
    }

    /// Sockets stopped a moment ago, or new ones. If another address of the port was stopped, waits
    /// until shards have closed it.
    fn sockets_of(
        &self,
        bind: u32,
        transport: Transport,
        address: SocketAddr,
    ) -> io::Result<Arc<Listening>> {
        loop {
            if let Some(sockets) = self.state().reopen_sockets(bind) {
                return Ok(sockets);
            }
            match Listening::bind(transport, address, self.0.counters.len()) {
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse
                        && self.state().was_stopped_recently(address.port()) =>
                {
                    thread::sleep(HANDOVER_PAUSE);
                }
                result => return result.map(Arc::new),
            }
        }
    }

    fn unlisten(&self, bind: u32) {
        let mut state = self.state();
        state.stop_sockets(bind);
        state
            .inboxes
            .iter()
            .flatten()
            .for_each(|inbox| inbox.send(ShardMessage::Unlisten { bind }));
    }

    /// Stops accepting on all binds, also for restarted shards.
    fn stop_accepting(&self) {
        self.state().sockets.clear();
        self.send_all(|| ShardMessage::StopAccepting);
    }

    fn send_all(&self, message: impl Fn() -> ShardMessage) {
        self.state()
            .inboxes
            .iter()
            .flatten()
            .for_each(|inbox| inbox.send(message()));
    }

    /// Sends a message to one shard, unless it is being restarted.
    pub fn send_to(&self, id: usize, message: ShardMessage) {
        let state = self.state();
        if let Some(Some(inbox)) = state.inboxes.get(id) {
            inbox.send(message);
        }
    }

    /// How the shards are run.
    #[must_use]
    pub fn plan(&self) -> &ShardPlan {
        &self.0.plan
    }

    /// The driver of each shard.
    #[must_use]
    pub fn drivers(&self) -> Vec<Option<DriverReport>> {
        self.state().drivers.clone()
    }

    /// Whether all shards are running.
    #[must_use]
    pub fn are_up(&self) -> bool {
        self.state().drivers.iter().all(Option::is_some)
    }

    /// Whether the shards are draining.
    #[must_use]
    pub fn are_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    /// Access log lines dropped because the output was blocked.
    #[must_use]
    pub fn dropped_log_lines(&self) -> u64 {
        self.0.log.dropped_lines()
    }

    /// Memory usage of the process.
    #[must_use]
    pub fn memory(&self) -> &Arc<MemoryUse> {
        &self.0.memory
    }

    /// Number of client connections on all shards.
    #[must_use]
    pub fn clients(&self) -> u64 {
        self.0
            .counters
            .iter()
            .map(|counters| counters.clients.value())
            .sum()
    }

    /// Number of them that already have their response, and send the rest of its request.
    fn lingering_clients(&self) -> u64 {
        let counters = self.0.counters.iter();
        counters.map(|counters| counters.lingering.value()).sum()
    }

    /// The counters of each shard.
    #[must_use]
    pub fn counters(&self) -> &[Arc<ShardCounters>] {
        &self.0.counters
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // A panic while it was locked left at worst a single assignment undone.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn stop_sockets(&mut self, bind: u32) {
        if let Some(sockets) = self.sockets.remove(&bind) {
            self.stopped.push(StoppedSockets {
                bind,
                port: sockets.address().port(),
                since: Instant::now(),
                sockets: Arc::downgrade(&sockets),
            });
        }
    }

    /// Stopped sockets of a bind that some shard still has open.
    fn reopen_sockets(&mut self, bind: u32) -> Option<Arc<Listening>> {
        let mut stopped = self.stopped.iter();
        stopped.find_map(|it| (it.bind == bind).then(|| it.sockets.upgrade())?)
    }

    /// Whether sockets of this port were stopped so recently that they may still be open.
    fn was_stopped_recently(&mut self, port: u16) -> bool {
        self.stopped
            .retain(|it| it.sockets.strong_count() > 0 || it.since.elapsed() < HANDOVER);
        let mut stopped = self.stopped.iter();
        stopped.any(|it| it.port == port && it.since.elapsed() < HANDOVER)
    }
}

/// Durations of a drain.
#[derive(Debug, Clone, Copy)]
pub struct DrainPlan {
    /// How long new connections are still accepted.
    pub accept: Duration,
    /// When the remaining connections are reset.
    pub deadline: Duration,
}

/// Supervises the shards until a shutdown is requested, then performs it.
pub fn supervise(shards: &Shards, events: &Receiver<Event>, plan: DrainPlan) {
    let mut memory = MemoryWatch::new(Arc::clone(shards.memory()));
    loop {
        match events.recv_timeout(memory.interval()) {
            Ok(Event::Ended(id)) => shards.restart(id),
            Ok(Event::Stop(urgency)) => {
                return drain::run(shards, events, &mut memory, plan, urgency);
            }
            Err(RecvTimeoutError::Timeout) => memory.refresh(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
