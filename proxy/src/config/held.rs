//! What a request or connection keeps of a configuration once its rule is known: the rule and its
//! clusters, and not the snapshot. A response may take days, while a snapshot also holds whatever else
//! its change replaced, of everybody.
//!
//! Shards make these on first use, and the configuration thread, which hears of each through the
//! [`HeldQueue`], holds it until all of them have let go: so no shard frees one, and the ids in it are
//! not reused.

use std::collections::HashSet;
use std::sync::Arc;

use crossbeam::queue::SegQueue;

use super::{Cluster, ClusterIndex, L4Rule, ListenerSettings, Rule, Snapshot};
use crate::names::Interned;

/// A rule that names clusters.
pub trait NamesClusters {
    /// The clusters that its requests may need.
    fn clusters(&self) -> impl Iterator<Item = ClusterIndex>;
}

impl NamesClusters for Rule {
    fn clusters(&self) -> impl Iterator<Item = ClusterIndex> {
        self.clusters()
    }
}

impl NamesClusters for L4Rule {
    fn clusters(&self) -> impl Iterator<Item = ClusterIndex> {
        self.backends.iter().filter_map(|it| it.cluster.ok())
    }
}

/// A rule with the clusters that it names.
#[derive(Debug)]
pub struct HeldRule<R> {
    /// Its id in the counters.
    pub id: Interned,
    /// The rule.
    pub rule: Arc<R>,
    clusters: Box<[(ClusterIndex, Arc<Cluster>)]>,
}

impl<R: NamesClusters> HeldRule<R> {
    /// A rule of a snapshot.
    pub(crate) fn of(snapshot: &Snapshot, id: Interned, rule: &Arc<R>) -> Self {
        let mut clusters = Vec::new();
        for index in rule.clusters() {
            let is_new = clusters.iter().all(|(known, _)| *known != index);
            if let Some(cluster) = snapshot.clusters.shared(index.0).filter(|_| is_new) {
                clusters.push((index, Arc::clone(cluster)));
            }
        }
        Self {
            id,
            rule: Arc::clone(rule),
            clusters: clusters.into_boxed_slice(),
        }
    }

    /// Whether it is the same in a snapshot, of which `rule` is.
    pub(crate) fn is_in(&self, snapshot: &Snapshot, rule: &Arc<R>) -> bool {
        let is_same = |(index, cluster): &(ClusterIndex, Arc<Cluster>)| {
            let now = snapshot.clusters.shared(index.0);
            now.is_some_and(|now| Arc::ptr_eq(now, cluster))
        };
        Arc::ptr_eq(&self.rule, rule) && self.clusters.iter().all(is_same)
    }

    /// The cluster of this index.
    ///
    /// # Panics
    /// The rule does not name it.
    #[must_use]
    pub fn cluster(&self, index: ClusterIndex) -> &Cluster {
        let found = self.clusters.iter().find(|(known, _)| *known == index);
        let (_, cluster) = found.expect("rules are compiled with the clusters that they name");
        cluster
    }
}

/// The settings of a listener.
#[derive(Debug)]
pub struct HeldListener(pub Arc<ListenerSettings>);

/// Something that a shard holds beyond its snapshot.
#[derive(Debug)]
pub enum Held {
    /// Settings of a listener.
    Listener(Arc<HeldListener>),
    /// A rule of requests.
    Rule(Arc<HeldRule<Rule>>),
    /// A rule of connections.
    L4Rule(Arc<HeldRule<L4Rule>>),
}

impl Held {
    /// Whether a shard has it.
    pub(crate) fn is_in_use(&self) -> bool {
        let count = match self {
            Self::Listener(held) => Arc::strong_count(held),
            Self::Rule(held) => Arc::strong_count(held),
            Self::L4Rule(held) => Arc::strong_count(held),
        };
        count > 1
    }
}

/// Where shards report what they hold.
pub(crate) type HeldQueue = Arc<SegQueue<Held>>;

/// Ids in what shards hold.
#[derive(Debug, Default)]
pub(crate) struct HeldIds {
    /// Of listeners.
    pub(crate) listeners: HashSet<Interned>,
    /// Of rules.
    pub(crate) rules: HashSet<Interned>,
    /// Of clusters, whose endpoints are in use like themselves.
    pub(crate) clusters: HashSet<Interned>,
}

impl<'h> FromIterator<&'h Held> for HeldIds {
    fn from_iter<I: IntoIterator<Item = &'h Held>>(all: I) -> Self {
        let mut ids = Self::default();
        for held in all {
            match held {
                Held::Listener(listener) => drop(ids.listeners.insert(listener.0.id)),
                Held::Rule(held) => ids.add(held),
                Held::L4Rule(held) => ids.add(held),
            }
        }
        ids
    }
}

impl HeldIds {
    fn add<R: NamesClusters>(&mut self, held: &HeldRule<R>) {
        self.rules.insert(held.id);
        let clusters = held.clusters.iter();
        let with_pickers = clusters.flat_map(|(_, cluster)| {
            let picker = cluster.picker.as_deref();
            [Some(cluster.id), picker.map(|picker| picker.cluster.id)]
        });
        self.clusters.extend(with_pickers.flatten());
    }
}
