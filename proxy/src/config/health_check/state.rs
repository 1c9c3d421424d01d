//! What health checks have found: the prober writes it, shards and the admin server read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use xds::model::{HealthCheck, InitialHealth};

/// The standing of an endpoint that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Standing {
    /// Without a verdict, and in service until there is one.
    Untried,
    /// Without a verdict, and out of service until there is one.
    Waiting,
    /// In service.
    Healthy,
    /// Out of service.
    Unhealthy,
}

impl Standing {
    /// The standing of an endpoint without a verdict.
    pub(super) fn before_verdict(initial: InitialHealth) -> Self {
        match initial {
            InitialHealth::Healthy => Self::Untried,
            InitialHealth::Unhealthy => Self::Waiting,
        }
    }

    /// Whether a probe has decided it.
    pub(in crate::config) fn is_verdict(self) -> bool {
        matches!(self, Self::Healthy | Self::Unhealthy)
    }
}

/// What is known of an endpoint by probes. It stays while the endpoint is ready, across configurations.
#[derive(Debug)]
pub struct ProbeState {
    standing: AtomicU8,
    /// Why the last probe failed; `None` after a success.
    failure: ArcSwapOption<String>,
    /// When its probes began to succeed after they had put it out of service.
    recovered: ArcSwapOption<Instant>,
}

impl ProbeState {
    /// The state of an endpoint before its first probe.
    #[must_use]
    pub fn new(initial: InitialHealth) -> Self {
        Self {
            standing: AtomicU8::new(Standing::before_verdict(initial) as u8),
            failure: ArcSwapOption::empty(),
            recovered: ArcSwapOption::empty(),
        }
    }

    /// The current standing.
    #[must_use]
    pub fn standing(&self) -> Standing {
        match self.standing.load(Ordering::Relaxed) {
            0 => Standing::Untried,
            1 => Standing::Waiting,
            2 => Standing::Healthy,
            _ => Standing::Unhealthy,
        }
    }

    /// Why the last probe failed; `None` after a success, and before the first probe.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<String>> {
        self.failure.load_full()
    }

    /// When its probes began to succeed after they had put it out of service, if ever.
    #[must_use]
    pub fn recovered(&self) -> Option<Instant> {
        self.recovered.load().as_deref().copied()
    }

    pub(in crate::config) fn set_standing(&self, standing: Standing) {
        let is_back = standing == Standing::Healthy && self.standing() == Standing::Unhealthy;
        if is_back {
            self.recovered.store(Some(Arc::new(Instant::now())));
        }
        self.set_standing_while_ignored(standing);
    }

    /// The same while probes are ignored: one that gets requests all the time has not been away.
    pub(in crate::config) fn set_standing_while_ignored(&self, standing: Standing) {
        self.standing.store(standing as u8, Ordering::Relaxed);
    }

    pub(super) fn set_failure(&self, why: Option<&str>) {
        if why.is_some() || self.failure.load().is_some() {
            let why = why.map(|why| Arc::new(why.to_owned()));
            self.failure.store(why);
        }
    }
}

/// The endpoints of a cluster that are checked, by their position among those that serve.
#[derive(Debug)]
pub struct CheckedEndpoints {
    states: Box<[Arc<ProbeState>]>,
    /// With a smaller share in service, in percent, probes are ignored.
    panic_percent: u32,
    /// Whether so few are in service that probes are ignored.
    panics: AtomicBool,
    /// How many are out of service, so that a choice among thousands does not count them.
    out: AtomicUsize,
    /// The answer that the prober has told last, across configurations: a new one may begin or end a panic.
    told: Arc<AtomicBool>,
}

impl CheckedEndpoints {
    /// Endpoints in the place of those `before`.
    pub(in crate::config) fn new(
        states: Box<[Arc<ProbeState>]>,
        check: &HealthCheck,
        before: Option<&Self>,
    ) -> Self {
        let checked = Self {
            states,
            panic_percent: check.panic_percent,
            panics: AtomicBool::new(false),
            out: AtomicUsize::new(0),
            told: before.map(|it| Arc::clone(&it.told)).unwrap_or_default(),
        };
        // Requests may come before the prober knows of this.
        checked.count();
        checked
    }

    /// Endpoints with these standings.
    #[cfg(test)]
    pub(crate) fn of_standings(standings: &[Standing], panic_percent: u32) -> Self {
        let states = standings.iter().map(|standing| {
            let state = ProbeState::new(InitialHealth::Healthy);
            state.set_standing(*standing);
            Arc::new(state)
        });
        let check = HealthCheck {
            panic_percent,
            ..super::tests::check()
        };
        Self::new(states.collect(), &check, None)
    }

    /// Whether the endpoint at a position is out of service.
    #[must_use]
    pub fn is_out(&self, position: usize) -> bool {
        let state = self.states.get(position);
        state.is_some_and(|state| self.takes_out(state))
    }

    /// Whether an endpoint with this state, one of these, is out of service.
    #[must_use]
    pub fn takes_out(&self, state: &ProbeState) -> bool {
        match state.standing() {
            Standing::Untried | Standing::Healthy => false,
            Standing::Waiting => true,
            Standing::Unhealthy => !self.panics(),
        }
    }

    /// Number of endpoints that are out of service, as counted last.
    #[must_use]
    pub fn out(&self) -> usize {
        self.out.load(Ordering::Relaxed)
    }

    /// Number of endpoints whose probes fail, whether or not that is ignored.
    #[must_use]
    pub fn unhealthy(&self) -> usize {
        let states = self.states.iter().map(|state| state.standing());
        states.filter(|it| *it == Standing::Unhealthy).count()
    }

    /// Number of endpoints.
    #[must_use]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Whether so few endpoints are in service that probes are ignored.
    #[must_use]
    pub fn panics(&self) -> bool {
        self.panics.load(Ordering::Relaxed)
    }

    /// Counts again whether too few endpoints are in service. Returns whether the answer is another one than
    /// that of the last review, which may have been of an earlier configuration. For the prober alone.
    pub(super) fn review(&self) -> bool {
        let panics = self.count();
        self.told.swap(panics, Ordering::Relaxed) != panics
    }

    fn count(&self) -> bool {
        let (mut waiting, mut unhealthy) = (0, 0);
        for state in &self.states {
            match state.standing() {
                Standing::Untried | Standing::Healthy => {}
                Standing::Waiting => waiting += 1,
                Standing::Unhealthy => unhealthy += 1,
            }
        }
        let counted = self.states.len() - waiting;
        let in_service = counted - unhealthy;
        let panics = in_service as u64 * 100 < counted as u64 * u64::from(self.panic_percent);
        self.panics.store(panics, Ordering::Relaxed);
        let out = if panics { waiting } else { waiting + unhealthy };
        self.out.store(out, Ordering::Relaxed);
        panics
    }
}

/// What is counted of a cluster's probes, across configurations.
#[derive(Debug, Default)]
pub struct ProbeCounts {
    pub(super) succeeded: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Time between two probes of an endpoint in milliseconds, if the limit of all probes makes it longer than
    /// configured; 0 otherwise.
    pub(super) stretched: AtomicU32,
}

impl ProbeCounts {
    pub(super) fn add(&self, is_success: bool) {
        let count = if is_success {
            &self.succeeded
        } else {
            &self.failed
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Probes that succeeded, since the start.
    #[must_use]
    pub fn succeeded(&self) -> u64 {
        self.succeeded.load(Ordering::Relaxed)
    }

    /// Probes that failed, since the start.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
    /// Time between two probes of an endpoint, if the limit of all probes makes it longer than configured.
    #[must_use]
    pub fn stretched(&self) -> Option<Duration> {
        let milliseconds = self.stretched.load(Ordering::Relaxed);
        (milliseconds > 0).then(|| Duration::from_millis(milliseconds.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use Standing::{Healthy, Unhealthy, Untried, Waiting};

    #[test]
    fn probes_are_ignored_below_the_share() {
        let endpoints = CheckedEndpoints::of_standings;
        let few = endpoints(&[Healthy, Unhealthy, Unhealthy, Unhealthy], 30);
        assert!(few.panics() && !few.is_out(1), "25 % are in service");
        assert_eq!((few.out(), few.unhealthy()), (0, 3));
        let enough = endpoints(&[Healthy, Untried, Unhealthy, Unhealthy], 30);
        assert!(!enough.panics() && enough.is_out(2));
        assert_eq!((enough.out(), enough.unhealthy()), (2, 2));
        assert!(!endpoints(&[Healthy, Unhealthy], 50).panics(), "exactly");
        let never = endpoints(&[Unhealthy, Unhealthy], 0);
        assert!(!never.panics() && never.out() == 2);
    }

    #[test]
    fn an_endpoint_that_waits_for_its_verdict_does_not_count() {
        let endpoints = CheckedEndpoints::of_standings;
        let all_wait = endpoints(&[Waiting, Waiting], 100);
        assert!(!all_wait.panics() && all_wait.out() == 2);
        let most_wait = endpoints(&[Waiting, Waiting, Healthy], 100);
        assert!(!most_wait.panics() && !most_wait.is_out(2));
        let panics = endpoints(&[Waiting, Unhealthy], 30);
        assert!(panics.is_out(0), "it may not even have begun");
        assert!(!panics.is_out(1), "it is ignored");
    }

    #[test]
    fn an_end_of_panic_is_noticed_once() {
        let endpoints = CheckedEndpoints::of_standings(&[Unhealthy, Unhealthy], 30);
        assert!(endpoints.review());
        assert!(!endpoints.review());
        endpoints.states[0].set_standing(Healthy);
        assert!(endpoints.review() && !endpoints.panics());
        assert!(!endpoints.review());
    }

    #[test]
    fn a_panic_that_another_configuration_begins_or_ends_is_noticed() {
        let with = |panic_percent, before: &CheckedEndpoints| {
            let check = HealthCheck {
                panic_percent,
                ..super::super::tests::check()
            };
            CheckedEndpoints::new(before.states.clone(), &check, Some(before))
        };
        let never = CheckedEndpoints::of_standings(&[Healthy, Unhealthy], 0);
        assert!(!never.review());
        let begins = with(60, &never);
        assert!(begins.panics(), "before the prober knows of it");
        assert!(begins.review());
        let stays = with(70, &begins);
        assert!(stays.panics() && !stays.review());
        let ends = with(0, &stays);
        assert!(!ends.panics() && ends.review());
    }
}
