//! What a connection's driver and the task of a stream share: received bytes, and how the stream ended.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::http::engine::error::{Code, ResetCause};
use crate::http::engine::{HeldHead, StreamKey, Then};
use crate::http::h1::RequestKind;
use crate::http::head::ResponseHead;
use crate::limits::INTERIM_RESPONSES;
use crate::memory::{Buffer, BufferPool};
use crate::shard::signals::Signals;

/// The state of a stream.
pub(in crate::http2) struct StreamState {
    key: Cell<StreamKey>,
    pub(in crate::http2) signals: Rc<Signals>,
    pub(in crate::http2) turn: Cell<SendTurn>,
    /// The same for its place among the streams that the peer allows.
    pub(in crate::http2) opening: Cell<SendTurn>,
    received: RefCell<Received>,
    ending: Cell<Option<StreamEnd>>,
    /// The head that is to be sent with the next bytes, once it is known.
    pub(super) head: RefCell<Option<HeldHead>>,
    pub(super) sending: Cell<Sending>,
    /// The kind of request, if it is ours: an upgrade opens a tunnel.
    pub(super) request: Cell<RequestKind>,
    /// The reset code if the message cannot be completed.
    pub(super) reset: Cell<Code>,
    /// Bytes that the reader has and has not forwarded.
    pub(super) lent: Cell<usize>,
}

/// A response head that was received: the head points into the bytes, where every field has its own line.
#[derive(Debug, Default)]
pub(crate) struct ReceivedHead {
    pub(crate) bytes: Vec<u8>,
    pub(crate) head: ResponseHead,
}

/// Whether a stream may write into the output, or open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http2) enum SendTurn {
    /// If there is room, and no other stream waits.
    Free,
    /// It waits for its turn.
    Waiting,
    /// It has waited: one frame.
    Now,
}

/// The state of the outgoing message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http2) enum Sending {
    /// A request, not started; the head may be known.
    Request,
    /// A response, not started; the head may be known.
    Response,
    /// The head was sent, and perhaps some of the body.
    Body,
    Ended,
    Broken,
}

/// What was received and not read yet.
#[derive(Default)]
struct Received {
    /// Heads of responses, in order.
    heads: VecDeque<Box<ReceivedHead>>,
    /// Number of interim ones so far.
    interims: u32,
    buffers: VecDeque<Buffer>,
    trailers: Vec<u8>,
    end: EndState,
}

/// How far the peer's message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum EndState {
    #[default]
    Open,
    /// It has ended, with trailers that the reader has not come to.
    Trailers,
    Ended,
}

/// Why a stream ended before its exchange was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// It was reset.
    Reset(ResetCause),
    /// Nothing of it was sent: its connection ended before.
    Unsent,
    /// Its connection was closed, or is broken.
    Closed,
    /// The peer has violated the protocol, so that its connection had to end.
    Violation,
}

impl Default for StreamState {
    /// A stream that is to be opened with a request.
    fn default() -> Self {
        Self {
            key: Cell::new(StreamKey::UNOPENED),
            signals: Rc::default(),
            turn: Cell::new(SendTurn::Free),
            opening: Cell::new(SendTurn::Free),
            received: RefCell::default(),
            ending: Cell::new(None),
            head: RefCell::new(None),
            sending: Cell::new(Sending::Request),
            request: Cell::new(RequestKind::Other),
            reset: Cell::new(Code::INTERNAL_ERROR),
            lent: Cell::new(0),
        }
    }
}

impl StreamState {
    /// A client has opened the stream: its head was received.
    pub(in crate::http2) fn accept(&self, key: StreamKey, then: Then) {
        self.key.set(key);
        self.sending.set(Sending::Response);
        if then == Then::End {
            self.received.borrow_mut().end = EndState::Ended;
        }
    }

    /// Becomes as it was made, for another stream, and keeps its memory. Nobody else knows it.
    pub(super) fn clear(&mut self, pool: &Rc<BufferPool>) {
        // Those of the stream may still be held by what watches another one.
        match Rc::get_mut(&mut self.signals) {
            Some(signals) => *signals = Signals::default(),
            None => self.signals = Rc::default(),
        }
        self.received.get_mut().clear(pool);
        self.key.set(StreamKey::UNOPENED);
        self.turn.set(SendTurn::Free);
        self.opening.set(SendTurn::Free);
        self.ending.set(None);
        *self.head.get_mut() = None;
        self.sending.set(Sending::Request);
        self.request.set(RequestKind::Other);
        self.reset.set(Code::INTERNAL_ERROR);
        self.lent.set(0);
    }

    pub(in crate::http2) fn key(&self) -> StreamKey {
        self.key.get()
    }

    pub(in crate::http2) fn set_key(&self, key: StreamKey) {
        self.key.set(key);
    }

    /// The head of a response has arrived. Beyond the limit of interim ones, the reader fails with the first
    /// of them, and the others are handed back.
    pub(in crate::http2) fn receive_head(
        &self,
        head: Box<ReceivedHead>,
        then: Then,
    ) -> Option<Box<ReceivedHead>> {
        let mut received = self.received.borrow_mut();
        if head.head.is_interim() {
            received.interims = received.interims.saturating_add(1);
            if received.interims > INTERIM_RESPONSES.saturating_add(1) {
                return Some(head);
            }
        }
        received.heads.push_back(head);
        if then == Then::End {
            received.end = EndState::Ended;
        }
        drop(received);
        self.wake();
        None
    }

    /// The next head of a response.
    pub(super) fn take_head(&self) -> Option<Box<ReceivedHead>> {
        self.received.borrow_mut().heads.pop_front()
    }

    pub(in crate::http2) fn wake(&self) {
        self.signals.wake();
    }

    /// It may write a frame.
    pub(in crate::http2) fn take_turn(&self) {
        self.turn.set(SendTurn::Now);
        self.wake();
    }

    /// Bytes of the body have arrived, or its end.
    pub(in crate::http2) fn receive(&self, bytes: &[u8], then: Then, pool: &Rc<BufferPool>) {
        let mut received = self.received.borrow_mut();
        received.append(bytes, pool);
        if then == Then::End {
            received.end = EndState::Ended;
        }
        drop(received);
        self.wake();
    }

    /// Trailers have arrived, which end the body.
    pub(in crate::http2) fn receive_trailers(&self, lines: &[u8]) {
        let mut received = self.received.borrow_mut();
        received.trailers.extend_from_slice(lines);
        received.end = EndState::Trailers;
        drop(received);
        self.wake();
    }

    /// It was reset, or its connection has ended.
    pub(in crate::http2) fn end(&self, why: StreamEnd) {
        if self.ending.get().is_none() {
            let is_unopened = self.key.get() == StreamKey::UNOPENED;
            self.ending
                .set(Some(if is_unopened { StreamEnd::Unsent } else { why }));
            self.wake();
        }
    }

    /// Why it has ended before its exchange was complete, if it has.
    pub(super) fn ending(&self) -> Option<StreamEnd> {
        self.ending.get()
    }

    /// Moves received bytes to the reader's buffer, as far as they fit. Returns how many.
    pub(super) fn take(&self, buffer: &mut Buffer, pool: &Rc<BufferPool>) -> usize {
        let received = &mut *self.received.borrow_mut();
        let Some(first) = received.buffers.front_mut() else {
            return 0;
        };
        if buffer.is_empty() {
            // The bytes stay where they are.
            std::mem::swap(buffer, first);
            received.drop_first(pool);
            return buffer.len();
        }
        if buffer.room() < first.len() {
            buffer.grow();
        }
        let count = buffer.room().min(first.len());
        if !buffer.append(first.filled().get(..count).unwrap_or_default()) {
            return 0;
        }
        first.consume(count);
        if first.is_empty() {
            received.drop_first(pool);
        }
        count
    }

    /// Drops received bytes. Returns how many.
    pub(super) fn drop_received(&self, pool: &Rc<BufferPool>) -> usize {
        let received = &mut *self.received.borrow_mut();
        let mut dropped: usize = 0;
        while let Some(first) = received.buffers.front() {
            dropped = dropped.saturating_add(first.len());
            received.drop_first(pool);
        }
        dropped
    }

    /// Whether the reader has come to the end; trailers are its from now on.
    pub(super) fn finish_reading(&self) -> bool {
        let mut received = self.received.borrow_mut();
        if received.end == EndState::Open || !received.buffers.is_empty() {
            return false;
        }
        received.end = EndState::Ended;
        true
    }

    pub(super) fn is_read(&self) -> bool {
        let received = self.received.borrow();
        received.end == EndState::Ended && received.buffers.is_empty()
    }

    pub(super) fn with_trailers(&self, take: impl FnOnce(&[u8])) {
        take(&self.received.borrow().trailers);
    }
}

impl Received {
    /// Forgets everything, and keeps the memory.
    fn clear(&mut self, pool: &Rc<BufferPool>) {
        self.heads.clear();
        self.interims = 0;
        self.buffers.drain(..).for_each(|buffer| pool.put(buffer));
        self.trailers.clear();
        self.end = EndState::Open;
    }

    /// Copies bytes into the last buffer, and what does not fit there into further ones.
    fn append(&mut self, mut bytes: &[u8], pool: &Rc<BufferPool>) {
        while !bytes.is_empty() {
            if self.buffers.back().is_none_or(|last| last.room() == 0) {
                self.buffers.push_back(pool.without_memory());
            }
            let Some(last) = self.buffers.back_mut() else {
                return;
            };
            last.reserve(bytes.len());
            let (part, rest) = bytes.split_at(bytes.len().min(last.room()));
            if !last.append(part) {
                return;
            }
            bytes = rest;
        }
    }

    fn drop_first(&mut self, pool: &Rc<BufferPool>) {
        if let Some(first) = self.buffers.pop_front() {
            pool.put(first);
        }
    }
}

impl Drop for StreamState {
    fn drop(&mut self) {
        for mut buffer in self.received.get_mut().buffers.drain(..) {
            buffer.clear();
            buffer.release();
        }
    }
}
