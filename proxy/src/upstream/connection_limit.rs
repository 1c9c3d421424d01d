//! The connection limit of a service, and the queue for free connections.
//!
//! A freed connection or slot is passed directly to the longest-waiting request: later requests
//! cannot overtake it, and no wake-up is in vain. A request that stops waiting passes on what it
//! was given.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

use admin::shard::Connections;

use super::endpoint_limit::EndpointPermit;
use super::pool::{Connection, Permit};
use crate::names::Interned;

/// The connection limit of one service.
#[derive(Default)]
pub(crate) struct ConnectionLimit {
    /// Maximum number of open connections.
    max: Cell<u32>,
    open: Cell<u32>,
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
}

/// One open connection of a service, or the right to open one.
pub(crate) struct ConnectionSlot {
    limit: Rc<ConnectionLimit>,
    /// Its place among those of its endpoint.
    pub(super) endpoint: EndpointPermit,
}

/// The outcome for a request that waited.
pub(crate) enum Grant {
    /// A connection to its endpoint.
    Connection(Box<Connection>),
    /// The right to open one.
    Slot(ConnectionSlot),
}

struct Waiter {
    /// The endpoint that it needs.
    endpoint: Interned,
    granted: RefCell<Option<Grant>>,
    waker: RefCell<Option<Waker>>,
}

impl ConnectionLimit {
    /// Takes a slot, unless all of `max` are taken.
    pub(super) fn enter(self: &Rc<Self>, max: u32) -> Option<ConnectionSlot> {
        self.max.set(max);
        if self.open.get() >= max {
            return None;
        }
        self.open.set(self.open.get() + 1);
        Some(ConnectionSlot::new(self))
    }

    /// Whether fewer than `max` slots are taken.
    pub(super) fn has_place(&self, max: u32) -> bool {
        self.open.get() < max
    }

    /// Waits for a slot or a connection; `None` if `max` requests are waiting already.
    pub(super) fn wait(
        self: &Rc<Self>,
        endpoint: Interned,
        max: u32,
    ) -> Option<impl Future<Output = Grant> + use<>> {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= max as usize {
            return None;
        }
        let waiter = Rc::new(Waiter {
            endpoint,
            granted: RefCell::new(None),
            waker: RefCell::new(None),
        });
        waiting.push_back(Rc::clone(&waiter));
        let place = QueuedRequest {
            limit: Rc::clone(self),
            waiter,
        };
        Some(async move { poll_fn(|context| place.poll(context.waker())).await })
    }

    /// Applies the limit of a new configuration: what it has more goes to the requests that wait.
    pub(super) fn change(self: &Rc<Self>, max: u32) {
        self.max.set(max);
        while self.open.get() < max
            && let Some(waiter) = self.next()
        {
            self.open.set(self.open.get() + 1);
            waiter.grant(Grant::Slot(ConnectionSlot::new(self)));
        }
    }

    /// Its counts, except idle connections.
    pub(super) fn connections(&self) -> Connections {
        Connections {
            open: self.open.get().into(),
            idle: 0,
            waiting: self.waiting.borrow().len() as u64,
        }
    }

    /// Whether a request waits for a slot.
    pub(super) fn is_wanted(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Removes the longest-waiting request from the queue.
    fn next(&self) -> Option<Rc<Waiter>> {
        self.waiting.borrow_mut().pop_front()
    }
}

impl ConnectionSlot {
    fn new(limit: &Rc<ConnectionLimit>) -> Self {
        Self {
            limit: Rc::clone(limit),
            endpoint: EndpointPermit::Uncounted,
        }
    }

    /// Whether a request waits for this slot.
    pub(super) fn is_wanted(&self) -> bool {
        self.limit.is_wanted()
    }

    /// The limit that it counts in.
    pub(super) fn limit(&self) -> *const ConnectionLimit {
        Rc::as_ptr(&self.limit)
    }

    /// Passes a free connection to the longest-waiting request. If that needs another endpoint, the
    /// connection is closed and it receives the slot.
    pub(super) fn hand_over(endpoint: Interned, connection: Box<Connection>) {
        let Permit::Own(Self { limit, .. }) = &connection.place else {
            return;
        };
        let limit = Rc::clone(limit);
        let longest = limit.waiting.borrow().front().map(|first| first.endpoint);
        if longest == Some(endpoint)
            && let Some(waiter) = limit.next()
        {
            waiter.grant(Grant::Connection(connection));
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let limit = &self.limit;
        // If the limit was lowered meanwhile, the slot is not passed on.
        let within = limit.open.get() <= limit.max.get();
        let next = if within { limit.next() } else { None };
        match next {
            Some(waiter) => waiter.grant(Grant::Slot(Self::new(limit))),
            None => limit.open.set(limit.open.get().saturating_sub(1)),
        }
    }
}

impl Waiter {
    fn grant(&self, granted: Grant) {
        *self.granted.borrow_mut() = Some(granted);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A request in the queue, removed on drop.
struct QueuedRequest {
    limit: Rc<ConnectionLimit>,
    waiter: Rc<Waiter>,
}

impl QueuedRequest {
    fn poll(&self, waker: &Waker) -> Poll<Grant> {
        if let Some(granted) = self.waiter.granted.take() {
            return Poll::Ready(granted);
        }
        self.waiter.waker.replace(Some(waker.clone()));
        Poll::Pending
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        let is_self = |waiter: &Rc<Waiter>| Rc::ptr_eq(waiter, &self.waiter);
        self.limit
            .waiting
            .borrow_mut()
            .retain(|waiter| !is_self(waiter));
        // What was granted but not taken is passed on when dropped.
        drop(self.waiter.granted.take());
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    use super::{ConnectionLimit, ConnectionSlot, Grant};
    use crate::names::Interned;

    const ENDPOINT: Interned = Interned {
        index: 0,
        generation: 0,
    };

    type Waiting = Pin<Box<dyn Future<Output = Grant>>>;

    fn wait(limit: &Rc<ConnectionLimit>) -> Waiting {
        Box::pin(limit.wait(ENDPOINT, 8).expect("the line is short"))
    }

    fn has_place(waiting: &mut Waiting) -> Option<ConnectionSlot> {
        match waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Grant::Slot(place)) => Some(place),
            Poll::Ready(Grant::Connection(_)) => panic!("there are no connections"),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_longest_waiting_request_gets_the_next_connection() {
        let limit = Rc::new(ConnectionLimit::default());
        let taken = limit.enter(1).expect("it is empty");
        assert!(limit.enter(1).is_none());
        let (mut first, mut second) = (wait(&limit), wait(&limit));
        assert!(has_place(&mut first).is_none());
        drop(taken);
        assert!(limit.enter(1).is_none(), "the place is promised");
        assert!(has_place(&mut second).is_none());
        let place = has_place(&mut first).expect("its turn");
        drop(place);
        assert!(has_place(&mut second).is_some());
        assert!(limit.enter(1).is_some(), "the queue is empty");
    }

    #[test]
    fn a_cancelled_waiter_passes_its_grant_on() {
        let limit = Rc::new(ConnectionLimit::default());
        let taken = limit.enter(1).expect("it is empty");
        let (first, gone, mut last) = (wait(&limit), wait(&limit), wait(&limit));
        drop(gone);
        drop(taken);
        drop(first);
        let place = has_place(&mut last).expect("its turn");
        drop(place);
        assert!(limit.enter(1).is_some());
    }

    #[test]
    fn the_queue_is_bounded() {
        let limit = Rc::new(ConnectionLimit::default());
        let _taken = limit.enter(1).expect("it is empty");
        let _waiting = limit.wait(ENDPOINT, 1).expect("the first");
        assert!(limit.wait(ENDPOINT, 1).is_none());
    }

    #[test]
    fn connections_above_a_lowered_limit_are_not_passed_on() {
        let limit = Rc::new(ConnectionLimit::default());
        let (first, second) = (limit.enter(2), limit.enter(2));
        assert!(limit.enter(1).is_none(), "lowered");
        let mut waiting = wait(&limit);
        drop(first);
        assert!(has_place(&mut waiting).is_none());
        drop(second);
        assert!(has_place(&mut waiting).is_some());
    }

    #[test]
    fn a_raised_limit_goes_to_those_that_wait() {
        let limit = Rc::<ConnectionLimit>::default();
        let _first = limit.enter(1).expect("a slot");
        let mut waiting = [wait(&limit), wait(&limit), wait(&limit)];
        for it in &mut waiting {
            assert!(has_place(it).is_none());
        }
        limit.change(3);
        let slots = waiting.each_mut().map(has_place);
        assert_eq!(slots.map(|slot| slot.is_some()), [true, true, false]);
    }
}
