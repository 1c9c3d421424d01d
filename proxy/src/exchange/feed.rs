//! The bounded queue of request bytes for a mirror. Its bytes count with the buffers of the shard in
//! use: while these take more than half of what they may, mirrors that get more bytes are dropped. What
//! is queued already stays until it is sent, or the mirror's timeout.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::http::h1::encode;
use crate::limits::{MAX_HEAD_BYTES, MIRROR_BYTES};
use crate::memory::Kept;
use crate::shard::Shard;

/// The sending end of a mirror's queue.
pub(crate) struct Feed {
    shared: Rc<MirrorQueue>,
    chunked: bool,
}

/// The bytes queued for a mirror.
pub(crate) struct MirrorQueue {
    shard: Rc<Shard>,
    /// Bytes not sent yet.
    pending: RefCell<Kept>,
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
        let queued = self.shared.pending.borrow().len();
        self.queue(payload, queued + payload.len() <= MIRROR_BYTES + HEAD_BYTES);
    }

    /// Queues the only payload, of any length: the request has been received as a whole, so the
    /// mirror is not behind it.
    pub(crate) fn all(&mut self, payload: &[u8]) {
        self.queue(payload, true);
        self.end();
    }

    /// Queues payload, if it is within the queue's limit and the shard has memory for it.
    fn queue(&self, payload: &[u8], is_within_limit: bool) {
        if payload.is_empty() || self.shared.state.get() != State::Open {
            return;
        }
        if !is_within_limit || !self.shared.shard.may_copy(payload.len()) {
            return self.end_as(State::Aborted);
        }
        self.shared.pending.borrow_mut().append_with(|pending| {
            if self.chunked {
                encode::chunk_head(pending, payload.len());
            }
            pending.extend_from_slice(payload);
            if self.chunked {
                pending.extend_from_slice(encode::CHUNK_END);
            }
        });
        self.shared.wake();
    }

    pub(crate) fn end(&mut self) {
        if self.chunked {
            let mut pending = self.shared.pending.borrow_mut();
            pending.append_with(|pending| encode::last_chunk(pending, b""));
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
    /// An empty queue, whose bytes count as buffers of this shard.
    pub(crate) fn new(shard: &Rc<Shard>) -> Self {
        Self {
            shard: Rc::clone(shard),
            pending: RefCell::new(Kept::new(&shard.buffers)),
            state: Cell::default(),
            waker: RefCell::default(),
        }
    }

    /// Queues a head.
    pub(crate) fn begin(&self, head: &[u8]) {
        self.pending.borrow_mut().append(head);
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Whether the request was aborted.
    pub(crate) fn is_aborted(&self) -> bool {
        self.state.get() == State::Aborted
    }

    /// Waits for bytes, in exchange for empty ones; none at the end of the request.
    pub(crate) async fn next(&self, bytes: &mut Kept) {
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
