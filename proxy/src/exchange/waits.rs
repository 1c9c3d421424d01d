//! Limits the requests of a shard that wait for what others do: for a key set to be fetched, or for a password to be
//! checked. Neither tokens with made-up key ids, nor issuers that hang, nor floods of passwords may block it, or the
//! requests of other tenants.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::fair_places::FairPlaces;

/// Requests that wait. The namespaces of their routes share the places; those of a namespace its sources, such as the
/// issuers that are asked for keys, or the clients that send passwords.
#[derive(Debug)]
pub(crate) struct Waits<S>(RefCell<Places<S>>);

#[derive(Debug)]
struct Places<S> {
    namespaces: FairPlaces<Arc<str>>,
    /// How many requests of a namespace wait because of each source.
    sources: HashMap<Owner<S>, usize>,
}

/// The namespace of a route, and because of what its request waits.
type Owner<S> = (Arc<str>, S);

impl<S: Clone + Eq + Hash> Waits<S> {
    pub(crate) fn new(places: usize) -> Self {
        Self(RefCell::new(Places {
            namespaces: FairPlaces::new(places),
            sources: HashMap::new(),
        }))
    }

    /// Takes a place until the returned value is dropped; `None` if this source, or all of the namespace,
    /// has no place left.
    pub(crate) fn enter(&self, namespace: &str, source: S) -> Option<impl Drop> {
        let owner = (Arc::from(namespace), source);
        self.0.borrow_mut().take(&owner)?;
        Some(Wait { waits: self, owner })
    }
}

impl<S: Clone + Eq + Hash> Places<S> {
    fn take(&mut self, owner: &Owner<S>) -> Option<()> {
        let (namespace, _) = owner;
        let taken = self.sources.get(owner).copied().unwrap_or_default();
        if taken >= self.namespaces.further(namespace) {
            return None;
        }
        self.namespaces.take([namespace])?;
        *self.sources.entry(owner.clone()).or_default() += 1;
        Some(())
    }

    fn release(&mut self, owner: &Owner<S>) {
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
struct Wait<'a, S: Clone + Eq + Hash> {
    waits: &'a Waits<S>,
    owner: Owner<S>,
}

impl<S: Clone + Eq + Hash> Drop for Wait<'_, S> {
    fn drop(&mut self) {
        self.waits.0.borrow_mut().release(&self.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::Waits;
    use crate::limits::JWKS_WAITING;
    use crate::policy::jwt::{KeySource, SourceId};

    fn source() -> SourceId {
        KeySource::pending(None).id()
    }

    #[test]
    fn requests_that_wait_for_a_hanging_issuer_leave_places_for_others() {
        let waits = Waits::new(JWKS_WAITING);
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
        let waits = Waits::new(JWKS_WAITING);
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
