//! Idle connections to endpoints.
//!
//! Per shard and endpoint, last in first out: the newest is the likeliest to live, and the oldest
//! get to their timeout when load falls. One holds no buffer.

use std::cell::RefCell;
use std::rc::Rc;

use crate::limits::POOL_IDLE_TIMEOUT;
use crate::net::{Liveness, Stream};
use crate::shard::Shard;
use crate::shard::deadline::Deadline;
use crate::shard::interned::{Interned, Table};
use crate::shard::wheel::Tick;

use super::room::{Counted, Room};

/// A connection to an endpoint.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) deadline: Deadline,
    /// Whether an earlier request went over it: then the endpoint may have closed it meanwhile.
    pub(crate) used: bool,
    /// The tick at which it was put into the pool.
    idle_since: Tick,
    /// Counts it while it lives.
    pub(super) counted: Counted,
}

impl Connection {
    /// A fresh connection.
    pub(crate) fn new(shard: &Rc<Shard>, stream: Stream, counted: Counted) -> Self {
        Self {
            deadline: Deadline::new(shard, stream.fd()),
            stream,
            used: false,
            idle_since: Tick::default(),
            counted,
        }
    }
}

/// The idle connections of a shard, by endpoint.
#[derive(Default)]
pub(crate) struct Pool {
    idle: RefCell<Table<Vec<Connection>>>,
    rooms: RefCell<Table<Rc<Room>>>,
}

impl Pool {
    /// The newest idle connection of an endpoint that still lives.
    pub(crate) fn take(&self, endpoint: Interned) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        let connections = idle.find_mut(endpoint)?;
        while let Some(connection) = connections.pop() {
            // Bytes that nobody asked for belong to no request (RFC 9112 section 9.2), however soon
            // they came, and a request that cannot be repeated must not meet a closed connection.
            if connection.stream.liveness() == Liveness::Quiet {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection whose last exchange came to an exact end.
    pub(crate) fn put(&self, endpoint: Interned, mut connection: Connection, shard: &Shard) {
        connection.used = true;
        connection.idle_since = shard.now();
        connection.deadline.disarm();
        if connection.counted.is_wanted() {
            return Counted::hand_over(endpoint, connection);
        }
        self.idle
            .borrow_mut()
            .find_or_insert(endpoint, Vec::new)
            .push(connection);
    }

    /// The room that a service's connections share.
    pub(super) fn room(&self, service: Interned) -> Rc<Room> {
        let mut rooms = self.rooms.borrow_mut();
        Rc::clone(rooms.find_or_insert(service, Rc::default))
    }

    /// Closes the oldest idle connection to any of these endpoints, so that another can be made in
    /// its place. `false` where none is idle.
    pub(super) fn evict(&self, endpoints: impl Iterator<Item = Interned>) -> bool {
        let mut idle = self.idle.borrow_mut();
        for endpoint in endpoints {
            if let Some(connections) = idle.find_mut(endpoint).filter(|idle| !idle.is_empty()) {
                connections.remove(0);
                return true;
            }
        }
        false
    }

    /// Closes what has been idle for too long or was closed by the endpoint.
    pub(crate) fn sweep(&self, now: Tick) {
        for connections in self.idle.borrow_mut().entries_mut() {
            connections.retain(|connection| {
                now < connection.idle_since.after(POOL_IDLE_TIMEOUT)
                    && connection.stream.liveness() == Liveness::Quiet
            });
        }
    }

    /// Closes everything idle.
    pub(crate) fn clear(&self) {
        self.idle.borrow_mut().entries_mut().for_each(Vec::clear);
    }
}
