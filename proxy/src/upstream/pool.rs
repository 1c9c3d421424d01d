//! Idle connections to endpoints, and how many there are.
//!
//! Per shard and endpoint, last in first out: the newest is the likeliest to live, and the oldest
//! get to their timeout when load falls. One holds no buffer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::limits::POOL_IDLE_TIMEOUT;
use crate::net::{Liveness, Stream};
use crate::shard::Shard;
use crate::shard::deadline::Deadline;
use crate::shard::interned::{Interned, Table};
use crate::shard::wheel::Tick;

/// A connection to an endpoint.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) deadline: Deadline,
    /// Whether an earlier request went over it: then the endpoint may have closed it meanwhile.
    pub(crate) used: bool,
    /// The tick at which it was put into the pool.
    idle_since: Tick,
    /// Counts it while it lives.
    _counted: Counted,
}

impl Connection {
    /// A fresh connection.
    pub(crate) fn new(shard: &Rc<Shard>, stream: Stream, counted: Counted) -> Self {
        Self {
            deadline: Deadline::new(shard, stream.fd()),
            stream,
            used: false,
            idle_since: Tick::default(),
            _counted: counted,
        }
    }
}

/// The idle connections of a shard, by endpoint.
#[derive(Default)]
pub(crate) struct Pool {
    idle: RefCell<Table<Vec<Connection>>>,
    open: RefCell<Table<Rc<Cell<u32>>>>,
}

/// One open connection of a service.
pub(crate) struct Counted(Rc<Cell<u32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
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
        self.idle
            .borrow_mut()
            .find_or_insert(endpoint, Vec::new)
            .push(connection);
    }

    /// Counts a connection to a service, unless it has `most` already.
    pub(crate) fn count(&self, service: Interned, most: u32) -> Option<Counted> {
        let mut open = self.open.borrow_mut();
        let count = open.find_or_insert(service, Rc::default);
        if count.get() >= most {
            return None;
        }
        count.set(count.get() + 1);
        Some(Counted(Rc::clone(count)))
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
