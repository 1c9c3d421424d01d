//! What a request or connection keeps of a configuration once its rule is known, or while the authorization
//! servers of its listener decide: the rule or the listener with its clusters, and not the snapshot. A response
//! may take days, while a snapshot also holds whatever else its change replaced, of everybody.
//!
//! Shards make these on first use, and the configuration thread, which hears of each through the
//! [`HeldQueue`], holds it until all of them have let go: so no shard frees one, and the ids in it are
//! not reused.

use std::collections::HashSet;
use std::sync::Arc;

use crossbeam::queue::SegQueue;

use super::{Cluster, ClusterIndex, L4Rule, ListenerSettings, PagesInForce, Rule, Snapshot};
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
    clusters: HeldClusters,
}

impl<R: NamesClusters> HeldRule<R> {
    /// A rule of a snapshot.
    pub(crate) fn of(snapshot: &Snapshot, id: Interned, rule: &Arc<R>) -> Self {
        Self {
            id,
            rule: Arc::clone(rule),
            clusters: clusters_of(snapshot, rule.clusters()),
        }
    }

    /// Whether it is the same in a snapshot, of which `rule` is.
    pub(crate) fn is_in(&self, snapshot: &Snapshot, rule: &Arc<R>) -> bool {
        Arc::ptr_eq(&self.rule, rule) && are_in(snapshot, &self.clusters)
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

/// Clusters by their index.
type HeldClusters = Box<[(ClusterIndex, Arc<Cluster>)]>;

/// These clusters of a snapshot, each once.
fn clusters_of(snapshot: &Snapshot, indexes: impl Iterator<Item = ClusterIndex>) -> HeldClusters {
    let mut clusters = Vec::new();
    for index in indexes {
        let is_new = clusters.iter().all(|(known, _)| *known != index);
        if let Some(cluster) = snapshot.clusters.shared(index.0).filter(|_| is_new) {
            clusters.push((index, Arc::clone(cluster)));
        }
    }
    clusters.into_boxed_slice()
}

/// Whether all of them are the same in a snapshot.
fn are_in(snapshot: &Snapshot, clusters: &[(ClusterIndex, Arc<Cluster>)]) -> bool {
    clusters.iter().all(|(index, cluster)| {
        let now = snapshot.clusters.shared(index.0);
        now.is_some_and(|now| Arc::ptr_eq(now, cluster))
    })
}

/// The settings of a listener, with the clusters of its authorization servers and page servers.
#[derive(Debug)]
pub struct HeldListener {
    /// The settings.
    pub settings: Arc<ListenerSettings>,
    clusters: HeldClusters,
}

impl HeldListener {
    /// A listener of a snapshot.
    pub(crate) fn of(snapshot: &Snapshot, settings: &Arc<ListenerSettings>) -> Self {
        let servers = settings.external_auth.iter();
        let servers = servers.filter_map(|server| server.cluster.ok());
        let pages = settings.error_pages.iter().flat_map(PagesInForce::clusters);
        Self {
            settings: Arc::clone(settings),
            clusters: clusters_of(snapshot, servers.chain(pages)),
        }
    }

    /// Whether it is the same in a snapshot, of which `settings` are.
    pub(crate) fn is_in(&self, snapshot: &Snapshot, settings: &Arc<ListenerSettings>) -> bool {
        Arc::ptr_eq(&self.settings, settings) && are_in(snapshot, &self.clusters)
    }

    /// The cluster of an authorization server or page server.
    #[must_use]
    pub fn cluster(&self, index: ClusterIndex) -> Option<&Cluster> {
        let found = self.clusters.iter().find(|(known, _)| *known == index);
        found.map(|(_, cluster)| &**cluster)
    }
}

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
                Held::Listener(held) => {
                    ids.listeners.insert(held.settings.id);
                    ids.add(&held.clusters);
                }
                Held::Rule(held) => {
                    ids.rules.insert(held.id);
                    ids.add(&held.clusters);
                }
                Held::L4Rule(held) => {
                    ids.rules.insert(held.id);
                    ids.add(&held.clusters);
                }
            }
        }
        ids
    }
}

impl HeldIds {
    fn add(&mut self, clusters: &[(ClusterIndex, Arc<Cluster>)]) {
        let with_pickers = clusters.iter().flat_map(|(_, cluster)| {
            let picker = cluster.picker.as_deref();
            [Some(cluster.id), picker.map(|picker| picker.cluster.id)]
        });
        self.clusters.extend(with_pickers.flatten());
    }
}
