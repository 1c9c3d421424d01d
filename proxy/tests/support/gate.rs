//! Gates that a test opens for an origin, and counters that an origin keeps for a test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::TIMEOUT;

/// Holds an origin's script until the test opens it. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate {
    state: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    /// Lets all waiting and later callers pass.
    pub(crate) fn open(&self) {
        *self.state.0.lock().expect("no holder panics") = true;
        self.state.1.notify_all();
    }

    /// Waits until it is open, or for [`TIMEOUT`]. Returns whether it is open.
    pub(crate) fn pass(&self) -> bool {
        let (open, changed) = &*self.state;
        let guard = open.lock().expect("no holder panics");
        let (guard, _) = changed
            .wait_timeout_while(guard, TIMEOUT, |open| !*open)
            .expect("no holder panics");
        *guard
    }
}

/// Counts bytes across threads. Clones share the counter.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByteCounter {
    bytes: Arc<AtomicU64>,
}

impl ByteCounter {
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// How many so far.
    pub(crate) fn count(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Waits until it reaches this value.
    #[track_caller]
    pub(crate) fn waits_for(&self, count: u64) {
        let deadline = Instant::now() + TIMEOUT;
        while self.count() < count {
            assert!(Instant::now() < deadline, "{}, not {count}", self.count());
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// Waits until it has not grown for `calm`. Returns its value.
    pub(crate) fn settled(&self, calm: Duration) -> u64 {
        let deadline = Instant::now() + TIMEOUT;
        let mut last = (self.count(), Instant::now());
        while last.1.elapsed() < calm {
            assert!(
                Instant::now() < deadline,
                "{} bytes and still growing",
                last.0
            );
            std::thread::park_timeout(Duration::from_millis(5));
            let now = self.count();
            if now != last.0 {
                last = (now, Instant::now());
            }
        }
        last.0
    }
}
