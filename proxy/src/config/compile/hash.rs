//! Compiles how requests are spread by hash: the tables of clusters, and the draw of backends that all have the same
//! keys.

use std::num::NonZeroU32;
use std::sync::Arc;

use xds::model::{BackendKey, HashBalance, Model, ServiceKey, SessionAffinity, Target};

use super::policy::Policies;
use crate::config::hash_table::HashTable;
use crate::config::hashed::{BoundedLoads, Hashed};
use crate::config::{Cluster, Endpoint, EndpointSet};
use crate::policy::hash_key::{HashKeys, reads_claims};

/// Finds by what the requests to Services and Backends are spread.
#[derive(Clone, Copy)]
pub(super) struct HashSettings<'c> {
    pub(super) model: &'c Model,
    pub(super) policies: &'c Policies,
}

impl<'c> HashSettings<'c> {
    /// Of a Service: by its policy, or by its session affinity.
    pub(super) fn of_service(self, key: &ServiceKey) -> Option<HashBalance> {
        self.of_services_policy(key).cloned().or_else(|| {
            let service = self.model.services.get(key.as_str())?;
            match service.session_affinity {
                SessionAffinity::None => None,
                SessionAffinity::ClientAddress => Some(HashBalance::by_client_address()),
            }
        })
    }

    pub(super) fn of_backend(self, key: &BackendKey) -> Option<HashBalance> {
        self.of_backends_policy(key).cloned()
    }

    fn of_target(self, target: &Target) -> Option<HashBalance> {
        match target {
            Target::Service { service, .. } => self.of_service(service),
            Target::Backend(key) => self.of_backend(key),
            Target::Invalid { .. } => None,
        }
    }

    /// Whether the choice of an endpoint of one of these targets reads claims, which only policies can ask for.
    pub(super) fn reads_claims<'t>(self, mut targets: impl Iterator<Item = &'t Target>) -> bool {
        targets.any(|target| {
            let hash = match target {
                Target::Service { service, .. } => self.of_services_policy(service),
                Target::Backend(key) => self.of_backends_policy(key),
                Target::Invalid { .. } => None,
            };
            hash.is_some_and(reads_claims)
        })
    }

    fn of_services_policy(self, key: &ServiceKey) -> Option<&'c HashBalance> {
        let layer = self.policies.of_service(key);
        layer.field(|spec| spec.balance.hash.as_ref())
    }

    fn of_backends_policy(self, key: &BackendKey) -> Option<&'c HashBalance> {
        let layer = self.policies.of_backend(key);
        layer.field(|spec| spec.balance.hash.as_ref())
    }

    /// The keys by which one of several targets is chosen: those of all that have a share of the requests.
    pub(super) fn of_draw<'t>(
        self,
        targets: impl Iterator<Item = (&'t Target, u32)>,
    ) -> Option<Box<HashKeys>> {
        let mut targets = targets
            .filter(|(_, weight)| *weight > 0)
            .map(|(target, _)| target);
        let (first, second) = (targets.next()?, targets.next()?);
        let first = self.of_target(first)?;
        for target in std::iter::once(second).chain(targets) {
            if self.of_target(target)?.by() != first.by() {
                return None;
            }
        }
        Some(Box::new(HashKeys::compile(&first)))
    }
}

/// How requests to these endpoints are spread. A table of the same endpoints is taken from `before`.
pub(super) fn hashed(
    hash: &HashBalance,
    set: &EndpointSet,
    endpoints: &[Endpoint],
    before: Option<&Cluster>,
) -> Hashed {
    let known = before.and_then(|before| Some((before, before.hashed.as_deref()?)));
    let slots = hash.slots(set.serving().len()).get();
    let slots = NonZeroU32::new(slots).unwrap_or(NonZeroU32::MIN);
    let is_same = |(before, hashed): &(&Cluster, &Hashed)| {
        before.set.serving() == set.serving() && hashed.table.len() == slots.get() as usize
    };
    let table = match known.filter(is_same) {
        Some((_, hashed)) => Arc::clone(&hashed.table),
        None => Arc::new(table(slots, set, endpoints)),
    };
    let loads = hash.bounded_load().map(|bound| {
        let ids = endpoints.iter().map(|endpoint| endpoint.id);
        let before = known.and_then(|(_, hashed)| hashed.loads.as_ref());
        BoundedLoads::new(bound, ids, before)
    });
    Hashed {
        keys: HashKeys::compile(hash),
        table,
        loads,
        stays_near: hash.is_affinity(),
    }
}

/// The table of the serving endpoints, which are in the order of their addresses at every replica. One alone needs
/// none.
fn table(slots: NonZeroU32, set: &EndpointSet, endpoints: &[Endpoint]) -> HashTable {
    let serving = if let [_] = set.serving() {
        &[]
    } else {
        set.serving()
    };
    let members = serving.iter().filter_map(|member| {
        let at = endpoints.binary_search_by_key(&member.id, |endpoint| endpoint.id);
        let endpoint = endpoints.get(at.ok()?)?;
        Some((endpoint.identity, member.weight))
    });
    HashTable::build(slots, &members.collect::<Vec<_>>())
}
