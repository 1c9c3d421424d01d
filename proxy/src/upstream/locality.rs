//! Load balancing among endpoints that are preferred by where they are: first a tier is drawn, by the part of the
//! requests that it can take, then an endpoint of it as of any service.

use std::cell::Cell;
use std::time::Instant;

use rand::{Rng, RngExt};

use super::balance::Pool;
use super::health::EndpointStates;
use crate::config::{EndpointSet, Hashed, Locality, Preference, Shares, Tier};
use crate::names::Interned;
use crate::observe::hashes::HashResult;
use crate::policy::hash_key::RequestKey;

impl Pool for &Tier {
    fn draw(self, rng: &mut impl Rng) -> Option<usize> {
        Tier::draw(self, rng)
    }

    fn positions(self) -> impl Iterator<Item = usize> {
        Tier::positions(self)
    }

    fn is_single(self) -> bool {
        Tier::is_single(self)
    }
}

impl EndpointStates {
    /// Selects an endpoint of the tier that a request belongs to. If that has none left, of those before and behind it, the
    /// nearest first.
    pub(super) fn choose_local(
        &self,
        (set, locality): (&EndpointSet, &Locality),
        tried: &[Interned],
        (now, rng): (Instant, &mut impl Rng),
    ) -> Option<Interned> {
        if let [only] = set.serving() {
            let is_far = locality.is_strict() && locality.distance(0) != Some(0);
            return (!is_far && !locality.is_out(0)).then_some(only.id);
        }
        if let Some(checked) = locality.health_checks()
            && checked.out() == checked.len()
        {
            // Else each attempt to draw one would examine all of them.
            return None;
        }
        let drawn = match locality.tiers() {
            [_] => 0,
            _ if locality.is_strict() => 0,
            _ => self.shares((set, locality), now).tier(rng.random()),
        };
        let choice = self.choice(set, now, |position| locality.is_out(position));
        let untried = |id: Interned| !tried.contains(&id);
        let mut best = |may: &dyn Fn(Interned) -> bool| {
            let mut tiers = tiers(locality, drawn);
            tiers.find_map(|tier| choice.best(tier, rng, may))
        };
        best(&|id| untried(id) && choice.in_service(id))
            .or_else(|| best(&|id| choice.in_service(id)))
            .or_else(|| best(&untried))
            .or_else(|| best(&|_| true))
            .map(|endpoint| endpoint.id)
    }

    /// Selects the endpoint of a key among those of the tier that the key belongs to, and of others if that has none in service;
    /// and whether it is that of the key. `None` if no endpoint is preferred, or all have to be used.
    pub(super) fn choose_near(
        &self,
        (set, hashed): (&EndpointSet, &Hashed),
        key: RequestKey,
        tried: &[Interned],
        now: Instant,
    ) -> Option<(Interned, HashResult)> {
        let locality = set.locality()?;
        if locality.preference() == Preference::Nothing {
            return None;
        }
        let choice = self.choice(set, now, |position| locality.is_out(position));
        #[expect(
            clippy::cast_precision_loss,
            reason = "a share of requests need not be exact"
        )]
        let number = key.share(KEY_SHARES) as f64 / KEY_SHARES as f64;
        let first = if locality.is_strict() {
            0
        } else {
            self.shares((set, locality), now).tier(number)
        };
        let mut tiers = tiers(locality, first);
        tiers.find_map(|tier| {
            let is_first = Cell::new(true);
            let found = hashed.table.first(key, set.serving(), |position, id| {
                if !tier.contains(position) {
                    return false;
                }
                let may =
                    !locality.is_out(position) && !tried.contains(&id) && choice.in_service(id);
                is_first.set(may && is_first.get());
                may
            });
            let result = if is_first.get() {
                HashResult::Own
            } else {
                HashResult::Next
            };
            found.map(|id| (id, result))
        })
    }

    /// The part of the requests that each tier takes, as of a moment ago.
    pub(super) fn shares(
        &self,
        (set, locality): (&EndpointSet, &Locality),
        now: Instant,
    ) -> Shares {
        let known = self.service(set.service());
        let known = &known.shares;
        known.get(locality, now).unwrap_or_else(|| {
            let choice = self.choice(set, now, |position| locality.is_out(position));
            let in_service = set.tiers_in_service(locality, |id| {
                if choice.in_service(id) {
                    choice.part(id)
                } else {
                    0.0
                }
            });
            let shares = locality.shares(in_service, now);
            known.set(locality, shares, now);
            shares
        })
    }
}

/// The tiers in the order in which a request of one of them looks for an endpoint.
pub(super) fn tiers(locality: &Locality, first: usize) -> impl Iterator<Item = &Tier> {
    let all = locality.tiers();
    let others = all
        .iter()
        .enumerate()
        .filter(move |(tier, _)| *tier != first);
    let others = others.map(|(_, tier)| tier);
    let others = others.take(if locality.is_strict() { 0 } else { all.len() });
    all.get(first).into_iter().chain(others)
}

/// Shares of keys that tiers are drawn by: far more than there are endpoints.
const KEY_SHARES: u64 = 1 << 20;

#[cfg(test)]
mod tests;
