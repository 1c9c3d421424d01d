//! Limits the requests of a shard that wait for a key set to be fetched: neither tokens with made-up
//! key ids nor issuers that hang may block it, or the requests of other policies.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::fair_places::FairPlaces;
use crate::limits::JWKS_WAITING;
use crate::policy::jwt::SourceId;

/// Requests that wait for a key set. The namespaces of their routes share the places; those of a namespace
/// its sources of keys.
#[derive(Debug)]
pub(crate) struct KeyWaits(RefCell<Places>);

#[derive(Debug)]
struct Places {
    namespaces: FairPlaces<Arc<str>>,
    /// How many requests of a namespace wait for each source.
    sources: HashMap<Owner, usize>,
}

/// The namespace of a route, and what its request waits for.
type Owner = (Arc<str>, SourceId);

impl Default for KeyWaits {
    fn default() -> Self {
        Self(RefCell::new(Places {
            namespaces: FairPlaces::new(JWKS_WAITING),
            sources: HashMap::new(),
        }))
    }
}

impl KeyWaits {
    /// Takes a place until the returned value is dropped; `None` if this source, or all of the namespace,
    /// has no place left.
    pub(crate) fn enter(&self, namespace: &str, source: SourceId) -> Option<impl Drop> {
        let owner = (Arc::from(namespace), source);
        self.0.borrow_mut().take(&owner)?;
        Some(KeyWait { waits: self, owner })
    }
}

impl Places {
    fn take(&mut self, owner: &Owner) -> Option<()> {
        let (namespace, _) = owner;
        let taken = self.sources.get(owner).copied().unwrap_or_default();
        if taken >= self.namespaces.further(namespace) {
            return None;
        }
        self.namespaces.take([namespace])?;
        *self.sources.entry(owner.clone()).or_default() += 1;
        Some(())
    }

    fn release(&mut self, owner: &Owner) {
        self.namespaces.release(&owner.0);
        if let Some(taken) = self.sources.get_mut(owner) {
            *taken -= 1;
            if *taken == 0 {
                self.sources.remove(owner);
            }
        }
    }
}

/// Counts a waiting request until it is dropped.
struct KeyWait<'a> {
    waits: &'a KeyWaits,
    owner: Owner,
}

impl Drop for KeyWait<'_> {
    fn drop(&mut self) {
        self.waits.0.borrow_mut().release(&self.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::KeyWaits;
    use crate::limits::JWKS_WAITING;
    use crate::policy::jwt::{KeySource, SourceId};

    fn source() -> SourceId {
        KeySource::pending(None).id()
    }

    #[test]
    fn requests_that_wait_for_a_hanging_issuer_leave_places_for_others() {
        let waits = KeyWaits::default();
        let [hanging, other] = [source(), source()];
        let all = |source| std::iter::from_fn(|| waits.enter("a", source)).collect::<Vec<_>>();
        let mut hanging_places = all(hanging);
        assert_eq!(hanging_places.len(), JWKS_WAITING / 4);
        assert!(waits.enter("a", hanging).is_none());
        assert!(all(other).len() >= JWKS_WAITING / 16);
        hanging_places.pop();
        assert!(waits.enter("a", hanging).is_some());
    }

    #[test]
    fn many_hanging_issuers_of_one_namespace_leave_places_for_other_namespaces() {
        let waits = KeyWaits::default();
        let mut hanging = Vec::new();
        for _ in 0..64 {
            let source = source();
            hanging.extend(std::iter::from_fn(|| waits.enter("hostile", source)));
        }
        assert!(hanging.len() <= JWKS_WAITING / 2, "{}", hanging.len());
        let quiet = source();
        let quiet: Vec<_> = std::iter::from_fn(|| waits.enter("quiet", quiet)).collect();
        assert!(quiet.len() >= JWKS_WAITING / 8, "{}", quiet.len());
        drop((hanging, quiet));
        let places = waits.0.borrow();
        assert!(places.sources.is_empty());
    }
}
