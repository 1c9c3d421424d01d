//! Compiles which endpoints of a cluster are preferred by where they are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use xds::model::{LocalityMode, Spill};

use crate::config::{EndpointSet, Locality, Location, Place};
use crate::names::Interned;

/// Where the endpoints of a cluster are.
#[derive(Default)]
pub(super) struct Locations<'m> {
    /// Of those where anything is known.
    known: HashMap<Interned, Location<'m>>,
    zones: HashMap<&'m str, Arc<str>>,
}

impl<'m> Locations<'m> {
    /// Adds an endpoint. Returns its zone.
    pub(super) fn add(&mut self, id: Interned, location: Location<'m>) -> Option<Arc<str>> {
        let Location { node, zone, hints } = location;
        if node.is_some() || zone.is_some() || hints.is_some() {
            self.known.insert(id, location);
        }
        let zone = zone?;
        let shared = self.zones.entry(zone).or_insert_with(|| zone.into());
        Some(Arc::clone(shared))
    }

    fn of(&self, id: Interned) -> Location<'m> {
        self.known.get(&id).copied().unwrap_or_default()
    }
}

/// The settings of a cluster.
pub(super) struct LocalityCompiler<'a> {
    /// Where this proxy runs.
    pub(super) place: &'a Place,
    pub(super) mode: LocalityMode,
    pub(super) spill: Spill,
    pub(super) locations: &'a Locations<'a>,
    /// That of the cluster before this change.
    pub(super) before: Option<&'a Locality>,
}

impl LocalityCompiler<'_> {
    /// Adds which of them are preferred, if that means anything.
    pub(super) fn compile(&self, set: EndpointSet) -> EndpointSet {
        let (place, mode, before) = (self.place, self.mode, self.before);
        let now = Instant::now();
        let locations = self.locations.known.values().copied();
        if !Locality::is_needed(place, mode, locations, before, now) {
            return set;
        }
        let serving = set.serving().iter();
        let serving: Vec<_> = serving
            .map(|it| (it.id, it.weight, self.locations.of(it.id)))
            .collect();
        let locality = Locality::new(place, (mode, self.spill), &serving, before, now);
        let all = self.locations.known.iter();
        set.local(locality.counting(place, all.map(|(id, location)| (*id, *location))))
    }
}
