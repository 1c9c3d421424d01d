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

impl HashSettings<'_> {
    /// Of a Service: by its policy, or by its session affinity.
    pub(super) fn of_service(self, key: &ServiceKey) -> Option<HashBalance> {
        let layer = self.policies.of_service(key);
        let own = layer.field(|spec| spec.balance.hash.as_ref());
        own.cloned().or_else(|| {
            let service = self.model.services.get(key.as_str())?;
            match service.session_affinity {
                SessionAffinity::None => None,
                SessionAffinity::ClientAddress => Some(HashBalance::by_client_address()),
            }
        })
    }

    pub(super) fn of_backend(self, key: &BackendKey) -> Option<HashBalance> {
        let layer = self.policies.of_backend(key);
        layer.field(|spec| spec.balance.hash.as_ref()).cloned()
    }

    fn of_target(self, target: &Target) -> Option<HashBalance> {
        match target {
            Target::Service { service, .. } => self.of_service(service),
            Target::Backend(key) => self.of_backend(key),
            Target::Invalid { .. } => None,
        }
    }

    /// Whether the choice of an endpoint of one of these targets reads claims.
    pub(super) fn reads_claims<'t>(self, mut targets: impl Iterator<Item = &'t Target>) -> bool {
        targets.any(|target| self.of_target(target).as_ref().is_some_and(reads_claims))
    }

    /// The keys by which one of several targets is chosen: those of all that have a share of the requests.
    pub(super) fn of_draw<'t>(
        self,
        targets: impl Iterator<Item = (&'t Target, u32)>,
    ) -> Option<Box<HashKeys>> {
        let mut shares = targets.filter(|(_, weight)| *weight > 0);
        let (first, _) = shares.next()?;
        let first = self.of_target(first)?;
        let mut others = 0;
        for (target, _) in shares {
            others += 1;
            if self.of_target(target)?.by() != first.by() {
                return None;
            }
        }
        (others > 0).then(|| Box::new(HashKeys::compile(&first)))
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
