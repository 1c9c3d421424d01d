//! How requests of a cluster are spread by hash.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use xds::model::BoundedLoad;

use super::hash_table::HashTable;
use crate::names::Interned;
use crate::policy::hash_key::HashKeys;

/// How requests of a cluster are spread by hash.
#[derive(Debug)]
pub struct Hashed {
    /// What is hashed.
    pub keys: HashKeys,
    /// The endpoint of each hash, for all shards.
    pub table: Arc<HashTable>,
    /// Requests in flight, if those at an endpoint are bounded.
    pub loads: Option<BoundedLoads>,
    /// Whether a client stays at one of the endpoints that are preferred by where they are.
    pub stays_near: bool,
}

/// Requests in flight at each endpoint of a cluster, over all shards, and their bound.
#[derive(Debug)]
pub struct BoundedLoads {
    bound: BoundedLoad,
    all: Arc<AtomicU32>,
    /// Sorted by id.
    of: Box<[(Interned, Arc<EndpointLoad>)]>,
}

/// Requests in flight at an endpoint.
#[derive(Debug)]
pub struct EndpointLoad {
    own: AtomicU32,
    /// Those at all endpoints of its cluster.
    all: Arc<AtomicU32>,
}

impl BoundedLoads {
    /// Of these serving endpoints and others. What was in flight `before` a change still is.
    pub(super) fn new(
        bound: BoundedLoad,
        ids: impl Iterator<Item = Interned>,
        before: Option<&Self>,
    ) -> Self {
        let all = before.map(|before| Arc::clone(&before.all));
        let all = all.unwrap_or_default();
        let known = |id| before.and_then(|before| before.of(id));
        let of = ids.map(|id| {
            let load = known(id).cloned().unwrap_or_else(|| {
                Arc::new(EndpointLoad {
                    own: AtomicU32::new(0),
                    all: Arc::clone(&all),
                })
            });
            (id, load)
        });
        let mut of: Box<[_]> = of.collect();
        of.sort_unstable_by_key(|(id, _)| *id);
        Self { bound, all, of }
    }

    fn of(&self, id: Interned) -> Option<&Arc<EndpointLoad>> {
        let at = self.of.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.of.get(at).map(|(_, load)| load)
    }

    /// Whether an endpoint has as many requests as it may have: the average of those in service times the bound, and
    /// one.
    pub(crate) fn is_full(&self, id: Interned, in_service: NonZeroUsize) -> bool {
        let all = u64::from(self.all.load(Ordering::Relaxed)) * u64::from(self.bound.percent());
        let most = all.div_ceil(in_service.get() as u64 * 100) + 1;
        self.of(id)
            .is_some_and(|load| u64::from(load.own.load(Ordering::Relaxed)) >= most)
    }

    /// Counts a request at an endpoint, until the guard is dropped.
    pub(crate) fn begin(&self, id: Interned) -> Option<LoadGuard> {
        self.of(id).map(LoadGuard::new)
    }
}

/// A request in flight at an endpoint.
#[derive(Debug)]
pub(crate) struct LoadGuard(Arc<EndpointLoad>);

impl LoadGuard {
    fn new(load: &Arc<EndpointLoad>) -> Self {
        load.own.fetch_add(1, Ordering::Relaxed);
        load.all.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(load))
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.own.fetch_sub(1, Ordering::Relaxed);
        self.0.all.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use xds::model::BoundedLoad;

    use super::BoundedLoads;
    use crate::names::Interned;

    fn id(index: u32) -> Interned {
        Interned {
            index,
            generation: 0,
        }
    }

    fn loads(percent: u32, endpoints: u32, before: Option<&BoundedLoads>) -> BoundedLoads {
        let bound = BoundedLoad::new(percent).expect("in range");
        BoundedLoads::new(bound, (0..endpoints).map(id), before)
    }

    /// Whether an endpoint is full with so many in service.
    fn is_full(loads: &BoundedLoads, index: u32, in_service: usize) -> bool {
        loads.is_full(id(index), NonZeroUsize::new(in_service).expect("not 0"))
    }

    #[test]
    fn an_endpoint_is_full_at_the_bound_and_one() {
        let loads = loads(125, 4, None);
        // With none in flight, one may be; with one, the bound is ceil(1/4 × 1.25) + 1 = 2.
        assert!(!is_full(&loads, 0, 4));
        let first = loads.begin(id(0));
        assert!(!is_full(&loads, 0, 4));
        let second = loads.begin(id(0));
        assert!(is_full(&loads, 0, 4) && !is_full(&loads, 1, 4));
        // Of eleven, ceil(11/4 × 1.25) + 1 = 5 may be at one.
        let others: Vec<_> = (0..6).map(|n| loads.begin(id(1 + n % 3))).collect();
        assert!(!is_full(&loads, 0, 4));
        let more = [(); 3].map(|()| loads.begin(id(0)));
        assert!(is_full(&loads, 0, 4));
        // With two of the four out of service, the others have to take more.
        assert!(!is_full(&loads, 0, 2));
        drop((first, second, others, more));
        assert!(!is_full(&loads, 0, 4));
        assert_eq!(loads.all.load(std::sync::atomic::Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_in_flight_counts_after_a_change() {
        let before = loads(101, 2, None);
        let held = [before.begin(id(1)), before.begin(id(1))];
        let after = loads(101, 3, Some(&before));
        assert!(is_full(&after, 1, 3) && !is_full(&after, 2, 3));
        drop(held);
        assert!(!is_full(&after, 1, 3));
    }
}
