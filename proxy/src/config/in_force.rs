//! The configuration in force, as the admin server shows it: what was said beside what came of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use xds::model::{BindKey, Model};

use super::Snapshot;

/// What the configuration thread lets others see. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct InForce(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    told: ArcSwap<Told>,
    /// The binds that are not listened on.
    down: ArcSwap<Vec<BindDown>>,
    /// Whether there was a time when the binds of a configuration had been tried, and any of them,
    /// if there are any, was listened on.
    listened: AtomicBool,
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
#[derive(Debug, Default)]
pub struct Told {
    /// What it says.
    pub model: Arc<Model>,
    /// What came of it.
    pub snapshot: Arc<Snapshot>,
    /// When it was put in force; `None` for the empty one before the first.
    pub since: Option<Instant>,
    /// Conditions of its objects that are not as they should be.
    pub problems: usize,
}

impl InForce {
    /// Shows another configuration.
    pub fn tell(&self, told: Told) {
        self.0.told.store(Arc::new(told));
    }

    /// The configuration in force.
    #[must_use]
    pub fn told(&self) -> Arc<Told> {
        self.0.told.load_full()
    }

    /// Says which binds were tried, by how many are listened on and which are not.
    pub fn tried(&self, up: usize, down: Vec<BindDown>) {
        if up > 0 || down.is_empty() {
            self.0.listened.store(true, Ordering::Relaxed);
        }
        self.0.down.store(Arc::new(down));
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
