//! Translates changes of objects and publishes the results: one task, which owns the translator, on a
//! thread of its own (`thread`).
//!
//! A single change is translated immediately. While changes keep arriving, they are collected into
//! batches (`pace`), so that the time spent on translation is bounded, and namespaces share it (`pending`). Nothing is published before
//! every watch is synced: a partial configuration would be a wrong one. What can be translated earlier
//! is, so that little is left to do then.

mod classes;
mod defects;
mod examination;
mod gather;
mod in_batch;
mod intake;
mod measures;
mod oversized;
mod pace;
mod pending;
mod thread;

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};
use translate::budgets::Budget;
use translate::diagnosis::{Hints, Others};
use translate::status::Status;
use translate::{Batch, Delta, Event, Infrastructure, ObjectRef, Options, Translator};
use xds::delta::{Encoded, Member, Publication};
use xds::model::{Change, ObjectName, ResourceKey};

pub use self::defects::leave_defects_to_the_log;
use self::examination::{Examination, Missing};
use self::gather::gather;
use self::intake::Intake;
use self::measures::Measures;
use self::oversized::Oversized;
use self::pace::Pace;
use self::pending::{Pending, Waited};
use crate::deploy::ports::{Port, Ports};
use crate::metrics::Metrics;
use crate::outputs::Outputs;
use crate::shared_values::SharedValues;
use crate::watch::{self, Kinds};

/// The task that translates. It takes the processor for as long as a batch takes.
pub struct Translation {
    translator: Translator,
    intake: Intake,
    outputs: Arc<Outputs>,
    measures: Measures,
    pace: Pace,
    ports: Ports,
    oversized: Oversized,
    examination: Examination,
    /// Statuses that name what does not exist, without the hints that their readers get.
    missing: Missing,
    /// Services that are not used as a whole.
    services_in_part: BTreeSet<ObjectName>,
    statuses: SharedValues<Status>,
    /// Whether the translator has started.
    is_started: bool,
    staged: Staged,
    clock: fn() -> Timestamp,
    /// When a translation is due without a change.
    wake_at: Option<Instant>,
    /// When the first pending change was received.
    oldest: Option<Instant>,
}

/// Results for the deployer, which takes them after proxies can have theirs.
#[derive(Default)]
struct Staged {
    ports: BTreeMap<ObjectName, Option<BTreeSet<Port>>>,
    infrastructure: BTreeMap<ObjectName, Option<Arc<Infrastructure>>>,
}

impl Translation {
    /// Starts without objects. `clock` is the time for certificate expiry.
    #[must_use]
    pub fn new(
        options: Options,
        kinds: &Kinds,
        outputs: Arc<Outputs>,
        metrics: &Metrics,
        clock: fn() -> Timestamp,
    ) -> Self {
        let controller_name = options.controller_name.clone();
        Self {
            intake: Intake::new(kinds, controller_name, Arc::clone(&outputs)),
            translator: Translator::new(options),
            outputs,
            measures: Measures::register(metrics),
            pace: Pace::default(),
            ports: Ports::default(),
            oversized: Oversized::default(),
            examination: Examination::default(),
            missing: Missing::default(),
            services_in_part: BTreeSet::new(),
            statuses: SharedValues::default(),
            is_started: false,
            staged: Staged::default(),
            clock,
            wake_at: None,
            oldest: None,
        }
    }

    /// The main loop: collects changes into a batch, translates it, and publishes the results. Ends
    /// when the watches have ended.
    pub async fn run(mut self, mut changes: mpsc::Receiver<watch::Change>) {
        let mut received = Vec::new();
        let mut pending = Pending::default();
        let mut batch = Batch::new();
        loop {
            let far = Instant::now() + Duration::from_hours(24);
            tokio::select! {
                count = changes.recv_many(&mut received, MAX_RECEIVED_AT_ONCE), if pending.is_empty() => {
                    if count == 0 { return }
                }
                gateways = self.outputs.addresses.changed() => self.push_addresses(gateways, &mut batch),
                gateways = self.outputs.session_keys.changed() => self.push_session_keys(gateways, &mut batch),
                () = sleep_until(self.wake_at.unwrap_or(far)) => {}
                () = self.examination.wake() => {}
                () = ready(()), if !pending.is_empty() => {}
            }
            received.drain(..).for_each(|change| pending.push(change));
            let is_serving = self.intake.is_complete();
            let waited = gather(&self.pace, is_serving, &mut changes, &mut pending).await;
            let taken = if is_serving {
                let is_of_status = |change: &watch::Change| self.intake.is_of_status(change);
                pending.take(Instant::now(), waited, is_of_status)
            } else {
                pending.take_all()
            };
            let count = taken.len();
            for change in taken {
                let oldest = self.oldest.unwrap_or(change.received);
                self.oldest = Some(oldest.min(change.received));
                self.intake
                    .take(change, self.translator.store(), &mut batch);
            }
            let gateways = self.outputs.addresses.take_changed();
            self.push_addresses(gateways, &mut batch);
            let gateways = self.outputs.session_keys.take_changed();
            self.push_session_keys(gateways, &mut batch);
            self.intake.begin_batch();
            let took = self.translate(std::mem::take(&mut batch), waited);
            if is_serving {
                pending.passed(count, took);
            }
            self.examine();
            // Yields if changes keep coming.
            tokio::task::yield_now().await;
        }
    }

    fn push_addresses(&self, gateways: impl IntoIterator<Item = ObjectName>, batch: &mut Batch) {
        for gateway in gateways {
            let addresses = self.outputs.addresses.get(&gateway).unwrap_or_default();
            batch.push(Event::AssignedAddresses(gateway, addresses));
        }
    }

    fn push_session_keys(&self, gateways: impl IntoIterator<Item = ObjectName>, batch: &mut Batch) {
        for gateway in gateways {
            let keys = self.outputs.session_keys.get(&gateway);
            batch.push(Event::SessionKeys(gateway, keys));
        }
    }

    /// Translates a batch, and publishes its results. Returns how long that took.
    fn translate(&mut self, mut batch: Batch, waited: Waited) -> Duration {
        let started = Instant::now();
        let is_first = self.intake.complete();
        if !self.is_started && self.intake.is_mostly_complete() {
            self.is_started = true;
            batch.push(Event::Start);
        }
        let events = batch.len();
        let now = (self.clock)();
        let delta = self.translator.apply(batch, now);
        let panicked = self.translator.take_defects();
        defects::log(&panicked);
        self.measures.panicked(panicked.len());
        if !self.intake.is_complete() {
            self.publish(delta);
            // Nobody waits for these results, so a short pause is enough.
            self.pace.passed(Instant::now(), Duration::ZERO);
            return Duration::ZERO;
        }
        for (series, used) in self.translator.take_budget_changes() {
            self.measures.budget(&series, used);
        }
        self.wake_at = delta.wake_at.map(|at| started + until(now, at));
        let translated = Instant::now();
        if is_first || events > 0 {
            self.examination.changed(translated);
        }
        if is_first || !delta.is_empty() {
            self.publish(delta);
        }
        if is_first {
            let resources = self.outputs.published.views().resource_count();
            info!(resources, "first complete configuration published");
            self.outputs.translated.send_replace(true);
        }
        let ended = Instant::now();
        if waited == Waited::UntilDue {
            self.pace.passed(ended, ended - started);
        }
        self.measures
            .record_pass(events, translated - started, ended - translated);
        if let Some(oldest) = self.oldest.take() {
            self.measures.lag(ended - oldest);
        }
        ended - started
    }

    /// Hands over the results of a translation. Until all watches are synced, it only prepares the first
    /// publication, for which proxies, the deployer and the status writer wait.
    fn publish(&mut self, delta: Delta) {
        self.staged.ports.extend(self.ports.take(&delta.views));
        let infrastructure = delta.infrastructure.into_iter();
        let infrastructure = infrastructure.map(|(gateway, it)| (gateway, it.map(Arc::new)));
        self.staged.infrastructure.extend(infrastructure);
        for change in &delta.resources {
            self.outputs.listener_binds.take(change);
        }
        let resources = self.encode(delta.resources);
        let members = delta.views.into_iter().flat_map(|(gateway, change)| {
            let joined = change.joined.into_iter().map(|key| (key, Member::Joined));
            let left = change.left.into_iter().map(|key| (key, Member::Left));
            let changes = joined.chain(left);
            changes.map(move |(key, member)| (gateway.clone(), key, member))
        });
        let members = members.collect();
        let publication = Publication { resources, members };
        if self.intake.is_complete() {
            self.outputs.published.publish(publication);
            let staged = std::mem::take(&mut self.staged);
            self.outputs.ports.set_all(staged.ports);
            // Set after the views: otherwise, the proxies of a Gateway that becomes ours would be authorized,
            // and get an empty configuration.
            self.outputs.infrastructure.set_all(staged.infrastructure);
            self.outputs.gateways_known.send_replace(true);
        } else {
            self.outputs.published.stage(publication);
        }
        self.set_statuses(delta.statuses);
        self.take_warnings(delta.service_warnings);
        let changed = self.oversized.take_changed();
        if !changed.is_empty() {
            let series = (Budget::ResourceBytes, None);
            self.measures.budget(&series, Some(self.oversized.used()));
        }
        self.outputs.oversized.set_all(changed);
    }

    /// The resources in wire form, without those that are too large.
    fn encode(&mut self, resources: Vec<Change>) -> Vec<(ResourceKey, Option<Arc<Encoded>>)> {
        let is_complete = self.intake.is_complete();
        let resources = resources.into_iter().filter_map(|(key, resource)| {
            self.measures.resource(key.kind);
            let encoded = resource.map(|resource| Arc::new(Encoded::new(&resource)));
            if self.oversized.admit(&key, encoded.as_ref()) {
                return Some((key, encoded));
            }
            // Its previous version stays, unless that is of what was there before everything was synced.
            (!is_complete).then_some((key, None))
        });
        resources.collect()
    }

    /// Services have no status of ours: the log and a metric tell.
    fn take_warnings(&mut self, warnings: Vec<(ObjectName, Option<Box<str>>)>) {
        for (service, warning) in warnings {
            if let Some(message) = warning {
                warn!(%service, "endpoints of a Service are not used: {message}");
                self.services_in_part.insert(service);
            } else if self.services_in_part.remove(&service) {
                info!(%service, "no endpoints of the Service are left out any more");
            }
        }
        self.measures.services_in_part(self.services_in_part.len());
    }

    fn set_statuses(&mut self, statuses: Vec<(ObjectRef, Option<Status>)>) {
        let (shared, missing) = (&mut self.statuses, &mut self.missing);
        let hints = Hints::new(self.translator.store(), Others::Hidden);
        let statuses = statuses.into_iter().map(|(object, mut status)| {
            if status.is_none() {
                shared.released();
            }
            let is_concerned = status.as_mut().is_some_and(Hints::concern);
            match &mut status {
                Some(status) if is_concerned => {
                    missing.insert(object.clone(), Arc::new(status.clone()));
                    hints.complete(&object, status);
                }
                Some(_) | None => drop(missing.remove(&object)),
            }
            (object, status.map(|it| shared.share(it)))
        });
        self.outputs.statuses.set_all(statuses);
    }

    /// Goes on with the examination, and writes again what hints at names that have come or gone.
    fn examine(&mut self) {
        let hinted = self
            .examination
            .go_on(&self.translator, &self.missing, &self.outputs);
        for it in hinted {
            let known = self.missing.get(&it.object);
            if known.is_some_and(|known| Arc::ptr_eq(known, &it.before)) {
                let status = self.statuses.share(it.after);
                self.outputs.statuses.set(&it.object, Some(status));
            }
        }
    }
}

/// Time from `now` to `at`, plus a margin: a certificate is still valid at the moment of its expiry.
fn until(now: Timestamp, at: Timestamp) -> Duration {
    let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
    wait.saturating_add(Duration::from_millis(1))
        .min(LONGEST_SLEEP)
}

/// Most changes received from the channel at once.
const MAX_RECEIVED_AT_ONCE: usize = 1024;
/// Longest sleep until a certificate expires: the clock may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_hours(1);
