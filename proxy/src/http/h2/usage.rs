//! How many streams use an HTTP/2 connection: what its task waits for depends on it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

/// The streams that use a connection.
#[derive(Default)]
pub(crate) struct Usage {
    streams: Cell<u32>,
    /// The task that drives the connection.
    driver: RefCell<Option<Waker>>,
}

/// One stream's use of a connection.
pub(crate) struct InUse(Rc<Usage>);

impl Usage {
    /// How many streams there are.
    pub(crate) fn streams(&self) -> u32 {
        self.streams.get()
    }

    /// One more stream.
    pub(crate) fn enter(self: &Rc<Self>) -> InUse {
        self.streams.set(self.streams.get().saturating_add(1));
        self.wake();
        InUse(Rc::clone(self))
    }

    /// Wakes the task that drives the connection.
    pub(crate) fn wake(&self) {
        if let Some(driver) = self.driver.borrow_mut().take() {
            driver.wake();
        }
    }

    /// Names the task that drives the connection.
    pub(super) fn note_driver(&self, context: &Context<'_>) {
        *self.driver.borrow_mut() = Some(context.waker().clone());
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let streams = &self.0.streams;
        streams.set(streams.get().saturating_sub(1));
        self.0.wake();
    }
}
