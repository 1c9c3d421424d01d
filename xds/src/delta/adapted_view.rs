//! The view of a Gateway for proxies of earlier releases, derived from the one for proxies with all features.
//!
//! To derive it may take a second: a rule of this release is many of the release before. So a stream takes what has
//! changed while it holds the views ([`Derivation`]), derives without them, and installs the result. The other
//! streams of such proxies share it. For proxies that have to get a rule for each listener there is a limit, that of
//! the release before: a Gateway beyond it needs proxies of this release.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use super::adapt::{adapted, is_divided};
use super::batch::Entry;
use super::encoded::Encoded;
use super::view::View;
use crate::encode::former::FormerCost;
use crate::model::{Features, Kind, ObjectName, ResourceKey, RouteKey};

#[derive(Debug)]
pub(super) struct AdaptedView {
    features: Features,
    view: View,
    /// Position in the full view up to which its changes are in this one; `None` before the first.
    derived: Option<u64>,
    /// Its number among the connections of the full view, from which it gets changes as they do.
    number: u64,
    /// The derivation that has begun and is not installed.
    under_way: Weak<()>,
    streams: BTreeSet<u64>,
}

/// The view for a stream, or what it needs first.
pub(super) enum Prepared<'a> {
    View(&'a mut View),
    Derive(Derivation),
    /// Another stream derives it.
    UnderWay,
    /// There are more rules at listeners than such proxies can be sent.
    TooLarge,
}

/// What has to be derived for proxies of an earlier release before they can be served. It may take a second: call
/// [`Derivation::run`] without holding the views.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "streams wait for its result"]
pub struct Derivation {
    gateway: ObjectName,
    features: Features,
    from: From,
    /// Position in the full view.
    until: u64,
    changes: Vec<Entry>,
    /// Gone if it is given up, so that another one can begin.
    token: Arc<()>,
}

#[derive(Debug, PartialEq, Eq)]
enum From {
    /// All resources, for a view that begins after this position.
    Nothing(u64),
    /// Changes of the view that there is.
    Last,
}

/// The result of a [`Derivation`]: pass it to [`Views::install`](super::Views::install).
#[derive(Debug)]
pub struct Derived {
    gateway: ObjectName,
    features: Features,
    content: Content,
    until: u64,
    token: Arc<()>,
}

#[derive(Debug)]
enum Content {
    Whole(View),
    /// By the key in the full view, what such proxies get.
    Changes(Vec<(ResourceKey, Vec<Arc<Encoded>>)>),
}

impl Derivation {
    /// Derives.
    #[must_use]
    pub fn run(self) -> Derived {
        let forms = |value: Option<Arc<Encoded>>| {
            let forms = value.map(|it| adapted(&it, self.features));
            forms.unwrap_or_default()
        };
        let content = match self.from {
            From::Nothing(start) => {
                let mut view = View::starting_after(start);
                for form in self.changes.into_iter().flat_map(|(_, value)| forms(value)) {
                    view.set(&form.key, Some(Arc::clone(&form)));
                }
                Content::Whole(view)
            }
            From::Last => {
                let changes = self.changes.into_iter();
                Content::Changes(changes.map(|(key, value)| (key, forms(value))).collect())
            }
        };
        Derived {
            gateway: self.gateway,
            features: self.features,
            content,
            until: self.until,
            token: self.token,
        }
    }
}

impl Derived {
    /// The Gateway whose view it is.
    #[must_use]
    pub fn gateway(&self) -> &ObjectName {
        &self.gateway
    }

    pub(super) fn features(&self) -> Features {
        self.features
    }
}

impl AdaptedView {
    pub(super) fn new(features: Features, number: u64) -> Self {
        Self {
            features,
            view: View::default(),
            derived: None,
            number,
            under_way: Weak::new(),
            streams: BTreeSet::new(),
        }
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the change of a key at this position in the full view is in this one.
    pub(super) fn has(&self, changed: u64) -> bool {
        self.derived.is_some_and(|derived| changed <= derived)
    }

    /// The view for a stream, given what its rules would be for such proxies.
    pub(super) fn prepare(
        &mut self,
        (gateway, full): (&ObjectName, &mut View),
        rules: FormerCost,
        stream: u64,
    ) -> Prepared<'_> {
        self.streams.insert(stream);
        if is_divided(self.features) && rules.exceeds_limits() {
            self.clear();
            return Prepared::TooLarge;
        }
        let last = self.derived.filter(|last| full.covers(*last));
        if last == Some(full.head()) {
            return Prepared::View(&mut self.view);
        }
        if self.under_way.strong_count() > 0 {
            return Prepared::UnderWay;
        }
        let token = Arc::new(());
        self.under_way = Arc::downgrade(&token);
        let (from, changes) = match last {
            Some(last) => (From::Last, full.since(last).collect()),
            None => (From::Nothing(self.next_start()), full.all().collect()),
        };
        // So that what is removed meanwhile is in the next changes.
        full.advance_to(self.number, last.unwrap_or(full.head()));
        Prepared::Derive(Derivation {
            gateway: gateway.clone(),
            features: self.features,
            from,
            until: full.head(),
            changes,
            token,
        })
    }

    /// Installs what was derived, unless it is no longer waited for.
    pub(super) fn install(&mut self, derived: Derived, full: &mut View) {
        if !std::ptr::eq(self.under_way.as_ptr(), Arc::as_ptr(&derived.token)) {
            return;
        }
        match derived.content {
            Content::Whole(view) => self.view = view,
            Content::Changes(changes) => {
                for (key, forms) in changes {
                    self.replace(&key, &forms);
                }
                self.view.forget_tombstones();
            }
        }
        self.derived = Some(derived.until);
        full.advance_to(self.number, derived.until);
    }

    /// Replaces what it has of a resource.
    fn replace(&mut self, key: &ResourceKey, forms: &[Arc<Encoded>]) {
        let kept: BTreeSet<&ResourceKey> = forms.iter().map(|it| &it.key).collect();
        let gone = self.forms(key).into_iter();
        for gone in gone.filter(|it| !kept.contains(it)) {
            self.view.set(&gone, None);
        }
        for form in forms {
            self.view.set(&form.key, Some(Arc::clone(form)));
        }
    }

    /// The keys of what it has of a resource.
    pub(super) fn forms(&self, key: &ResourceKey) -> Vec<ResourceKey> {
        let is_divided = key.kind == Kind::Route && is_divided(self.features);
        let rule = is_divided.then(|| RouteKey::parse(&key.key).ok()).flatten();
        let Some(rule) = rule else {
            let own = self.view.get(key).map(|it| it.key.clone());
            return own.into_iter().collect();
        };
        // All rules of the view are of its Gateway.
        let prefix = format!("{}/", rule.rule());
        let forms = self.view.starting_with(key.kind, &prefix);
        forms.map(|it| it.key.clone()).collect()
    }

    /// Drops what it has: connections have to report their versions again.
    fn clear(&mut self) {
        if self.derived.take().is_some() {
            self.view = View::starting_after(self.next_start());
        }
        self.under_way = Weak::new();
    }

    /// A position that no cursor has passed.
    fn next_start(&self) -> u64 {
        self.view.head().saturating_add(1)
    }

    pub(super) fn disconnect(&mut self, stream: u64) {
        self.streams.remove(&stream);
        self.view.disconnect(stream);
    }

    pub(super) fn forget_tombstones(&mut self) {
        self.view.forget_tombstones();
    }

    pub(super) fn has_streams(&self) -> bool {
        !self.streams.is_empty()
    }

    pub(super) fn batches_built(&self) -> u64 {
        self.view.batches_built()
    }
}
