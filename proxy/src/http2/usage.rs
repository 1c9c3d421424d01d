//! Counts the streams of an HTTP/2 connection, which determine its timeouts.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

use h2::Reason;

use crate::limits::H2_WATCHED_STREAMS;

/// The streams of a connection.
#[derive(Default)]
pub(crate) struct Usage {
    streams: Cell<u32>,
    /// The task that drives the connection.
    driver: RefCell<Option<Waker>>,
    /// Streams with a malformed response, or request with malformed trailers.
    malformed: RefCell<Vec<u32>>,
    /// Those for which the connection ends.
    invalid: RefCell<Vec<u32>>,
    /// Streams that a block with a status ended, each at a place of its own among the last ones; empty
    /// until there is one.
    ended: RefCell<Vec<u32>>,
}

/// One stream's use of a connection.
pub(crate) struct InUse(Rc<Usage>);

impl InUse {
    /// The connection's streams.
    pub(crate) fn usage(&self) -> &Rc<Usage> {
        &self.0
    }
}

impl Usage {
    pub(crate) fn streams(&self) -> u32 {
        self.streams.get()
    }

    /// Adds a stream. The first and the last one change what the connection waits for.
    pub(crate) fn enter(self: &Rc<Self>) -> InUse {
        let before = self.streams.get();
        self.streams.set(before.saturating_add(1));
        if before == 0 {
            self.wake();
        }
        InUse(Rc::clone(self))
    }

    /// Records streams with a malformed message, and those of them for which the connection ends.
    pub(super) fn record_malformed(&self, malformed: Vec<u32>, invalid: Vec<u32>) {
        if !malformed.is_empty() {
            keep(&mut self.malformed.borrow_mut(), malformed);
            keep(&mut self.invalid.borrow_mut(), invalid);
        }
    }

    /// Records that a block with a status ended a stream.
    pub(super) fn record_ended(&self, stream: u32) {
        let mut ended = self.ended.borrow_mut();
        ended.resize(H2_WATCHED_STREAMS, 0);
        if let Some(place) = ended.get_mut(place_of(stream)) {
            *place = stream;
        }
    }

    /// Whether a stream's response is malformed.
    pub(super) fn is_malformed(&self, stream: u32) -> bool {
        self.malformed.borrow().contains(&stream)
    }

    /// Whether the trailers of a stream have pseudo-header fields (RFC 9113 section 8.1).
    pub(super) fn has_malformed_trailers(&self, stream: u32) -> bool {
        self.ended.borrow().get(place_of(stream)) == Some(&stream) || self.is_malformed(stream)
    }

    /// The error of a stream for that of its connection. If the connection ended because another
    /// stream's response is malformed, this one was reset, and its own response is not at fault.
    pub(super) fn attribute(&self, error: h2::Error, stream: u32) -> h2::Error {
        let invalid = self.invalid.borrow();
        let is_ours = error.is_go_away() && error.is_library();
        if is_ours && !invalid.is_empty() && !invalid.contains(&stream) {
            return Reason::INTERNAL_ERROR.into();
        }
        error
    }

    /// Wakes the task that drives the connection.
    pub(crate) fn wake(&self) {
        if let Some(driver) = self.driver.borrow_mut().take() {
            driver.wake();
        }
    }

    /// Sets the driving task after its iteration.
    pub(super) fn set_driver(&self, context: &Context<'_>) {
        *self.driver.borrow_mut() = Some(context.waker().clone());
    }

    /// Clears the driving task during its iteration, in which it needs no wake-up.
    pub(super) fn forget_driver(&self) {
        self.driver.borrow_mut().take();
    }
}

/// The place of a stream among the last ones of its connection, whose numbers are odd.
fn place_of(stream: u32) -> usize {
    usize::try_from(stream >> 1).unwrap_or_default() % H2_WATCHED_STREAMS
}

fn keep(known: &mut Vec<u32>, streams: Vec<u32>) {
    known.extend(streams);
    // Streams that were reset are never queried.
    let excess = known.len().saturating_sub(H2_WATCHED_STREAMS);
    known.drain(..excess);
}

impl Drop for InUse {
    fn drop(&mut self) {
        let left = self.0.streams.get().saturating_sub(1);
        self.0.streams.set(left);
        if left == 0 {
            self.0.wake();
        }
    }
}
