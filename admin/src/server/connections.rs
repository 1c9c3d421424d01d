//! The open connections of one server.
//!
//! Their number is bounded, and nobody can keep others out by holding all of them: for a new connection, one
//! is closed of the address that has most of them. Of these, it is the one that was accepted, or last
//! began a request, before all others. Bytes of an unfinished request do not count, and neither does reading
//! of a response: a client that sends or reads a byte now and then would otherwise keep its connection.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use tokio::sync::oneshot;

use crate::limits::KEPT_SCRAPES;
use crate::response::Generation;

/// The open connections of one server. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Connections(Rc<RefCell<Table>>);

#[derive(Debug)]
struct Table {
    /// Largest number of open connections.
    capacity: usize,
    /// By the time of their last progress, the oldest first.
    open: BTreeMap<u64, Entry>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    /// Closes the connection when it is dropped.
    _close: oneshot::Sender<()>,
    /// Address of the client; None on a unix socket.
    peer: Option<IpAddr>,
    /// The generation of its last response, if that has any.
    generation: Option<Generation>,
}

/// An open connection, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    table: Rc<RefCell<Table>>,
    key: Cell<u64>,
}

/// Completes when the connection has to be closed.
pub(super) type Closed = oneshot::Receiver<()>;

impl Connections {
    pub(super) fn new(capacity: usize) -> Self {
        Self(Rc::new(RefCell::new(Table {
            capacity,
            open: BTreeMap::new(),
            next: 0,
        })))
    }

    /// Adds a connection. If all are in use, another one is closed for it.
    pub(super) fn open(&self, peer: Option<IpAddr>) -> (Connection, Closed) {
        let mut table = self.0.borrow_mut();
        if table.open.len() >= table.capacity {
            table.close_one();
        }
        let (close, closed) = oneshot::channel();
        let key = table.insert(Entry {
            _close: close,
            peer,
            generation: None,
        });
        let connection = Connection {
            table: Rc::clone(&self.0),
            key: Cell::new(key),
        };
        (connection, closed)
    }
}

impl Connection {
    /// Records that a request was received.
    pub(super) fn begin_request(&self) {
        let mut table = self.table.borrow_mut();
        // Without an entry, it is being closed.
        if let Some(entry) = table.open.remove(&self.key.get()) {
            self.key.set(table.insert(entry));
        }
    }

    /// Records the generation of the response that is sent. Connections whose responses are too old by now
    /// are closed.
    pub(super) fn begin_response(&self, generation: Generation) {
        let mut table = self.table.borrow_mut();
        if let Some(entry) = table.open.get_mut(&self.key.get()) {
            entry.generation = Some(generation);
        }
        let oldest = Generation(generation.0.saturating_sub(KEPT_SCRAPES));
        table
            .open
            .retain(|_, entry| entry.generation.is_none_or(|it| it > oldest));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.table.borrow_mut().open.remove(&self.key.get());
    }
}

impl Table {
    fn close_one(&mut self) {
        let mut by_peer: BTreeMap<Option<IpAddr>, (usize, Reverse<u64>)> = BTreeMap::new();
        for (key, entry) in &self.open {
            by_peer.entry(entry.peer).or_insert((0, Reverse(*key))).0 += 1;
        }
        if let Some((_, Reverse(oldest))) = by_peer.into_values().max() {
            self.open.remove(&oldest);
        }
    }

    fn insert(&mut self, entry: Entry) -> u64 {
        let key = self.next;
        self.next = self.next.wrapping_add(1);
        self.open.insert(key, entry);
        key
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::sync::oneshot::error::TryRecvError;

    use super::{Closed, Connections};
    use crate::limits::KEPT_SCRAPES;
    use crate::response::Generation;

    fn is_open(closed: &mut Closed) -> bool {
        closed.try_recv() == Err(TryRecvError::Empty)
    }

    #[test]
    fn the_connection_without_progress_for_longest_is_closed_for_a_new_one() {
        let connections = Connections::new(3);
        let (first, mut first_closed) = connections.open(None);
        let (_second, mut second_closed) = connections.open(None);
        let (_third, mut third_closed) = connections.open(None);
        first.begin_request();
        let (_fourth, mut fourth_closed) = connections.open(None);
        assert!(!is_open(&mut second_closed));
        for closed in [&mut first_closed, &mut third_closed, &mut fourth_closed] {
            assert!(is_open(closed));
        }
    }

    #[test]
    fn an_address_with_few_connections_keeps_them() {
        let connections = Connections::new(4);
        let address = |last| Some(IpAddr::from([10, 0, 0, last]));
        let (_few, mut few_closed) = connections.open(address(1));
        let mut many: Vec<_> = (0..50).map(|_| connections.open(address(2))).collect();
        assert!(is_open(&mut few_closed));
        let open = many
            .iter_mut()
            .filter_map(|(_, closed)| is_open(closed).then_some(()));
        assert_eq!(open.count(), 3);
        // If all have the same number, the oldest connection is closed.
        let _others: Vec<_> = (3..5).map(|last| connections.open(address(last))).collect();
        assert!(is_open(&mut few_closed));
        let _one_more = connections.open(address(5));
        assert!(!is_open(&mut few_closed));
    }

    #[test]
    fn connections_with_old_responses_are_closed() {
        let connections = Connections::new(10);
        let (_idle, mut idle_closed) = connections.open(None);
        let (old, mut old_closed) = connections.open(None);
        let (new, mut new_closed) = connections.open(None);
        old.begin_response(Generation(1));
        new.begin_response(Generation(KEPT_SCRAPES));
        assert!(is_open(&mut old_closed));
        new.begin_response(Generation(KEPT_SCRAPES + 1));
        assert!(!is_open(&mut old_closed));
        assert!(is_open(&mut idle_closed) && is_open(&mut new_closed));
    }

    #[test]
    fn a_closed_connection_leaves_its_place() {
        let connections = Connections::new(1);
        drop(connections.open(None));
        let (evicted, mut closed) = connections.open(None);
        assert!(is_open(&mut closed));
        let (_next, mut next_closed) = connections.open(None);
        assert!(!is_open(&mut closed));
        evicted.begin_request();
        drop(evicted);
        assert!(is_open(&mut next_closed));
    }
}
