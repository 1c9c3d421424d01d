//! Load balancing: selects an endpoint of a service.
//!
//! Two endpoints are drawn by weight, and the one with the better score is selected. The cost does
//! not depend on the number of endpoints, as long as most of them are healthy.

use std::cell::{Cell, OnceCell};
use std::num::NonZeroUsize;
use std::time::Instant;

use rand::{Rng, RngExt};

use super::health::{EndpointReport, EndpointState, EndpointStates};
use crate::config::{Candidates, EndpointRef, EndpointSet, Hashed};
use crate::limits::{
    CLEARLY_BETTER, LATENCY_FLOOR, MAX_RANDOM_DRAWS, PROBE_ONE_IN, SLOW_START_DRAWS,
};
use crate::names::Interned;
use crate::observe::hashes::HashResult;
use crate::policy::hash_key::RequestKey;

impl EndpointStates {
    /// Selects an endpoint. Those in `tried` come last, and so do ejected ones; `None` means that
    /// the service has no endpoint, or that health checks leave none in service.
    pub fn choose(
        &self,
        set: &EndpointSet,
        tried: &[Interned],
        now: Instant,
        rng: &mut impl Rng,
    ) -> Option<Interned> {
        match set.candidates() {
            Candidates::Any => self.choose_among(set, tried, |_| false, (now, rng)),
            Candidates::Only(only) => Some(*only),
            // Else each attempt to draw one would examine all of them.
            Candidates::Checked(checked) if checked.out() == checked.len() => None,
            Candidates::Checked(checked) => {
                let is_out = |position| checked.is_out(position);
                self.choose_among(set, tried, is_out, (now, rng))
            }
            Candidates::Local(locality) => self.choose_local((set, locality), tried, (now, rng)),
        }
    }

    /// Selects an endpoint of several, none of which `is_out`.
    fn choose_among(
        &self,
        set: &EndpointSet,
        tried: &[Interned],
        is_out: impl Fn(usize) -> bool,
        (now, rng): (Instant, &mut impl Rng),
    ) -> Option<Interned> {
        let choice = self.choice(set, now, is_out);
        let untried = |id: Interned| !tried.contains(&id);
        choice
            .best(set, rng, |id| untried(id) && choice.in_service(id))
            .or_else(|| choice.best(set, rng, |id| choice.in_service(id)))
            .or_else(|| choice.best(set, rng, untried))
            .or_else(|| choice.best(set, rng, |_| true))
            .map(|endpoint| endpoint.id)
    }

    /// Selects the endpoint of a key, or the next one that is not in `tried`, out of service or full; and whether it is that of
    /// the key. `None` means that the service has no endpoint in service, or none near enough.
    pub(crate) fn choose_by_hash(
        &self,
        (set, hashed): (&EndpointSet, &Hashed),
        key: RequestKey,
        tried: &[Interned],
        now: Instant,
    ) -> Option<(Interned, HashResult)> {
        let strict = set.locality().filter(|it| it.is_strict());
        let is_far = |position| strict.is_some_and(|it| it.distance(position) != Some(0));
        let is_barred = |position| set.is_probed_out(position) || is_far(position);
        if let [only] = set.serving() {
            // A single endpoint is used whatever its state, unless its probes fail or it is too far.
            return (!is_barred(0)).then_some((only.id, HashResult::Own));
        }
        let in_service = set.serving().len().saturating_sub(set.probed_out());
        let in_service = NonZeroUsize::new(in_service)?;
        let choice = self.choice(set, now, |position| set.is_probed_out(position));
        let is_full = |id| { hashed.loads.as_ref() }.is_some_and(|it| it.is_full(id, in_service));
        let untried = |id: Interned| !tried.contains(&id);
        let is_first = Cell::new(true);
        let first = |may: &dyn Fn(Interned) -> bool| {
            is_first.set(true);
            hashed.table.first(key, set.serving(), |position, id| {
                let may = !is_barred(position) && may(id);
                is_first.set(may && is_first.get());
                may
            })
        };
        if hashed.stays_near
            && let Some(near) = self.choose_near((set, hashed), key, tried, now)
        {
            return Some(near);
        }
        let id = first(&|id| untried(id) && choice.in_service(id) && !is_full(id))
            .or_else(|| first(&|id| untried(id) && choice.in_service(id)))
            .or_else(|| first(&|id| choice.in_service(id)))
            .or_else(|| first(&untried))
            .or_else(|| first(&|_| true))?;
        let result = if is_first.get() {
            HashResult::Own
        } else {
            HashResult::Next
        };
        Some((id, result))
    }

    pub(super) fn choice<'a, O: Fn(usize) -> bool>(
        &'a self,
        set: &'a EndpointSet,
        now: Instant,
        is_out: O,
    ) -> Choice<'a, O> {
        Choice {
            states: self,
            set,
            now,
            panics: OnceCell::new(),
            latency: self.service(set.service()).latency(),
            is_out,
        }
    }

    /// The first endpoints of a set with their scores at `now`.
    #[must_use]
    pub fn explain(&self, set: &EndpointSet, now: Instant, limit: usize) -> Vec<Scored> {
        let choice = self.choice(set, now, |position| set.is_probed_out(position));
        let serving = set.serving().iter().enumerate().take(limit);
        let scored = serving.map(|(position, endpoint)| Scored {
            endpoint: *endpoint,
            score: choice.score(*endpoint),
            report: self.with_endpoint(endpoint.id, |state| state.report(now)),
            is_probed_out: set.is_probed_out(position),
        });
        scored.collect()
    }

    /// Whether a session may continue with this endpoint: it is not ejected.
    #[must_use]
    pub fn in_service(&self, endpoint: Interned, now: Instant) -> bool {
        self.with_endpoint(endpoint, |state| state.ejected_for(now).is_none())
    }
}

/// An endpoint with its score.
#[derive(Debug, Clone, Copy)]
pub struct Scored {
    /// The endpoint that was considered.
    pub endpoint: EndpointRef,
    /// The higher one of two is selected.
    pub score: f64,
    /// The inputs of the score.
    pub report: EndpointReport,
    /// Whether its probes fail, so that it gets no requests.
    pub is_probed_out: bool,
}

/// The endpoints that one is drawn of.
pub(super) trait Pool: Copy {
    /// Draws the position of one by weight.
    fn draw(self, rng: &mut impl Rng) -> Option<usize>;

    /// The positions of all.
    fn positions(self) -> impl Iterator<Item = usize>;

    /// Whether there is at most one.
    fn is_single(self) -> bool;
}

/// All that serve, of which there are several.
impl Pool for &EndpointSet {
    fn draw(self, rng: &mut impl Rng) -> Option<usize> {
        EndpointSet::draw(self).draw(rng)
    }

    fn positions(self) -> impl Iterator<Item = usize> {
        0..self.serving().len()
    }

    fn is_single(self) -> bool {
        false
    }
}

/// One selection among the endpoints of a set.
pub(super) struct Choice<'a, O> {
    states: &'a EndpointStates,
    set: &'a EndpointSet,
    now: Instant,
    /// Whether fewer than half of the endpoints are in service; counted only if one is ejected.
    panics: OnceCell<bool>,
    latency: f64,
    /// Whether health checks have put the endpoint at a position out of service.
    is_out: O,
}

impl<O: Fn(usize) -> bool> Choice<'_, O> {
    /// Whether an endpoint is not ejected, or too many are ejected, so that ejection is ignored.
    pub(super) fn in_service(&self, id: Interned) -> bool {
        self.states.in_service(id, self.now) || *self.panics.get_or_init(|| self.too_few_left())
    }

    /// With fewer than half of the endpoints left, all are used.
    fn too_few_left(&self) -> bool {
        let all = self.set.serving().len() - self.set.probed_out();
        let left = all.saturating_sub(self.states.ejected(self.set, self.now));
        left.saturating_mul(2) < all
    }

    /// Draws two that `may` allows and selects the better one.
    ///
    /// The first one stays unless the second is clearly better, so that equals get exactly their
    /// weights. Occasionally it stays anyway if it is idle: an endpoint that was slow or failing
    /// once would not be tried again otherwise.
    pub(super) fn best(
        &self,
        pool: impl Pool,
        rng: &mut impl Rng,
        may: impl Fn(Interned) -> bool,
    ) -> Option<EndpointRef> {
        let first = self.first(pool, rng, &may)?;
        if pool.is_single() {
            return Some(first);
        }
        let second = self.one(pool, rng, |id| id != first.id && may(id));
        let Some(second) = second.filter(|second| self.takes(second.id, rng)) else {
            return Some(first);
        };
        let idle = self
            .states
            .with_endpoint(first.id, |state| state.in_flight() == 0);
        if idle && rng.random_ratio(1, PROBE_ONE_IN) {
            return Some(first);
        }
        let better = self.score(second) > self.score(first) * CLEARLY_BETTER;
        Some(if better { second } else { first })
    }

    /// Draws one that `may` allows, by weight; those that have just become ready by a part of theirs.
    fn first(
        &self,
        pool: impl Pool,
        rng: &mut impl Rng,
        may: impl Fn(Interned) -> bool,
    ) -> Option<EndpointRef> {
        let mut drawn = self.one(pool, rng, &may)?;
        for _ in 0..SLOW_START_DRAWS {
            if self.takes(drawn.id, rng) {
                break;
            }
            drawn = self.one(pool, rng, &may)?;
        }
        Some(drawn)
    }

    /// Whether an endpoint that was drawn takes the request: one that has just become ready takes a part of them.
    fn takes(&self, id: Interned, rng: &mut impl Rng) -> bool {
        let part = self.part(id);
        part >= 1.0 || rng.random_bool(part)
    }

    /// The part of its share that an endpoint takes.
    pub(super) fn part(&self, id: Interned) -> f64 {
        self.set.warming().map_or(1.0, |warming| {
            let recovered = |state: &EndpointState| state.recovered(self.now);
            let recovered = self.states.with_endpoint(id, recovered);
            warming.part(id, recovered, self.now)
        })
    }

    /// Draws one that is not out of service and that `may` allows, by weight.
    fn one(
        &self,
        pool: impl Pool,
        rng: &mut impl Rng,
        may: impl Fn(Interned) -> bool,
    ) -> Option<EndpointRef> {
        for _ in 0..MAX_RANDOM_DRAWS {
            let drawn = pool.draw(rng)?;
            let endpoint = self.set.serving().get(drawn)?;
            if !(self.is_out)(drawn) && may(endpoint.id) {
                return Some(*endpoint);
            }
        }
        // Few are left: examine each once. The n-th replaces the previous choice with the
        // probability of its weight among the first n.
        let mut chosen = None;
        let mut total = 0_u64;
        let positions = pool
            .positions()
            .filter(|position| !(self.is_out)(*position));
        let serving = positions.filter_map(|position| self.set.serving().get(position));
        for endpoint in serving.filter(|endpoint| may(endpoint.id)) {
            let weight = u64::from(endpoint.weight.get());
            total += weight;
            if rng.random_range(0..total) < weight {
                chosen = Some(*endpoint);
            }
        }
        chosen
    }

    /// Health divided by expected time and load; a heavier endpoint takes more requests at once.
    fn score(&self, endpoint: EndpointRef) -> f64 {
        self.states.with_endpoint(endpoint.id, |state| {
            let latency =
                state.expected_latency(self.latency, self.now) + LATENCY_FLOOR.as_secs_f64();
            let share = self.set.average_weight() / f64::from(endpoint.weight.get());
            state.health() / (latency * (f64::from(state.in_flight()) * share + 1.0))
        })
    }
}

#[cfg(test)]
pub(super) mod tests;
