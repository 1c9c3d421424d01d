//! Compiles the model into a [`Snapshot`]: resolves references, so that requests look nothing up.
//!
//! Runs off the shards at every change, and recompiles only what the change affects: unchanged
//! rules, clusters, listeners and binds are shared with the previous snapshot. Listeners are
//! attached to their bind and routes to their listener, policies are merged into their targets, and
//! services with their workloads become clusters.

mod answer;
mod authorization;
mod bind;
mod cluster;
mod credentials;
mod dirty;
mod enforced;
mod hash;
mod head;
mod health_check;
mod ids;
mod index;
mod jwt;
mod l4;
mod last;
mod listener;
mod locality;
mod networks;
mod options;
mod place;
mod policy;
mod rate_limit;
mod rule;
mod rule_counts;
mod servers;
mod session_keys;
mod source;
mod targets;
mod tls;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use xds::fast_hash::FastHashMap;
use xds::model::{self, BindKey, Change, HostAddress, Hosts, Model, Resource};

use self::answer::Answers;
use self::authorization::Authorizations;
use self::bind::{BindCompiler, CompiledBind};
use self::cluster::{ClusterCompiler, CompiledCluster};
use self::credentials::CredentialTables;
use self::dirty::Dirty;
use self::head::HeadCompiler;
use self::ids::Ids;
use self::index::Index;
use self::jwt::Authenticators;
use self::last::Last;
use self::listener::{ListenerCompiler, Listeners};
use self::networks::SharedNetworks;
use self::place::RulePlacer;
use self::policy::Policies;
use self::rate_limit::RateLimiters;
use self::rule::LastSettings;
use self::session_keys::{CurrentSessionKeys, has_only_session_keys};
use self::targets::{ClusterUsers, TargetCluster, Targets};
use self::tls::TlsCompiler;
use super::dns::Resolved;
use super::held::{Held, HeldQueue};
use super::{Bind, Chunked, Cluster, ClusterIndex, RuleCounts, Snapshot};
use crate::policy::jwt::FetchWaker;

pub use self::jwt::RemoteKeys;
pub use self::options::CompileOptions;
pub use self::session_keys::KeyOrigin;

/// Compiles successive configurations incrementally; unchanged parts are shared between snapshots.
#[derive(Debug, Default)]
pub struct Compiler {
    version: u64,
    options: Option<CompileOptions>,
    model: Model,
    index: Index,
    /// The parts that have to be compiled again.
    dirty: Dirty,
    policies: Policies,
    targets: Targets,
    users: ClusterUsers,
    listeners: Listeners,
    binds: HashMap<BindKey, CompiledBind>,
    clusters: HashMap<usize, Box<PlacedCluster>>,
    table: Chunked<Cluster>,
    /// The clusters whose endpoints are checked.
    checked: BTreeSet<usize>,
    /// Counts up when checks put endpoints out of service; the prober's.
    probed_out: Arc<AtomicU64>,
    /// Sums over all clusters.
    connections: u64,
    endpoints: usize,
    rules: RuleCounts,
    ids: Ids,
    jwt: Authenticators,
    credentials: CredentialTables,
    authorization: Authorizations,
    networks: SharedNetworks,
    rate_limits: RateLimiters,
    answers: Answers,
    settings: LastSettings,
    ejection: Last<model::Ejection>,
    tls: TlsCompiler,
    session_keys: CurrentSessionKeys,
}

/// A cluster with its key and its origin in the model.
#[derive(Debug)]
struct PlacedCluster {
    key: Arc<str>,
    place: TargetCluster,
    compiled: Option<CompiledCluster>,
}

impl Compiler {
    /// Compiles a whole model, by its differences from the previous one.
    pub fn compile(
        &mut self,
        model: &Model,
        resolved: &Resolved,
        options: &CompileOptions,
    ) -> Snapshot {
        self.take(&self.model.changes_to(model));
        self.names_changed();
        self.snapshot(resolved, options)
    }

    /// The model with all changes so far.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Applies changes to the model, and marks what they affect as dirty.
    pub fn take(&mut self, changes: &[Change]) {
        let mut stays_in_place = Vec::with_capacity(changes.len());
        for (key, new) in changes {
            if let Some(new) = new {
                self.session_keys.take(new);
            }
            let old = self.model.resource(key.kind, &key.key);
            if old.iter().chain(new).all(has_only_session_keys) {
                self.model.apply([(key.clone(), new.clone())]);
                stays_in_place.push(true);
                continue;
            }
            self.jwt.replace(old.as_ref(), new.as_ref());
            self.rules.replace(old.as_ref(), new.as_ref(), &self.model);
            let stays = dirty::stays_in_place(old.as_ref(), new.as_ref());
            stays_in_place.push(stays);
            if let Some(old) = &old {
                self.dirty.detach(old, new.as_ref());
                match (old, new) {
                    (Resource::Route(old), Some(Resource::Route(new))) if stays => {
                        self.dirty.reattach(old, new);
                    }
                    _ if stays => {}
                    _ => self.dirty.mark(old, &self.model, &self.index),
                }
                self.index.remove(old, new.as_ref());
                if let Resource::Policy(policy) = old {
                    self.policies.remove(policy);
                    self.rate_limits.replace(policy);
                }
            }
            self.model.apply([(key.clone(), new.clone())]);
            if let Some(new) = new {
                self.index.add(new, old.as_ref());
                if let Resource::Policy(policy) = new {
                    self.policies.add(policy);
                }
            }
        }
        // Children may have come after their parents.
        for ((_, new), stays) in changes.iter().zip(stays_in_place) {
            match new {
                Some(Resource::Listener(listener)) if stays => self.dirty.listener(listener),
                // Marked when its previous version was known.
                Some(Resource::Route(_)) if stays => {}
                Some(keys) if has_only_session_keys(keys) => {}
                Some(new) => self.dirty.mark(new, &self.model, &self.index),
                None => {}
            }
        }
    }

    /// Records that host names resolve to other addresses.
    pub fn names_changed(&mut self) {
        let backends = self.model.backends.values();
        let named = backends.filter(|it| has_names(&it.hosts));
        let named = named.map(|it| it.key.to_shared());
        self.dirty.targets.extend(named);
    }

    /// Compiles the model. Dangling references do not fail it: listeners without their bind and
    /// routes without their listener are left out, and requests for missing backends get 500.
    /// [`Model::dangling`] lists them.
    pub fn snapshot(&mut self, resolved: &Resolved, options: &CompileOptions) -> Snapshot {
        self.version += 1;
        self.ids.begin(self.version);
        self.targets.slots.begin();
        self.jwt.begin();
        self.credentials.begin();
        self.authorization.begin();
        self.networks.begin();
        self.rate_limits.begin();
        self.answers.begin();
        let mut dirty = std::mem::take(&mut self.dirty);
        let shows_other = dirty.certificates && self.targets.show(&self.model, &self.policies);
        let is_other = self.options.as_ref() != Some(options);
        self.options = Some(options.clone());
        if shows_other || is_other {
            dirty.mark_all(&self.model);
        }
        let mut clusters = self.assign_targets(&mut dirty);
        self.compile_rules(&mut dirty, &mut clusters, options);
        self.compile_clusters(&clusters, resolved, options);
        self.compile_listeners(&mut dirty, options);
        self.compile_binds(&dirty, options);
        self.jwt.forget_unused();
        self.assemble()
    }

    /// Assigns clusters to services and backends. Returns the clusters to compile.
    fn assign_targets(&mut self, dirty: &mut Dirty) -> BTreeSet<usize> {
        let mut clusters = BTreeSet::new();
        for key in std::mem::take(&mut dirty.targets) {
            let replaced = self.targets.assign(&key, &self.model);
            for index in replaced.gone {
                self.forget_cluster(index);
            }
            if replaced.is_other {
                dirty.used(Arc::clone(&key), &self.model, &self.index);
            }
            for place in replaced.places {
                let index = place.index.0;
                clusters.insert(index);
                self.clusters.entry(index).or_insert_with(|| {
                    Box::new(PlacedCluster {
                        key: Arc::clone(&key),
                        place,
                        compiled: None,
                    })
                });
            }
        }
        for gateway in &dirty.gateways {
            let used = self.users.clusters_of(gateway).map(|index| index.0);
            clusters.extend(used.filter(|index| self.clusters.contains_key(index)));
        }
        clusters
    }

    fn forget_cluster(&mut self, index: ClusterIndex) {
        if let Some(placed) = self.clusters.remove(&index.0)
            && let Some(compiled) = placed.compiled
        {
            self.tls.forget_backend(&compiled.cluster.name);
            if let Some(picker) = &compiled.cluster.picker {
                self.tls.forget_backend(&picker.cluster.name);
            }
            compiled.remove_reference(&mut self.ids);
            self.count(None, Some(&compiled.cluster));
        }
        self.checked.remove(&index.0);
        self.table.set(index.0, None);
    }

    fn count(&mut self, new: Option<&Cluster>, old: Option<&Cluster>) {
        let with_picker = |cluster: Option<&Cluster>| {
            let picker = cluster.and_then(|cluster| cluster.picker.as_deref());
            let all = cluster.into_iter().chain(picker.map(|it| &it.cluster));
            all.fold((0, 0), |(connections, endpoints), cluster| {
                let own = u64::from(cluster.connections_per_shard.get());
                (connections + own, endpoints + cluster.endpoints.len())
            })
        };
        let (connections, endpoints) = with_picker(new);
        self.connections += connections;
        self.endpoints += endpoints;
        let (connections, endpoints) = with_picker(old);
        self.connections -= connections;
        self.endpoints -= endpoints;
    }

    fn compile_rules(
        &mut self,
        dirty: &mut Dirty,
        clusters: &mut BTreeSet<usize>,
        options: &CompileOptions,
    ) {
        let mut placer = RulePlacer {
            model: &self.model,
            policies: &self.policies,
            targets: &self.targets,
            options,
            known_clusters: &self.clusters,
            listeners: &mut self.listeners,
            ids: &mut self.ids,
            users: &mut self.users,
            jwt: &mut self.jwt,
            credentials: &mut self.credentials,
            authorization: &mut self.authorization,
            networks: &mut self.networks,
            rate_limits: &mut self.rate_limits,
            answers: &mut self.answers,
            last: &mut self.settings,
            tls: &mut self.tls,
            clusters,
            found: FastHashMap::default(),
        };
        placer.place_all(dirty);
    }

    fn compile_clusters(
        &mut self,
        clusters: &BTreeSet<usize>,
        resolved: &Resolved,
        options: &CompileOptions,
    ) {
        for index in clusters {
            let Some(placed) = self.clusters.get_mut(index) else {
                continue;
            };
            let mut compiler = ClusterCompiler {
                model: &self.model,
                index: &self.index,
                targets: &self.targets,
                policies: &self.policies,
                users: &self.users,
                resolved,
                shards: options.shards,
                place: &options.place,
                last: &mut self.ejection,
                ids: &mut self.ids,
                tls: &mut self.tls,
            };
            let before = placed.compiled.as_ref().map(|it| &*it.cluster);
            let compiled = compiler.compile(&placed.key, placed.place, before);
            let before = std::mem::replace(&mut placed.compiled, compiled);
            let now = placed.compiled.as_ref().map(|it| Arc::clone(&it.cluster));
            if let Some(before) = &before {
                before.remove_reference(&mut self.ids);
            }
            self.count(now.as_deref(), before.as_ref().map(|it| &*it.cluster));
            if now.as_ref().is_some_and(|now| now.health_check.is_some()) {
                self.checked.insert(*index);
            } else {
                self.checked.remove(index);
            }
            self.table.set(*index, now);
        }
    }

    fn compile_listeners(&mut self, dirty: &mut Dirty, options: &CompileOptions) {
        for key in std::mem::take(&mut dirty.listeners) {
            let listener = self.model.listeners.get(&key);
            let is_bound = |it: &&Arc<model::Listener>| self.model.binds.contains_key(&it.bind);
            let Some(listener) = listener.filter(is_bound) else {
                continue;
            };
            let mut compiler = ListenerCompiler {
                policies: &self.policies,
                listeners: &mut self.listeners,
                ids: &mut self.ids,
                tls: &mut self.tls,
                options,
                head: HeadCompiler {
                    networks: &mut self.networks,
                    rate_limits: &mut self.rate_limits,
                    shards: options.shards,
                },
            };
            let compiled = compiler.compile(listener);
            if let Some(bind) = self.binds.get_mut(&listener.bind) {
                bind.replace(&compiled);
            }
        }
    }

    fn compile_binds(&mut self, dirty: &Dirty, options: &CompileOptions) {
        let mut compiler = BindCompiler {
            model: &self.model,
            index: &self.index,
            policies: &self.policies,
            listeners: &self.listeners,
            options,
            head: HeadCompiler {
                networks: &mut self.networks,
                rate_limits: &mut self.rate_limits,
                shards: options.shards,
            },
        };
        for key in &dirty.binds {
            match self.model.binds.get(key) {
                Some(bind) => drop(self.binds.insert(key.clone(), compiler.compile(bind))),
                None => drop(self.binds.remove(key)),
            }
        }
    }

    fn assemble(&mut self) -> Snapshot {
        let mut binds: Vec<Option<Arc<Bind>>> = Vec::new();
        for bind in self.model.binds.values() {
            let id = self.ids.binds.intern(bind.transport, address(bind)) as usize;
            binds.resize(self.ids.binds.count(), None);
            // The controller and `translate` never assign an address twice; if it happened, the
            // first bind would keep it.
            let compiled = self.binds.get(&bind.key).map(|it| Arc::clone(&it.bind));
            if binds[id].is_none() {
                binds[id] = compiled;
            }
        }
        binds.resize(self.ids.binds.count(), None);
        Snapshot {
            version: self.version,
            binds,
            clusters: self.table.clone(),
            checked: self.checked.iter().copied().map(ClusterIndex).collect(),
            probed_out: Arc::clone(&self.probed_out),
            endpoints: self.endpoints,
            rules: self.rules,
            credentials: Arc::clone(self.policies.credentials()),
            upstream_connections_per_shard: u32::try_from(self.connections).unwrap_or(u32::MAX),
            rate_limits: self.rate_limits.list(),
            session_keys: self.session_keys.current(),
            held: HeldQueue::default(),
        }
    }

    /// Sets the session keys of the process.
    pub fn set_session_keys(&mut self, origin: KeyOrigin, keys: &model::SessionKeys) {
        self.session_keys.set_own(origin, keys);
    }

    /// A compiler whose key sets call `wake` when a shard misses a key.
    #[must_use]
    pub fn with_waker(wake: Option<FetchWaker>) -> Self {
        Self {
            jwt: Authenticators::with_waker(wake),
            ..Self::default()
        }
    }

    /// Whether nothing is left of earlier configurations.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.index.is_empty()
            && self.users.is_empty()
            && self.targets.is_empty()
            && self.policies.is_empty()
            && self.listeners.is_empty()
            && self.clusters.is_empty()
            && self.ids.is_empty()
            && self.rate_limits.is_empty()
            && self.checked.is_empty()
            && (self.connections, self.endpoints) == (0, 0)
            && self.rules == RuleCounts::default()
    }

    /// The key sets that the last configuration has to fetch.
    #[must_use]
    pub fn remote_keys(&self) -> &[RemoteKeys] {
        self.jwt.remote_keys()
    }

    /// Reclaims the ids that neither a snapshot from version `oldest` on has nor what shards hold. Call
    /// it when every shard has released the older ones.
    pub fn release(&mut self, oldest: u64, held: &[Held]) {
        self.ids.release(oldest, held);
    }
}

fn has_names(hosts: &Hosts) -> bool {
    match hosts {
        Hosts::Static(hosts) => hosts
            .iter()
            .any(|host| matches!(host.address, HostAddress::Name(_))),
        Hosts::Dns { .. } => true,
        Hosts::Unix { .. } | Hosts::Pool(_) => false,
    }
}

/// The address of a bind.
fn address(bind: &model::Bind) -> SocketAddr {
    SocketAddr::new(bind.address, bind.port.get())
}

#[cfg(test)]
mod tests;
