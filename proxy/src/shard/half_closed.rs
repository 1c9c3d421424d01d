//! The clients of a shard that have closed their sending side and wait for a response, oldest first.
//!
//! Without TLS they cannot be told from clients that are gone until something is sent to them, and each
//! holds a connection to an endpoint. So they are bounded: if there are too many, the oldest ones count as
//! gone.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;
use std::rc::{Rc, Weak};

use super::deadline::ArmedDeadline;
use super::wheel::Tick;
use crate::limits::HALF_CLOSED_SHARE;

/// The half-closed clients of a shard.
#[derive(Default)]
pub(crate) struct HalfClosed {
    /// By the order of their entries.
    clients: RefCell<BTreeMap<u64, Waiting>>,
    entered: Cell<u64>,
    /// Number of clients that the shard has room for.
    room: Cell<usize>,
}

struct Waiting {
    since: Tick,
    /// The deadline that watches the client.
    watch: Weak<ArmedDeadline>,
}

/// A client's entry, removed on drop.
pub(crate) struct HalfClosedPlace {
    list: Rc<HalfClosed>,
    number: u64,
    since: Tick,
}

impl HalfClosed {
    /// Adds the client that `watch` watches. The oldest ones beyond their share count as gone.
    pub(super) fn enter(
        self: &Rc<Self>,
        watch: &Rc<ArmedDeadline>,
        since: Tick,
    ) -> HalfClosedPlace {
        let number = self.entered.get();
        self.entered.set(number.wrapping_add(1));
        let watch = Rc::downgrade(watch);
        let entry = Waiting { since, watch };
        self.clients.borrow_mut().insert(number, entry);
        while self.count() > (self.room.get() / HALF_CLOSED_SHARE).max(1) {
            self.end_oldest(|_| true);
        }
        HalfClosedPlace {
            list: Rc::clone(self),
            number,
            since,
        }
    }

    /// Number of half-closed clients.
    pub(super) fn count(&self) -> usize {
        self.clients.borrow().len()
    }

    /// Sets the number of clients that the shard has room for.
    pub(super) fn set_room(&self, room: usize) {
        self.room.set(room);
    }

    /// The clients selected by the time since when they are half-closed count as gone.
    pub(super) fn end_since(&self, which: impl Fn(Tick) -> bool) {
        while self.end_oldest(&which) {}
    }

    /// Whether the oldest client was selected by `which`; it counts as gone then.
    fn end_oldest(&self, which: impl Fn(Tick) -> bool) -> bool {
        let oldest = {
            let mut clients = self.clients.borrow_mut();
            let oldest = clients
                .first_entry()
                .filter(|oldest| which(oldest.get().since));
            oldest.map(OccupiedEntry::remove)
        };
        let Some(oldest) = oldest else {
            return false;
        };
        if let Some(watch) = oldest.watch.upgrade() {
            watch.end_watch();
        }
        true
    }
}

impl HalfClosedPlace {
    /// When the client was found to be half-closed.
    pub(super) fn since(&self) -> Tick {
        self.since
    }
}

impl Drop for HalfClosedPlace {
    fn drop(&mut self) {
        self.list.clients.borrow_mut().remove(&self.number);
    }
}
