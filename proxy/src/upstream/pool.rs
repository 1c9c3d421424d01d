//! Connections to endpoints, and the pool of idle ones.
//!
//! Per shard and endpoint, last in first out: the newest is the likeliest to be alive, and the
//! oldest reach their timeout when load falls. Idle connections hold no buffer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use admin::shard::Connections;

use crate::channel::Channel;
use crate::config::{Cluster, Snapshot};
use crate::limits::POOL_IDLE_TIMEOUT;
use crate::names::{Interned, Table};
use crate::net::{Liveness, Stream};
use crate::policy::proxy_protocol::Endpoints;
use crate::shard::Shard;
use crate::shard::deadline::Deadline;
use crate::shard::wheel::Tick;

use super::connection_limit::{ConnectionLimit, ConnectionSlot};
use super::endpoint_limit::{self, EndpointPermit};

/// A connection to an endpoint, or a stream of one. Boxed, since a request moves it several times:
/// out of the pool, into its exchange, and back.
pub(crate) struct Connection {
    /// Dropped before the stream that it can end, whose memory is used again.
    pub(crate) deadline: Deadline,
    pub(crate) stream: Channel,
    /// Whether it was used before: then the endpoint may have closed it in the meantime.
    pub(crate) used: bool,
    /// The client in its PROXY header; other clients must not use it.
    pub(crate) proxied: Option<Box<Endpoints>>,
    /// The tick at which it became idle.
    idle_since: Tick,
    pub(super) place: Permit,
}

/// A connection's slot in its service's limit.
pub(super) enum Permit {
    /// A slot of its own.
    Own(ConnectionSlot),
    /// A stream of a shared connection, which has the slot.
    Shared,
}

impl Connection {
    pub(crate) fn new(shard: &Rc<Shard>, stream: Stream, counted: ConnectionSlot) -> Box<Self> {
        Box::new(Self {
            deadline: Deadline::new(shard, stream.fd()),
            stream: stream.into(),
            used: false,
            proxied: None,
            idle_since: Tick::default(),
            place: Permit::Own(counted),
        })
    }

    /// A stream of a shared connection; `used` if there were others before.
    pub(super) fn shared(shard: &Rc<Shard>, stream: Channel, used: bool) -> Box<Self> {
        Box::new(Self {
            deadline: Deadline::new(shard, stream.cutoff()),
            stream,
            used,
            proxied: None,
            idle_since: Tick::default(),
            place: Permit::Shared,
        })
    }

    /// Whether it can be reused: the endpoint has neither closed it nor sent anything. Unrequested
    /// bytes belong to no request (RFC 9112 section 9.2), and would be taken for the response to
    /// the next one. Checked at every reuse, however short the connection was idle: 250 ns.
    pub(super) fn is_reusable(&self) -> bool {
        self.stream.liveness() == Liveness::Quiet
    }

    /// Closes it, and keeps its slot for another one.
    pub(super) fn replace(self) -> Option<ConnectionSlot> {
        match self.place {
            Permit::Own(counted) => Some(counted),
            Permit::Shared => None,
        }
    }
}

/// The idle connections of a shard, by endpoint.
#[derive(Default)]
pub(crate) struct Pool {
    #[expect(clippy::vec_box, reason = "taken out and put back by every request")]
    idle: RefCell<Table<Vec<Box<Connection>>>>,
    connection_limits: RefCell<Table<Rc<ConnectionLimit>>>,
}

impl Pool {
    /// The newest usable idle connection of an endpoint; one for this client, if the endpoint
    /// expects a PROXY header.
    pub(crate) fn take(
        &self,
        endpoint: Interned,
        client: Option<&Endpoints>,
    ) -> Option<Box<Connection>> {
        let mut idle = self.idle.borrow_mut();
        let connections = idle.find_mut(endpoint)?;
        let is_for = |connection: &Connection| connection.proxied.as_deref() == client;
        while let Some(at) = connections
            .iter()
            .rposition(|connection| is_for(connection))
        {
            let connection = connections.remove(at);
            if connection.is_reusable() {
                return Some(connection);
            }
        }
        None
    }

    /// Returns a connection after a clean exchange.
    pub(crate) fn put(&self, endpoint: Interned, mut connection: Box<Connection>, shard: &Shard) {
        let Permit::Own(counted) = &connection.place else {
            // The shared connection stays where it is.
            return;
        };
        connection.used = true;
        connection.idle_since = shard.now();
        connection.deadline.disarm();
        if counted.is_wanted() {
            // A connection whose PROXY header names another client cannot be reused: it is closed, and
            // its slot goes to the next waiting request.
            if connection.proxied.is_none() {
                ConnectionSlot::hand_over(endpoint, connection);
            }
            return;
        }
        if let EndpointPermit::Counted(slot) = &counted.endpoint
            && slot.is_wanted()
        {
            let limits = slot.limits();
            if connection.proxied.is_none() {
                endpoint_limit::hand_over(limits, connection, shard);
            }
            return;
        }
        self.idle
            .borrow_mut()
            .find_or_insert(endpoint, Vec::new)
            .push(connection);
    }

    /// Whether an endpoint has an idle connection.
    pub(super) fn has_idle(&self, endpoint: Interned) -> bool {
        let idle = self.idle.borrow();
        idle.find(endpoint).is_some_and(|idle| !idle.is_empty())
    }

    /// Closes the longest-idle connection to an endpoint. `false` if none is idle.
    pub(super) fn close_idle(&self, endpoint: Interned) -> bool {
        let oldest = {
            let mut idle = self.idle.borrow_mut();
            let connections = idle.find_mut(endpoint).filter(|idle| !idle.is_empty());
            connections.map(|connections| connections.remove(0))
        };
        oldest.is_some()
    }

    /// Whether a service may have one more connection.
    pub(super) fn has_place(&self, cluster: &Cluster) -> bool {
        self.limit(cluster.id)
            .has_place(cluster.connections_per_shard.get())
    }

    /// The connection limit of a service.
    pub(super) fn limit(&self, service: Interned) -> Rc<ConnectionLimit> {
        let mut connection_limits = self.connection_limits.borrow_mut();
        Rc::clone(connection_limits.find_or_insert(service, Rc::default))
    }

    /// Applies the connection limits of a new configuration to the requests that wait.
    pub(super) fn change_limits(&self, snapshot: &Snapshot) {
        let mut wanted = HashMap::new();
        for (service, limit) in self.connection_limits.borrow().iter() {
            if limit.is_wanted() {
                wanted.insert(service, Rc::clone(limit));
            }
        }
        if wanted.is_empty() {
            return;
        }
        for cluster in snapshot.all_clusters() {
            if let Some(limit) = wanted.get(&cluster.id) {
                limit.change(cluster.connections_per_shard.get());
            }
        }
    }

    /// Closes an idle connection of a service to free its slot: the oldest to one of its current
    /// endpoints, or else any to a former one. `false` if none is idle.
    pub(super) fn evict(
        &self,
        limit: &ConnectionLimit,
        endpoints: impl Iterator<Item = Interned>,
    ) -> bool {
        let mut idle = self.idle.borrow_mut();
        for endpoint in endpoints {
            if let Some(connections) = idle.find_mut(endpoint).filter(|idle| !idle.is_empty()) {
                connections.remove(0);
                return true;
            }
        }
        let is_of = |connection: &Connection| match &connection.place {
            Permit::Own(counted) => std::ptr::eq(counted.limit(), limit),
            Permit::Shared => false,
        };
        for connections in idle.entries_mut() {
            if let Some(at) = connections.iter().position(|connection| is_of(connection)) {
                connections.remove(at);
                return true;
            }
        }
        false
    }

    /// Closes connections idle for too long or closed by the endpoint.
    pub(crate) fn sweep(&self, now: Tick) {
        self.idle.borrow_mut().retain(|connections| {
            let before = connections.len();
            connections.retain(|connection| {
                now < connection.idle_since.after(POOL_IDLE_TIMEOUT) && connection.is_reusable()
            });
            // Most endpoints of many are used rarely. An empty list whose connections are in use is
            // kept: it would be allocated again by each request.
            before == 0 || !connections.is_empty()
        });
    }

    /// Passes the connections of every known service and backend to `show`.
    pub(crate) fn for_each(&self, mut show: impl FnMut(Interned, Connections)) {
        let mut idle: HashMap<*const ConnectionLimit, u64> = HashMap::new();
        for (_, connections) in self.idle.borrow().iter() {
            if let Some(Permit::Own(counted)) = connections.first().map(|first| &first.place) {
                *idle.entry(counted.limit()).or_default() += connections.len() as u64;
            }
        }
        for (id, limit) in self.connection_limits.borrow().iter() {
            let idle = idle.get(&Rc::as_ptr(limit)).copied().unwrap_or_default();
            show(
                id,
                Connections {
                    idle,
                    ..limit.connections()
                },
            );
        }
    }

    pub(crate) fn clear(&self) {
        self.idle.borrow_mut().entries_mut().for_each(Vec::clear);
    }
}
