//! The part of the requests that endpoints of each zone get, as a shard has counted it last.

use std::cell::RefCell;
use std::time::Instant;

use crate::config::{Locality, Shares};
use crate::limits::LOCALITY_REVIEW;

/// The shares of a service that a shard has counted last.
#[derive(Debug, Default)]
pub(super) struct KnownShares(RefCell<Option<Box<Counted>>>);

#[derive(Debug, Clone, Copy)]
struct Counted {
    /// Of which configuration: its address, which is compared only.
    locality: usize,
    until: Instant,
    shares: Shares,
}

impl KnownShares {
    pub(super) fn get(&self, locality: &Locality, now: Instant) -> Option<Shares> {
        let counted = self.0.borrow();
        let counted = counted.as_ref()?;
        counted.is_of(locality, now).then_some(counted.shares)
    }

    pub(super) fn set(&self, locality: &Locality, shares: Shares, now: Instant) {
        let counted = Counted {
            locality: std::ptr::from_ref(locality).addr(),
            until: now + LOCALITY_REVIEW,
            shares,
        };
        match &mut *self.0.borrow_mut() {
            Some(known) => **known = counted,
            empty => *empty = Some(Box::new(counted)),
        }
    }
}

impl Counted {
    fn is_of(&self, locality: &Locality, now: Instant) -> bool {
        self.locality == std::ptr::from_ref(locality).addr() && now < self.until
    }
}
