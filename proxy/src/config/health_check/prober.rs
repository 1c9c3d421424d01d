//! The thread that runs the probes.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinError;
use tracing::{error, info, warn};
use xds::model::GatewayDuration;

use super::failure::ProbeFailure;
use super::http::Http2Connection;
use super::limited::{LimitedCheck, limited};
use super::probe;
use super::schedule::{ProbeId, Schedule, Stretched, Transition};
use crate::config::jobs::Jobs;
use crate::config::timer::sleep_until;
use crate::config::{Cluster, Snapshot};
use crate::limits::{PROBE_CONNECTIONS, PROBE_SHORTAGE_LOG};

/// The health checks of the current configuration. Their thread begins with the first one, and ends when this is
/// dropped.
#[derive(Debug, Default)]
pub(in crate::config) struct HealthChecks {
    /// Of the configuration that was given last.
    clusters: Vec<Arc<Cluster>>,
    thread: Option<ProberThread>,
    noticed: Arc<Noticed>,
    limited: Vec<LimitedCheck>,
}

#[derive(Debug)]
struct ProberThread {
    /// Ends the thread when it is dropped.
    desired: Option<mpsc::UnboundedSender<Vec<Arc<Cluster>>>>,
    thread: Option<JoinHandle<()>>,
}

/// What the prober tells others.
#[derive(Debug, Default)]
struct Noticed {
    /// Whether probes are ignored, or intervals stretched, for other services than before.
    changed: Notify,
}

impl HealthChecks {
    /// Checks the clusters of a snapshot from now on, once it is published.
    pub(in crate::config) fn set_desired(&mut self, snapshot: &Snapshot) {
        let clusters: Vec<Arc<Cluster>> = snapshot.checked_clusters().cloned().collect();
        let is_same = |(one, other): (&Arc<Cluster>, &Arc<Cluster>)| Arc::ptr_eq(one, other);
        if clusters.len() == self.clusters.len() && clusters.iter().zip(&self.clusters).all(is_same)
        {
            return;
        }
        self.clusters.clone_from(&clusters);
        if self.thread.as_ref().is_none_or(ProberThread::has_ended) {
            match ProberThread::start(Arc::clone(&self.noticed), Arc::clone(&snapshot.probed_out)) {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => {
                    error!(%error, "health checks cannot start: endpoints stay as they are known");
                    self.clusters.clear();
                    return;
                }
            }
        }
        if let Some(desired) = self.thread.as_ref().and_then(|it| it.desired.as_ref()) {
            // It fails if the thread has just panicked, which has been reported. The next configuration starts another one.
            let _ = desired.send(clusters);
        }
    }

    /// The checks that do not do what they are configured for, now.
    pub(in crate::config) fn limited(&mut self, now: Instant) -> Vec<LimitedCheck> {
        self.limited = limited(&self.clusters, &self.limited, now);
        self.limited.clone()
    }

    /// Waits until probes are ignored, or intervals stretched, for other services than before. Cancel safe.
    pub(in crate::config) async fn changed(&self) {
        self.noticed.changed.notified().await;
    }
}

impl ProberThread {
    fn start(noticed: Arc<Noticed>, probed_out: Arc<AtomicU64>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (desired, wanted) = mpsc::unbounded_channel();
        let prober = Prober {
            schedule: Schedule::new(),
            jobs: Jobs::new(),
            kept: HashMap::new(),
            shortage: ShortageLog::default(),
            rng: SmallRng::from_rng(&mut rand::rng()),
            noticed,
            probed_out,
        };
        let thread = thread::Builder::new()
            .name("health".to_owned())
            .spawn(move || runtime.block_on(prober.run(wanted)))?;
        Ok(Self {
            desired: Some(desired),
            thread: Some(thread),
        })
    }

    /// Whether it has panicked.
    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for ProberThread {
    fn drop(&mut self) {
        drop(self.desired.take());
        if let Some(thread) = self.thread.take() {
            // The thread has reported its panic.
            let _ = thread.join();
        }
    }
}

/// Whether a probe succeeded, and its connection.
type Probed = (Result<(), ProbeFailure>, Option<Http2Connection>);

struct Prober {
    schedule: Schedule,
    jobs: Jobs<ProbeId, Probed>,
    /// Connections for the next probes.
    kept: HashMap<ProbeId, Http2Connection>,
    rng: SmallRng,
    noticed: Arc<Noticed>,
    shortage: ShortageLog,
    /// Counts up when endpoints go out of service, so that shards close their connections.
    probed_out: Arc<AtomicU64>,
}

impl Prober {
    /// Runs until nothing can be wanted any more.
    async fn run(mut self, mut wanted: mpsc::UnboundedReceiver<Vec<Arc<Cluster>>>) {
        loop {
            let next = self.schedule.next_at();
            tokio::select! {
                clusters = wanted.recv() => {
                    let Some(mut clusters) = clusters else {
                        return;
                    };
                    while let Ok(newer) = wanted.try_recv() {
                        clusters = newer;
                    }
                    self.set_desired(clusters);
                }
                Some(ended) = self.jobs.next() => self.take(ended),
                () = sleep_until(next) => {}
            }
            for (id, target) in self.schedule.take_due(Instant::now()) {
                let kept = self.kept.remove(&id);
                let job = async move { probe::run(&target, kept).await };
                self.jobs.start(id, job);
            }
        }
    }

    fn set_desired(&mut self, clusters: Vec<Arc<Cluster>>) {
        // Results may have come between their compilation and now.
        let reviewed = clusters.clone();
        let now = Instant::now();
        let changes = self.schedule.set_desired(clusters, now, &mut self.rng);
        let stretched = changes.stretched;
        // Their settings may be other ones now.
        self.kept.clear();
        stretched.iter().for_each(log_stretched);
        self.review_all(&reviewed, changes.puts_out, !stretched.is_empty());
    }

    /// Counts again what is in service in these clusters, and tells others what has changed: with it, whether an endpoint
    /// went out of service, or something is to be noticed.
    fn review_all<'c>(
        &self,
        clusters: impl IntoIterator<Item = &'c Arc<Cluster>>,
        mut is_out: bool,
        mut is_noticed: bool,
    ) {
        for cluster in clusters {
            let panic_has_changed = review(cluster);
            is_noticed |= panic_has_changed;
            // The end of a panic puts endpoints out of service.
            is_out |= panic_has_changed;
        }
        if is_out {
            self.probed_out.fetch_add(1, Ordering::Relaxed);
        }
        if is_noticed {
            self.noticed.changed.notify_one();
        }
    }

    /// Keeps a connection for the next probe, if there is room.
    fn keep(&mut self, id: ProbeId, connection: Option<Http2Connection>) {
        let connection = connection.filter(|_| self.schedule.contains(id));
        if let Some(connection) = connection
            && self.kept.len() < PROBE_CONNECTIONS
        {
            self.kept.insert(id, connection);
        }
    }

    /// Records the result of a probe.
    fn record(
        &mut self,
        id: ProbeId,
        result: Result<(), ProbeFailure>,
    ) -> Option<(Transition, Vec<Arc<Cluster>>)> {
        let now = Instant::now();
        let failure = result.err();
        if let Some(shortage) = failure.as_ref().filter(|it| it.is_own_shortage()) {
            self.schedule.set_next(id, now, &mut self.rng);
            if let Some(probes) = self.shortage.add(now) {
                warn!(
                    "{probes} probes of health checks without a result, since the proxy lacks resources; the last \
                     one {shortage}; this is told once a minute"
                );
            }
            return None;
        }
        let failure = failure.map(|failure| failure.to_string());
        (self.schedule).record(id, failure.as_deref(), now, &mut self.rng)
    }

    /// Records the results of probes that have ended.
    fn take(&mut self, first: (ProbeId, Result<Probed, JoinError>)) {
        let mut transitions = Vec::new();
        let mut affected: HashMap<*const Cluster, Arc<Cluster>> = HashMap::new();
        let mut next = Some(first);
        while let Some((id, ended)) = next.take().or_else(|| self.jobs.try_next()) {
            let (result, connection) = match ended {
                Ok(probed) => probed,
                Err(error) => {
                    error!(%error, "a health check panicked; please report it");
                    // The endpoint cannot be blamed for it.
                    let _ = self.schedule.set_next(id, Instant::now(), &mut self.rng);
                    continue;
                }
            };
            self.keep(id, connection);
            if let Some((transition, clusters)) = self.record(id, result) {
                transitions.push(transition);
                affected.extend(clusters.into_iter().map(|it| (Arc::as_ptr(&it), it)));
            }
        }
        let is_out = transitions.iter().any(|it| !it.is_healthy);
        self.review_all(affected.values(), is_out, false);
        // Once it is so for requests.
        transitions.iter().for_each(log);
    }
}

/// Counts the probes without a result because of a shortage, for one line of the log in a while.
#[derive(Debug, Default)]
struct ShortageLog {
    last: Option<Instant>,
    probes: u64,
}

impl ShortageLog {
    /// Adds a probe. Returns the number to tell, if it is time to.
    fn add(&mut self, now: Instant) -> Option<u64> {
        self.probes += 1;
        let since = self.last.map(|last| now.saturating_duration_since(last));
        if since.is_some_and(|since| since < PROBE_SHORTAGE_LOG) {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.probes))
    }
}

/// Counts the endpoints of a cluster that are in service. Returns whether probes are ignored now and were not
/// before, or the other way round.
fn review(cluster: &Cluster) -> bool {
    let Some(checks) = &cluster.health_check else {
        return false;
    };
    let checked = &checks.endpoints;
    let has_changed = checked.review();
    if has_changed {
        let (name, percent) = (&cluster.name, checks.check.panic_percent);
        let (unhealthy, all) = (checked.unhealthy(), checked.len());
        if checked.panics() {
            warn!(
                "{name}: the health checks of {unhealthy} of {all} endpoints fail, which leaves less than \
                 {percent} % in service: they are ignored, and all ready endpoints get requests"
            );
        } else {
            info!(
                "{name}: health checks are no longer ignored; those of {unhealthy} of {all} endpoints fail"
            );
        }
    }
    has_changed
}

fn log(transition: &Transition) {
    let Transition {
        name,
        address,
        is_healthy,
        cause,
    } = transition;
    if *is_healthy {
        info!("{name}: endpoint {address} is in service: {cause}");
    } else {
        warn!("{name}: endpoint {address} is out of service: {cause}");
    }
}

fn log_stretched(stretched: &Stretched) {
    let object = &stretched.object;
    let Some(interval) = stretched.interval else {
        return info!("{object}: endpoints are probed as often as configured again");
    };
    warn!(
        "{object}: endpoints are probed every {} instead of as often as configured, since the health checks of all \
         services need more than the limit of probes per second",
        GatewayDuration(interval)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_told_once_a_minute_with_the_number_of_probes() {
        let mut log = ShortageLog::default();
        let now = Instant::now();
        assert_eq!(log.add(now), Some(1), "at once");
        for _ in 0..5 {
            assert_eq!(log.add(now + PROBE_SHORTAGE_LOG / 2), None);
        }
        assert_eq!(log.add(now + PROBE_SHORTAGE_LOG), Some(6));
    }
}
