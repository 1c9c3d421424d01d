//! The current configuration, as the admin server shows it: the model and its compiled snapshot.

#![expect(
    clippy::disallowed_types,
    reason = "the configuration and admin threads share it; no shard does"
)]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use translate::Level;
use xds::model::{BindKey, Change, JwksLocation, Model};

use super::{LimitedCheck, Place, Snapshot};

/// State of the configuration thread that others can read. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct InForce(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    applied: Mutex<AppliedConfig>,
    /// The binds that failed.
    down: ArcSwap<Vec<BindDown>>,
    /// The JWKS without current keys.
    missing_keys: ArcSwap<Vec<MissingKeys>>,
    /// The health checks that do not do what they are configured for.
    limited_checks: ArcSwap<Vec<LimitedCheck>>,
    /// Where this proxy runs, as far as it knows.
    place: ArcSwap<Place>,
    /// Objects in files whose previous version stays in effect.
    previous_versions: ArcSwap<Vec<String>>,
    /// What is wrong with the objects in files, the worst first.
    file_problems: ArcSwap<Vec<FileProblem>>,
    /// Replaced configurations that requests still use.
    replaced: AtomicUsize,
    /// Whether the binds of a configuration were tried, and any of them, if there are any,
    /// succeeded.
    listened: AtomicBool,
    /// Whether every document of some configuration was recognised.
    recognised: AtomicBool,
}

/// A bind that could not be listened on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindDown {
    /// Its id in the snapshots.
    pub id: u32,
    /// Key of the bind in the model.
    pub key: BindKey,
    /// Address that it should listen on.
    pub address: SocketAddr,
    /// Why it could not.
    pub reason: String,
}

/// Something that is wrong with an object in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProblem {
    /// How bad it is.
    pub level: Level,
    /// Place, object, field, what is wrong, and what to do.
    pub text: String,
    /// The hosts of the route that has no parent because of it.
    pub hosts: Vec<String>,
}

/// A JWKS that could not be fetched, or has not been fetched yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingKeys {
    /// Where it is fetched from, as policies name it.
    pub location: JwksLocation,
    /// The same without credentials, for people.
    pub from: String,
    /// Time of the last fetch that succeeded; before the first, when the configuration began to use
    /// it.
    pub since: Instant,
    /// Failed fetches since then.
    pub failures: u32,
    /// Whether keys of an earlier fetch are in use, for a day at most.
    pub was_fetched: bool,
    /// Why the last fetch failed; `None` during the first one.
    pub error: Option<String>,
}

/// A configuration that was applied.
#[derive(Debug, Clone, Default)]
pub struct AppliedConfig {
    /// The model that was compiled.
    pub model: Arc<Model>,
    /// The snapshot that the shards use.
    pub snapshot: Arc<Snapshot>,
    /// When it was applied; `None` for the empty one before the first.
    pub since: Option<Instant>,
    /// Conditions of configured objects that report a problem, and errors in files.
    pub problems: usize,
}

impl InForce {
    /// Publishes another configuration: the previous model with changes, and its snapshot.
    pub fn publish(&self, changes: Vec<Change>, snapshot: Arc<Snapshot>, problems: usize) {
        let mut applied = self.lock();
        // Copied only while a reader holds it.
        Arc::make_mut(&mut applied.model).apply(changes);
        applied.snapshot = snapshot;
        applied.since = Some(Instant::now());
        applied.problems = problems;
    }

    /// Sets the number of problems, whether or not anything else changes.
    pub fn set_problems(&self, problems: usize) {
        self.lock().problems = problems;
    }

    /// The configuration that was applied last.
    #[must_use]
    pub fn applied(&self) -> AppliedConfig {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, AppliedConfig> {
        self.0
            .applied
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the result of binding: how many binds are listened on, and which failed.
    pub fn set_bound(&self, up: usize, down: Vec<BindDown>) {
        if up > 0 || down.is_empty() {
            self.0.listened.store(true, Ordering::Relaxed);
        }
        self.0.down.store(Arc::new(down));
    }

    /// Records that every document of a configuration was recognised.
    pub fn recognise(&self) {
        self.0.recognised.store(true, Ordering::Relaxed);
    }

    /// Whether every document of this configuration, or of an earlier one, was recognised. Before
    /// that, an unrecognised one may be the policy that restricts access.
    #[must_use]
    pub fn was_recognised(&self) -> bool {
        self.0.recognised.load(Ordering::Relaxed)
    }

    /// The binds that failed.
    #[must_use]
    pub fn down(&self) -> Arc<Vec<BindDown>> {
        self.0.down.load_full()
    }

    /// Sets the objects in files whose previous version stays in effect, as their current one is
    /// invalid or unreadable.
    pub fn set_previous_versions(&self, objects: Vec<String>) {
        self.0.previous_versions.store(Arc::new(objects));
    }

    /// The objects in files whose previous version stays in effect.
    #[must_use]
    pub fn previous_versions(&self) -> Arc<Vec<String>> {
        self.0.previous_versions.load_full()
    }

    /// Sets what is wrong with the objects in files, the worst first.
    pub fn set_file_problems(&self, problems: Vec<FileProblem>) {
        self.0.file_problems.store(Arc::new(problems));
    }

    /// What is wrong with the objects in files, the worst first.
    #[must_use]
    pub fn file_problems(&self) -> Arc<Vec<FileProblem>> {
        self.0.file_problems.load_full()
    }

    /// Sets the number of replaced configurations that requests still use.
    pub fn set_replaced(&self, count: usize) {
        self.0.replaced.store(count, Ordering::Relaxed);
    }

    /// Replaced configurations that requests still use: each until the rule of its last request is known.
    #[must_use]
    pub fn replaced(&self) -> usize {
        self.0.replaced.load(Ordering::Relaxed)
    }

    /// Sets the JWKS without current keys.
    pub fn set_missing_keys(&self, missing: Vec<MissingKeys>) {
        self.0.missing_keys.store(Arc::new(missing));
    }

    /// The JWKS without current keys.
    #[must_use]
    pub fn missing_keys(&self) -> Arc<Vec<MissingKeys>> {
        self.0.missing_keys.load_full()
    }

    /// Sets the health checks that do not do what they are configured for.
    pub fn set_limited_checks(&self, limited: Vec<LimitedCheck>) {
        self.0.limited_checks.store(Arc::new(limited));
    }

    /// The health checks that do not do what they are configured for.
    #[must_use]
    pub fn limited_checks(&self) -> Arc<Vec<LimitedCheck>> {
        self.0.limited_checks.load_full()
    }

    /// Sets where this proxy runs.
    pub fn set_place(&self, place: Place) {
        self.0.place.store(Arc::new(place));
    }

    /// Where this proxy runs, as far as it knows.
    #[must_use]
    pub fn place(&self) -> Arc<Place> {
        self.0.place.load_full()
    }

    /// Whether the proxy listens. A proxy that lacks one of its ports serves the others: taking it
    /// out of service would turn a small failure into a large one. Metrics, dump and log show the
    /// missing ports.
    #[must_use]
    pub fn has_listened(&self) -> bool {
        self.0.listened.load(Ordering::Relaxed)
    }
}
