//! How much of an examination is for the objects of one namespace, so that a tenant's flood of objects does not delay
//! what is found for others.

use std::cell::{Cell, RefCell};

use xds::fast_hash::FastHashMap;

/// Steps that are left.
#[derive(Debug)]
pub(super) struct Room {
    left: Cell<usize>,
    /// Steps taken for each namespace.
    taken: RefCell<FastHashMap<Box<str>, usize>>,
}

impl Room {
    pub(super) fn new(steps: usize) -> Self {
        Self {
            left: Cell::new(steps),
            taken: RefCell::default(),
        }
    }

    /// Takes so many steps for a namespace; `false` if too few are left. Each takes at most half of what others have
    /// left, so that another one always finds some.
    pub(super) fn take(&self, namespace: &str, steps: usize) -> bool {
        let mut taken = self.taken.borrow_mut();
        let own = taken.get(namespace).copied().unwrap_or_default() + steps;
        let left = self.left.get().checked_sub(steps);
        let Some(left) = left.filter(|left| own <= *left) else {
            return false;
        };
        self.left.set(left);
        taken.insert(namespace.into(), own);
        true
    }
}

/// Steps of an examination, each of some tens of nanoseconds: 4 million.
pub(super) const MOST_STEPS: usize = 4_000_000;
