//! Which threads that check passwords sleep, so that shards wake them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::Thread;

use crate::limits::PASSWORD_THREADS;

/// Which threads sleep, for shards that wake them.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    pub(super) threads: [Sleeper; PASSWORD_THREADS],
    pub(super) is_ending: AtomicBool,
}

/// A thread, and whether it sleeps.
#[derive(Debug, Default)]
pub(super) struct Sleeper {
    pub(super) thread: OnceLock<Thread>,
    pub(super) sleeps: AtomicBool,
}

impl Sleepers {
    /// Wakes a thread, if one sleeps. It runs on shards.
    pub(super) fn wake_one(&self) {
        // Pairs with the fence of the thread: it sees what was pushed, or we see that it sleeps.
        fence(Ordering::SeqCst);
        for sleeper in &self.threads {
            if sleeper.sleeps.swap(false, Ordering::Relaxed) {
                if let Some(thread) = sleeper.thread.get() {
                    thread.unpark();
                }
                return;
            }
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}
