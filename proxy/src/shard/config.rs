//! The shard's view of the configuration: the current snapshot, and what requests hold of it when they
//! are routed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::config::held::{Held, HeldListener, HeldRule, NamesClusters};
use crate::config::{
    BindSettings, L4Rule, ListenerSettings, PlacedRule, Published, Rule, Snapshot,
};
use crate::names::{Interned, Table};

/// A part of a configuration held by a shard's requests. They count on the outer counter, which is not
/// atomic and stays in this core's cache.
type Handle<T> = Rc<Arc<T>>;

/// A snapshot, held by a shard's requests until they are routed.
pub(crate) type SnapshotHandle = Handle<Snapshot>;

/// The settings of a bind, held by a shard's requests.
pub(crate) type BindHandle = Handle<BindSettings>;

/// The settings of a listener, held by a shard's requests.
pub(crate) type ListenerHandle = Handle<HeldListener>;

/// A rule with its clusters, held by a shard's requests or connections.
pub(crate) type RuleHandle<R> = Handle<HeldRule<R>>;

/// The shard's view of the published configuration.
pub(crate) struct ConfigCell {
    published: RefCell<arc_swap::Cache<Published, Arc<Snapshot>>>,
    current: RefCell<SnapshotHandle>,
    /// The settings of the current binds, by id.
    binds: RefCell<Vec<Option<BindHandle>>>,
    listeners: RefCell<HeldTable<HeldListener>>,
    rules: RefCell<HeldTable<HeldRule<Rule>>>,
    l4_rules: RefCell<HeldTable<HeldRule<L4Rule>>>,
    /// The version that was current at the last [`Self::let_go`].
    seen: Cell<u64>,
    /// The version up to which it let go.
    let_go: Cell<u64>,
}

/// What the requests of a shard hold, by id. Two requests for the same rule hold the same.
type HeldTable<T> = Table<HeldEntry<T>>;

struct HeldEntry<T> {
    /// The last snapshot in which it is known to be.
    version: u64,
    held: Handle<T>,
}

impl ConfigCell {
    pub(crate) fn new(published: Published) -> Self {
        let mut published = arc_swap::Cache::new(published);
        let current = Rc::new(Arc::clone(published.load()));
        Self {
            binds: RefCell::new(settings_of(&current, &[])),
            published: RefCell::new(published),
            current: RefCell::new(current),
            listeners: RefCell::default(),
            rules: RefCell::default(),
            l4_rules: RefCell::default(),
            seen: Cell::default(),
            let_go: Cell::default(),
        }
    }

    /// The current configuration, to hold until a rule is known.
    pub(crate) fn load(&self) -> SnapshotHandle {
        let mut published = self.published.borrow_mut();
        let latest = published.load();
        let mut current = self.current.borrow_mut();
        if !Arc::ptr_eq(latest, &current) {
            *current = Rc::new(Arc::clone(latest));
            let mut binds = self.binds.borrow_mut();
            *binds = settings_of(&current, &binds);
        }
        Rc::clone(&current)
    }

    /// The current configuration, and the settings of one of its binds.
    pub(crate) fn load_for(&self, bind: u32) -> Option<(SnapshotHandle, BindHandle)> {
        let snapshot = self.load();
        let binds = self.binds.borrow();
        let settings = binds.get(bind as usize)?.as_ref()?;
        Some((snapshot, Rc::clone(settings)))
    }

    /// Whether the current configuration has a bind, without holding the configuration.
    pub(crate) fn has_bind(&self, bind: u32) -> bool {
        self.published.borrow_mut().load().bind(bind).is_some()
    }

    /// The settings of a listener of this snapshot, to hold instead of it.
    pub(crate) fn hold_listener(
        &self,
        snapshot: &Snapshot,
        settings: &Arc<ListenerSettings>,
    ) -> ListenerHandle {
        self.listeners.borrow_mut().hold(
            (snapshot, settings.id),
            |held| held.is_in(snapshot, settings),
            || HeldListener::of(snapshot, settings),
            Held::Listener,
        )
    }

    /// A rule of requests of this snapshot, to hold instead of it.
    pub(crate) fn hold_rule(&self, snapshot: &Snapshot, placed: &PlacedRule) -> RuleHandle<Rule> {
        let mut rules = self.rules.borrow_mut();
        rules.hold_rule(snapshot, (placed.id, &placed.rule), Held::Rule)
    }

    /// A rule of connections of this snapshot, to hold instead of it.
    pub(crate) fn hold_l4(&self, snapshot: &Snapshot, rule: &Arc<L4Rule>) -> RuleHandle<L4Rule> {
        let mut rules = self.l4_rules.borrow_mut();
        rules.hold_rule(snapshot, (rule.id, rule), Held::L4Rule)
    }

    /// Lets go of what no request has needed since a change, in the time since the last call.
    pub(crate) fn let_go(&self) {
        let before = self.seen.replace(self.load().version);
        if before > self.let_go.replace(before) {
            self.listeners
                .borrow_mut()
                .retain(|it| it.version >= before);
            self.rules.borrow_mut().retain(|it| it.version >= before);
            self.l4_rules.borrow_mut().retain(|it| it.version >= before);
        }
    }
}

/// The settings of a snapshot's binds; those that did not change are shared with what was held before.
fn settings_of(snapshot: &Snapshot, before: &[Option<BindHandle>]) -> Vec<Option<BindHandle>> {
    let binds = snapshot.binds.iter().enumerate().map(|(id, bind)| {
        let settings = &bind.as_ref()?.settings;
        let before = before.get(id).and_then(Option::as_ref);
        let before = before.filter(|before| Arc::ptr_eq(before, settings));
        Some(before.map_or_else(|| Rc::new(Arc::clone(settings)), Rc::clone))
    });
    binds.collect()
}

impl<T> HeldTable<T> {
    fn hold(
        &mut self,
        (snapshot, id): (&Snapshot, Interned),
        is_same: impl FnOnce(&T) -> bool,
        new: impl FnOnce() -> T,
        report: impl FnOnce(Arc<T>) -> Held,
    ) -> Handle<T> {
        let version = snapshot.version;
        let known = self.find_mut(id);
        if let Some(entry) = &known
            && entry.version == version
        {
            return Rc::clone(&entry.held);
        }
        let same = known.filter(|entry| is_same(&entry.held));
        if let Some(entry) = same {
            entry.version = entry.version.max(version);
            return Rc::clone(&entry.held);
        }
        let held = Arc::new(new());
        snapshot.held.push(report(Arc::clone(&held)));
        let held = Rc::new(held);
        let entry = self.find_or_insert(id, || HeldEntry {
            version,
            held: Rc::clone(&held),
        });
        if entry.version < version {
            entry.version = version;
            entry.held = Rc::clone(&held);
        }
        held
    }
}

impl<R: NamesClusters> HeldTable<HeldRule<R>> {
    fn hold_rule(
        &mut self,
        snapshot: &Snapshot,
        (id, rule): (Interned, &Arc<R>),
        report: impl FnOnce(Arc<HeldRule<R>>) -> Held,
    ) -> RuleHandle<R> {
        self.hold(
            (snapshot, id),
            |held| held.is_in(snapshot, rule),
            || HeldRule::of(snapshot, id, rule),
            report,
        )
    }
}
