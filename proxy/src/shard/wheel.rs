//! A shard's deadlines: a timer wheel of coarse ticks.
//!
//! Nearly all deadlines are postponed again and again, and never expire. So postponing is a single
//! store: the entry stays in its slot, and is queued again when the wheel reaches that slot.
//! Arming, disarming and removing are O(1), and entries do not allocate once the wheel has grown to
//! the number of connections.

use std::time::Duration;

use crate::limits::WHEEL_TICK;

/// A point in time, in ticks since the shard started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// Later than any other tick.
    pub const NEVER: Self = Self(u64::MAX);

    /// The tick at this time since the start.
    #[must_use]
    pub fn at(since_start: Duration) -> Self {
        let part = since_start.subsec_nanos() / WHEEL_TICK.subsec_nanos();
        Self(ticks(since_start.as_secs(), part))
    }

    /// Time since an earlier tick.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let ticks = u32::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(u32::MAX);
        WHEEL_TICK.saturating_mul(ticks)
    }

    /// The first tick that is at least this much later than any time within this one.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        let part = time.subsec_nanos().div_ceil(WHEEL_TICK.subsec_nanos());
        let whole = ticks(time.as_secs(), part);
        // One more, since this tick has partly passed.
        Self(self.0.saturating_add(whole).saturating_add(1))
    }
}

/// Seconds and ticks, in ticks. Avoids a 128-bit division: every request sets deadlines.
fn ticks(seconds: u64, more: u32) -> u64 {
    const PER_SECOND: u32 = 1_000_000_000 / WHEEL_TICK.subsec_nanos();
    const _: () = assert!(WHEEL_TICK.saturating_mul(PER_SECOND).as_secs() == 1);
    let whole = seconds.saturating_mul(u64::from(PER_SECOND));
    whole.saturating_add(u64::from(more))
}

/// A reference to an entry of the wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    index: u32,
    generation: u32,
}

/// A timer wheel whose entries carry a `T`.
#[derive(Debug)]
pub struct Wheel<T> {
    entries: Vec<Entry<T>>,
    /// First free entry, linked by `next`.
    free: u32,
    /// First entry of each slot, linked by `next` and `previous`.
    slots: Box<[u32]>,
    now: u64,
}

#[derive(Debug)]
struct Entry<T> {
    /// The value, or `None` in a free entry.
    value: Option<T>,
    generation: u32,
    /// When it is due; `NEVER` if disarmed.
    due: u64,
    /// The tick of its slot; `NEVER` if in none. Never later than `due`.
    queued: u64,
    next: u32,
    previous: u32,
}

impl<T> Entry<T> {
    const FREE: Self = Self {
        value: None,
        generation: 0,
        due: NEVER,
        queued: NEVER,
        next: NONE,
        previous: NONE,
    };
}

impl<T> Wheel<T> {
    /// An empty wheel at tick `now`.
    #[must_use]
    pub fn new(Tick(now): Tick) -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
            slots: vec![NONE; SLOTS].into_boxed_slice(),
            now,
        }
    }

    /// Adds a disarmed entry.
    ///
    /// # Panics
    /// With 2^32 entries, which no machine has the descriptors for.
    pub fn insert(&mut self, value: T) -> Handle {
        let handle = self.take_free();
        self.at(handle.index).value = Some(value);
        handle
    }

    /// The same, with a value that knows its handle.
    ///
    /// # Panics
    /// As [`Self::insert`].
    pub fn insert_with(&mut self, make: impl FnOnce(Handle) -> T) -> &mut T {
        let handle = self.take_free();
        self.at(handle.index).value.insert(make(handle))
    }

    /// Takes a free entry, which is to get a value.
    fn take_free(&mut self) -> Handle {
        if self.free == NONE {
            self.free = u32::try_from(self.entries.len()).expect("fewer than 2^32 entries");
            self.entries.push(Entry::FREE);
        }
        let index = self.free;
        let entry = self.at(index);
        let (generation, next) = (entry.generation, entry.next);
        self.free = next;
        Handle { index, generation }
    }

    /// Removes an entry; returns its value, unless it was removed already.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        self.find(handle)?;
        self.unlink(handle.index);
        let free = self.free;
        let entry = self.at(handle.index);
        entry.generation = entry.generation.wrapping_add(1);
        entry.due = NEVER;
        entry.next = free;
        let value = entry.value.take();
        self.free = handle.index;
        value
    }

    /// Makes an entry due at `tick`, replacing the previous setting; a past one is due at the next
    /// tick.
    pub fn arm(&mut self, handle: Handle, tick: Tick) {
        let tick = tick.0.clamp(self.now + 1, NEVER - 1);
        let Some(entry) = self.find(handle) else {
            return;
        };
        entry.due = tick;
        if entry.queued <= tick {
            return;
        }
        self.unlink(handle.index);
        self.link(handle.index);
    }

    /// Disarms an entry; it stays in the wheel, and can be armed again.
    pub fn disarm(&mut self, handle: Handle) {
        if let Some(entry) = self.find(handle) {
            entry.due = NEVER;
        }
    }

    /// The value of an entry, unless removed.
    pub fn value(&mut self, handle: Handle) -> Option<&mut T> {
        self.find(handle)?.value.as_mut()
    }

    /// Advances to tick `now` and calls `fire` for every due entry. It is disarmed then, unless
    /// `fire` returns when it is due again.
    pub fn advance(&mut self, Tick(now): Tick, mut fire: impl FnMut(&mut T) -> Option<Tick>) {
        // After a long sleep every slot is visited, but only once.
        let passed = now.saturating_sub(self.now).min(SLOTS as u64);
        self.now += now.saturating_sub(self.now);
        for tick in (1..=passed).map(|nth| now - passed + nth) {
            let mut index = std::mem::replace(&mut self.slots[slot(tick)], NONE);
            while index != NONE {
                let entry = self.at(index);
                let next = entry.next;
                entry.queued = NEVER;
                if entry.due <= now {
                    let again = entry.value.as_mut().and_then(&mut fire);
                    entry.due = again.map_or(NEVER, |again| again.0.clamp(now + 1, NEVER - 1));
                }
                if entry.due != NEVER {
                    self.link(index);
                }
                index = next;
            }
        }
    }

    /// Queues an entry for when it is due, or as far ahead as the wheel reaches.
    fn link(&mut self, index: u32) {
        let farthest = self.now + SLOTS as u64;
        let entry = self.at(index);
        entry.queued = entry.due.min(farthest);
        let slot = slot(entry.queued);
        let next = std::mem::replace(&mut self.slots[slot], index);
        let entry = self.at(index);
        entry.next = next;
        entry.previous = NONE;
        if next != NONE {
            self.at(next).previous = index;
        }
    }

    /// Removes an entry from its slot, if it is in one.
    fn unlink(&mut self, index: u32) {
        let entry = self.at(index);
        if entry.queued == NEVER {
            return;
        }
        let slot = slot(std::mem::replace(&mut entry.queued, NEVER));
        let (next, previous) = (entry.next, entry.previous);
        if previous == NONE {
            self.slots[slot] = next;
        } else {
            self.at(previous).next = next;
        }
        if next != NONE {
            self.at(next).previous = previous;
        }
    }

    fn find(&mut self, handle: Handle) -> Option<&mut Entry<T>> {
        let entry = self.entries.get_mut(handle.index as usize)?;
        (entry.generation == handle.generation && entry.value.is_some()).then_some(entry)
    }

    fn at(&mut self, index: u32) -> &mut Entry<T> {
        &mut self.entries[index as usize]
    }
}

/// Slots of the wheel: 1024 ticks of 100 ms, longer than nearly every timeout. Entries due later
/// are visited once per revolution.
const SLOTS: usize = 1024;
const NONE: u32 = u32::MAX;
const NEVER: u64 = u64::MAX;

#[expect(
    clippy::cast_possible_truncation,
    reason = "the remainder is below SLOTS"
)]
fn slot(tick: u64) -> usize {
    (tick % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests;
