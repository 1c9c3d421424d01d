//! The configuration in force, as the admin server shows it: what was said beside what came of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use xds::model::Model;

use super::Snapshot;

/// What the configuration thread lets others see. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct InForce(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    told: ArcSwap<Told>,
    /// Whether there was a time when every bind of the configuration was listened on.
    listened: AtomicBool,
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

    /// Says that all binds are listened on.
    pub fn listens(&self) {
        self.0.listened.store(true, Ordering::Relaxed);
    }

    /// Whether all binds were listened on at some time. A bind that is refused later is no reason
    /// to take the others out of service.
    #[must_use]
    pub fn has_listened(&self) -> bool {
        self.0.listened.load(Ordering::Relaxed)
    }
}
