//! The endpoints of a service, compiled for selection: by weight in constant time, and by the
//! identity in a session token.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use rand::{Rng, RngExt};
use ring::digest;
use xds::model::{Ejection, Health, SlowStart};

use super::health_check::CheckedEndpoints;
use super::warming::Warming;
use crate::names::Interned;
use crate::policy::hash_key::RequestKey;

/// An endpoint of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointRef {
    /// Id of the endpoint, which stays across configurations.
    pub id: Interned,
    /// Its share relative to the others.
    pub weight: NonZeroU32,
}

/// Which of the serving endpoints a request may get.
#[derive(Debug)]
pub enum Candidates {
    /// Any of them, or there is none.
    Any,
    /// The only one, whatever its state.
    Only(Interned),
    /// Those that health checks leave in service.
    Checked(Arc<CheckedEndpoints>),
}

/// The endpoints of a service that can serve requests, compiled with their snapshot.
#[derive(Debug)]
pub struct EndpointSet {
    service: Interned,
    ejection: Arc<Ejection>,
    serving: Box<[EndpointRef]>,
    candidates: Candidates,
    draw: Draw,
    /// Average weight, to compare loads by.
    average_weight: f64,
    /// All endpoints that a session may name, by identity; draining ones keep their sessions.
    identities: Box<[(EndpointIdentity, Interned)]>,
    /// Which of them get less than their share, since they have just become ready.
    warming: Option<Box<Warming>>,
}

impl EndpointSet {
    /// Compiles a service's endpoints. Draining ones are used if none is ready (KEP-1669); unready
    /// ones never.
    #[must_use]
    pub fn new(
        service: Interned,
        ejection: impl Into<Arc<Ejection>>,
        endpoints: &[(EndpointRef, Health, EndpointIdentity)],
    ) -> Self {
        let of = |state: Health| -> Box<[EndpointRef]> {
            let with = endpoints.iter().filter(|(_, health, _)| *health == state);
            with.map(|(endpoint, ..)| *endpoint).collect()
        };
        let ready = of(Health::Ready);
        let serving = if ready.is_empty() {
            of(Health::Draining)
        } else {
            ready
        };
        let weights: Vec<u32> = serving.iter().map(|e| e.weight.get()).collect();
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let named = endpoints.iter().filter(|(_, h, _)| *h != Health::NotReady);
        let mut identities: Box<[_]> = named.map(|(e, _, identity)| (*identity, e.id)).collect();
        identities.sort_unstable();
        Self {
            service,
            ejection: ejection.into(),
            #[expect(
                clippy::cast_precision_loss,
                reason = "an average of weights need not be exact"
            )]
            average_weight: total as f64 / serving.len().max(1) as f64,
            draw: Draw::new(&weights),
            candidates: match &*serving {
                [only] => Candidates::Only(only.id),
                _ => Candidates::Any,
            },
            serving,
            identities,
            warming: None,
        }
    }

    /// The same endpoints with health checks, in the order of those that serve.
    #[must_use]
    pub(crate) fn checked(self, endpoints: Arc<CheckedEndpoints>) -> Self {
        Self {
            candidates: Candidates::Checked(endpoints),
            ..self
        }
    }

    /// The same, whose endpoints that did not serve `before` get their share slowly from `now` on. Without a set before,
    /// all are old: to a process that has just begun, a service has not.
    #[must_use]
    pub(crate) fn with_slow_start(
        mut self,
        slow_start: SlowStart,
        before: Option<&Self>,
        now: Instant,
    ) -> Self {
        let known = before.map(|it| it.serving.iter().map(|endpoint| endpoint.id));
        let known: Option<BTreeSet<Interned>> = known.map(Iterator::collect);
        let is_new = |id| known.as_ref().is_some_and(|known| !known.contains(&id));
        let serving = self.serving.iter().map(|it| (it.id, is_new(it.id)));
        let before = before.and_then(Self::warming);
        let warming = Warming::new(slow_start, serving, before, now);
        self.warming = Some(Box::new(warming));
        self
    }

    /// Which endpoints get less than their share; `None` if none ever does.
    #[must_use]
    pub fn warming(&self) -> Option<&Warming> {
        self.warming.as_deref()
    }

    /// The service it belongs to.
    #[must_use]
    pub fn service(&self) -> Interned {
        self.service
    }

    /// Outlier detection settings of the cluster.
    #[must_use]
    pub fn ejection(&self) -> &Ejection {
        &self.ejection
    }

    /// The endpoints that requests are balanced over.
    #[must_use]
    pub fn serving(&self) -> &[EndpointRef] {
        &self.serving
    }

    /// Which of them a request may get.
    #[must_use]
    pub fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    /// Whether the serving endpoint at a position is out of service because its probes fail.
    #[must_use]
    pub fn is_probed_out(&self, position: usize) -> bool {
        match &self.candidates {
            Candidates::Any | Candidates::Only(_) => false,
            Candidates::Checked(checked) => checked.is_out(position),
        }
    }

    /// Number of serving endpoints that are out of service because their probes fail.
    #[must_use]
    pub fn probed_out(&self) -> usize {
        match &self.candidates {
            Candidates::Any | Candidates::Only(_) => 0,
            Candidates::Checked(checked) => checked.out(),
        }
    }

    /// Draws positions of serving endpoints by weight.
    pub(crate) fn draw(&self) -> &Draw {
        &self.draw
    }

    pub(crate) fn average_weight(&self) -> f64 {
        self.average_weight
    }

    /// The endpoint that a session names, if it still exists.
    #[must_use]
    pub fn find(&self, identity: EndpointIdentity) -> Option<Interned> {
        let found = self.identities.binary_search_by_key(&identity, |e| e.0);
        found
            .ok()
            .and_then(|at| self.identities.get(at))
            .map(|e| e.1)
    }
}

/// Names an endpoint; the same on every replica and across restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointIdentity(pub(crate) [u8; Self::BYTES]);

impl EndpointIdentity {
    pub(crate) const BYTES: usize = 16;

    /// Two independent numbers.
    pub(super) fn words(self) -> [u64; 2] {
        let (words, _) = self.0.as_chunks();
        let word = |at: usize| words.get(at).map_or(0, |it| u64::from_le_bytes(*it));
        [word(0), word(1)]
    }

    /// The identity of an address (`10.0.0.1:8080`) of a backend (its key).
    #[must_use]
    pub fn new(backend: &str, address: &str) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(backend.as_bytes());
        // A separator that neither part contains, so that no two pairs collide.
        context.update(b"\0");
        context.update(address.as_bytes());
        let mut identity = [0; Self::BYTES];
        for (byte, hashed) in identity.iter_mut().zip(context.finish().as_ref()) {
            *byte = *hashed;
        }
        Self(identity)
    }
}

/// Draws positions by weight, exactly and independently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draw(Weights);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Weights {
    /// None is above 0.
    Zero,
    /// The first position is the only one.
    One,
    /// So many equal ones.
    Equal(u32),
    /// Cumulative weights.
    Sums(Box<[u64]>),
}

impl Draw {
    /// Compiles weights; those of 0 are never drawn.
    #[must_use]
    pub fn new(weights: &[u32]) -> Self {
        let equal = weights.windows(2).all(|pair| pair[0] == pair[1]);
        let sums = weights.iter().scan(0, |sum: &mut u64, weight| {
            *sum += u64::from(*weight);
            Some(*sum)
        });
        Self(match weights {
            [] | [0] => Weights::Zero,
            [_] => Weights::One,
            [0, ..] if equal => Weights::Zero,
            _ if equal => Weights::Equal(u32::try_from(weights.len()).unwrap_or(u32::MAX)),
            _ => Weights::Sums(sums.collect()),
        })
    }

    /// The position of a request's key; `None` if there is none or every weight is 0.
    pub(crate) fn of(&self, key: RequestKey) -> Option<usize> {
        match &self.0 {
            Weights::Zero => None,
            Weights::One => Some(0),
            Weights::Equal(count) => usize::try_from(key.share(u64::from(*count))).ok(),
            Weights::Sums(sums) => {
                let at = key.share(*sums.last()?);
                Some(sums.partition_point(|sum| *sum <= at))
            }
        }
    }

    /// Draws a position; `None` if there is none or every weight is 0.
    pub fn draw(&self, rng: &mut impl Rng) -> Option<usize> {
        match &self.0 {
            Weights::Zero => None,
            Weights::One => Some(0),
            Weights::Equal(count) => Some(rng.random_range(0..*count) as usize),
            Weights::Sums(sums) => {
                let at = rng.random_range(0..*sums.last()?);
                Some(sums.partition_point(|sum| *sum <= at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::Draw;

    #[test]
    fn backends_get_exactly_their_weights() {
        let mut rng = SmallRng::seed_from_u64(3);
        for weights in [
            &[1, 1][..],
            &[70, 30],
            &[9, 0, 1],
            &[5],
            &[1_000_000, 1_000_000, 2_000_000],
        ] {
            let draw = Draw::new(weights);
            let mut counts = vec![0_u32; weights.len()];
            for _ in 0..20_000 {
                counts[draw.draw(&mut rng).expect("not all are 0")] += 1;
            }
            let total: f64 = weights.iter().copied().map(f64::from).sum();
            for (count, weight) in counts.iter().zip(weights) {
                let off = f64::from(*count) / 20_000.0 - f64::from(*weight) / total;
                assert!(off.abs() < 0.02, "{weights:?}: {counts:?}");
                assert!(*weight > 0 || *count == 0, "weight 0 gets nothing");
            }
        }
        assert_eq!(Draw::new(&[0, 0]).draw(&mut rng), None);
        assert_eq!(Draw::new(&[]).draw(&mut rng), None);
    }
}
