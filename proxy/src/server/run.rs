//! A shard's thread: runtime, housekeeping, inbox.

use std::io;
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering;
use std::time::Instant;

use monoio::io::AsyncReadRent;
use monoio::net::UnixStream;
use xds::model::Transport;

use super::{Server, accept, replies};
use crate::limits::{
    DRAIN_BATCH, DRAIN_SPREAD_TICKS, ORPHAN_GRACE, POOL_SWEEP_TICKS, STOP_TICKS, TRIM_TICKS,
    WHEEL_TICK,
};
use crate::machine::cpu;
use crate::machine::driver::{Driver, DriverChoice, DriverReport, WaitMode};
use crate::machine::scheduling;
use crate::memory::heap;
use crate::shard::inbox::{InboxReader, ShardMessage};
use crate::shard::tasks::{Purpose, listed};
use crate::shard::turn::Turns;
use crate::shard::{Shard, ShardOptions};
use crate::upstream::endpoint_limit::EndpointLimits;

/// The parameters of a server.
pub(crate) struct ServerOptions {
    /// Parameters of its shard.
    pub(crate) shard: ShardOptions,
    pub(crate) driver: DriverChoice,
    /// The core to pin to.
    pub(crate) core: Option<usize>,
}

/// Runs a shard on this thread until it is stopped. `started` receives the driver.
///
/// # Errors
///
/// No runtime could be built.
pub(crate) fn run(
    options: ServerOptions,
    inbox: InboxReader,
    started: impl FnOnce(DriverReport),
) -> io::Result<()> {
    if let Some(core) = options.core {
        cpu::bind_thread(&[core])?;
    }
    scheduling::wake_soon();
    let (driver, report) = Driver::build(options.driver, options.shard.descriptors)?;
    let waits = driver.waits();
    inbox
        .wake_socket
        .set_nonblocking(waits == WaitMode::ForReadiness)?;
    let (turns, wake_receiver) = Turns::new(waits)?;
    options.shard.counters.thread.start();
    heap::counts::count_as_shard(options.shard.id);
    started(report);
    let shard = Rc::new(Shard::new(options.shard, waits, Rc::clone(&turns)));
    let server = Rc::new(Server::new(shard));
    let _close_on_panic = CloseClientsOnPanic {
        shard: Rc::downgrade(server.shard()),
        endpoint_limits: Rc::downgrade(&server.proxy().upstreams.endpoint_limits),
    };
    driver.block_on(async move {
        monoio::spawn(turns.run(wake_receiver));
        let housekeeping = housekeeping(Rc::clone(&server));
        monoio::spawn(listed(server.shard(), Purpose::Housekeeping, housekeeping));
        serve_inbox(&server, inbox).await
    })
}

/// Closes the client connections of a shard that panics: the runtime leaves sockets with pending
/// operations open, and clients would wait forever. What they were counted by is given back.
struct CloseClientsOnPanic {
    shard: Weak<Shard>,
    endpoint_limits: Weak<EndpointLimits>,
}

impl Drop for CloseClientsOnPanic {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        if let Some(limits) = self.endpoint_limits.upgrade() {
            limits.give_back();
            std::mem::forget(limits);
        }
        if let Some(shard) = self.shard.upgrade() {
            shard.clients.reset_all();
            shard.clients.uncount(&shard.client_connections);
            // Without the runtime its sockets cannot be closed.
            std::mem::forget(shard);
        }
    }
}

/// Each tick: expired deadlines and access log lines; now and then, idle upstream connections.
async fn housekeeping(server: Rc<Server>) {
    let shard = server.shard();
    let mut due = Instant::now();
    let (mut since_sweep, mut since_trim) = (0, 0);
    let (mut configured, mut probed_out) = (0, 0);
    loop {
        due += WHEEL_TICK;
        monoio::time::sleep_until(due.into()).await;
        let now = Instant::now();
        let lag = now.saturating_duration_since(due);
        shard.counters.loop_lag.observe(lag);
        shard.counters.heartbeat.beat(now);
        let tick = shard.advance(now);
        // This reads the configuration, so that idle shards release old ones too.
        shard.shed_connections(lag);
        let snapshot = shard.config.load();
        if std::mem::replace(&mut configured, snapshot.version) != snapshot.version {
            server.proxy().upstreams.change_limits(&snapshot);
        }
        let out = snapshot.probed_out.load(Ordering::Relaxed);
        if std::mem::replace(&mut probed_out, out) != out {
            server.proxy().upstreams.close_probed_out(&snapshot);
        }
        drop(snapshot);
        let pressure = shard.window_pressure();
        server.proxy().upstreams.http2_memory.set_pressure(pressure);
        shard.end_surplus_waits();
        shard.log.borrow_mut().flush();
        since_sweep += 1;
        if since_sweep >= POOL_SWEEP_TICKS {
            since_sweep = 0;
            server.proxy().upstreams.pool.sweep(tick);
            server.trim_memory();
        }
        since_trim += 1;
        if since_trim >= TRIM_TICKS {
            since_trim = 0;
            if shard.is_short_of_memory() {
                server.trim_memory();
            }
            shard.trim_idle_memory();
        }
        due = due.max(now.checked_sub(WHEEL_TICK).unwrap_or(now));
    }
}

async fn serve_inbox(server: &Rc<Server>, inbox: InboxReader) -> io::Result<()> {
    let (shard, upstreams) = (server.shard(), &server.proxy().upstreams);
    let mut wake_socket = UnixStream::from_std(inbox.wake_socket)?;
    let mut bytes = vec![0_u8; 64];
    loop {
        while let Some(message) = inbox.queue.pop() {
            match message {
                ShardMessage::Listen { bind, sockets } => {
                    let listening = match sockets.transport() {
                        Transport::Tcp => {
                            server.acceptors.listen(&server.downstream, bind, sockets)
                        }
                        Transport::Udp => server.udp.listen(server.proxy(), bind, sockets),
                    };
                    if let Err(error) = listening {
                        tracing::error!(shard = shard.id, bind, %error, "cannot accept connections");
                    }
                }
                ShardMessage::Adopt {
                    bind,
                    socket,
                    address,
                } => {
                    if let Err(error) = accept::adopt(&server.downstream, bind, socket, address) {
                        tracing::warn!(shard = shard.id, %error, "cannot take over a connection from another shard");
                    }
                }
                ShardMessage::Unlisten { bind } => {
                    server.udp.stop(|of| of == bind);
                    server.acceptors.stop(shard, |of| of == bind).await;
                    monoio::spawn(close_orphans(Rc::clone(shard), bind));
                    shard.clients.wake_listening();
                }
                ShardMessage::StopAccepting => {
                    server.udp.stop(|_| true);
                    server.acceptors.stop(shard, |_| true).await;
                }
                ShardMessage::AnnounceDrain => shard.draining.announce(),
                ShardMessage::Drain => {
                    shard.draining.begin();
                    monoio::spawn(close_idle(Rc::clone(shard)));
                    shard.clients.wake_listening();
                    upstreams.pool.clear();
                    upstreams.sessions.clear();
                }
                ShardMessage::FreeEndpoint(endpoint) => upstreams.free_endpoint(endpoint),
                ShardMessage::EndpointFreed(endpoint) => upstreams.endpoint_limits.wake(endpoint),
                ShardMessage::Admin(query) => replies::reply(server.proxy(), query),
                ShardMessage::Stop => return stop(server).await,
            }
        }
        let result;
        (result, bytes) = wake_socket.read(bytes).await;
        if result? == 0 {
            return stop(server).await;
        }
    }
}

/// Closes idle connections in batches.
async fn close_idle(shard: Rc<Shard>) {
    let each = shard.clients.open() / DRAIN_SPREAD_TICKS;
    while shard.clients.close_idle_some(each.max(DRAIN_BATCH)) > 0 {
        monoio::time::sleep(WHEEL_TICK).await;
    }
}

/// Closes the idle connections of a removed bind, unless it was restored meanwhile.
async fn close_orphans(shard: Rc<Shard>, bind: u32) {
    monoio::time::sleep(ORPHAN_GRACE).await;
    if shard.config.load().bind(bind).is_none() {
        shard.clients.close_idle(|of| of == bind);
    }
}

/// Ends every connection and waits for its operations: the kernel may still use their buffers.
async fn stop(server: &Server) -> io::Result<()> {
    let shard = server.shard();
    server.acceptors.stop(shard, |_| true).await;
    shard.draining.expire();
    shard.clients.reset_all();
    let sessions = server.udp.end_sessions();
    for tick in 0..STOP_TICKS {
        // UDP sessions are logged as they end, which is immediate.
        if shard.clients.open() == 0 && (sessions == 0 || tick > 0) {
            break;
        }
        monoio::time::sleep(WHEEL_TICK).await;
    }
    shard.log.borrow_mut().flush();
    Ok(())
}
