//! A free list of reusable objects: buffers, working memory, tasks.

use std::cell::{Cell, RefCell};

/// Unused objects of one kind, the most recently used on top: it is still in the processor's cache.
pub(crate) struct FreeList<T> {
    free: RefCell<Vec<T>>,
    /// The fewest that were free at once since the last trim: this many were not needed.
    fewest: Cell<usize>,
}

impl<T> Default for FreeList<T> {
    fn default() -> Self {
        Self {
            free: RefCell::default(),
            fewest: Cell::default(),
        }
    }
}

impl<T> FreeList<T> {
    /// Takes the most recently used one.
    pub(crate) fn take(&self) -> Option<T> {
        let mut free = self.free.borrow_mut();
        let taken = free.pop();
        self.fewest.set(self.fewest.get().min(free.len()));
        taken
    }

    pub(crate) fn put(&self, thing: T) {
        self.free.borrow_mut().push(thing);
    }

    /// Returns one, unless there are `spare` already: then it is handed back, to be ended.
    pub(crate) fn put_spare(&self, thing: T, spare: usize) -> Option<T> {
        let mut free = self.free.borrow_mut();
        if free.len() >= spare {
            return Some(thing);
        }
        free.push(thing);
        None
    }

    /// Removes those not needed since the last call, and passes each to `end`. Returns how many.
    /// None is kept in reserve: one that stays keeps memory around it from being returned.
    pub(crate) fn trim(&self, end: impl FnMut(T)) -> usize {
        let mut free = self.free.borrow_mut();
        let unneeded = self.fewest.get();
        let taken: Vec<T> = free.drain(..unneeded).collect();
        self.fewest.set(free.len());
        drop(free);
        taken.into_iter().for_each(end);
        unneeded
    }
}

#[cfg(test)]
mod tests {
    use super::FreeList;

    #[test]
    fn the_number_of_spare_items_is_limited() {
        let shelf = FreeList::default();
        let back: Vec<_> = (0..5).filter_map(|n| shelf.put_spare(n, 3)).collect();
        assert_eq!(back, [3, 4]);
        assert_eq!(shelf.take(), Some(2));
        assert_eq!(shelf.put_spare(5, 3), None);
    }

    #[test]
    fn trim_frees_only_items_unused_since_the_last_trim() {
        let shelf = FreeList::default();
        (0..10).for_each(|n| shelf.put(n));
        assert_eq!(shelf.trim(drop), 0, "they are all new");
        assert_eq!(shelf.take(), Some(9), "the last one first");
        shelf.put(9);
        let mut freed = Vec::new();
        assert_eq!(shelf.trim(|n| freed.push(n)), 9);
        assert_eq!(freed, (0..9).collect::<Vec<_>>(), "the coldest go");
        assert_eq!((shelf.trim(drop), shelf.take()), (1, None));
    }
}
