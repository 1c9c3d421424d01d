//! The bounded queue of request bytes for a mirror.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::http::h1::encode;
use crate::limits::{MAX_HEAD_BYTES, MIRROR_BYTES};

/// The sending end of a mirror's queue.
pub(crate) struct Feed {
    shared: Rc<MirrorQueue>,
    chunked: bool,
}

/// The bytes queued for a mirror.
#[derive(Default)]
pub(crate) struct MirrorQueue {
    /// Bytes not sent yet.
    pub(crate) pending: RefCell<Vec<u8>>,
    state: Cell<State>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// More of the request may come.
    #[default]
    Open,
    Complete,
    /// The request was aborted.
    Aborted,
}

impl Feed {
    /// Queues for a copy, with chunked framing if needed.
    pub(crate) fn new(copied: &Rc<MirrorQueue>, chunked: bool) -> Self {
        Self {
            shared: Rc::clone(copied),
            chunked,
        }
    }

    /// Queues payload for the mirror; beyond its limit, the copy is abandoned.
    pub(crate) fn more(&mut self, payload: &[u8]) {
        if payload.is_empty() || self.shared.state.get() != State::Open {
            return;
        }
        let mut pending = self.shared.pending.borrow_mut();
        if pending.len() + payload.len() > MIRROR_BYTES + HEAD_BYTES {
            drop(pending);
            return self.end_as(State::Aborted);
        }
        if self.chunked {
            encode::chunk_head(&mut pending, payload.len());
        }
        pending.extend_from_slice(payload);
        if self.chunked {
            pending.extend_from_slice(encode::CHUNK_END);
        }
        drop(pending);
        self.shared.wake();
    }

    pub(crate) fn all(&mut self, payload: &[u8]) {
        self.more(payload);
        self.end();
    }

    pub(crate) fn end(&mut self) {
        if self.chunked {
            encode::last_chunk(&mut self.shared.pending.borrow_mut(), b"");
        }
        self.end_as(State::Complete);
    }

    fn end_as(&self, state: State) {
        if self.shared.state.get() == State::Open {
            self.shared.state.set(state);
        }
        self.shared.wake();
    }
}

impl Drop for Feed {
    /// An aborted request aborts its mirrors.
    fn drop(&mut self) {
        self.end_as(State::Aborted);
    }
}

/// A mirror buffers a request's head beside its body.
const HEAD_BYTES: usize = MAX_HEAD_BYTES as usize;

impl MirrorQueue {
    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Whether the request was aborted.
    pub(crate) fn is_aborted(&self) -> bool {
        self.state.get() == State::Aborted
    }

    /// Waits for bytes; none at the end of the request.
    pub(crate) async fn next(&self, bytes: &mut Vec<u8>) {
        poll_fn(|context| {
            std::mem::swap(bytes, &mut self.pending.borrow_mut());
            if !bytes.is_empty() || self.state.get() != State::Open {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
