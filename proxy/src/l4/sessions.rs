//! The session table of a UDP listener: which datagrams belong together, and which session is
//! evicted at the limit or after the idle timeout.
//!
//! Sans-io: time is passed in. Anyone can create a session with one datagram and a forged address,
//! so a full table evicts unanswered sessions first, longest idle first; answered ones only after
//! they were idle for a while. Every operation takes constant time.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::shard::wheel::Tick;

/// The sessions of a listener, by key.
#[derive(Debug)]
pub struct Sessions<K, V> {
    places: HashMap<K, usize>,
    slots: Vec<Slot<K, V>>,
    free: Vec<usize>,
    /// Unanswered sessions, longest idle first.
    unanswered: Line,
    answered: Line,
    bounds: Bounds,
}

/// Limits of the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of sessions.
    pub max: usize,
    /// For how long one may be quiet.
    pub idle: Duration,
    /// Idle time after which an answered session may be evicted for another.
    pub yields_after: Duration,
}

/// The table is full, and no session may be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableFull;

#[derive(Debug)]
struct Slot<K, V> {
    /// `None` while it is free.
    session: Option<(K, V)>,
    moved: Tick,
    is_answered: bool,
    previous: Option<usize>,
    next: Option<usize>,
}

/// A linked list of slots.
#[derive(Debug, Default, Clone, Copy)]
struct Line {
    first: Option<usize>,
    last: Option<usize>,
}

impl<K: Eq + Hash + Clone, V> Sessions<K, V> {
    /// A table without sessions, which allocates as it grows.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            places: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            unanswered: Line::default(),
            answered: Line::default(),
            bounds,
        }
    }

    /// Number of sessions in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Replaces the bounds. Excess sessions stay until space is needed.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// The session of `key`, which its client has just used.
    pub fn touch(&mut self, key: &K, now: Tick) -> Option<&V> {
        let at = *self.places.get(key)?;
        self.requeue(at, now, false);
        self.slots[at].session.as_ref().map(|(_, value)| value)
    }

    /// Records a response in the session of `key`. `false` if there is none.
    pub fn record_response(&mut self, key: &K, now: Tick) -> bool {
        let Some(at) = self.places.get(key).copied() else {
            return false;
        };
        self.requeue(at, now, true);
        true
    }

    /// Makes space for one more; returns the evicted session.
    ///
    /// # Errors
    ///
    /// No session may be evicted.
    pub fn make_room(&mut self, now: Tick) -> Result<Option<V>, TableFull> {
        if self.places.len() < self.bounds.max {
            return Ok(None);
        }
        let quiet = self.bounds.yields_after;
        let yields = |at: &usize| self.slots[*at].moved.after(quiet) <= now;
        let oldest = self.unanswered.first;
        let at = oldest
            .or(self.answered.first.filter(yields))
            .ok_or(TableFull)?;
        Ok(self.take(at))
    }

    /// Adds a session, for which there must be space; replaces one of the same key.
    pub fn insert(&mut self, key: K, value: V, now: Tick) {
        self.remove(&key);
        let slot = Slot {
            session: Some((key.clone(), value)),
            moved: now,
            is_answered: false,
            previous: None,
            next: None,
        };
        let at = if let Some(at) = self.free.pop() {
            self.slots[at] = slot;
            at
        } else {
            self.slots.push(slot);
            self.slots.len() - 1
        };
        self.places.insert(key, at);
        self.link(at);
    }

    /// Removes the session of `key`.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = *self.places.get(key)?;
        self.take(at)
    }

    /// Removes a session that exceeded the idle timeout. Call it until it returns `None`.
    pub fn expire(&mut self, now: Tick) -> Option<V> {
        let idle = self.bounds.idle;
        let lines = [self.unanswered.first, self.answered.first];
        let mut oldest = lines.into_iter().flatten();
        let at = oldest.find(|at| self.slots[*at].moved.after(idle) <= now)?;
        self.take(at)
    }

    /// Removes all of them.
    pub fn drain(&mut self) -> impl Iterator<Item = V> {
        self.places.clear();
        self.free.clear();
        self.unanswered = Line::default();
        self.answered = Line::default();
        let slots = std::mem::take(&mut self.slots).into_iter();
        slots.filter_map(|slot| slot.session.map(|(_, value)| value))
    }

    fn take(&mut self, at: usize) -> Option<V> {
        self.unlink(at);
        let (key, value) = self.slots[at].session.take()?;
        self.places.remove(&key);
        self.free.push(at);
        Some(value)
    }

    /// Moves a session to the end of its list; the first response moves it to the other list.
    fn requeue(&mut self, at: usize, now: Tick, answered: bool) {
        self.unlink(at);
        let slot = &mut self.slots[at];
        slot.moved = slot.moved.max(now);
        slot.is_answered |= answered;
        self.link(at);
    }

    fn line(&mut self, at: usize) -> &mut Line {
        if self.slots[at].is_answered {
            &mut self.answered
        } else {
            &mut self.unanswered
        }
    }

    fn link(&mut self, at: usize) {
        let last = self.line(at).last.replace(at);
        self.slots[at].previous = last;
        self.slots[at].next = None;
        match last {
            Some(last) => self.slots[last].next = Some(at),
            None => self.line(at).first = Some(at),
        }
    }

    fn unlink(&mut self, at: usize) {
        let (previous, next) = (self.slots[at].previous, self.slots[at].next);
        match previous {
            Some(previous) => self.slots[previous].next = next,
            None => self.line(at).first = next,
        }
        match next {
            Some(next) => self.slots[next].previous = previous,
            None => self.line(at).last = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Bounds, Sessions, TableFull};
    use crate::shard::wheel::Tick;

    const BOUNDS: Bounds = Bounds {
        max: 3,
        idle: Duration::from_mins(1),
        yields_after: Duration::from_secs(5),
    };

    fn at(seconds: u64) -> Tick {
        Tick::at(Duration::from_secs(seconds))
    }

    fn full() -> Sessions<char, char> {
        let mut sessions = Sessions::new(BOUNDS);
        for (second, name) in (0..).zip(['a', 'b', 'c']) {
            assert_eq!(sessions.make_room(at(second)), Ok(None));
            sessions.insert(name, name, at(second));
        }
        sessions
    }

    #[test]
    fn unanswered_sessions_are_evicted_first_by_idle_time() {
        let mut sessions = full();
        sessions.record_response(&'b', at(3));
        sessions.touch(&'a', at(4));
        assert_eq!(sessions.make_room(at(4)), Ok(Some('c')));
        sessions.insert('d', 'd', at(4));
        assert_eq!(sessions.make_room(at(4)), Ok(Some('a')));
        assert_eq!(sessions.len(), 2);
    }

    #[test]
    fn answered_sessions_are_evicted_only_after_a_while() {
        let mut sessions = full();
        for (second, name) in (3..).zip(['a', 'b', 'c']) {
            assert!(sessions.record_response(&name, at(second)));
        }
        assert_eq!(sessions.make_room(at(6)), Err(TableFull));
        assert_eq!(sessions.make_room(at(9)), Ok(Some('a')));
        sessions.touch(&'b', at(9));
        assert_eq!(sessions.make_room(at(9)), Ok(None));
    }

    #[test]
    fn idle_sessions_expire() {
        let mut sessions = full();
        sessions.record_response(&'a', at(30));
        assert_eq!(sessions.expire(at(61)), None);
        assert_eq!(sessions.expire(at(62)), Some('b'));
        assert_eq!(sessions.expire(at(62)), None);
        assert_eq!(sessions.touch(&'b', at(62)), None);
        assert_eq!(sessions.expire(at(63)), Some('c'));
        assert_eq!(sessions.expire(at(91)), Some('a'));
        assert!(sessions.is_empty());
    }

    #[test]
    fn inserting_an_existing_key_replaces_its_session() {
        let mut sessions = full();
        sessions.insert('a', 'z', at(9));
        assert_eq!(sessions.touch(&'a', at(9)), Some(&'z'));
        assert_eq!(sessions.len(), 3);
        let mut rest: Vec<_> = sessions.drain().collect();
        rest.sort_unstable();
        assert_eq!(rest, ['b', 'c', 'z']);
        assert!(sessions.is_empty() && !sessions.record_response(&'b', at(10)));
    }
}
