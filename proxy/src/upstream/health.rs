//! A shard's state of each endpoint and service: health, latency, load, ejection.
//!
//! State is kept by interned id, so that it outlives changes of the configuration. An `EndpointUse`
//! counts as one in flight and removes itself on drop, also by a panic.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use xds::model::Ejection;

use super::shares::KnownShares;
use crate::config::{EndpointSet, LoadGuard};
use crate::failure::{Failure, FailureKind};
use crate::limits::{EWMA_ALPHA, LATENCY_HALF_LIFE, RECENT_HALF_LIFE};
use crate::names::{Interned, Table};

/// The result of a request to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A response, with the time to its head.
    Success(Duration),
    /// A response with 502, 503 or 504, with the time to its head.
    BadAnswer(Duration),
    /// Connect or TLS error, reset or timeout.
    Failure,
}

impl Outcome {
    /// The result for a response of this status.
    #[must_use]
    pub fn of_response(status: u16, head_after: Duration) -> Self {
        match status {
            502..=504 => Self::BadAnswer(head_after),
            _ => Self::Success(head_after),
        }
    }

    /// The result for a failed request; `None` if the endpoint was not at fault.
    #[must_use]
    pub fn failed(failure: Failure) -> Option<Self> {
        use FailureKind as Kind;
        let is_endpoint_fault = matches!(
            failure.kind,
            Kind::ConnectFailed
                | Kind::ConnectTimeout
                | Kind::UpstreamTls
                | Kind::UpstreamRefused
                | Kind::UpstreamReset
                | Kind::UpstreamClosed
                | Kind::UpstreamGarbage
                | Kind::UpstreamTimeout
                | Kind::ResponseBroken
                | Kind::ResponseTimeout
        );
        (is_endpoint_fault && !failure.is_inherited).then_some(Self::Failure)
    }
}

/// A shard's state of its upstreams.
#[derive(Debug, Default)]
pub struct EndpointStates {
    endpoints: RefCell<Table<Rc<EndpointState>>>,
    services: RefCell<Table<Rc<ServiceState>>>,
}

impl EndpointStates {
    /// The state of an endpoint.
    #[must_use]
    pub fn endpoint(&self, id: Interned) -> Rc<EndpointState> {
        let mut table = self.endpoints.borrow_mut();
        Rc::clone(table.find_or_insert(id, Rc::default))
    }

    /// The state of a service.
    #[must_use]
    pub fn service(&self, id: Interned) -> Rc<ServiceState> {
        let mut table = self.services.borrow_mut();
        Rc::clone(table.find_or_insert(id, Rc::default))
    }

    /// Calls `read` with an endpoint's state, without counting a reference. One that was never used
    /// does not get a state by that.
    pub(super) fn with_endpoint<R>(
        &self,
        id: Interned,
        read: impl FnOnce(&EndpointState) -> R,
    ) -> R {
        if let Some(state) = self.endpoints.borrow().find(id) {
            return read(state);
        }
        read(&EndpointState::default())
    }

    /// Passes every known endpoint to `show`.
    pub(crate) fn for_each(&self, mut show: impl FnMut(Interned, &EndpointState)) {
        let endpoints = self.endpoints.borrow();
        endpoints.iter().for_each(|(id, state)| show(id, state));
    }

    /// Registers a use of an endpoint of `set`.
    #[must_use]
    pub fn start(&self, set: &EndpointSet, endpoint: Interned) -> EndpointUse {
        let endpoint_use = EndpointUse {
            endpoint: self.endpoint(endpoint),
            service: self.service(set.service()),
            load: None,
        };
        if let Some(locality) = set.locality() {
            locality.count(endpoint);
        }
        let state = &endpoint_use.endpoint;
        state.requests.set(state.requests.get().wrapping_add(1));
        state.in_flight.set(state.in_flight.get().saturating_add(1));
        endpoint_use
    }

    /// Number of serving endpoints of `set` that are ejected at `now`, without those whose probes fail.
    pub(super) fn ejected(&self, set: &EndpointSet, now: Instant) -> usize {
        let is_ejected = |id| self.with_endpoint(id, |state| state.ejected_for(now).is_some());
        let serving = set.serving().iter().enumerate();
        let probed_in = serving.filter(|(position, _)| !set.is_probed_out(*position));
        probed_in.filter(|(_, it)| is_ejected(it.id)).count()
    }
}

/// A request, TCP connection or UDP session in flight at an endpoint, until dropped.
#[derive(Debug)]
pub struct EndpointUse {
    endpoint: Rc<EndpointState>,
    service: Rc<ServiceState>,
    /// Counts it over all shards too, if requests at an endpoint are bounded.
    load: Option<LoadGuard>,
}

impl EndpointUse {
    /// The same, counted over all shards too.
    pub(crate) fn with_load(mut self, load: Option<LoadGuard>) -> Self {
        self.load = load;
        self
    }

    /// Records the result as soon as it is known: at the response head, or at the failure. A
    /// request cancelled by the client has none.
    pub fn report(
        &self,
        states: &EndpointStates,
        set: &EndpointSet,
        outcome: Outcome,
        now: Instant,
    ) {
        self.endpoint.record_recent(now);
        match outcome {
            Outcome::Success(head_after) => {
                self.took(head_after, now);
                self.endpoint.succeeded();
            }
            Outcome::BadAnswer(head_after) => {
                self.took(head_after, now);
                self.failed(states, set, now);
            }
            Outcome::Failure => self.failed(states, set, now),
        }
    }

    /// Records that it got no response head from `begun` to `until`, when its client gave up, although
    /// its route allows `timeout`. Returns whether such requests have waited for that long since the
    /// endpoint's last response head or ejection, where each counts as the part of its own route's
    /// timeout. Time during which several waited counts once, and is forgotten after a pause as long as
    /// the longest ejection of `set`.
    #[must_use]
    pub fn went_unanswered(
        &self,
        set: &EndpointSet,
        (begun, until): (Instant, Instant),
        timeout: Duration,
    ) -> bool {
        let state = &self.endpoint;
        let (before, counted) = state.unanswered.get();
        let pause = counted.map(|counted| begun.saturating_duration_since(counted));
        let is_old = pause.is_some_and(|pause| pause > set.ejection().max);
        let known = [counted, state.measured.get()];
        let begun = known.into_iter().flatten().fold(begun, Instant::max);
        let time = until.saturating_duration_since(begun);
        let own = time.div_duration_f64(timeout);
        let all = if is_old { own } else { before + own };
        state.unanswered.set((all, Some(until.max(begun))));
        all >= 1.0
    }

    fn took(&self, head_after: Duration, now: Instant) {
        let seconds = head_after.as_secs_f64();
        // The service first: a new endpoint starts from the average of the others.
        let mean = self.service.latency.get().unwrap_or(seconds);
        self.service.latency.set(Some(ewma(mean, seconds)));
        let own = self.endpoint.expected_latency(mean, now);
        self.endpoint.latency.set(Some(ewma(own, seconds)));
        self.endpoint.measured.set(Some(now));
        self.endpoint.unanswered.take();
    }

    fn failed(&self, states: &EndpointStates, set: &EndpointSet, now: Instant) {
        let rule = set.ejection();
        if !self.endpoint.failed(rule, now) {
            return;
        }
        // Counting is linear, but happens only a few times in an outage.
        let probed_in = set.serving().len().saturating_sub(set.probed_out());
        let max = probed_in.saturating_mul(rule.max_percent as usize) / 100;
        if states.ejected(set, now) < max {
            self.endpoint.eject(rule, now);
        }
    }
}

impl Drop for EndpointUse {
    fn drop(&mut self) {
        let in_flight = &self.endpoint.in_flight;
        in_flight.set(in_flight.get().saturating_sub(1));
        drop(self.load.take());
    }
}

/// The state of a service as a whole.
#[derive(Debug, Default)]
pub struct ServiceState {
    /// Average seconds to the response head over all its endpoints.
    latency: Cell<Option<f64>>,
    pub(super) load: super::retry::Load,
    /// The part of its requests that endpoints of each zone get.
    pub(super) shares: KnownShares,
}

impl ServiceState {
    pub(super) fn latency(&self) -> f64 {
        self.latency.get().unwrap_or_default()
    }
}

/// The state of an endpoint.
#[derive(Debug)]
pub struct EndpointState {
    health: Cell<f64>,
    latency: Cell<Option<f64>>,
    /// When `latency` was last updated, with a response head.
    measured: Cell<Option<Instant>>,
    /// Time without a response head since then, of requests that their clients gave up, as parts of
    /// their routes' timeouts; and until when it is counted.
    unanswered: Cell<(f64, Option<Instant>)>,
    requests: Cell<u64>,
    /// Number of results, exponentially decaying, as of `noted`.
    recent: Cell<f64>,
    noted: Cell<Option<Instant>>,
    in_flight: Cell<u32>,
    consecutive_failures: Cell<u32>,
    ejected_until: Cell<Option<Instant>>,
    times_ejected: Cell<u32>,
}

impl Default for EndpointState {
    fn default() -> Self {
        Self {
            health: Cell::new(1.0),
            latency: Cell::new(None),
            measured: Cell::new(None),
            unanswered: Cell::default(),
            requests: Cell::new(0),
            recent: Cell::new(0.0),
            noted: Cell::new(None),
            in_flight: Cell::new(0),
            consecutive_failures: Cell::new(0),
            ejected_until: Cell::new(None),
            times_ejected: Cell::new(0),
        }
    }
}

/// The state of an endpoint for the admin server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EndpointReport {
    /// From 0 (failing) to 1 (healthy).
    pub health: f64,
    /// Average time to the response head; `None` before the first.
    pub latency: Option<Duration>,
    /// Requests since the start.
    pub requests: u64,
    /// Requests (or connections, without HTTP) in flight.
    pub in_flight: u32,
    /// Failures since the last success.
    pub consecutive_failures: u32,
    /// Requests of the last seconds, exponentially decaying.
    pub recent: f64,
    /// Remaining time of its ejection.
    pub ejected_for: Option<Duration>,
}

impl EndpointState {
    /// The whole state, for the admin server.
    #[must_use]
    pub fn report(&self, now: Instant) -> EndpointReport {
        EndpointReport {
            health: self.health.get(),
            latency: self.latency.get().map(Duration::from_secs_f64),
            requests: self.requests.get(),
            in_flight: self.in_flight.get(),
            consecutive_failures: self.consecutive_failures.get(),
            recent: self.recent_at(now),
            ejected_for: self.ejected_for(now),
        }
    }

    /// Remaining time of its ejection; `None` if not ejected.
    #[must_use]
    pub fn ejected_for(&self, now: Instant) -> Option<Duration> {
        let left = self.ejected_until.get()?.checked_duration_since(now)?;
        (!left.is_zero()).then_some(left)
    }

    /// When its last ejection ended, if it has.
    pub(super) fn recovered(&self, now: Instant) -> Option<Instant> {
        self.ejected_until.get().filter(|until| *until <= now)
    }

    pub(super) fn health(&self) -> f64 {
        self.health.get()
    }

    /// Expected seconds of a request: the measured latency, decaying towards the service's `mean`.
    /// Otherwise an endpoint that was slow once would never be used again.
    pub(super) fn expected_latency(&self, mean: f64, now: Instant) -> f64 {
        let (Some(own), Some(measured)) = (self.latency.get(), self.measured.get()) else {
            return mean;
        };
        let age = now.saturating_duration_since(measured);
        let left = (-age.as_secs_f64() / LATENCY_HALF_LIFE.as_secs_f64()).exp2();
        mean + (own - mean) * left
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    fn record_recent(&self, now: Instant) {
        self.recent.set(self.recent_at(now) + 1.0);
        self.noted.set(Some(now));
    }

    fn recent_at(&self, now: Instant) -> f64 {
        let age = self
            .noted
            .get()
            .map(|noted| now.saturating_duration_since(noted));
        let half_lives = age.unwrap_or_default().as_secs_f64() / RECENT_HALF_LIFE.as_secs_f64();
        self.recent.get() * (-half_lives).exp2()
    }

    fn succeeded(&self) {
        self.health.set(ewma(self.health.get(), 1.0));
        self.consecutive_failures.set(0);
    }

    /// Records a failure; returns whether it ejects the endpoint.
    fn failed(&self, rule: &Ejection, now: Instant) -> bool {
        self.health.set(ewma(self.health.get(), 0.0));
        let in_a_row = self.consecutive_failures.get().saturating_add(1);
        self.consecutive_failures.set(in_a_row);
        // After an ejection the count continues: the first failure then is enough.
        in_a_row >= rule.consecutive_failures.get() && self.ejected_for(now).is_none()
    }

    fn eject(&self, rule: &Ejection, now: Instant) {
        let is_recovered = |back: Instant| now.saturating_duration_since(back) > rule.max;
        let before = match self.ejected_until.get() {
            Some(back) if !is_recovered(back) => self.times_ejected.get(),
            _ => 0,
        };
        let times = before.saturating_add(1);
        let time = rule.base.saturating_mul(times).min(rule.max);
        self.times_ejected.set(times);
        self.unanswered.set((0.0, Some(now)));
        self.ejected_until.set(now.checked_add(time));
    }
}

fn ewma(average: f64, sample: f64) -> f64 {
    average + EWMA_ALPHA * (sample - average)
}

#[cfg(test)]
mod tests;
