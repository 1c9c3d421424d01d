//! The endpoints of a service, compiled for selection: by weight in constant time, and by the
//! identity in a session token.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use ring::digest;
use xds::model::{Ejection, Health, SlowStart};

use super::draw::Draw;
use super::health_check::{CheckedEndpoints, ProbeState};
use super::locality::Locality;
use super::warming::Warming;
use crate::names::Interned;

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
    /// By where they and the proxy are, and those that health checks leave in service, if there are any.
    Local(Box<Locality>),
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

    /// The same endpoints, of which some are preferred by where they are.
    #[must_use]
    pub(crate) fn local(self, locality: Locality) -> Self {
        let checked = match self.candidates {
            Candidates::Checked(checked) => Some(checked),
            Candidates::Any | Candidates::Only(_) | Candidates::Local(_) => None,
        };
        Self {
            candidates: Candidates::Local(Box::new(locality.checked(checked))),
            ..self
        }
    }

    /// Where they are, if that matters.
    #[must_use]
    pub fn locality(&self) -> Option<&Locality> {
        match &self.candidates {
            Candidates::Local(locality) => Some(locality),
            Candidates::Any | Candidates::Only(_) | Candidates::Checked(_) => None,
        }
    }

    /// What is known of them by probes.
    #[must_use]
    pub fn health_checks(&self) -> Option<&CheckedEndpoints> {
        match &self.candidates {
            Candidates::Any | Candidates::Only(_) => None,
            Candidates::Checked(checked) => Some(checked),
            Candidates::Local(locality) => locality.health_checks(),
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

    /// The same, whose endpoints get less than their share after health checks had put them out of service too.
    pub(crate) fn warm_up_after_checks(
        &mut self,
        state: impl Fn(Interned) -> Option<Arc<ProbeState>>,
    ) {
        if let Some(warming) = &mut self.warming {
            warming.checked(state);
        }
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

    /// The weight of each tier that is in service. `part` is that of an endpoint's weight that counts: one that has just
    /// become ready takes less than its share, so it stands for less.
    pub(crate) fn tiers_in_service(
        &self,
        locality: &Locality,
        part: impl Fn(Interned) -> f64,
    ) -> [f64; Locality::MOST_TIERS] {
        locality.in_service(|position| {
            let endpoint = self.serving.get(position);
            endpoint.map_or(0.0, |it| f64::from(it.weight.get()) * part(it.id))
        })
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
            Candidates::Local(locality) => locality.is_out(position),
        }
    }

    /// Number of serving endpoints that are out of service because their probes fail.
    #[must_use]
    pub fn probed_out(&self) -> usize {
        self.health_checks().map_or(0, CheckedEndpoints::out)
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
