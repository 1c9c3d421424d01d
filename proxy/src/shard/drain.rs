//! The drain state of a shard, and its waiters.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Whether connections are being drained.
#[derive(Default)]
pub(crate) struct Draining {
    /// Whether it is known that the drain will begin.
    announced: Cell<bool>,
    begun: Cell<bool>,
    /// Whether the drain deadline has passed, and remaining connections are reset.
    over: Cell<bool>,
    /// Tasks woken when the drain begins.
    waiting: RefCell<Vec<Option<Waker>>>,
    /// Free slots among them.
    free: RefCell<Vec<usize>>,
}

impl Draining {
    /// Whether it has begun.
    pub(crate) fn get(&self) -> bool {
        self.begun.get()
    }

    /// The drain will begin, once load balancers have had time to react.
    pub(crate) fn announce(&self) {
        self.announced.set(true);
    }

    /// Whether it has begun, or will.
    pub(crate) fn is_announced(&self) -> bool {
        self.announced.get() || self.begun.get()
    }

    /// Begins the drain, and wakes the waiters.
    pub(crate) fn begin(&self) {
        self.begun.set(true);
        for waker in self.waiting.borrow_mut().iter_mut() {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }

    /// The deadline has passed: remaining connections are reset.
    pub(crate) fn expire(&self) {
        self.over.set(true);
        self.begin();
    }

    /// Whether the deadline has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.over.get()
    }

    /// Waits until it begins. Cancel-safe.
    pub(crate) async fn wait(&self) {
        let mut place = DrainWaiter {
            draining: self,
            at: None,
        };
        poll_fn(|context| {
            if self.begun.get() {
                return Poll::Ready(());
            }
            place.put(context.waker());
            Poll::Pending
        })
        .await;
    }
}

/// A waiter's slot, released on drop.
struct DrainWaiter<'a> {
    draining: &'a Draining,
    at: Option<usize>,
}

impl DrainWaiter<'_> {
    fn put(&mut self, waker: &Waker) {
        let mut waiting = self.draining.waiting.borrow_mut();
        let at = self.at.or_else(|| self.draining.free.borrow_mut().pop());
        let at = at.unwrap_or_else(|| {
            waiting.push(None);
            waiting.len() - 1
        });
        waiting[at] = Some(waker.clone());
        self.at = Some(at);
    }
}

impl Drop for DrainWaiter<'_> {
    fn drop(&mut self) {
        if let Some(at) = self.at {
            self.draining.waiting.borrow_mut()[at] = None;
            self.draining.free.borrow_mut().push(at);
        }
    }
}
