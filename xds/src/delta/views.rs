//! The resources of all Gateways, and which of them each Gateway's proxies need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::adapt::adapted;
use super::encoded::{Encoded, Version};
use super::view::View;
use crate::fast_hash::FastHashMap;
use crate::model::{Features, Kind, ObjectName, ResourceKey};
use crate::small_map::SmallMap;

/// The configuration that a controller publishes: a view for each Gateway.
#[derive(Debug, Default)]
pub struct Views {
    resources: FastHashMap<ResourceKey, PublishedResource>,
    by_gateway: FastHashMap<ObjectName, GatewayViews>,
    is_complete: bool,
    sessions: u64,
}

/// The resources of a Gateway, in the forms that its proxies understand.
#[derive(Debug, Default)]
struct GatewayViews {
    /// For proxies with all features of this release.
    full: View,
    /// For those of earlier releases, while there are any.
    adapted: BTreeMap<Features, View>,
}

impl GatewayViews {
    /// Logs a change of a key. Returns whether it changed.
    fn set(&mut self, key: &ResourceKey, value: Option<Arc<Encoded>>) -> bool {
        if self.adapted.is_empty() {
            return self.full.set(key, value);
        }
        let before = self.full.get(key).cloned();
        let is_changed = self.full.set(key, value.clone());
        if is_changed {
            for (features, view) in &mut self.adapted {
                replace(view, *features, before.as_ref(), value.as_ref());
            }
        }
        is_changed
    }

    fn of(&self, features: Features) -> Option<&View> {
        if features == Features::all() {
            return Some(&self.full);
        }
        self.adapted.get(&features)
    }

    /// The view for proxies with these features, made if there is none.
    fn of_mut(&mut self, features: Features) -> &mut View {
        if features == Features::all() {
            return &mut self.full;
        }
        self.adapted.entry(features).or_insert_with(|| {
            let mut view = View::default();
            for encoded in Kind::ALL
                .into_iter()
                .flat_map(|kind| self.full.of_kind(kind))
            {
                replace(&mut view, features, None, Some(encoded));
            }
            view
        })
    }

    fn disconnect(&mut self, features: Features, session: u64) {
        if features == Features::all() {
            self.full.disconnect(session);
        } else if let Some(view) = self.adapted.get_mut(&features) {
            view.disconnect(session);
        }
    }

    /// Drops what no stream needs. Returns whether nothing is left.
    fn forget_unused(&mut self) -> bool {
        self.full.forget_tombstones();
        self.adapted.retain(|_, view| {
            view.forget_tombstones();
            view.has_streams()
        });
        self.full.is_unused() && self.adapted.is_empty()
    }
}

/// Replaces what a view has of a resource.
fn replace(
    view: &mut View,
    features: Features,
    before: Option<&Arc<Encoded>>,
    after: Option<&Arc<Encoded>>,
) {
    let forms = |it: Option<&Arc<Encoded>>| it.map(|it| adapted(it, features)).unwrap_or_default();
    let after = forms(after);
    let kept: BTreeSet<&ResourceKey> = after.iter().map(|it| &it.key).collect();
    for gone in forms(before).iter().filter(|it| !kept.contains(&it.key)) {
        view.set(&gone.key, None);
    }
    for form in &after {
        view.set(&form.key, Some(Arc::clone(form)));
    }
}

/// A resource, and the Gateways whose proxies need it.
#[derive(Debug, Default)]
struct PublishedResource {
    encoded: Option<Arc<Encoded>>,
    gateways: SmallMap<ObjectName>,
}

/// One change of the configuration, which proxies apply atomically.
#[derive(Debug, Clone, Default)]
pub struct Publication {
    /// Changed resources; `None` for removed ones.
    pub resources: Vec<(ResourceKey, Option<Arc<Encoded>>)>,
    /// Resources that a Gateway's proxies start or stop needing.
    pub members: Vec<(ObjectName, ResourceKey, Member)>,
}

/// How a Gateway's need for a resource changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Member {
    /// The resource is needed from now on.
    Joined,
    /// The resource is no longer needed.
    Left,
}

impl Views {
    /// Publishes a change. Returns the Gateways whose proxies have something to receive: at first all.
    /// Everything that is staged has to be complete with it: before, no stream is served.
    pub fn publish(&mut self, publication: Publication) -> BTreeSet<ObjectName> {
        let changed = self.apply(publication);
        if self.is_complete {
            return changed;
        }
        self.is_complete = true;
        self.by_gateway.keys().cloned().collect()
    }

    /// Prepares the first publication, by a part of it.
    pub fn stage(&mut self, publication: Publication) {
        debug_assert!(!self.is_complete, "streams are served");
        self.apply(publication);
    }

    fn apply(&mut self, publication: Publication) -> BTreeSet<ObjectName> {
        let mut touched: Vec<(ObjectName, ResourceKey)> = Vec::new();
        for (key, encoded) in publication.resources {
            let held = self.resources.entry(key.clone()).or_default();
            held.encoded = encoded;
            let gateways = held.gateways.keys().cloned();
            touched.extend(gateways.map(|gateway| (gateway, key.clone())));
        }
        for (gateway, key, member) in publication.members {
            let held = self.resources.entry(key.clone()).or_default();
            match member {
                Member::Joined => held.gateways.insert(gateway.clone(), ()),
                Member::Left => held.gateways.remove(&gateway),
            };
            touched.push((gateway, key));
        }
        touched.sort_unstable();
        touched.dedup();
        self.log(touched)
    }

    fn log(&mut self, touched: Vec<(ObjectName, ResourceKey)>) -> BTreeSet<ObjectName> {
        let mut changed = BTreeSet::new();
        let mut gateways = BTreeSet::new();
        for (gateway, key) in touched {
            let held = self.resources.get(&key);
            let needed = held.filter(|held| held.gateways.get(&gateway).is_some());
            let value = needed.and_then(|held| held.encoded.clone());
            if held.is_some_and(|held| held.encoded.is_none() && held.gateways.is_empty()) {
                self.resources.remove(&key);
            }
            let views = self.by_gateway.entry(gateway.clone()).or_default();
            if views.set(&key, value) {
                changed.insert(gateway.clone());
            }
            gateways.insert(gateway);
        }
        for gateway in &gateways {
            self.remove_if_unused(gateway);
        }
        changed
    }

    /// Drops what no stream needs of a view.
    fn remove_if_unused(&mut self, gateway: &ObjectName) {
        let views = self.by_gateway.get_mut(gateway);
        if views.is_some_and(GatewayViews::forget_unused) {
            self.by_gateway.remove(gateway);
        }
    }

    /// Number of resources.
    #[must_use]
    pub fn resource_count(&self) -> usize {
        self.resources.len()
    }

    /// Whether anything was published.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The resources of a kind that the proxies of a Gateway need.
    #[must_use]
    pub fn keys(&self, gateway: &ObjectName, kind: Kind) -> Vec<ResourceKey> {
        let view = self.view(gateway).into_iter();
        let resources = view.flat_map(|view| view.of_kind(kind));
        resources.map(|encoded| encoded.key.clone()).collect()
    }

    /// The same, with the current version of each.
    #[must_use]
    pub fn versions(&self, gateway: &ObjectName, kind: Kind) -> BTreeMap<ResourceKey, Version> {
        let view = self.view(gateway).into_iter();
        let resources = view.flat_map(|view| view.of_kind(kind));
        resources.map(|it| (it.key.clone(), it.version)).collect()
    }

    /// The current version of a resource that the proxies of a Gateway need; `None` if it was removed.
    #[must_use]
    pub fn version(&self, gateway: &ObjectName, key: &ResourceKey) -> Option<Version> {
        let resource = self.view(gateway)?.get(key)?;
        Some(resource.version)
    }

    /// Number of batches built for a Gateway's proxies that subscribe to everything, each encoded once however
    /// many proxies with the same features receive it.
    #[must_use]
    pub fn batches(&self, gateway: &ObjectName) -> u64 {
        let views = self.by_gateway.get(gateway).into_iter();
        let views = views.flat_map(|it| std::iter::once(&it.full).chain(it.adapted.values()));
        views.map(View::batches_built).sum()
    }

    /// What a Gateway's proxies with all features get.
    fn view(&self, gateway: &ObjectName) -> Option<&View> {
        self.view_for(gateway, Features::all())
    }

    /// What a Gateway's proxies with these features get.
    pub(super) fn view_for(&self, gateway: &ObjectName, features: Features) -> Option<&View> {
        self.by_gateway.get(gateway)?.of(features)
    }

    /// The same, made if there is none.
    pub(super) fn view_mut(&mut self, gateway: &ObjectName, features: Features) -> &mut View {
        let views = self.by_gateway.entry(gateway.clone()).or_default();
        views.of_mut(features)
    }

    pub(super) fn disconnect(&mut self, gateway: &ObjectName, features: Features, session: u64) {
        if let Some(views) = self.by_gateway.get_mut(gateway) {
            views.disconnect(features, session);
        }
        self.remove_if_unused(gateway);
    }

    pub(super) fn next_session(&mut self) -> u64 {
        self.sessions = self.sessions.saturating_add(1);
        self.sessions
    }
}
