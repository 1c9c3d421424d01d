//! Which endpoints of a service are near this proxy, and the part of the requests that these take.
//!
//! The endpoints are in tiers, the nearest first. A tier takes all requests as long as that is at most
//! [`LOCALITY_OVERLOAD`] times its usual load at each of its endpoints in service; the rest goes to the tiers behind
//! it. Its usual load is that of all endpoints that it should have: those of the last ten minutes, so that a zone
//! that is drained does not crush its last endpoint.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rand::Rng;
use xds::model::{LocalityMode, Spill, TopologyHints};

use super::draw::Draw;
use super::health_check::CheckedEndpoints;
use super::locality_history::Histories;
use super::preference::Preference;
use crate::limits::LOCALITY_OVERLOAD;
use crate::names::Interned;

/// Where this proxy runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Its node, if known.
    pub node: Option<Arc<str>>,
    /// Its zone, if known.
    pub zone: Option<Arc<str>>,
}

/// Where an endpoint is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Location<'m> {
    /// Its node, if known.
    pub node: Option<&'m str>,
    /// Its zone, if known.
    pub zone: Option<&'m str>,
    /// The proxies that should use it.
    pub hints: Option<&'m TopologyHints>,
}

/// The serving endpoints of a cluster by their distance to this proxy.
#[derive(Debug)]
pub struct Locality {
    preference: Preference,
    spill: Spill,
    /// The nearest first, each endpoint in one of them. There is at least one.
    tiers: Box<[Tier]>,
    /// What each tier had in the last minutes; while none is preferred, what it had before.
    histories: Histories,
    checked: Option<Arc<CheckedEndpoints>>,
    /// Endpoints in other zones than this proxy, sorted: those that serve, and those that only have sessions left.
    remote: Box<[Interned]>,
    /// Requests to these, and connections and datagrams of routes without requests, across configurations.
    crossed: Arc<AtomicU64>,
}

/// Endpoints at the same distance.
#[derive(Debug)]
pub struct Tier {
    /// Positions among the serving endpoints. Two bytes are enough: a Service has at most 32 768 of them.
    positions: Box<[u16]>,
    draw: Draw,
    /// Weight of its endpoints.
    weight: u64,
}

impl Locality {
    /// The tiers of these serving endpoints, each with its weight and where it is. What is known of the last minutes is that of the same
    /// cluster `before`.
    #[must_use]
    pub fn new(
        place: &Place,
        (mode, spill): (LocalityMode, Spill),
        serving: &[(Interned, NonZeroU32, Location<'_>)],
        before: Option<&Self>,
        now: Instant,
    ) -> Self {
        let locations: Vec<Location<'_>> = serving.iter().map(|it| it.2).collect();
        let (preference, distances) = distances(place, mode, &locations);
        let tiers = distances.iter().max().map_or(1, |farthest| farthest + 1);
        // A tier without endpoints counts too: it had some, or will have.
        let tiers = tiers.max(match preference {
            Preference::Nothing => 1,
            Preference::NodeHints | Preference::ZoneHints | Preference::Zone => 2,
            Preference::Node => 3,
        });
        let weights = |distance: usize| {
            let of_tier = serving.iter().zip(&distances);
            let of_tier = of_tier.filter(move |(_, it)| **it == distance);
            of_tier.map(|((_, weight, _), _)| weight.get())
        };
        let tiers = (0..tiers).map(|distance| {
            let of_tier: Vec<u32> = weights(distance).collect();
            let positions = (0..=u16::MAX).zip(&distances);
            let positions = positions.filter(|(_, it)| **it == distance);
            Tier {
                positions: positions.map(|(position, _)| position).collect(),
                draw: Draw::new(&of_tier),
                weight: of_tier.iter().copied().map(u64::from).sum(),
            }
        });
        let tiers: Box<[Tier]> = tiers.collect();
        let weights: Vec<u64> = tiers.iter().map(Tier::weight).collect();
        let histories = before.map(|before| &before.histories);
        let histories = Histories::new(histories, (preference, &weights), now);
        Self {
            preference,
            // Strictness is about preferred endpoints: without any preference there are none to insist on.
            spill: match preference {
                Preference::Nothing => Spill::Proportional,
                _ => spill,
            },
            tiers,
            histories,
            checked: None,
            remote: Box::default(),
            crossed: before.map(|it| Arc::clone(&it.crossed)).unwrap_or_default(),
        }
    }

    /// Whether endpoints in these places, or what was known `before`, mean anything to a proxy there.
    #[must_use]
    pub fn is_needed<'m>(
        place: &Place,
        mode: LocalityMode,
        locations: impl IntoIterator<Item = Location<'m>>,
        before: Option<&Self>,
        now: Instant,
    ) -> bool {
        let zone = place.zone.as_deref();
        let is_known = |it: Location<'_>| {
            let by_node = place.node.is_some()
                && (it.hints.is_some_and(|hints| !hints.nodes.is_empty())
                    || mode == LocalityMode::PreferNode);
            // One zone alone has no other one.
            let by_zone = zone.is_some_and(|own| {
                it.zone.is_some_and(|zone| zone != own)
                    || it.hints.is_some_and(|hints| !hints.zones.is_empty())
            });
            by_node || by_zone
        };
        let is_wanted = match mode {
            LocalityMode::PreferZone => zone.is_some(),
            LocalityMode::PreferNode => zone.is_some() || place.node.is_some(),
            LocalityMode::Off | LocalityMode::Hints => false,
        };
        let is_remembered = before.is_some_and(|before| before.histories.are_recent(now));
        is_wanted || is_remembered || locations.into_iter().any(is_known)
    }

    /// The same, which counts requests to those `all` endpoints that are in other zones than this proxy.
    #[must_use]
    pub fn counting<'m>(
        self,
        place: &Place,
        all: impl IntoIterator<Item = (Interned, Location<'m>)>,
    ) -> Self {
        let all = all.into_iter().filter(|(_, location)| {
            let zones = (place.zone.as_deref(), location.zone);
            matches!(zones, (Some(own), Some(other)) if own != other)
        });
        let mut remote: Box<[Interned]> = all.map(|(id, _)| id).collect();
        remote.sort_unstable();
        Self { remote, ..self }
    }

    /// The same endpoints with health checks.
    pub(super) fn checked(self, checked: Option<Arc<CheckedEndpoints>>) -> Self {
        Self { checked, ..self }
    }

    /// Why the first ones come first.
    #[must_use]
    pub fn preference(&self) -> Preference {
        self.preference
    }

    /// Whether those behind the first tier never get requests.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.spill == Spill::Never
    }

    /// The weight that a tier should have.
    #[must_use]
    pub fn expected(&self, tier: usize, now: Instant) -> u64 {
        self.histories.expected(tier, now)
    }

    /// The tiers, the nearest first.
    #[must_use]
    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// How far the serving endpoint at a position is.
    #[must_use]
    pub fn distance(&self, position: usize) -> Option<usize> {
        let mut tiers = self.tiers.iter();
        tiers.position(|tier| tier.contains(position))
    }

    /// What is known by probes.
    #[must_use]
    pub fn health_checks(&self) -> Option<&CheckedEndpoints> {
        self.checked.as_deref()
    }

    /// Whether health checks have put the endpoint at a position out of service.
    #[must_use]
    pub fn is_out(&self, position: usize) -> bool {
        let checked = self.checked.as_ref();
        checked.is_some_and(|checked| checked.is_out(position))
    }

    /// Counts a request to an endpoint, if that is in another zone.
    pub(crate) fn count(&self, endpoint: Interned) {
        if self.remote.binary_search(&endpoint).is_ok() {
            self.crossed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests to endpoints in other zones, since the start.
    #[must_use]
    pub fn crossed(&self) -> u64 {
        self.crossed.load(Ordering::Relaxed)
    }

    /// The weight of each tier that is in service; `weight` is that of the serving endpoint at a position.
    pub(super) fn in_service(&self, weight: impl Fn(usize) -> f64) -> [f64; Self::MOST_TIERS] {
        let mut in_service = [0.0; Self::MOST_TIERS];
        for (tier, of_tier) in self.tiers.iter().zip(&mut in_service) {
            let positions = tier.positions().filter(|it| !self.is_out(*it));
            *of_tier = positions.map(&weight).sum();
        }
        in_service
    }

    /// The part of the requests that each tier takes, of those that the ones before it leave. `in_service` is the weight of
    /// the endpoints of each that are in service.
    pub(crate) fn shares(&self, in_service: [f64; Self::MOST_TIERS], now: Instant) -> Shares {
        let mut shares = [0.0; Self::MOST_TIERS];
        for (tier, (own, share)) in in_service.into_iter().zip(&mut shares).enumerate() {
            let behind: f64 = in_service.iter().skip(tier + 1).sum();
            *share = if behind > 0.0 {
                share_of(own, self.expected(tier, now))
            } else {
                1.0
            };
        }
        Shares(shares)
    }

    /// The part of all requests that each tier takes, with so much of each in service.
    pub(crate) fn parts(
        &self,
        in_service: [f64; Self::MOST_TIERS],
        now: Instant,
    ) -> [f64; Self::MOST_TIERS] {
        if self.is_strict() {
            return [1.0, 0.0, 0.0];
        }
        self.shares(in_service, now).of_all()
    }

    /// Most tiers: node, zone, and the others.
    pub(crate) const MOST_TIERS: usize = 3;
}

impl Tier {
    /// Positions of its endpoints among those that serve.
    pub(crate) fn positions(&self) -> impl Iterator<Item = usize> {
        self.positions.iter().map(|it| usize::from(*it))
    }

    /// Draws the position of one of its endpoints by weight.
    pub(crate) fn draw(&self, rng: &mut impl Rng) -> Option<usize> {
        let drawn = self.draw.draw(rng)?;
        self.positions.get(drawn).map(|it| usize::from(*it))
    }

    /// Whether the serving endpoint at a position is one of them.
    #[must_use]
    pub fn contains(&self, position: usize) -> bool {
        let position = u16::try_from(position).ok();
        position.is_some_and(|it| self.positions.binary_search(&it).is_ok())
    }

    /// Weight of its endpoints.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Whether it has no more than one endpoint.
    pub(crate) fn is_single(&self) -> bool {
        self.positions.len() <= 1
    }
}

/// The part of the requests that each tier takes, of those that the ones before it leave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shares([f64; Locality::MOST_TIERS]);

impl Shares {
    /// The tier of a request with this number, from 0 to 1.
    pub(crate) fn tier(&self, mut number: f64) -> usize {
        for (tier, share) in self.0.iter().enumerate() {
            if number < *share {
                return tier;
            }
            number = (number - share) / (1.0 - share);
        }
        0
    }

    /// The part of all requests that each tier takes.
    pub(crate) fn of_all(&self) -> [f64; Locality::MOST_TIERS] {
        let mut left = 1.0;
        self.0.map(|share| {
            let own = left * share;
            left -= own;
            own
        })
    }
}

/// The part of the requests that endpoints of this weight in service take of a tier that should have `expected`.
#[expect(
    clippy::cast_precision_loss,
    reason = "a share of requests need not be exact"
)]
fn share_of(in_service: f64, expected: u64) -> f64 {
    (LOCALITY_OVERLOAD * in_service / expected.max(1) as f64).min(1.0)
}

/// How far each endpoint is, from 0, and why.
fn distances(
    place: &Place,
    mode: LocalityMode,
    locations: &[Location<'_>],
) -> (Preference, Vec<usize>) {
    let (node, zone) = (place.node.as_deref(), place.zone.as_deref());
    let in_zone = |it: &Location<'_>| zone.is_some() && it.zone == zone;
    let on_node = |it: &Location<'_>| node.is_some() && it.node == node;
    let nothing = || (Preference::Nothing, vec![0; locations.len()]);
    match mode {
        // As kube-proxy does: hints count if every endpoint has some, and one names us.
        LocalityMode::Hints => {
            let by_node = named_in(node, locations, |hints| &hints.nodes);
            let by_zone = || named_in(zone, locations, |hints| &hints.zones);
            if let Some(distances) = by_node {
                (Preference::NodeHints, distances)
            } else if let Some(distances) = by_zone() {
                (Preference::ZoneHints, distances)
            } else {
                nothing()
            }
        }
        LocalityMode::PreferNode if node.is_some() => {
            let distance = |it: &Location<'_>| match (on_node(it), in_zone(it)) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 2,
            };
            (Preference::Node, locations.iter().map(distance).collect())
        }
        // Without a node the zone counts.
        LocalityMode::PreferZone | LocalityMode::PreferNode if zone.is_some() => {
            let distances = locations.iter().map(|it| usize::from(!in_zone(it)));
            (Preference::Zone, distances.collect())
        }
        LocalityMode::Off | LocalityMode::PreferZone | LocalityMode::PreferNode => nothing(),
    }
}

/// How far each endpoint is by hints of this kind; `None` if they do not count.
fn named_in(
    name: Option<&str>,
    locations: &[Location<'_>],
    of: fn(&TopologyHints) -> &Vec<String>,
) -> Option<Vec<usize>> {
    let name = name?;
    let hints = locations.iter().map(|it| it.hints.map(of));
    let distances = hints.map(|names| {
        let names = names.filter(|names| !names.is_empty())?;
        Some(usize::from(!names.iter().any(|it| it == name)))
    });
    let distances: Vec<usize> = distances.collect::<Option<_>>()?;
    distances.contains(&0).then_some(distances)
}

#[cfg(test)]
mod tests;
