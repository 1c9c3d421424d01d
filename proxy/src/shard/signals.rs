//! Signals to a stream's task from outside: deadlines and cancellation.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

use crate::net::Liveness;

/// The part of a stream that other tasks can access, to end its waiting.
#[derive(Default)]
pub(crate) struct Signals {
    reading_stopped: Cell<bool>,
    disconnected: Cell<bool>,
    canceled: Cell<bool>,
    gone: Cell<bool>,
    /// Body bytes that fitted into the peer's windows.
    taken: Cell<u64>,
    task: RefCell<Option<Waker>>,
}

impl Signals {
    /// Closes the receiving direction.
    pub(crate) fn stop_reading(&self) {
        self.reading_stopped.set(true);
        self.wake();
    }

    pub(crate) fn disconnect(&self) {
        self.disconnected.set(true);
        self.wake();
    }

    /// Cancels the pending cancellable read, or the next one.
    pub(crate) fn cancel_read(&self) {
        self.canceled.set(true);
        self.wake();
    }

    /// Clears a cancellation that met no read.
    pub(crate) fn forget_cancel(&self) {
        self.canceled.set(false);
    }

    /// Whether both directions are closed.
    pub(crate) fn is_disconnected(&self) -> bool {
        self.disconnected.get()
    }

    /// Whether the receiving direction is closed.
    pub(crate) fn is_reading_stopped(&self) -> bool {
        self.reading_stopped.get()
    }

    /// Whether a read should be cancelled.
    pub(crate) fn is_canceled(&self) -> bool {
        self.canceled.get()
    }

    /// Whether a read should be cancelled; true only once.
    pub(crate) fn takes_cancel(&self) -> bool {
        self.canceled.take()
    }

    /// Records that the peer has disconnected.
    pub(crate) fn record_disconnect(&self) {
        self.gone.set(true);
    }

    /// Records bytes that fitted into the peer's windows.
    pub(crate) fn record_sent(&self, bytes: usize) {
        self.taken
            .set(self.taken.get().saturating_add(bytes as u64));
    }

    /// Body bytes that fitted into the peer's windows.
    pub(super) fn taken(&self) -> u64 {
        self.taken.get()
    }

    /// Whether the peer is still connected.
    pub(crate) fn liveness(&self) -> Liveness {
        if self.gone.get() {
            Liveness::Gone
        } else {
            Liveness::Quiet
        }
    }

    pub(crate) fn set_task(&self, context: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        if !task
            .as_ref()
            .is_some_and(|task| task.will_wake(context.waker()))
        {
            *task = Some(context.waker().clone());
        }
    }

    /// Wakes the stream's task.
    pub(crate) fn wake(&self) {
        if let Some(task) = self.task.borrow_mut().take() {
            task.wake();
        }
    }
}
