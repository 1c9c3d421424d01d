//! The configuration in force, as the admin server shows it: what was said beside what came of it.

#![expect(
    clippy::disallowed_types,
    reason = "the configuration and admin threads share it; no shard does"
)]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use xds::model::{BindKey, Change, Model};

use super::Snapshot;

/// What the configuration thread lets others see. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct InForce(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    told: Mutex<Told>,
    /// The binds that are not listened on.
    down: ArcSwap<Vec<BindDown>>,
    /// Whether there was a time when the binds of a configuration had been tried, and any of them,
    /// if there are any, was listened on.
    listened: AtomicBool,
    /// Whether there was a configuration that could be recognised in full.
    recognised: AtomicBool,
}

/// A bind that could not be listened on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindDown {
    /// Its id in the snapshots.
    pub id: u32,
    /// Its key.
    pub key: BindKey,
    /// Where it was to listen.
    pub address: SocketAddr,
    /// Why it could not.
    pub reason: String,
}

/// A configuration that was put in force.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// What it says.
    pub model: Arc<Model>,
    /// What came of it.
    pub snapshot: Arc<Snapshot>,
    /// When it was put in force; `None` for the empty one before the first.
    pub since: Option<Instant>,
    /// Conditions of configured objects that report a problem.
    pub problems: usize,
}

impl InForce {
    /// Shows another configuration: the one before with changes, and what came of it.
    pub fn tell(&self, changes: Vec<Change>, snapshot: Arc<Snapshot>, problems: usize) {
        let mut told = self.lock();
        // It is copied only where somebody looks at it right now.
        Arc::make_mut(&mut told.model).apply(changes);
        told.snapshot = snapshot;
        told.since = Some(Instant::now());
        told.problems = problems;
    }

    /// The configuration in force.
    #[must_use]
    pub fn told(&self) -> Told {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which binds were tried, by how many are listened on and which are not.
    pub fn tried(&self, up: usize, down: Vec<BindDown>) {
        if up > 0 || down.is_empty() {
            self.0.listened.store(true, Ordering::Relaxed);
        }
        self.0.down.store(Arc::new(down));
    }

    /// Notes that every document of a configuration could be recognised.
    pub fn recognise(&self) {
        self.0.recognised.store(true, Ordering::Relaxed);
    }

    /// Whether every document of this configuration, or of an earlier one, could be recognised. Before
    /// that, one that could not may be the policy that says who is let in.
    #[must_use]
    pub fn was_recognised(&self) -> bool {
        self.0.recognised.load(Ordering::Relaxed)
    }

    /// The binds that are not listened on.
    #[must_use]
    pub fn down(&self) -> Arc<Vec<BindDown>> {
        self.0.down.load_full()
    }

    /// Whether the proxy has come to listen. One that cannot have one of its ports serves the
    /// others: taking them out of service would make a small failure a large one. Which ports are
    /// missing is told by metrics, dump and log.
    #[must_use]
    pub fn has_listened(&self) -> bool {
        self.0.listened.load(Ordering::Relaxed)
    }
}
