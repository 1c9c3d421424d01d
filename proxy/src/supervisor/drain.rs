//! Draining all shards: keeps accepting for a while, lets open connections finish, and resets the
//! rest.

use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam::channel::Receiver;
use tracing::{info, warn};

use super::{DrainPlan, Event, Shards, ShutdownMode};
use crate::limits::{DRAIN_CHECK_INTERVAL, STOP_TIMEOUT};
use crate::machine::memory::MemoryWatch;
use crate::shard::inbox::ShardMessage;

/// Drains. A second shutdown request ends at once.
pub(super) fn run(
    shards: &Shards,
    events: &Receiver<Event>,
    memory: &mut MemoryWatch,
    plan: DrainPlan,
    urgency: ShutdownMode,
) {
    shards.0.draining.store(true, Ordering::Relaxed);
    shards.send_all(|| ShardMessage::AnnounceDrain);
    let deadline = Instant::now() + plan.deadline;
    let accept_until = match urgency {
        ShutdownMode::Graceful => Instant::now() + plan.accept.min(plan.deadline),
        ShutdownMode::Prompt => Instant::now(),
    };
    info!(
        clients = shards.clients(),
        "draining; still accepting connections"
    );
    if wait(shards, events, memory, accept_until, || false) == DrainWait::Interrupted {
        return exit_now(shards);
    }
    shards.send_all(|| ShardMessage::Drain);
    shards.stop_accepting();
    match wait(shards, events, memory, deadline, || shards.clients() == 0) {
        DrainWait::Over => stop(shards, events),
        DrainWait::Interrupted => exit_now(shards),
    }
}

/// Exits immediately after a second request. The kernel resets what is open.
fn exit_now(shards: &Shards) {
    warn!(
        clients = shards.clients(),
        "second shutdown signal; not waiting for open connections"
    );
}

/// Stops the shards and waits for them, except for stuck ones and after another request: the kernel
/// frees their resources.
fn stop(shards: &Shards, events: &Receiver<Event>) {
    // Those that linger have their response.
    match shards.clients().saturating_sub(shards.lingering_clients()) {
        0 => info!("drained"),
        left => warn!(
            clients = left,
            "drain deadline exceeded; resetting the remaining connections"
        ),
    }
    shards.send_all(|| ShardMessage::Stop);
    let threads: Vec<_> = shards
        .state()
        .threads
        .iter_mut()
        .filter_map(Option::take)
        .collect();
    let until = Instant::now() + STOP_TIMEOUT;
    while !threads.iter().all(JoinHandle::is_finished) {
        let next_check = Instant::now() + DRAIN_CHECK_INTERVAL;
        let received = events.recv_deadline(next_check.min(until));
        if matches!(received, Ok(Event::Stop(_))) || Instant::now() >= until {
            warn!("a shard did not stop in time; exiting without waiting for it");
            return;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrainWait {
    Over,
    Interrupted,
}

/// Waits until `until` or `done`; restarts shards that die meanwhile.
fn wait(
    shards: &Shards,
    events: &Receiver<Event>,
    memory: &mut MemoryWatch,
    until: Instant,
    done: impl Fn() -> bool,
) -> DrainWait {
    while !done() && Instant::now() < until {
        let next_check = (Instant::now() + DRAIN_CHECK_INTERVAL).min(until);
        match events.recv_deadline(next_check) {
            Ok(Event::Stop(_)) => return DrainWait::Interrupted,
            Ok(Event::Ended(id)) => shards.restart(id),
            Err(_) => memory.refresh(),
        }
    }
    DrainWait::Over
}
