//! What a stream does with its connection: it is opened, writes, gives back what was forwarded, and is
//! released.

use std::io;
use std::rc::Rc;
use std::task::Poll;

use super::{FRAME, Session};
use crate::http::engine::error::Code;
use crate::http::engine::{HeadWriter, HeldHead, SectionWriter, StreamGone, Then};
use crate::http::h1::RequestKind;
use crate::http2::stream::{ReceivedHead, SendTurn, StreamEnd, StreamState};
use crate::memory::BufferPool;

impl Session {
    pub(in crate::http2) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    pub(in crate::http2) fn pool(&self) -> &Rc<BufferPool> {
        &self.pool
    }

    /// A stream has a user. The first and the last one change what the connection waits for.
    pub(in crate::http2) fn enter(&self) {
        let before = self.users.get();
        self.users.set(before.saturating_add(1));
        if before == 0 {
            self.wake_driver();
        }
    }

    /// Whether the peer accepts extended CONNECT.
    pub(in crate::http2) fn offers_extended_connect(&self) -> bool {
        self.connection.borrow().offers_extended_connect()
    }

    /// Opens a stream with the head of its request, once the peer allows another one. Those that wait do so
    /// in the order in which they came.
    ///
    /// # Errors
    ///
    /// The connection opens no more streams.
    pub(in crate::http2) fn poll_open(
        &self,
        state: &Rc<StreamState>,
    ) -> Poll<Result<(), StreamGone>> {
        let connection = self.connection.borrow();
        if self.is_over.get() || !connection.opens_streams() {
            state.end(StreamEnd::Unsent);
            return Poll::Ready(Err(StreamGone));
        }
        let mut opening = self.opening.borrow_mut();
        let has_room = connection.has_room();
        let is_first = opening.is_empty() && connection.room() > self.allowed.get();
        match state.opening.get() {
            SendTurn::Free if has_room && is_first => {}
            SendTurn::Now if has_room => {}
            SendTurn::Waiting => return Poll::Pending,
            SendTurn::Free => {
                state.opening.set(SendTurn::Waiting);
                opening.push_back(Rc::clone(state));
                return Poll::Pending;
            }
            // Others have taken the room: it keeps its place.
            SendTurn::Now => {
                self.end_opening_turn(state, SendTurn::Waiting);
                opening.push_front(Rc::clone(state));
                return Poll::Pending;
            }
        }
        drop((connection, opening));
        self.poll_room(state).map(Ok)
    }

    /// Opens a stream, after [`Self::poll_open`].
    ///
    /// # Errors
    ///
    /// The connection opens no more streams.
    pub(in crate::http2) fn open(
        &self,
        state: &Rc<StreamState>,
        kind: RequestKind,
        then: Then,
        head: HeldHead,
    ) -> Result<(), StreamGone> {
        let opened = self.writer().open(kind, then, |writer| head.write(writer));
        self.memory.put_head(head);
        self.end_opening_turn(state, SendTurn::Free);
        state.set_key(opened.ok_or(StreamGone)?);
        self.register(state);
        self.wake_driver();
        Ok(())
    }

    /// Waits until the output has room for a head: a client that opens streams and does not read is to
    /// have no more of them than it may.
    pub(in crate::http2) fn poll_room(&self, state: &Rc<StreamState>) -> Poll<()> {
        if self.room() == 0 {
            self.wait(state);
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// A stream waits for its turn to write.
    fn wait(&self, state: &Rc<StreamState>) {
        let mut waiting = self.waiting.borrow_mut();
        match state.turn.replace(SendTurn::Waiting) {
            SendTurn::Waiting => {}
            SendTurn::Free => waiting.push_back(Rc::clone(state)),
            // Others have taken the room: it keeps its place.
            SendTurn::Now => waiting.push_front(Rc::clone(state)),
        }
        drop(waiting);
        self.wake_driver();
    }

    /// Writes the head of the final response.
    ///
    /// # Errors
    ///
    /// The stream cannot send one any more.
    pub(in crate::http2) fn respond(
        &self,
        state: &StreamState,
        then: Then,
        head: HeldHead,
    ) -> Result<(), StreamGone> {
        let responded = self
            .writer()
            .respond(state.key(), then, |writer| head.write(writer));
        self.memory.put_head(head);
        self.wake_driver();
        responded
    }

    /// Writes an interim response.
    ///
    /// # Errors
    ///
    /// The stream cannot send one any more.
    pub(in crate::http2) fn inform(
        &self,
        state: &StreamState,
        write: impl FnOnce(&mut HeadWriter<'_>),
    ) -> Result<(), StreamGone> {
        let informed = self.writer().inform(state.key(), write);
        self.wake_driver();
        informed
    }

    /// Writes as much of a body as the peer's windows and the output have room for: returns how much, once
    /// that is any.
    ///
    /// # Errors
    ///
    /// The stream cannot send any more.
    pub(in crate::http2) fn poll_data(
        &self,
        state: &Rc<StreamState>,
        bytes: &[u8],
        then: Then,
    ) -> Poll<Result<usize, StreamGone>> {
        let room = match state.turn.get() {
            SendTurn::Now => self.room().min(FRAME),
            SendTurn::Waiting => 0,
            SendTurn::Free if self.is_shared.get() || !self.waiting.borrow().is_empty() => 0,
            SendTurn::Free => self.room(),
        };
        if room == 0 {
            self.wait(state);
            return Poll::Pending;
        }
        state.turn.set(SendTurn::Free);
        let part = bytes.get(..room).unwrap_or(bytes);
        let then = if part.len() == bytes.len() {
            then
        } else {
            Then::More
        };
        let written = self.writer().write_data(state.key(), part, then);
        self.wake_driver();
        match written {
            Ok(0) if !bytes.is_empty() => Poll::Pending,
            written => Poll::Ready(written),
        }
    }

    /// Ends a body.
    ///
    /// # Errors
    ///
    /// The stream cannot send any more.
    pub(in crate::http2) fn end_body(&self, state: &StreamState) -> Result<(), StreamGone> {
        let written = self.writer().write_data(state.key(), b"", Then::End);
        self.wake_driver();
        written.map(|_| ())
    }

    /// Ends a body with trailers, which are lines.
    ///
    /// # Errors
    ///
    /// The stream cannot send any more.
    pub(in crate::http2) fn write_trailers(
        &self,
        state: &StreamState,
        lines: &[u8],
    ) -> Result<(), StreamGone> {
        let written = self
            .writer()
            .write_trailers(state.key(), |writer| writer.lines(lines));
        self.wake_driver();
        written
    }

    /// Received bytes were sent on: the peer may send as many again.
    pub(in crate::http2) fn give_back(&self, state: &StreamState, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let mut connection = self.connection.borrow_mut();
        connection.give_back(state.key(), bytes);
        if !connection.output().is_empty() {
            self.wake_driver();
        }
    }

    pub(in crate::http2) fn reset(&self, state: &StreamState, code: Code) {
        self.writer().reset(state.key(), code);
        self.wake_driver();
    }

    /// A stream has no user any more.
    pub(in crate::http2) fn release(&self, state: &Rc<StreamState>) {
        self.users.set(self.users.get().saturating_sub(1));
        if state.turn.get() == SendTurn::Waiting {
            let mut waiting = self.waiting.borrow_mut();
            waiting.retain(|other| !Rc::ptr_eq(other, state));
        }
        if state.opening.get() == SendTurn::Waiting {
            let mut opening = self.opening.borrow_mut();
            opening.retain(|other| !Rc::ptr_eq(other, state));
        }
        self.end_opening_turn(state, SendTurn::Free);
        if let Some(entry) = self.streams.borrow_mut().get_mut(state.key().place())
            && entry.as_ref().is_some_and(|entry| Rc::ptr_eq(entry, state))
        {
            *entry = None;
        }
        self.writer().release(state.key());
        self.open_waiting();
        // It may be the last one, and others may have got its windows.
        self.wake_driver();
    }

    /// Returns the memory of a stream that has ended.
    pub(in crate::http2) fn put_state(&self, state: Rc<StreamState>) {
        self.memory.put_state(state);
    }

    /// Memory for a head that waits to be sent.
    pub(in crate::http2) fn take_head(&self) -> HeldHead {
        self.memory.take_head()
    }

    pub(in crate::http2) fn put_head(&self, head: HeldHead) {
        self.memory.put_head(head);
    }

    /// Returns the memory of a response head.
    pub(in crate::http2) fn put_response(&self, response: Box<ReceivedHead>) {
        self.memory.put_response(response);
    }
}

impl From<StreamGone> for io::Error {
    fn from(gone: StreamGone) -> Self {
        Self::new(io::ErrorKind::BrokenPipe, gone)
    }
}
