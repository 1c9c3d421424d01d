//! Applies changes of the model, from any source.
//!
//! The steps of a change: the changed parts are compiled, the snapshot is published, and the
//! supervisor is given its binds. Host names are resolved and JWKS fetched meanwhile (`wait` says
//! what is waited for). Events without a
//! change of the source (DNS answers, JWKS, failed binds) are handled here too.

mod binds;
mod trim;
mod wait;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinError;
use tracing::info;
use xds::model::{BindKey, Change, Hostname, Transport};

use self::binds::Binds;
use self::trim::TrimSchedule;
use self::wait::WaitAllowance;
use super::Published;
use super::compile::{CompileOptions, Compiler, KeyOrigin};
use super::dns::{Answer, LookupError, Names, Resolver};
use super::health_check::HealthChecks;
use super::in_force::InForce;
use super::jobs::Jobs;
use super::jwks::Fetcher;
use super::publish::Publisher;
use super::session_keys::{OwnSessionKeys, SessionKeyFiles};
use crate::limits::SNAPSHOT_SWEEP;

pub(super) use self::wait::Wait;
pub(super) use super::timer::sleep_until;

/// A bind for the supervisor to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindRequest {
    /// Its id in the snapshots.
    pub id: u32,
    /// Key of the bind in the model.
    pub key: BindKey,
    /// For connections or for datagrams.
    pub transport: Transport,
    /// Address and port to listen on.
    pub address: SocketAddr,
}

/// Takes all binds to listen on: opens new ones and closes those that are missing. Returns the ids
/// of those that failed, with errors; they are requested again.
pub type Binder = Box<dyn FnMut(Vec<BindRequest>) -> Vec<(u32, io::Error)> + Send>;

/// A change of the configuration from a source.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) changes: Vec<Change>,
    /// Conditions with a problem.
    pub(super) problems: usize,
    /// When the source noticed the change.
    pub(super) begun: Instant,
}

/// Describes the position of a bind in a source, for messages.
pub(super) type Locate<'a> = &'a dyn Fn(&BindKey) -> String;

/// An event without a change of the source.
#[derive(Debug)]
pub(super) enum Event {
    Answer(Lookup),
    Keys,
    /// Checks are ignored, or stretched, for other services than before.
    HealthChecks,
    SessionKeys,
    Time,
}

/// A name, and the result of looking it up.
type Lookup = (Hostname, Result<Result<Answer, LookupError>, JoinError>);

/// The only writer of the current snapshot.
pub(super) struct Applier {
    names: Names,
    allowance: WaitAllowance,
    resolver: Resolver,
    lookups: Jobs<Hostname, Result<Answer, LookupError>>,
    keys: Fetcher,
    health_checks: HealthChecks,
    session_keys: SessionKeyFiles,
    compiler: Compiler,
    options: CompileOptions,
    /// Whether the zone of the options is of the command line.
    zone_is_given: bool,
    published: Published,
    publisher: Publisher,
    binds: Binds,
    in_force: InForce,
    /// Changes that are not applied yet.
    pending: Vec<Change>,
    problems: usize,
    swept: Instant,
    trims: TrimSchedule,
}

impl Applier {
    pub(super) fn new(
        (options, session_keys): (CompileOptions, OwnSessionKeys),
        in_force: InForce,
        published: Published,
        binder: Binder,
        resolver: Resolver,
    ) -> Self {
        in_force.set_place(options.place.clone());
        let (keys, wake) = Fetcher::new();
        let mut applier = Self {
            names: Names::default(),
            allowance: WaitAllowance::new(Instant::now()),
            resolver,
            lookups: Jobs::new(),
            keys,
            health_checks: HealthChecks::default(),
            session_keys: SessionKeyFiles::new(session_keys),
            compiler: Compiler::with_waker(wake),
            zone_is_given: options.place.zone.is_some(),
            options,
            publisher: Publisher::new(Published::clone(&published)),
            published,
            binds: Binds::new(binder),
            in_force,
            pending: Vec::new(),
            problems: 0,
            swept: Instant::now(),
            trims: TrimSchedule::default(),
        };
        // Since before they were watched, they may have changed.
        applier
            .session_keys
            .read_again(Duration::ZERO, Instant::now());
        applier.set_session_keys();
        applier
    }

    /// Applies an update. Waits for what is new in it as `wait` says. Answers that come later are
    /// applied as changes of their own; until then requests to such a backend, and those that need
    /// such a key, get 503.
    pub(super) async fn update(&mut self, update: Update, wait: Wait, locate: Locate<'_>) {
        self.compiler.take(&update.changes);
        let now = Instant::now();
        let deadline = self.allowance.deadline(wait, now);
        if self.resolve_new(deadline).await {
            self.compiler.names_changed();
        }
        self.allowance.spend(wait, now.elapsed());
        let Update {
            changes,
            problems,
            begun,
        } = update;
        let resources = changes.len();
        self.pending.extend(changes);
        self.problems = problems;
        let keys_until = (wait == Wait::First).then_some(deadline);
        self.activate(begun, keys_until, locate).await;
        self.trims.record(resources, Instant::now());
    }

    /// Waits for the next event. Cancel safe.
    pub(super) async fn event(&mut self) -> Event {
        let wake = self.wake_at();
        tokio::select! {
            Some(lookup) = self.lookups.next() => Event::Answer(lookup),
            () = self.keys.changed() => Event::Keys,
            () = self.health_checks.changed() => Event::HealthChecks,
            () = self.session_keys.changed() => Event::SessionKeys,
            () = sleep_until(wake) => Event::Time,
        }
    }

    pub(super) async fn handle(&mut self, event: Event, locate: Locate<'_>) {
        match event {
            Event::Answer(lookup) => self.apply_lookups(lookup, locate).await,
            Event::Keys => self.publish_missing_keys(),
            Event::HealthChecks => self.publish_limited_checks(),
            Event::SessionKeys => self.read_session_keys(locate).await,
            Event::Time => {
                self.on_timer(locate);
                let now = Instant::now();
                if self.session_keys.forget_expired(now) {
                    self.set_session_keys();
                    self.activate(now, None, locate).await;
                }
            }
        }
    }

    /// Takes the zone of this proxy from the controller, if that knows one, unless the command line has named it.
    pub(super) async fn learn_zone(&mut self, zone: Option<Arc<str>>, locate: Locate<'_>) {
        let is_news = zone.is_some() && zone != self.options.place.zone;
        if self.zone_is_given || !is_news {
            return;
        }
        self.options.place.zone = zone;
        self.in_force.set_place(self.options.place.clone());
        if self.in_force.applied().since.is_some() {
            // Compiled again as a whole.
            self.activate(Instant::now(), None, locate).await;
        }
    }

    /// Requests the binds again.
    pub(super) fn request_binds(&mut self, locate: Locate<'_>) {
        self.binds.request_all(locate);
        self.publish_bind_state();
    }

    /// Number of binds listened on.
    pub(super) fn up(&self) -> usize {
        self.binds.up()
    }

    /// Why no bind could be opened.
    pub(super) fn failure_summary(&self) -> String {
        self.binds.failure_summary()
    }

    /// Compiles the changes, starts fetching new JWKS, publishes the snapshot, and only then opens
    /// and closes binds: no connection meets a snapshot that lacks its bind. Waits for the JWKS until
    /// a deadline, if there is one.
    async fn activate(&mut self, begun: Instant, keys_until: Option<Instant>, locate: Locate<'_>) {
        let resolved = self.names.resolved();
        let snapshot = self.compiler.snapshot(resolved, &self.options);
        let remote = self.compiler.remote_keys();
        self.keys.set_desired(remote, &snapshot, &self.resolver);
        if let Some(deadline) = keys_until {
            let resolver = &self.resolver;
            self.keys
                .wait_for_first(deadline, &snapshot, resolver)
                .await;
        }
        self.publish_missing_keys();
        self.publisher.publish(snapshot);
        let snapshot = self.published.load_full();
        let changes = std::mem::take(&mut self.pending);
        self.in_force
            .publish(changes, Arc::clone(&snapshot), self.problems);
        self.health_checks.set_desired(&snapshot);
        self.publish_limited_checks();
        self.binds.set_desired(&snapshot, locate);
        self.publish_bind_state();
        let model = self.compiler.model();
        info!(
            version = snapshot.version,
            listeners = model.listeners.len(),
            binds = self.binds.up(),
            rules = snapshot.rules.rules,
            attachments = snapshot.rules.attachments,
            backends = snapshot.clusters.len(),
            endpoints = snapshot.endpoints,
            problems = self.problems,
            milliseconds = begun.elapsed().as_millis(),
            "configuration applied"
        );
        self.sweep();
    }

    /// Starts lookups of new names, and waits for their answers. Returns whether any came.
    async fn resolve_new(&mut self, deadline: Instant) -> bool {
        self.names
            .set_desired(self.compiler.model(), Instant::now());
        self.start_lookups();
        let mut changed = false;
        while !self.names.settled() {
            let lookup = tokio::time::timeout_at(deadline.into(), self.lookups.next());
            let Ok(Some(lookup)) = lookup.await else {
                break;
            };
            changed |= self.record_lookup(lookup);
            self.start_lookups();
        }
        self.names.stop_waiting();
        changed
    }

    fn start_lookups(&mut self) {
        let due = self.names.take_due(Instant::now());
        if !due.is_empty() {
            self.resolver.refresh();
        }
        for name in due {
            let resolver = self.resolver.clone();
            let looked_up = name.clone();
            let lookup = async move { resolver.lookup(&looked_up).await };
            self.lookups.start(name, lookup);
        }
    }

    /// Takes this answer and others that are ready, and applies them if they change anything.
    async fn apply_lookups(&mut self, first: Lookup, locate: Locate<'_>) {
        let begun = Instant::now();
        let mut changed = self.record_lookup(first);
        while let Some(lookup) = self.lookups.try_next() {
            changed |= self.record_lookup(lookup);
        }
        if changed {
            self.compiler.names_changed();
            self.activate(begun, None, locate).await;
        }
    }

    fn record_lookup(&mut self, (name, result): Lookup) -> bool {
        let panicked =
            |error| LookupError(format!("the lookup panicked; please report it: {error}"));
        let answer = result.unwrap_or_else(|error| Err(panicked(error)));
        self.names.record(&name, answer, Instant::now())
    }

    async fn read_session_keys(&mut self, locate: Locate<'_>) {
        let now = Instant::now();
        let rules = self.compiler.model().routes.values();
        let lifetime = rules.map(|route| route.rule.token_lifetime()).max();
        let lifetime = lifetime.unwrap_or_default();
        if self.session_keys.read_again(lifetime, now) {
            self.set_session_keys();
            self.activate(now, None, locate).await;
        }
    }

    fn set_session_keys(&mut self) {
        let origin = if self.session_keys.are_of_files() {
            KeyOrigin::Files
        } else {
            KeyOrigin::Random
        };
        if let Some(keys) = self.session_keys.keys() {
            self.compiler.set_session_keys(origin, &keys);
        }
    }

    fn publish_missing_keys(&self) {
        self.in_force.set_missing_keys(self.keys.missing());
    }

    fn publish_limited_checks(&mut self) {
        let limited = self.health_checks.limited(Instant::now());
        self.in_force.set_limited_checks(limited);
    }

    fn publish_bind_state(&self) {
        self.in_force.set_bound(self.binds.up(), self.binds.down());
    }

    fn sweep(&mut self) {
        self.swept = Instant::now();
        let oldest = self.publisher.sweep();
        self.in_force.set_replaced(self.publisher.replaced());
        self.compiler.release(oldest, self.publisher.held());
    }

    /// The next time at which a timer is due.
    fn wake_at(&self) -> Option<Instant> {
        let sweep = self.publisher.waits().then(|| self.swept + SNAPSHOT_SWEEP);
        let times = [
            self.names.next_due(),
            self.keys.next_due(),
            self.binds.retry_at(),
            self.trims.due(),
            self.session_keys.next_due(),
            sweep,
        ];
        times.into_iter().flatten().min()
    }

    fn on_timer(&mut self, locate: Locate<'_>) {
        self.start_lookups();
        self.keys.fetch_due(&self.published.load(), &self.resolver);
        let now = Instant::now();
        if self.binds.retry_at().is_some_and(|at| at <= now) {
            self.request_binds(locate);
        }
        if self.publisher.waits() && self.swept + SNAPSHOT_SWEEP <= now {
            self.sweep();
        }
        if let Some(trim) = self.trims.take_due(now) {
            trim.run();
        }
    }
}
