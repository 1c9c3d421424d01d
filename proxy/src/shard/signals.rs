//! What ends the waiting of a stream's task, from outside of it: deadlines, and whoever works for it.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

use crate::net::Liveness;

/// What of a stream others can reach: to end what its task waits for.
#[derive(Default)]
pub(crate) struct Signals {
    reading_stopped: Cell<bool>,
    disconnected: Cell<bool>,
    canceled: Cell<bool>,
    gone: Cell<bool>,
    /// Bytes of bodies that the peer's windows had room for.
    taken: Cell<u64>,
    task: RefCell<Option<Waker>>,
}

impl Signals {
    /// The peer's bytes end here.
    pub(crate) fn stop_reading(&self) {
        self.reading_stopped.set(true);
        self.wake();
    }

    /// Nothing goes either way any more.
    pub(crate) fn disconnect(&self) {
        self.disconnected.set(true);
        self.wake();
    }

    /// Ends the cancelable read under way, or the next one.
    pub(crate) fn cancel_read(&self) {
        self.canceled.set(true);
        self.wake();
    }

    /// Forgets a cancellation that found nothing to cancel.
    pub(crate) fn forget_cancel(&self) {
        self.canceled.set(false);
    }

    /// Whether nothing goes either way any more.
    pub(crate) fn is_disconnected(&self) -> bool {
        self.disconnected.get()
    }

    /// Whether the peer's bytes have come to their end.
    pub(crate) fn is_reading_stopped(&self) -> bool {
        self.reading_stopped.get()
    }

    /// Whether a read is to end; asked once.
    pub(crate) fn takes_cancel(&self) -> bool {
        self.canceled.take()
    }

    /// Notes that the peer has left.
    pub(crate) fn note_gone(&self) {
        self.gone.set(true);
    }

    /// Notes that the peer's windows had room for so many bytes.
    pub(crate) fn note_taken(&self, bytes: usize) {
        self.taken
            .set(self.taken.get().saturating_add(bytes as u64));
    }

    /// Bytes that the peer's windows had room for.
    pub(super) fn taken(&self) -> u64 {
        self.taken.get()
    }

    /// Whether the peer is still there.
    pub(crate) fn liveness(&self) -> Liveness {
        if self.gone.get() {
            Liveness::Gone
        } else {
            Liveness::Quiet
        }
    }

    pub(crate) fn note_task(&self, context: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        if !task
            .as_ref()
            .is_some_and(|task| task.will_wake(context.waker()))
        {
            *task = Some(context.waker().clone());
        }
    }

    fn wake(&self) {
        if let Some(task) = self.task.borrow_mut().take() {
            task.wake();
        }
    }
}
