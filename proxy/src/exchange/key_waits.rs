//! Limits the requests of a shard that wait for an unknown key: tokens with made-up key ids must
//! not block it.

use std::cell::Cell;

use crate::limits::JWKS_WAITING;

/// Requests that wait for a key set to be fetched.
#[derive(Debug, Default)]
pub(crate) struct KeyWaits(Cell<usize>);

impl KeyWaits {
    /// Takes a slot until the returned value is dropped; `None` if all are taken.
    pub(crate) fn enter(&self) -> Option<impl Drop> {
        let waiting = self.0.get();
        (waiting < JWKS_WAITING).then(|| {
            self.0.set(waiting + 1);
            KeyWait(self)
        })
    }
}

/// Counts a waiting request until it is dropped.
struct KeyWait<'a>(&'a KeyWaits);

impl Drop for KeyWait<'_> {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::KeyWaits;
    use crate::limits::JWKS_WAITING;

    #[test]
    fn the_number_of_requests_waiting_for_keys_is_limited() {
        let waits = KeyWaits::default();
        let mut places: Vec<_> = (0..JWKS_WAITING).map_while(|_| waits.enter()).collect();
        assert_eq!(places.len(), JWKS_WAITING);
        assert!(waits.enter().is_none());
        places.pop();
        assert!(waits.enter().is_some());
    }
}
