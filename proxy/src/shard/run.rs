//! A shard's thread: runtime, housekeeping, inbox.

use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use monoio::io::AsyncReadRent;
use monoio::net::UnixStream;
use xds::model::Transport;

use super::Shard;
use super::accept::Acceptors;
use super::answers;
use super::inbox::{Ask, InboxReader};
use super::peers::Peers;
use super::scheduling;
use super::tasks::{Purpose, listed};
use super::turn::Turns;
use crate::config::Published;
use crate::cpu;
use crate::driver::{Driver, DriverChoice, DriverReport, Waits};
use crate::heap;
use crate::l4::udp::UdpListeners;
use crate::limits::{
    DRAIN_BATCH, DRAIN_SPREAD_TICKS, ORPHAN_GRACE, POOL_SWEEP_TICKS, STOP_TICKS, WHEEL_TICK,
};
use crate::observe::counters::ShardCounters;
#[cfg(any(test, feature = "test-hooks"))]
use crate::observe::log_writer::LogQueue;
use crate::observe::log_writer::LogSink;

/// What a shard is started with.
pub struct ShardOptions {
    /// Its number, from 0.
    pub id: u16,
    /// The runtime wanted.
    pub driver: DriverChoice,
    /// Sockets it may have, of clients and of endpoints.
    pub descriptors: u32,
    /// The core to run on.
    pub core: Option<usize>,
    /// The published configuration.
    pub published: Published,
    /// It and the others.
    pub peers: Arc<Peers>,
    /// Where it counts.
    pub counters: Arc<ShardCounters>,
    /// Where its access log goes.
    pub log: LogSink,
    /// Seals session tokens.
    pub session_key: ring::hmac::Key,
}

#[cfg(any(test, feature = "test-hooks"))]
impl ShardOptions {
    /// A shard of no supervisor's, for tests of what runs on one.
    pub(crate) fn alone() -> Self {
        Self {
            peers: Arc::new(Peers::new(&[])),
            id: 0,
            driver: DriverChoice::Epoll,
            descriptors: 64,
            core: None,
            published: Arc::default(),
            counters: Arc::default(),
            log: LogSink::new(LogQueue::new()),
            session_key: ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"no secret"),
        }
    }
}

/// Runs a shard on this thread until it is asked to stop. `started` learns which driver won.
///
/// # Errors
/// No runtime could be built.
pub fn run(
    options: ShardOptions,
    inbox: InboxReader,
    started: impl FnOnce(DriverReport),
) -> io::Result<()> {
    if let Some(core) = options.core {
        cpu::bind_thread(&[core])?;
    }
    scheduling::wake_soon();
    let (driver, report) = Driver::build(options.driver, options.descriptors)?;
    let waits = driver.waits();
    inbox.bell.set_nonblocking(waits == Waits::ForReadiness)?;
    let (turns, ringing) = Turns::new(waits)?;
    options.counters.thread.start();
    heap::counts::count_as_shard(options.id);
    started(report);
    let shard = Rc::new(Shard::new(options, waits, Rc::clone(&turns)));
    let _hangs_up = HangsUp(Rc::downgrade(&shard));
    driver.block_on(async move {
        monoio::spawn(turns.answer(ringing));
        let housekeeping = housekeeping(Rc::clone(&shard));
        monoio::spawn(listed(&shard, Purpose::Housekeeping, housekeeping));
        serve_inbox(&shard, inbox).await
    })
}

/// Hangs up on the clients of a shard that panics: the runtime leaves sockets open whose operations
/// are under way, and their clients would wait for ever.
struct HangsUp(Weak<Shard>);

impl Drop for HangsUp {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(shard) = self.0.upgrade()
        {
            shard.clients.reset_all();
            // Without a runtime its sockets cannot be closed.
            std::mem::forget(shard);
        }
    }
}

/// Each tick: expired deadlines, and the access log's lines; now and then, idle upstreams.
async fn housekeeping(shard: Rc<Shard>) {
    let mut due = Instant::now();
    let mut since_sweep = 0;
    loop {
        due += WHEEL_TICK;
        monoio::time::sleep_until(due.into()).await;
        let now = Instant::now();
        let lag = now.saturating_duration_since(due);
        shard.counters.loop_lag.observe(lag);
        shard.counters.heartbeat.beat(now);
        let tick = shard.advance(now);
        // This looks at the configuration, so an idle shard lets go of old ones too.
        shard.relieve(lag);
        shard.log.borrow_mut().flush();
        since_sweep += 1;
        if since_sweep >= POOL_SWEEP_TICKS {
            since_sweep = 0;
            shard.pool.sweep(tick);
            shard.trim_memory();
        }
        due = due.max(now.checked_sub(WHEEL_TICK).unwrap_or(now));
    }
}

async fn serve_inbox(shard: &Rc<Shard>, inbox: InboxReader) -> io::Result<()> {
    let mut bell = UnixStream::from_std(inbox.bell)?;
    let mut rings = vec![0_u8; 64];
    loop {
        while let Some(ask) = inbox.queue.pop() {
            match ask {
                Ask::Listen { bind, sockets } => {
                    let listening = match sockets.transport() {
                        Transport::Tcp => Acceptors::listen(shard, bind, sockets),
                        Transport::Udp => UdpListeners::listen(shard, bind, sockets),
                    };
                    if let Err(error) = listening {
                        tracing::error!(shard = shard.id, bind, %error, "cannot accept connections");
                    }
                }
                Ask::Adopt {
                    bind,
                    socket,
                    address,
                } => {
                    if let Err(error) = Acceptors::adopt(shard, bind, socket, address) {
                        tracing::warn!(shard = shard.id, %error, "lost a connection on its way");
                    }
                }
                Ask::Unlisten { bind } => {
                    shard.udp.stop(|of| of == bind);
                    Acceptors::stop(shard, |of| of == bind).await;
                    monoio::spawn(close_orphans(Rc::clone(shard), bind));
                    shard.clients.wake_listening();
                }
                Ask::StopAccepting => {
                    shard.udp.stop(|_| true);
                    Acceptors::stop(shard, |_| true).await;
                }
                Ask::Drain => {
                    shard.draining.begin();
                    monoio::spawn(close_idle(Rc::clone(shard)));
                    shard.clients.wake_listening();
                    shard.pool.clear();
                    shard.sessions.clear();
                }
                Ask::Admin(ask) => answers::answer(shard, ask),
                Ask::Stop => return stop(shard).await,
            }
        }
        let result;
        (result, rings) = bell.read(rings).await;
        if result? == 0 {
            return stop(shard).await;
        }
    }
}

/// Closes what is idle, some at a time.
async fn close_idle(shard: Rc<Shard>) {
    let each = shard.clients.open() / DRAIN_SPREAD_TICKS;
    while shard.clients.close_idle_some(each.max(DRAIN_BATCH)) > 0 {
        monoio::time::sleep(WHEEL_TICK).await;
    }
}

/// Closes the idle connections of a bind that is gone, unless it came back meanwhile.
async fn close_orphans(shard: Rc<Shard>, bind: u32) {
    monoio::time::sleep(ORPHAN_GRACE).await;
    if shard.config.load().bind(bind).is_none() {
        shard.clients.close_idle(|of| of == bind);
    }
}

/// Ends every connection and waits for their operations: the kernel may still have their buffers.
async fn stop(shard: &Rc<Shard>) -> io::Result<()> {
    Acceptors::stop(shard, |_| true).await;
    shard.draining.give_up();
    shard.clients.reset_all();
    let sessions = shard.udp.end_sessions();
    for tick in 0..STOP_TICKS {
        // Sessions are logged as they end, which they do at once.
        if shard.clients.open() == 0 && (sessions == 0 || tick > 0) {
            break;
        }
        monoio::time::sleep(WHEEL_TICK).await;
    }
    shard.log.borrow_mut().flush();
    Ok(())
}
