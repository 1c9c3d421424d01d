//! When each endpoint is asked, and what follows from the results. Pure: time and randomness are arguments.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::{Rng, RngExt};
use xds::model::GatewayDuration;

use super::plan::{Planned, ProbeKey, ProbeTarget, Watcher, plan};
use super::rate::{Pace, stretch};
use super::state::Standing;
use super::verdict::Streak;
use crate::config::Cluster;
use crate::fair_places::FairPlaces;
use crate::limits::{FIRST_PROBE_WITHIN, PROBE_JITTER, PROBE_PLACE_WAIT, PROBES_IN_FLIGHT};

/// A number of the probes of an endpoint, which is never used again.
pub(super) type ProbeId = u64;

/// The probes of the current configuration.
#[derive(Debug)]
pub(super) struct Schedule {
    clusters: Vec<Arc<Cluster>>,
    ids: BTreeMap<ProbeKey, ProbeId>,
    probes: HashMap<ProbeId, Probe>,
    due: BTreeSet<(Instant, ProbeId)>,
    /// The objects of the probes that run; some may no longer be wanted.
    running: HashMap<ProbeId, (Arc<str>, Instant)>,
    places: FairPlaces<Arc<str>>,
    pace: Pace,
    stretched: BTreeMap<Arc<str>, f64>,
    next_id: ProbeId,
}

/// The probes of an endpoint.
#[derive(Debug)]
struct Probe {
    target: Arc<ProbeTarget>,
    watchers: Vec<Watcher>,
    streak: Streak,
}

/// An endpoint that goes out of service, or comes back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Transition {
    pub(super) name: Arc<str>,
    pub(super) address: String,
    pub(super) is_healthy: bool,
    pub(super) cause: String,
}

/// A service whose intervals are longer than configured, or no longer are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stretched {
    pub(super) object: Arc<str>,
    /// `None` if they are as configured again.
    pub(super) interval: Option<Duration>,
}

/// What a new configuration changes at once.
#[derive(Debug)]
pub(super) struct Changes {
    /// The services whose intervals change.
    pub(super) stretched: Vec<Stretched>,
    /// Whether an endpoint goes out of service.
    pub(super) puts_out: bool,
}

impl Schedule {
    pub(super) fn new() -> Self {
        Self {
            clusters: Vec::new(),
            ids: BTreeMap::new(),
            probes: HashMap::new(),
            due: BTreeSet::new(),
            running: HashMap::new(),
            places: FairPlaces::new(PROBES_IN_FLIGHT),
            pace: Pace::new(),
            stretched: BTreeMap::new(),
            next_id: 0,
        }
    }

    /// Asks the endpoints of these clusters from now on. Those that are known keep their times and results.
    pub(super) fn set_desired(
        &mut self,
        clusters: Vec<Arc<Cluster>>,
        now: Instant,
        rng: &mut impl Rng,
    ) -> Changes {
        let mut puts_out = false;
        let mut before = std::mem::take(&mut self.ids);
        let mut wanted: BTreeMap<Arc<str>, f64> = BTreeMap::new();
        let mut intervals: BTreeMap<Arc<str>, Duration> = BTreeMap::new();
        for (key, planned) in plan(&clusters) {
            let check = &planned.target.check;
            let object = &planned.target.object;
            *wanted.entry(Arc::clone(object)).or_default() += 1.0 / check.interval.as_secs_f64();
            intervals.insert(Arc::clone(object), check.interval);
            let known = before.remove(&key);
            let known = known.filter(|id| self.keeps(*id, &planned));
            let id = match known {
                Some(id) => self.replace(id, planned),
                None => self.add(planned, now, rng),
            };
            let probe = self.probes.get(&id);
            puts_out |= probe.is_some_and(|probe| probe.share_standing(&clusters));
            self.ids.insert(key, id);
        }
        let kept: BTreeSet<ProbeId> = self.ids.values().copied().collect();
        self.probes.retain(|id, _| kept.contains(id));
        self.due.retain(|(_, id)| kept.contains(id));
        self.clusters = clusters;
        Changes {
            stretched: self.set_stretched(stretch(&wanted), &intervals),
            puts_out,
        }
    }

    /// Whether the results of known probes hold for what is planned: the check is the same, and the endpoint was
    /// ready all the time.
    fn keeps(&self, id: ProbeId, planned: &Planned) -> bool {
        self.probes.get(&id).is_some_and(|probe| {
            let is_known = |watcher: &Watcher| {
                let mut before = probe.watchers.iter();
                before.any(|before| Arc::ptr_eq(&before.state, &watcher.state))
            };
            probe.target.check == planned.target.check && planned.watchers.iter().any(is_known)
        })
    }

    fn replace(&mut self, id: ProbeId, planned: Planned) -> ProbeId {
        if let Some(probe) = self.probes.get_mut(&id) {
            probe.target = planned.target;
            probe.watchers = planned.watchers;
        }
        id
    }

    fn add(&mut self, planned: Planned, now: Instant, rng: &mut impl Rng) -> ProbeId {
        let id = self.next_id;
        self.next_id += 1;
        let probe = Probe {
            target: planned.target,
            watchers: planned.watchers,
            streak: Streak::default(),
        };
        let within = FIRST_PROBE_WITHIN.min(probe.target.check.interval);
        self.due.insert((now + within.mul_f64(rng.random()), id));
        self.probes.insert(id, probe);
        id
    }

    fn set_stretched(
        &mut self,
        stretched: BTreeMap<Arc<str>, f64>,
        intervals: &BTreeMap<Arc<str>, Duration>,
    ) -> Vec<Stretched> {
        let before = std::mem::replace(&mut self.stretched, stretched);
        for cluster in &self.clusters {
            let Some(checks) = &cluster.health_check else {
                continue;
            };
            let factor = self.stretched.get(&checks.object);
            let interval = factor.map(|factor| checks.check.interval.mul_f64(*factor));
            let milliseconds =
                interval.map_or(0, |it| it.as_millis().try_into().unwrap_or(u32::MAX));
            let counts = &checks.counts;
            counts.stretched.store(milliseconds, Ordering::Relaxed);
        }
        let objects: BTreeSet<&Arc<str>> = before.keys().chain(self.stretched.keys()).collect();
        let changed = objects.into_iter().filter_map(|object| {
            let factor = self.stretched.get(object);
            (before.contains_key(object) != factor.is_some()).then(|| Stretched {
                object: Arc::clone(object),
                interval: factor
                    .zip(intervals.get(object))
                    .map(|(factor, interval)| interval.mul_f64(*factor)),
            })
        });
        changed.collect()
    }

    /// Whether the probes of this id are still wanted.
    pub(super) fn contains(&self, id: ProbeId) -> bool {
        self.probes.contains_key(&id)
    }

    /// The probes to begin now.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(ProbeId, Arc<ProbeTarget>)> {
        let mut begun = Vec::new();
        while let Some((at, id)) = self.due.first().copied() {
            if at > now {
                break;
            }
            let Some(probe) = self.probes.get(&id) else {
                self.due.pop_first();
                continue;
            };
            let object = &probe.target.object;
            if self.places.eligible([object]).is_none() {
                self.due.pop_first();
                self.due.insert((now + PROBE_PLACE_WAIT, id));
                continue;
            }
            if !self.pace.take(now) {
                break;
            }
            self.due.pop_first();
            self.places.take([object]);
            self.running.insert(id, (Arc::clone(object), now));
            begun.push((id, Arc::clone(&probe.target)));
        }
        begun
    }

    /// When to call [`Self::take_due`] again.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let (due, _) = self.due.first()?;
        Some(self.pace.next().map_or(*due, |next| next.max(*due)))
    }

    /// Ends a probe without a result: it asks again an interval later. `None` if it is no longer wanted.
    pub(super) fn set_next(&mut self, id: ProbeId, now: Instant, rng: &mut impl Rng) -> Option<()> {
        let (object, begun) = self.running.remove(&id)?;
        self.places.release(&object);
        let probe = self.probes.get(&id)?;
        let factor = self.stretched.get(&object).copied().unwrap_or(1.0);
        let jitter = rng.random_range(1.0 - PROBE_JITTER..=1.0 + PROBE_JITTER);
        let next = begun + probe.target.check.interval.mul_f64(factor * jitter);
        self.due.insert((next.max(now), id));
        Some(())
    }

    /// Records the result of a probe: why it failed. Returns the transition that follows from it, and the clusters
    /// whose endpoint it was, whose share in service has to be counted again then.
    pub(super) fn record(
        &mut self,
        id: ProbeId,
        failure: Option<&str>,
        now: Instant,
        rng: &mut impl Rng,
    ) -> Option<(Transition, Vec<Arc<Cluster>>)> {
        self.set_next(id, now, rng)?;
        let probe = self.probes.get_mut(&id)?;
        let check = &probe.target.check;
        probe.count(&self.clusters, failure.is_none());
        let is_success = failure.is_none();
        let standing = probe.standing();
        let new = probe.streak.record(is_success, standing, check);
        let cause = probe.cause(failure);
        for watcher in &probe.watchers {
            watcher.state.set_failure(failure);
        }
        let new = new?;
        probe.set_standing(&self.clusters, new);
        let is_healthy = new == Standing::Healthy;
        // One that was in service all the time does not change anything.
        (standing != Standing::Untried || !is_healthy).then(|| {
            let transition = Transition {
                name: Arc::clone(&probe.target.name),
                address: probe.target.address.to_string(),
                is_healthy,
                cause,
            };
            let clusters = probe.watchers.iter();
            let clusters = clusters.filter_map(|it| self.clusters.get(it.cluster).cloned());
            (transition, clusters.collect())
        })
    }
}

impl Probe {
    /// The standing of all watchers. Where they differ, a verdict on one holds for the others, and a bad one before
    /// a good one: it is the same server.
    fn standing(&self) -> Standing {
        let standings = || self.watchers.iter().map(|it| it.state.standing());
        let verdicts = [Standing::Unhealthy, Standing::Healthy];
        let verdict = verdicts
            .into_iter()
            .find(|verdict| standings().any(|it| it == *verdict));
        verdict.unwrap_or(Standing::before_verdict(self.target.check.initial))
    }

    /// Gives all watchers the same standing: they may have had probes of their own before, or one may be new.
    /// Returns whether that puts one out of service.
    fn share_standing(&self, clusters: &[Arc<Cluster>]) -> bool {
        let standing = self.standing();
        let before = |watcher: &Watcher| watcher.state.standing();
        let is_out = |it: Standing| matches!(it, Standing::Waiting | Standing::Unhealthy);
        let mut watchers = self.watchers.iter().map(before);
        let puts_out = is_out(standing) && watchers.any(|it| !is_out(it));
        self.set_standing(clusters, standing);
        puts_out
    }

    fn set_standing(&self, clusters: &[Arc<Cluster>], standing: Standing) {
        for watcher in &self.watchers {
            let cluster = clusters.get(watcher.cluster);
            let checks = cluster.and_then(|cluster| cluster.health_check.as_ref());
            if checks.is_some_and(|checks| checks.endpoints.panics()) {
                watcher.state.set_standing_while_ignored(standing);
            } else {
                watcher.state.set_standing(standing);
            }
        }
    }

    fn count(&self, clusters: &[Arc<Cluster>], is_success: bool) {
        for watcher in &self.watchers {
            let cluster = clusters.get(watcher.cluster);
            if let Some(checks) = cluster.and_then(|cluster| cluster.health_check.as_ref()) {
                checks.counts.add(is_success);
            }
        }
    }

    /// Why the state of the endpoint changes with this result.
    fn cause(&self, failure: Option<&str>) -> String {
        let (number, what, why) = match failure {
            Some(why) => (self.streak.failures(), "failed", format!(": {why}")),
            None => (self.streak.successes(), "succeeded", String::new()),
        };
        let after = GatewayDuration(self.target.check.interval);
        match number {
            1 => format!("a probe {what}{why}"),
            number => format!("{number} probes in a row {what}, {after} apart{why}"),
        }
    }
}

#[cfg(test)]
mod tests;
