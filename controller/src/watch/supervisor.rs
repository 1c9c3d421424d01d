//! Starts the watches, and repeats the discovery of served kinds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use translate::ObjectKind;

use kube::Client;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::backoff::Backoff;
use super::change::Change;
use super::discovery::{self, ServedKinds};
use super::follow::{Follower, Progress, Service};
use super::kinds::{Kinds, is_built_in};
use super::measures::Measures;
use super::readiness::Readiness;
use super::requests::{Reads, Requests};
use super::rescoping::{Reports, Rescoping};
use super::scope::Selection;
use crate::metrics::Metrics;
use crate::selectors::Selectors;

/// Runs the watches of all kinds.
pub struct Supervisor {
    client: Client,
    kinds: Kinds,
    services: BTreeMap<ObjectKind, watch::Sender<Service>>,
    rediscover: Arc<Notify>,
    /// Kinds that were served before, but not in the last discovery.
    missing: Vec<ObjectKind>,
    /// Kinds that discoveries do not name, and that are not absent.
    hidden: BTreeSet<ObjectKind>,
    /// Since when the API server has not been ready.
    unready_since: Option<Instant>,
    followers: JoinSet<()>,
}

impl Supervisor {
    /// Starts the watches. Dropping it ends them.
    #[must_use]
    pub fn start(
        client: &Client,
        selectors: Selectors,
        changes: &mpsc::Sender<Change>,
        readiness: &Readiness,
        metrics: &Metrics,
    ) -> Self {
        let (selection, selected) = Selection::new(selectors);
        let reports = Reports::default();
        let rescoping = Rescoping::new(selected, &reports, readiness.kinds());
        let mut selection = Some(selection);
        let requests = Requests::default();
        let kinds = readiness.kinds();
        let measures = Measures::register(metrics, kinds.iter().map(ObjectKind::name));
        let mut supervisor = Self {
            client: client.clone(),
            kinds: readiness.kinds().clone(),
            services: BTreeMap::new(),
            rediscover: Arc::default(),
            missing: Vec::new(),
            hidden: BTreeSet::new(),
            unready_since: None,
            followers: JoinSet::new(),
        };
        for kind in readiness.kinds().iter() {
            let (sender, service) = watch::channel(Service::Unknown);
            supervisor.services.insert(kind, sender);
            let follower = Follower {
                client: client.clone(),
                service,
                rediscover: Arc::clone(&supervisor.rediscover),
                scopes: rescoping.scopes(kind),
                reports: reports.clone(),
                selection: selection.take_if(|_| kind == ObjectKind::Namespace),
                changes: changes.clone(),
                readiness: readiness.clone(),
                measures: measures.clone(),
                reads: Reads::new(&requests),
                progress: Progress::default(),
                kind,
            };
            supervisor.followers.spawn(follower.run());
        }
        supervisor.followers.spawn(rescoping.run());
        supervisor
    }

    /// Updates the watches after each discovery. Never ends.
    ///
    /// # Panics
    ///
    /// If a watch has.
    pub async fn run(mut self) {
        let followers = std::mem::take(&mut self.followers);
        tokio::select! {
            () = self.discover() => {}
            () = repeat_panic(followers) => {}
        }
    }

    async fn discover(&mut self) {
        for (id, resource) in discovery::built_in(&self.kinds) {
            self.set(id, Service::Served(resource));
        }
        let mut backoff = Backoff::default();
        loop {
            // In this order: what a server says that is ready later may be incomplete.
            let is_ready = discovery::is_ready(&self.client).await;
            let wait = match discovery::discover(&self.client, &self.kinds).await {
                Ok(served) => {
                    backoff.reset();
                    if self.is_reliable(is_ready) {
                        self.take(&served).await
                    } else {
                        MIN_INTERVAL
                    }
                }
                Err(error) => {
                    // It may be starting when it responds again.
                    self.unready_since = None;
                    warn!("API discovery failed: {error}");
                    backoff.wait()
                }
            };
            // Never more often than this, whatever the watches request.
            sleep(wait.min(MIN_INTERVAL)).await;
            let rest = wait.saturating_sub(MIN_INTERVAL);
            let _ = timeout(rest, self.rediscover.notified()).await;
        }
    }

    /// Whether a discovery names all kinds, of a server that is ready or not. Before that, it may forbid
    /// reading them, too.
    fn is_reliable(&mut self, is_ready: bool) -> bool {
        if is_ready {
            self.unready_since = None;
            return true;
        }
        let since = *self.unready_since.get_or_insert_with(Instant::now);
        since.elapsed() >= LONGEST_START
    }

    /// Applies a discovery. Returns when to repeat it.
    async fn take(&mut self, served: &ServedKinds) -> Duration {
        let kinds = self.kinds.clone();
        let mut wait = ALL_SERVED;
        for kind in kinds.iter().filter(|kind| !is_built_in(*kind)) {
            if let Some(resource) = served.get(&kind) {
                self.missing.retain(|missing| *missing != kind);
                self.hidden.remove(&kind);
                self.set(kind, Service::Served(resource.clone()));
                continue;
            }
            wait = ABSENT_KIND_INTERVAL;
            self.miss(kind).await;
        }
        wait
    }

    /// Handles that a discovery does not name a kind. That alone ends no watch: without its objects, such as
    /// policies, what they protect would be open.
    async fn miss(&mut self, kind: ObjectKind) {
        let was_served = self.is_served(kind);
        if was_served && !self.missing.contains(&kind) {
            self.missing.push(kind);
            return;
        }
        if self.is(kind, &Service::Absent) {
            return;
        }
        if discovery::is_absent(&self.client, kind, was_served).await {
            self.hidden.remove(&kind);
            self.set(kind, Service::Absent);
        } else if self.hidden.insert(kind) {
            warn!(
                "the API server does not name {} of group {} among its resources, but its CustomResourceDefinition exists or could not be read; its objects stay in effect",
                kind,
                kind.group()
            );
        }
    }

    fn is(&self, id: ObjectKind, service: &Service) -> bool {
        self.services
            .get(&id)
            .is_some_and(|it| *it.borrow() == *service)
    }

    fn is_served(&self, id: ObjectKind) -> bool {
        let service = self.services.get(&id);
        service.is_some_and(|service| matches!(*service.borrow(), Service::Served(_)))
    }

    fn set(&self, id: ObjectKind, service: Service) {
        if let Some(sender) = self.services.get(&id) {
            sender.send_if_modified(|current| {
                let is_changed = *current != service;
                *current = service;
                is_changed
            });
        }
    }
}

/// Waits for tasks, and panics if one has.
async fn repeat_panic(mut tasks: JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
    std::future::pending::<()>().await;
}

/// Interval of discovery while all kinds are served: a better version may be added.
const ALL_SERVED: Duration = Duration::from_mins(1);
/// Interval of discovery while a kind is absent, which is how long its CRD may go unnoticed.
const ABSENT_KIND_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest interval of discovery.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// How long an API server is waited for that says it is not ready: 1 min. It may never be, for a reason
/// that does not concern kinds.
const LONGEST_START: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_a_watch_is_repeated() {
        let mut watches = JoinSet::new();
        watches.spawn(async {});
        watches.spawn(async { panic!("a defect") });
        let ended = tokio::spawn(repeat_panic(watches)).await;
        let panic = ended.expect_err("it panics").into_panic();
        assert_eq!(panic.downcast_ref(), Some(&"a defect"));
    }
}
