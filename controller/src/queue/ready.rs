//! The objects that are ready, in the order in which they are taken.
//!
//! Those whose last attempt failed come last. Before that, Gateways come before routes. Among objects
//! of a rank, namespaces take turns: a namespace with a thousand objects does not delay another one's.

use std::collections::BTreeMap;
use std::sync::Arc;

use translate::ObjectRef;
use xds::fast_hash::FastHashMap;

/// The objects that are ready.
#[derive(Debug, Default)]
pub(super) struct Ready {
    lines: BTreeMap<Rank, Line>,
    sequence: u64,
    length: usize,
}

/// A place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    rank: Rank,
    turn: u64,
    sequence: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    has_failed: bool,
    of_kind: u8,
}

/// The ready objects of one rank, by turn: the n-th object of a namespace has the n-th turn.
#[derive(Debug, Default)]
struct Line {
    objects: BTreeMap<(u64, u64), ObjectRef>,
    /// The turn of the object taken last.
    current: u64,
    /// The last turn given to each namespace, unless it has passed.
    last: FastHashMap<Arc<str>, u64>,
}

impl Line {
    fn next_turn(&mut self, namespace: &Arc<str>) -> u64 {
        let last = self.last.get(namespace).copied().unwrap_or(0);
        let turn = last.max(self.current) + 1;
        self.last.insert(Arc::clone(namespace), turn);
        turn
    }

    fn pop(&mut self) -> Option<ObjectRef> {
        let ((turn, _), object) = self.objects.pop_first()?;
        self.current = turn;
        self.forget_turns_when_empty();
        Some(object)
    }

    fn remove(&mut self, key: (u64, u64)) -> bool {
        let is_removed = self.objects.remove(&key).is_some();
        self.forget_turns_when_empty();
        is_removed
    }

    fn forget_turns_when_empty(&mut self) {
        if self.objects.is_empty() {
            self.last = FastHashMap::default();
        }
    }
}

impl Ready {
    pub(super) fn push(&mut self, object: &ObjectRef, has_failed: bool) -> Place {
        self.sequence += 1;
        self.length += 1;
        let rank = Rank {
            has_failed,
            of_kind: object.kind.definition().write_rank,
        };
        let line = self.lines.entry(rank).or_default();
        let turn = line.next_turn(&object.name.namespace);
        let place = Place {
            rank,
            turn,
            sequence: self.sequence,
        };
        line.objects.insert((turn, place.sequence), object.clone());
        place
    }

    pub(super) fn pop(&mut self) -> Option<ObjectRef> {
        let object = self.lines.values_mut().find_map(Line::pop)?;
        self.length -= 1;
        Some(object)
    }

    pub(super) fn remove(&mut self, place: Place) {
        let line = self.lines.get_mut(&place.rank);
        let is_removed = line.is_some_and(|it| it.remove((place.turn, place.sequence)));
        self.length -= usize::from(is_removed);
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use translate::api;
    use xds::model::ObjectName;

    use super::*;

    fn route(namespace: &str, name: &str) -> ObjectRef {
        ObjectRef::of::<api::HttpRoute>(&ObjectName::new(namespace, name))
    }

    #[test]
    fn namespaces_take_turns() {
        let mut ready = Ready::default();
        for count in 0..1_000 {
            ready.push(&route("busy", &count.to_string()), false);
        }
        assert_eq!(ready.pop(), Some(route("busy", "0")));
        ready.push(&route("quiet", "a"), false);
        ready.push(&route("quiet", "b"), false);
        let next: Vec<_> = std::iter::from_fn(|| ready.pop()).take(5).collect();
        let expected = [
            route("busy", "1"),
            route("quiet", "a"),
            route("busy", "2"),
            route("quiet", "b"),
            route("busy", "3"),
        ];
        assert_eq!(next, expected);
        assert_eq!(ready.len(), 996);
    }

    #[test]
    fn objects_that_failed_come_last() {
        let mut ready = Ready::default();
        let gateway = ObjectRef::of::<api::Gateway>(&ObjectName::new("a", "edge"));
        let place = ready.push(&gateway, true);
        ready.push(&route("a", "one"), false);
        assert_eq!(ready.pop(), Some(route("a", "one")));
        ready.remove(place);
        ready.remove(place);
        assert_eq!((ready.pop(), ready.len()), (None, 0));
    }
}
