//! The connections of a shard that wait for a request with a buffer, longest first: if too many are
//! idle, the first ones return their buffers.
//!
//! Every request enters and leaves, so both are a few stores. The list is linked by index in a
//! table that grows to the limit and no further.

use std::cell::RefCell;
use std::time::Duration;

use super::wheel::{Handle, Tick};
use crate::limits::{PARK_AFTER, PARK_AFTER_UNDER_LOAD, WAITING_BUFFERS, WAITING_BUFFERS_AT_ONCE};

#[derive(Default)]
pub(crate) struct WaitingConnections(RefCell<List>);

#[derive(Default)]
struct List {
    entries: Vec<Entry>,
    count: usize,
    /// The entry that has waited longest; others are linked by `next`.
    first: Option<usize>,
    last: Option<usize>,
    /// A free entry; others are linked by `next`.
    free: Option<usize>,
}

struct Entry {
    /// The deadline of the connection's read.
    deadline: Handle,
    /// When it began to wait.
    since: Tick,
    /// Number of earlier uses of the entry.
    turn: u32,
    next: Option<usize>,
    previous: Option<usize>,
}

/// A connection's entry in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitingHandle {
    entry: usize,
    turn: u32,
}

impl WaitingConnections {
    /// Adds the connection with this read deadline at the end. Returns how long it may hold its
    /// buffer: less if many wait.
    pub(crate) fn enter(&self, deadline: Handle, now: Tick) -> (WaitingHandle, Duration) {
        let mut list = self.0.borrow_mut();
        let place = list.append(deadline, now);
        let is_crowded = list.count > WAITING_BUFFERS / 2;
        let park_after = if is_crowded {
            PARK_AFTER_UNDER_LOAD
        } else {
            PARK_AFTER
        };
        (place, park_after)
    }

    /// Removes the connection, unless it has left already.
    pub(crate) fn leave(&self, place: WaitingHandle) {
        let mut list = self.0.borrow_mut();
        let entry = list.entries.get(place.entry);
        if entry.is_some_and(|entry| entry.turn == place.turn) {
            list.release(place.entry);
        }
    }

    /// If too many wait, removes the longest-waiting connection and returns its read deadline, to
    /// be cancelled. One that began in this tick is busy rather than idle, and is spared unless
    /// there are far too many.
    pub(crate) fn take_surplus(&self, now: Tick) -> Option<Handle> {
        let mut list = self.0.borrow_mut();
        let first = list.first.filter(|_| list.count > WAITING_BUFFERS)?;
        let Entry {
            deadline, since, ..
        } = list.entries[first];
        let is_surplus = since < now || list.count > WAITING_BUFFERS_AT_ONCE;
        is_surplus.then(|| {
            list.release(first);
            deadline
        })
    }
}

impl List {
    fn append(&mut self, deadline: Handle, since: Tick) -> WaitingHandle {
        self.count += 1;
        let previous = self.last;
        let entry = if let Some(free) = self.free {
            let entry = &mut self.entries[free];
            self.free = entry.next;
            (entry.deadline, entry.since) = (deadline, since);
            (entry.next, entry.previous) = (None, previous);
            free
        } else {
            self.entries.push(Entry {
                deadline,
                since,
                turn: 0,
                next: None,
                previous,
            });
            self.entries.len() - 1
        };
        match previous {
            Some(previous) => self.entries[previous].next = Some(entry),
            None => self.first = Some(entry),
        }
        self.last = Some(entry);
        let turn = self.entries[entry].turn;
        WaitingHandle { entry, turn }
    }

    /// Removes and frees an entry.
    fn release(&mut self, at: usize) {
        self.count -= 1;
        let Entry { next, previous, .. } = self.entries[at];
        match previous {
            Some(previous) => self.entries[previous].next = next,
            None => self.first = next,
        }
        match next {
            Some(next) => self.entries[next].previous = previous,
            None => self.last = previous,
        }
        let free = self.free.replace(at);
        let entry = &mut self.entries[at];
        entry.turn = entry.turn.wrapping_add(1);
        entry.next = free;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{WaitingConnections, WaitingHandle};
    use crate::limits::{
        PARK_AFTER, PARK_AFTER_UNDER_LOAD, WAITING_BUFFERS, WAITING_BUFFERS_AT_ONCE, WHEEL_TICK,
    };
    use crate::shard::wheel::{Handle, Tick, Wheel};

    /// This many deadlines, all waiting since the first tick.
    fn waiting(count: usize) -> (WaitingConnections, Vec<Handle>, Vec<WaitingHandle>) {
        let mut wheel = Wheel::new(Tick::default());
        let handles: Vec<_> = (0..count).map(|at| wheel.insert(at)).collect();
        let waiting = WaitingConnections::default();
        let enter = |handle: &Handle| waiting.enter(*handle, Tick::default()).0;
        let places = handles.iter().map(enter).collect();
        (waiting, handles, places)
    }

    /// The tick after the first.
    fn later() -> Tick {
        Tick::at(WHEEL_TICK)
    }

    fn surplus(waiting: &WaitingConnections, now: Tick) -> Vec<Handle> {
        std::iter::from_fn(|| waiting.take_surplus(now)).collect()
    }

    #[test]
    fn the_connections_waiting_longest_are_surplus() {
        let (waiting, handles, _) = waiting(WAITING_BUFFERS + 3);
        assert_eq!(surplus(&waiting, later()), handles[..3]);
        waiting.enter(handles[0], later());
        assert_eq!(surplus(&waiting, later()), handles[3..4]);
    }

    #[test]
    fn recently_active_connections_are_surplus_only_above_the_hard_limit() {
        let (waiting, handles, _) = waiting(WAITING_BUFFERS_AT_ONCE + 2);
        assert_eq!(surplus(&waiting, Tick::default()), handles[..2]);
        let rest = WAITING_BUFFERS_AT_ONCE - WAITING_BUFFERS;
        assert_eq!(surplus(&waiting, later()), handles[2..2 + rest]);
    }

    #[test]
    fn a_connection_is_removed_only_once() {
        let (waiting, handles, places) = waiting(WAITING_BUFFERS + 4);
        // The first, one in the middle and the last.
        for at in [0, WAITING_BUFFERS / 2, WAITING_BUFFERS + 3] {
            waiting.leave(places[at]);
            waiting.leave(places[at]);
        }
        assert_eq!(surplus(&waiting, later()), handles[1..2]);
        // It was removed, and its entry was reused.
        let (place, _) = waiting.enter(handles[0], later());
        waiting.leave(places[1]);
        assert_eq!(surplus(&waiting, later()), handles[2..3]);
        waiting.leave(place);
        assert_eq!(waiting.0.borrow().count, WAITING_BUFFERS - 1);
    }

    #[test]
    fn busy_connections_reuse_their_entries() {
        let (waiting, handles, places) = waiting(1);
        waiting.leave(places[0]);
        for _ in 0..10 * WAITING_BUFFERS_AT_ONCE {
            let (place, park_after) = waiting.enter(handles[0], Tick::default());
            assert_eq!(park_after, PARK_AFTER);
            waiting.leave(place);
        }
        assert_eq!(waiting.0.borrow().entries.len(), 1);
    }

    #[test]
    fn the_park_delay_is_shorter_with_many_waiting_connections() {
        let (waiting, handles, _) = waiting(WAITING_BUFFERS / 2 - 1);
        let park_after = |at: usize| -> Duration { waiting.enter(handles[at], later()).1 };
        assert_eq!(
            (park_after(0), park_after(1)),
            (PARK_AFTER, PARK_AFTER_UNDER_LOAD)
        );
    }
}
