//! Limits the requests of a shard that wait for a key set to be fetched: neither tokens with made-up
//! key ids nor an issuer that hangs may block it, or the requests of other policies.

use std::cell::RefCell;

use crate::fair_places::FairPlaces;
use crate::limits::JWKS_WAITING;
use crate::policy::jwt::SourceId;

/// Requests that wait for a key set, by its source.
#[derive(Debug)]
pub(crate) struct KeyWaits(RefCell<FairPlaces<SourceId>>);

impl Default for KeyWaits {
    fn default() -> Self {
        Self(RefCell::new(FairPlaces::new(JWKS_WAITING)))
    }
}

impl KeyWaits {
    /// Takes a place until the returned value is dropped; `None` if this source has no place left.
    pub(crate) fn enter(&self, source: SourceId) -> Option<impl Drop> {
        let source = self.0.borrow_mut().take(&[source])?;
        Some(KeyWait {
            waits: self,
            source,
        })
    }
}

/// Counts a waiting request until it is dropped.
struct KeyWait<'a> {
    waits: &'a KeyWaits,
    source: SourceId,
}

impl Drop for KeyWait<'_> {
    fn drop(&mut self) {
        self.waits.0.borrow_mut().release(&self.source);
    }
}

#[cfg(test)]
mod tests {
    use super::KeyWaits;
    use crate::limits::JWKS_WAITING;
    use crate::policy::jwt::KeySource;

    #[test]
    fn requests_that_wait_for_a_hanging_issuer_leave_places_for_others() {
        let waits = KeyWaits::default();
        let [hanging, other] = [(); 2].map(|()| KeySource::pending(None).id());
        let all = |source| std::iter::from_fn(|| waits.enter(source)).collect::<Vec<_>>();
        let mut hanging_places = all(hanging);
        assert_eq!(hanging_places.len(), JWKS_WAITING / 2);
        assert!(waits.enter(hanging).is_none());
        assert_eq!(all(other).len(), JWKS_WAITING / 4);
        hanging_places.pop();
        assert!(waits.enter(hanging).is_some());
    }
}
