//! A shard's thread: runtime, housekeeping, inbox.

#![expect(unsafe_code, reason = "sched_setaffinity(2)")]

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use monoio::io::AsyncReadRent;
use monoio::net::UnixStream;

use super::Shard;
use super::accept::Acceptors;
use super::inbox::{Ask, InboxReader};
use super::wheel::Tick;
use crate::config::Published;
use crate::driver::{Driver, DriverChoice, DriverReport, Waits};
use crate::limits::{POOL_SWEEP_TICKS, WHEEL_TICK};
use crate::observe::counters::ShardCounters;
use crate::observe::log_writer::LogSink;

/// What a shard is started with.
pub struct ShardOptions {
    /// Its number, from 0.
    pub id: u16,
    /// The runtime wanted.
    pub driver: DriverChoice,
    /// Client connections it may hold.
    pub connections: u32,
    /// The core to run on.
    pub core: Option<usize>,
    /// The published configuration.
    pub published: Published,
    /// Where it counts.
    pub counters: Arc<ShardCounters>,
    /// Where its access log goes.
    pub log: LogSink,
    /// Seals session tokens.
    pub session_key: ring::hmac::Key,
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
        pin(core)?;
    }
    let (driver, report) = Driver::build(options.driver, options.connections)?;
    let waits = driver.waits();
    inbox.bell.set_nonblocking(waits == Waits::ForReadiness)?;
    started(report);
    driver.block_on(async move {
        let shard = Rc::new(Shard::new(options, waits));
        monoio::spawn(housekeeping(Rc::clone(&shard)));
        serve_inbox(&shard, inbox).await
    })
}

/// Each tick: expired deadlines, and the access log's lines; now and then, idle upstreams.
async fn housekeeping(shard: Rc<Shard>) {
    let started = Instant::now();
    let mut due = started;
    let mut since_sweep = 0;
    loop {
        due += WHEEL_TICK;
        monoio::time::sleep_until(due.into()).await;
        let now = Instant::now();
        shard
            .counters
            .loop_lag
            .observe(now.saturating_duration_since(due));
        let tick = Tick::at(now.saturating_duration_since(started));
        shard.advance(tick);
        // An idle shard lets go of old configurations too.
        drop(shard.config.load());
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
                Ask::Listen { bind, socket } => {
                    if let Err(error) = Acceptors::listen(shard, bind, socket) {
                        tracing::error!(shard = shard.id, bind, %error, "cannot accept connections");
                    }
                }
                Ask::Unlisten { bind } => {
                    Acceptors::stop(shard, |of| of == bind).await;
                    shard.clients.close_idle(|of| of == bind);
                }
                Ask::StopAccepting => Acceptors::stop(shard, |_| true).await,
                Ask::Drain => {
                    shard.draining.set(true);
                    shard.clients.close_idle(|_| true);
                    shard.pool.clear();
                }
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

/// Ends every connection and waits for their operations: the kernel may still have their buffers.
async fn stop(shard: &Rc<Shard>) -> io::Result<()> {
    Acceptors::stop(shard, |_| true).await;
    shard.draining.set(true);
    shard.clients.close_all();
    for _ in 0..STOP_TICKS {
        if shard.clients.open() == 0 {
            break;
        }
        monoio::time::sleep(WHEEL_TICK).await;
    }
    shard.log.borrow_mut().flush();
    Ok(())
}

/// For how long the last operations are waited for: 2 s.
const STOP_TICKS: u32 = 20;

fn pin(core: usize) -> io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is the empty set, and the pointer and size name a live one.
    let pinned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if pinned == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
