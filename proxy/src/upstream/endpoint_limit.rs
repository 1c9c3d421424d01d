//! The limit of connections to one endpoint, over all shards, and the queue of a shard's requests for it.
//!
//! A shard that frees a connection tells the shards whose requests wait, itself last, and each lets its
//! longest-waiting request try again. A shard whose request waits asks the others to close an idle connection.
//! Requests that wait learn of a limit that was raised meanwhile from the shard, once it has the configuration.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use rand::RngExt;

use super::pool::Connection;
use crate::config::{Cluster, Snapshot};
use crate::names::Interned;
use crate::shard::Shard;
use crate::shard::endpoint_counts::EndpointCounts;
use crate::shard::inbox::ShardMessage;
use crate::shard::open_connections::Entry;
use crate::shard::peers::Peers;

/// The endpoints whose connections are limited, as a shard sees them.
pub(crate) struct EndpointLimits {
    counts: Arc<EndpointCounts>,
    peers: Arc<Peers>,
    shard: u16,
    queues: RefCell<HashMap<Interned, Queue>>,
    /// What the shard has counted, to be given back if it panics.
    held: RefCell<HashMap<Interned, Held>>,
}

/// The requests of a shard that wait for a connection to an endpoint, in order.
struct Queue {
    /// The service of the endpoint.
    cluster: Interned,
    /// Connections that the endpoint may have, by the latest configuration that is known.
    max: u32,
    waiters: VecDeque<Rc<Waiter>>,
}

/// What a shard has counted for an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    open: u32,
    waiting: u32,
}

/// One open connection to an endpoint, or the right to open one.
pub(crate) struct EndpointSlot {
    limits: Rc<EndpointLimits>,
    endpoint: Interned,
}

/// The right to open a connection to an endpoint.
pub(crate) enum EndpointPermit {
    /// Its connections are not limited, or this one cannot be counted.
    Uncounted,
    /// One of as many as it may have.
    Counted(EndpointSlot),
}

/// The outcome for a request that waited.
pub(crate) enum EndpointGrant {
    /// A connection that another request has finished with.
    Connection(Box<Connection>),
    /// The right to open one.
    Permit(EndpointPermit),
}

#[derive(Default)]
struct Waiter {
    /// Whether a connection was freed since it looked.
    is_woken: Cell<bool>,
    granted: RefCell<Option<Box<Connection>>>,
    waker: RefCell<Option<Waker>>,
}

/// A request in the queue, removed on drop.
pub(super) struct QueuedForEndpoint {
    limits: Rc<EndpointLimits>,
    endpoint: Interned,
    waiter: Rc<Waiter>,
    /// Whether the other shards know that it waits.
    is_counted: bool,
}

impl EndpointLimits {
    pub(super) fn new(shard: &Shard) -> Rc<Self> {
        Rc::new(Self {
            counts: Arc::clone(&shard.endpoint_connections),
            peers: Arc::clone(&shard.peers),
            shard: shard.id,
            queues: RefCell::default(),
            held: RefCell::default(),
        })
    }

    /// A permit for a connection, unless the endpoint has `max` or requests of the shard wait for one.
    pub(super) fn enter(self: &Rc<Self>, endpoint: Interned, max: u32) -> Option<EndpointPermit> {
        if self.queued(endpoint) > 0 {
            return None;
        }
        self.take(endpoint, max)
    }

    fn take(self: &Rc<Self>, endpoint: Interned, max: u32) -> Option<EndpointPermit> {
        let open = &self.counts.open;
        match open.enter(open.endpoint(endpoint), max) {
            Entry::Full => None,
            Entry::Uncounted => Some(EndpointPermit::Uncounted),
            Entry::Counted => {
                self.held.borrow_mut().entry(endpoint).or_default().open += 1;
                Some(EndpointPermit::Counted(EndpointSlot {
                    limits: Rc::clone(self),
                    endpoint,
                }))
            }
        }
    }

    /// Whether an endpoint has `max` connections, or requests of the shard wait for one.
    pub(super) fn is_full(&self, endpoint: Interned, max: u32) -> bool {
        let open = &self.counts.open;
        open.count(open.endpoint(endpoint)) >= max || self.queued(endpoint) > 0
    }

    /// Queues a request for an endpoint of a service; `None` if as many requests of the shard wait already as
    /// may.
    pub(super) fn queue(
        self: &Rc<Self>,
        endpoint: Interned,
        cluster: &Cluster,
    ) -> Option<QueuedForEndpoint> {
        let waiter = Rc::new(Waiter::default());
        let is_first = {
            let mut queues = self.queues.borrow_mut();
            let queue = queues.entry(endpoint).or_insert_with(|| Queue {
                cluster: cluster.id,
                max: max_connections(cluster),
                waiters: VecDeque::new(),
            });
            let waiters = &mut queue.waiters;
            if waiters.len() >= cluster.endpoint_pending_per_shard.get() as usize {
                return None;
            }
            waiters.push_back(Rc::clone(&waiter));
            waiters.len() == 1
        };
        let waiting = &self.counts.waiting;
        let entry = waiting.enter(waiting.endpoint(endpoint), u32::MAX);
        let is_counted = entry == Entry::Counted;
        if is_counted {
            self.held.borrow_mut().entry(endpoint).or_default().waiting += 1;
        }
        self.count_waiting(|count| count.wrapping_add(1));
        if is_first {
            self.ask(endpoint);
        }
        Some(QueuedForEndpoint {
            limits: Rc::clone(self),
            endpoint,
            waiter,
            is_counted,
        })
    }

    fn count_waiting(&self, change: impl Fn(u32) -> u32) {
        let shards = &self.counts.waiting_by_shard;
        if let Some(count) = shards.get(usize::from(self.shard)) {
            // Only this shard writes it.
            count.store(change(count.load(Ordering::SeqCst)), Ordering::SeqCst);
        }
    }

    /// Asks the other shards for an idle connection.
    fn ask(&self, endpoint: Interned) {
        let ask = || ShardMessage::FreeEndpoint(endpoint);
        self.peers.send_to(|shard| shard != self.shard, ask);
    }

    /// Tells the shards whose requests wait, this one last: it would otherwise take each connection that it
    /// frees for another.
    fn tell(&self, endpoint: Interned) {
        let freed = || ShardMessage::EndpointFreed(endpoint);
        let waits = |shard| shard != self.shard && self.counts.has_waiting(shard);
        self.peers.send_to(waits, freed);
        if self.queued(endpoint) > 0 {
            self.peers.send_to(|shard| shard == self.shard, freed);
        }
    }

    /// Gives back what the tasks of a shard that has panicked have counted: they are not dropped.
    pub(crate) fn give_back(&self) {
        let counts = &self.counts;
        for (endpoint, held) in self.held.take() {
            for _ in 0..held.waiting {
                counts.waiting.leave(counts.waiting.endpoint(endpoint));
            }
            for _ in 0..held.open {
                counts.open.leave(counts.open.endpoint(endpoint));
            }
            self.queues.borrow_mut().remove(&endpoint);
            self.tell(endpoint);
        }
        self.count_waiting(|_| 0);
    }

    fn release(&self, endpoint: Interned, change: impl Fn(&mut Held)) {
        let mut held = self.held.borrow_mut();
        if let Some(of_endpoint) = held.get_mut(&endpoint) {
            change(of_endpoint);
            if *of_endpoint == Held::default() {
                held.remove(&endpoint);
            }
        }
    }

    /// Whether requests of any shard wait for an endpoint.
    pub(crate) fn is_wanted(&self, endpoint: Interned) -> bool {
        self.waiting(endpoint) > 0 || self.queued(endpoint) > 0
    }

    fn waiting(&self, endpoint: Interned) -> u32 {
        let waiting = &self.counts.waiting;
        waiting.count(waiting.endpoint(endpoint))
    }

    /// Lets the longest-waiting request of the shard that has not been woken look again.
    pub(crate) fn wake(&self, endpoint: Interned) {
        let queues = self.queues.borrow();
        let mut waiters = queues.get(&endpoint).into_iter().flat_map(|it| &it.waiters);
        if let Some(waiter) = waiters.find(|waiter| !waiter.is_woken.get()) {
            waiter.is_woken.set(true);
            waiter.wake();
        }
    }

    /// Applies the limits of a new configuration to the requests that wait. One that gets a connection lets the
    /// next one look.
    pub(super) fn change(&self, snapshot: &Snapshot) {
        let raised = apply_limits(&mut self.queues.borrow_mut(), snapshot.all_clusters());
        for endpoint in raised {
            self.wake(endpoint);
        }
    }

    /// Removes the longest-waiting request of the shard from the queue.
    fn next(&self, endpoint: Interned) -> Option<Rc<Waiter>> {
        let mut queues = self.queues.borrow_mut();
        queues.get_mut(&endpoint)?.waiters.pop_front()
    }

    fn queued(&self, endpoint: Interned) -> usize {
        let queues = self.queues.borrow();
        queues.get(&endpoint).map_or(0, |queue| queue.waiters.len())
    }
}

/// Sets the limits of queues to those of the clusters; returns the endpoints whose limit was raised. There may be
/// many of both, so each is visited once.
fn apply_limits<'a>(
    queues: &mut HashMap<Interned, Queue>,
    clusters: impl Iterator<Item = &'a Cluster>,
) -> Vec<Interned> {
    let mut raised = Vec::new();
    if queues.is_empty() {
        return raised;
    }
    let mut by_cluster: HashMap<Interned, Vec<(Interned, &mut Queue)>> = HashMap::new();
    for (endpoint, queue) in queues {
        let of_cluster = by_cluster.entry(queue.cluster).or_default();
        of_cluster.push((*endpoint, queue));
    }
    for cluster in clusters {
        let queues = by_cluster.get_mut(&cluster.id).into_iter().flatten();
        for (endpoint, queue) in queues {
            if cluster.endpoint(*endpoint).is_none() {
                continue;
            }
            let before = std::mem::replace(&mut queue.max, max_connections(cluster));
            if queue.max > before {
                raised.push(*endpoint);
            }
        }
    }
    raised
}

fn max_connections(cluster: &Cluster) -> u32 {
    cluster.endpoint_connections.unwrap_or(u32::MAX)
}

impl EndpointSlot {
    /// Whether a request waits for this connection.
    pub(super) fn is_wanted(&self) -> bool {
        self.limits.is_wanted(self.endpoint)
    }

    /// What decides about it, and its endpoint.
    pub(super) fn limits(&self) -> (Rc<EndpointLimits>, Interned) {
        (Rc::clone(&self.limits), self.endpoint)
    }
}

/// Passes a free connection to a waiting request of the shard; or closes it for one of another shard, as
/// often as its share of the waiting requests is.
pub(super) fn hand_over(
    (limits, endpoint): (Rc<EndpointLimits>, Interned),
    connection: Box<Connection>,
    shard: &Shard,
) {
    let own = limits.queued(endpoint);
    let all = limits.waiting(endpoint) as usize;
    let is_own = own > 0 && shard.with_rng(|rng| rng.random_range(0..all.max(own))) < own;
    let waiter = is_own.then(|| limits.next(endpoint)).flatten();
    if let Some(waiter) = waiter {
        waiter.granted.replace(Some(connection));
        waiter.wake();
    }
}

impl Drop for EndpointSlot {
    fn drop(&mut self) {
        let Self { limits, endpoint } = self;
        let open = &limits.counts.open;
        open.leave(open.endpoint(*endpoint));
        limits.release(*endpoint, |held| held.open = held.open.saturating_sub(1));
        // A request that begins to wait is counted before it looks, so that one of both sees the other.
        if limits.is_wanted(*endpoint) {
            limits.tell(*endpoint);
        }
    }
}

impl Waiter {
    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl QueuedForEndpoint {
    /// Waits until there are fewer connections than there may be, or one is handed over.
    pub(super) async fn granted(self) -> EndpointGrant {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&self, context: &Context<'_>) -> Poll<EndpointGrant> {
        if let Some(connection) = self.waiter.granted.take() {
            return Poll::Ready(EndpointGrant::Connection(connection));
        }
        self.waiter.waker.replace(Some(context.waker().clone()));
        // The others are woken when it is their turn.
        let is_woken = self.waiter.is_woken.replace(false);
        let permit = self
            .turn(is_woken)
            .and_then(|max| self.limits.take(self.endpoint, max));
        match permit {
            Some(permit) => Poll::Ready(EndpointGrant::Permit(permit)),
            None => Poll::Pending,
        }
    }

    /// The connections that the endpoint may have, if it is this request's turn to look.
    fn turn(&self, is_woken: bool) -> Option<u32> {
        let queues = self.limits.queues.borrow();
        let queue = queues.get(&self.endpoint)?;
        let first = queue.waiters.front();
        let is_first = first.is_some_and(|first| Rc::ptr_eq(first, &self.waiter));
        (is_woken || is_first).then_some(queue.max)
    }
}

impl Drop for QueuedForEndpoint {
    fn drop(&mut self) {
        let Self {
            limits,
            endpoint,
            waiter,
            is_counted,
        } = self;
        {
            let mut queues = limits.queues.borrow_mut();
            if let Some(queue) = queues.get_mut(endpoint) {
                queue.waiters.retain(|queued| !Rc::ptr_eq(queued, waiter));
                if queue.waiters.is_empty() {
                    queues.remove(endpoint);
                }
            }
        }
        if *is_counted {
            let waiting = &limits.counts.waiting;
            waiting.leave(waiting.endpoint(*endpoint));
            limits.release(*endpoint, |held| {
                held.waiting = held.waiting.saturating_sub(1);
            });
        }
        limits.count_waiting(|count| count.saturating_sub(1));
        // What it was given goes to the next one, which looks whether there is more.
        drop(waiter.granted.take());
        if limits.queued(*endpoint) > 0 {
            limits.wake(*endpoint);
            limits.ask(*endpoint);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, VecDeque};
    use std::net::SocketAddr;

    use super::{Queue, apply_limits};
    use crate::config::{Cluster, Protection};
    use crate::names::Interned;
    use crate::upstream::balance::tests::endpoint as id;
    use crate::upstream::call;

    fn queue(cluster: u32, max: u32) -> Queue {
        Queue {
            cluster: id(cluster),
            max,
            waiters: VecDeque::new(),
        }
    }

    /// Its endpoints are 0 and 1.
    fn cluster(index: u32, max: Option<u32>) -> Cluster {
        let addresses = [80, 81].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        Cluster {
            id: id(index),
            endpoint_connections: max,
            ..call::tests::cluster(&addresses, Protection::Plain)
        }
    }

    fn limits(queues: &HashMap<Interned, Queue>) -> [Option<u32>; 3] {
        [0, 1, 2].map(|index| Some(queues.get(&id(index))?.max))
    }

    #[test]
    fn limits_of_the_service_reach_the_queues_of_its_endpoints() {
        let mut queues = HashMap::from([
            (id(0), queue(7, 1)),
            (id(1), queue(8, 5)),
            // Of an endpoint that the service has not any more.
            (id(2), queue(7, 1)),
        ]);
        let clusters = [
            cluster(6, Some(9)),
            cluster(7, Some(3)),
            cluster(8, Some(4)),
        ];
        assert_eq!(apply_limits(&mut queues, clusters.iter()), [id(0)]);
        assert_eq!(limits(&queues), [Some(3), Some(4), Some(1)]);
        let clusters = [cluster(7, Some(3)), cluster(8, None)];
        assert_eq!(apply_limits(&mut queues, clusters.iter()), [id(1)]);
        assert_eq!(limits(&queues), [Some(3), Some(u32::MAX), Some(1)]);
    }

    #[test]
    fn clusters_are_not_visited_without_queues() {
        let clusters = std::iter::from_fn(|| panic!("visited"));
        assert!(apply_limits(&mut HashMap::new(), clusters).is_empty());
    }
}
