//! The resources of all Gateways, and which of them each Gateway's proxies need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::adapted_view::{AdaptedView, Derived, Prepared};
use super::encoded::{Encoded, Version};
use super::view::View;
use crate::encode::former::FormerCost;
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
    /// What its rules are for proxies that get one for each listener.
    former: FormerCost,
    /// For those of earlier releases, while there are any.
    adapted: BTreeMap<Features, AdaptedView>,
}

impl GatewayViews {
    /// Logs a change of a key. Returns whether it changed.
    fn set(&mut self, key: &ResourceKey, value: Option<Arc<Encoded>>) -> bool {
        let former = |value: Option<&Arc<Encoded>>| value.map(|it| it.former).unwrap_or_default();
        let (before, after) = (former(self.full.get(key)), former(value.as_ref()));
        let is_changed = self.full.set(key, value);
        if is_changed {
            self.former = self.former.with(after).without(before);
        }
        is_changed
    }

    fn of(&self, features: Features) -> Option<ViewFor<'_>> {
        let full = &self.full;
        if features == Features::all() {
            return Some(ViewFor {
                full,
                adapted: None,
            });
        }
        let adapted = Some(self.adapted.get(&features)?);
        Some(ViewFor { full, adapted })
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
        let full = &mut self.full;
        self.adapted.retain(|_, view| {
            view.forget_tombstones();
            if !view.has_streams() {
                full.disconnect(view.number());
            }
            view.has_streams()
        });
        full.forget_tombstones();
        full.is_unused() && self.adapted.is_empty()
    }
}

/// The resources of a Gateway as a stream gets them.
#[derive(Debug, Clone, Copy)]
pub(super) struct ViewFor<'a> {
    full: &'a View,
    adapted: Option<&'a AdaptedView>,
}

/// What a stream gets of a resource.
pub(super) struct Form {
    pub(super) key: ResourceKey,
    pub(super) version: Version,
    /// Its last change in the stream's view.
    pub(super) changed: u64,
}

impl<'a> ViewFor<'a> {
    /// The forms of a resource: none if the stream's view does not have its last change yet.
    pub(super) fn forms(self, key: &'a ResourceKey) -> impl Iterator<Item = Form> + 'a {
        let own = form(self.full, key);
        let adapted = self.adapted.filter(|it| {
            let changed = own.as_ref().map(|it| it.changed);
            changed.is_some_and(|changed| it.has(changed))
        });
        let adapted = adapted.into_iter().flat_map(|adapted| {
            let forms = adapted.forms(key).into_iter();
            forms.filter_map(|it| form(adapted.view(), &it))
        });
        own.filter(|_| self.adapted.is_none())
            .into_iter()
            .chain(adapted)
    }
}

fn form(view: &View, key: &ResourceKey) -> Option<Form> {
    Some(Form {
        key: key.clone(),
        version: view.get(key)?.version,
        changed: view.changed(key)?,
    })
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

    /// The longest lifetime of the session tokens that the proxies of a Gateway give; zero without any.
    #[must_use]
    pub fn token_lifetime(&self, gateway: &ObjectName) -> Duration {
        let view = self.view(gateway).into_iter();
        let rules = view.flat_map(|view| view.of_kind(Kind::Route));
        let seconds = rules.map(|rule| rule.token_seconds).max();
        Duration::from_secs(seconds.unwrap_or_default().into())
    }

    /// Number of batches for a Gateway's proxies that subscribe to everything, each encoded once however
    /// many proxies with the same features receive it.
    #[must_use]
    pub fn batches(&self, gateway: &ObjectName) -> u64 {
        let Some(views) = self.by_gateway.get(gateway) else {
            return 0;
        };
        let adapted = views.adapted.values().map(AdaptedView::batches_built);
        adapted.fold(views.full.batches_built(), u64::saturating_add)
    }

    /// Position of the last change of what a Gateway's proxies with all features get.
    pub(super) fn head(&self, gateway: &ObjectName) -> u64 {
        self.view(gateway).map_or(0, View::head)
    }

    /// What a Gateway's proxies with all features get.
    fn view(&self, gateway: &ObjectName) -> Option<&View> {
        self.by_gateway.get(gateway).map(|it| &it.full)
    }

    /// What a Gateway's proxies with these features get.
    pub(super) fn view_for(&self, gateway: &ObjectName, features: Features) -> Option<ViewFor<'_>> {
        self.by_gateway.get(gateway)?.of(features)
    }

    /// The view for a stream of a proxy with these features, made if there is none.
    pub(super) fn prepare(
        &mut self,
        gateway: &ObjectName,
        features: Features,
        session: u64,
    ) -> Prepared<'_> {
        if features == Features::all() {
            let views = self.by_gateway.entry(gateway.clone()).or_default();
            return Prepared::View(&mut views.full);
        }
        let number = self.next_session();
        let views = self.by_gateway.entry(gateway.clone()).or_default();
        let adapted = views.adapted.entry(features);
        let adapted = adapted.or_insert_with(|| AdaptedView::new(features, number));
        adapted.prepare((gateway, &mut views.full), views.former, session)
    }

    /// Installs what was derived. Then every stream of the Gateway has to be polled: some wait for it.
    pub fn install(&mut self, derived: Derived) {
        if let Some(views) = self.by_gateway.get_mut(derived.gateway())
            && let Some(adapted) = views.adapted.get_mut(&derived.features())
        {
            adapted.install(derived, &mut views.full);
        }
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
