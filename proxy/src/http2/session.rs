//! A connection as its driver and its streams share it.
//!
//! Streams write into the connection's output while they run, and wake the driver once; it sends the
//! output at the end of its turn. A stream that finds the output full, or others waiting for it, waits for
//! its turn, in which it writes one frame.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::memory::Memory;
use super::stream::{ReceivedHead, SendTurn, Stream, StreamEnd, StreamState};
use crate::http::engine::error::{Code, ConnectionError, ResetCause};
use crate::http::engine::{
    Connection, EndOfInput, HeadWriter, HeldHead, Options, Pressure, SectionWriter, Step,
    StreamGone, StreamKey, Then,
};
use crate::http::h1::RequestKind;
use crate::limits::{H2_FRAME_BYTES, H2_SEND_BYTES};
use crate::memory::BufferPool;

/// The connection.
pub(crate) struct Session {
    connection: RefCell<Connection>,
    /// The streams that have a user, by the place of their key.
    streams: RefCell<Vec<Option<Rc<StreamState>>>>,
    memory: Rc<Memory>,
    pool: Rc<BufferPool>,
    driver: RefCell<Option<Waker>>,
    /// Whether the driver runs or was woken: it will see what has changed.
    is_woken: Cell<bool>,
    /// Streams that wait for room in the output.
    waiting: RefCell<VecDeque<Rc<StreamState>>>,
    /// Whether such streams have their turn now.
    is_shared: Cell<bool>,
    /// Streams that wait until the peer allows another one.
    opening: RefCell<VecDeque<Rc<StreamState>>>,
    /// Number of those that may open now and have not done so.
    allowed: Cell<usize>,
    /// Number of streams that have a user, also of those that are to be opened.
    users: Cell<u32>,
    /// Whether the connection has ended for its streams.
    is_over: Cell<bool>,
    /// Whether it is to be woken when the pressure on the shard's memory relaxes.
    is_pressed: Cell<bool>,
}

impl Session {
    pub(crate) fn new(options: Options, memory: Rc<Memory>, pool: Rc<BufferPool>) -> Rc<Self> {
        Rc::new(Self {
            connection: RefCell::new(Connection::new(options)),
            streams: RefCell::default(),
            memory,
            pool,
            driver: RefCell::default(),
            is_woken: Cell::new(true),
            waiting: RefCell::default(),
            is_shared: Cell::new(false),
            opening: RefCell::default(),
            allowed: Cell::new(0),
            users: Cell::new(0),
            is_over: Cell::new(false),
            is_pressed: Cell::new(false),
        })
    }

    /// Begins a turn of the driver. `now` is relative to any fixed moment.
    pub(crate) fn begin_turn(self: &Rc<Self>, now: Duration) {
        self.is_woken.set(true);
        let pressure = self.memory.pressure();
        if pressure != Pressure::None && !self.is_pressed.replace(true) {
            self.memory.await_relief(self);
        }
        let mut connection = self.connection.borrow_mut();
        connection.set_pressure(pressure);
        connection.begin_turn(now);
    }

    /// The pressure on the shard's memory has relaxed: the driver opens the windows.
    pub(super) fn relieve(&self) {
        self.is_pressed.set(false);
        self.wake_driver();
    }

    /// Ends a turn: streams that wait for the output have theirs.
    pub(crate) fn end_turn(&self, context: &Context<'_>) {
        self.wake_waiting();
        let mut driver = self.driver.borrow_mut();
        let is_known = |driver: &Waker| driver.will_wake(context.waker());
        if !driver.as_ref().is_some_and(is_known) {
            *driver = Some(context.waker().clone());
        }
        self.is_woken.set(false);
    }

    /// Wakes as many of the streams that wait as can each write a frame.
    fn wake_waiting(&self) {
        self.is_shared.set(false);
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            return;
        }
        let mut room = self.room();
        while room > 0
            && let Some(state) = waiting.pop_front()
        {
            room = room.saturating_sub(FRAME);
            self.is_shared.set(true);
            state.take_turn();
        }
    }

    /// Bytes that fit into the output.
    fn room(&self) -> usize {
        let waiting = self.connection.borrow_mut().output().len();
        H2_SEND_BYTES.saturating_sub(waiting)
    }

    /// Whether anything fits into the output.
    pub(super) fn has_output_room(&self) -> bool {
        self.room() > 0
    }

    /// Wakes the driver, unless it runs or was woken.
    pub(crate) fn wake_driver(&self) {
        if !self.is_woken.replace(true)
            && let Some(driver) = &*self.driver.borrow()
        {
            driver.wake_by_ref();
        }
    }

    /// The connection, to write into its output.
    fn writer(&self) -> RefMut<'_, Connection> {
        let mut connection = self.connection.borrow_mut();
        let output = connection.output();
        if output.capacity() == 0 {
            *output = self.memory.take_output();
        }
        connection
    }

    /// Takes the output, if there is any.
    pub(super) fn take_output(&self) -> Option<Vec<u8>> {
        let mut connection = self.connection.borrow_mut();
        let output = std::mem::take(connection.output());
        if output.is_empty() {
            self.memory.put_output(output);
            return None;
        }
        connection.output_taken();
        Some(output)
    }

    /// Returns the memory of an output that was sent.
    pub(super) fn put_output(&self, output: Vec<u8>) {
        self.memory.put_output(output);
    }
}

/// For the driver.
impl Session {
    /// Reads on in `input` from `at`, up to the next event.
    ///
    /// # Errors
    ///
    /// The connection must end: its GOAWAY is in the output.
    pub(crate) fn receive(&self, input: &[u8], at: &mut usize) -> Result<Step, ConnectionError> {
        let decoded = &mut self.memory.decoded.borrow_mut();
        self.writer().receive(input, at, decoded)
    }

    /// What heads are decoded into.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// A stream that its client has just opened.
    pub(crate) fn accept(self: &Rc<Self>, key: StreamKey, then: Then) -> Stream {
        let state = Rc::new(StreamState::accepted(key, then));
        self.register(&state);
        Stream::accepted(Rc::clone(self), state)
    }

    /// A stream that is to be opened with its request.
    pub(crate) fn stream_to_open(self: &Rc<Self>) -> Stream {
        Stream::to_open(Rc::clone(self))
    }

    /// Adds a stream to those that are found by their keys.
    fn register(&self, state: &Rc<StreamState>) {
        let mut streams = self.streams.borrow_mut();
        let place = state.key().place();
        if streams.len() <= place {
            streams.resize_with(place.saturating_add(1), || None);
        }
        if let Some(entry) = streams.get_mut(place) {
            *entry = Some(Rc::clone(state));
        }
    }

    fn state(&self, key: StreamKey) -> Option<Rc<StreamState>> {
        let streams = self.streams.borrow();
        let state = streams.get(key.place())?.as_ref()?;
        (state.key() == key).then(|| Rc::clone(state))
    }

    /// Passes the head of a response, which was just decoded, to its stream.
    pub(crate) fn pass_response(&self, key: StreamKey, then: Then) {
        if let Some(state) = self.state(key) {
            let surplus = state.receive_head(self.memory.take_response(), then);
            if let Some(surplus) = surplus {
                self.memory.put_response(surplus);
            }
        }
    }

    /// Passes received bytes to a stream.
    pub(crate) fn pass_data(&self, key: StreamKey, bytes: &[u8], then: Then) {
        if let Some(state) = self.state(key) {
            state.receive(bytes, then, &self.pool);
        }
    }

    /// Passes trailers, which were just decoded, to a stream.
    pub(crate) fn pass_trailers(&self, key: StreamKey) {
        if let Some(state) = self.state(key) {
            state.receive_trailers(&self.memory.decoded.borrow().bytes);
        }
    }

    /// Tells a stream that it was reset.
    pub(crate) fn pass_reset(&self, key: StreamKey, cause: ResetCause) {
        if let Some(state) = self.state(key) {
            state.end(StreamEnd::Reset(cause));
        }
    }

    /// Tells a stream that it can send.
    pub(crate) fn pass_window(&self, key: StreamKey) {
        if let Some(state) = self.state(key) {
            state.wake();
        }
    }

    /// Ends all streams, since the connection has ended. Requests that are still in the output are not sent.
    pub(crate) fn end_streams(&self, why: StreamEnd) {
        if self.is_over.replace(true) {
            return;
        }
        let mut connection = self.connection.borrow_mut();
        for state in self.streams.borrow().iter().flatten() {
            let is_unsent = connection.is_unsent(state.key());
            state.end(if is_unsent { StreamEnd::Unsent } else { why });
        }
        connection.drop_unsent();
        drop(connection);
        self.end_unopened();
        // Requests that wait for the output before they are opened are in neither list.
        for state in self.waiting.take() {
            state.end(why);
        }
    }

    /// Ends the streams that wait to be opened, since none can be any more.
    pub(crate) fn end_unopened(&self) {
        let opening = self.opening.take();
        for state in opening {
            state.end(StreamEnd::Unsent);
        }
    }

    /// Lets as many of the streams that wait to be opened do so as the peer allows.
    pub(crate) fn open_waiting(&self) {
        let mut opening = self.opening.borrow_mut();
        if opening.is_empty() {
            return;
        }
        let connection = self.connection.borrow();
        let mut room = connection.room().saturating_sub(self.allowed.get());
        while room > 0
            && let Some(state) = opening.pop_front()
        {
            room = room.saturating_sub(1);
            state.opening.set(SendTurn::Now);
            self.allowed.set(self.allowed.get().saturating_add(1));
            state.wake();
        }
    }

    /// A stream uses or gives up its turn to open, if it has it.
    fn end_opening_turn(&self, state: &StreamState, next: SendTurn) {
        if state.opening.replace(next) == SendTurn::Now {
            self.allowed.set(self.allowed.get().saturating_sub(1));
        }
    }

    /// Number of streams that have a user, also of those that are to be opened.
    pub(crate) fn users(&self) -> u32 {
        self.users.get()
    }

    /// Whether streams can still be opened, now or when others have ended.
    pub(crate) fn opens_streams(&self) -> bool {
        self.connection.borrow().opens_streams()
    }

    /// The most streams that the peer allows at once.
    pub(crate) fn stream_limit(&self) -> usize {
        self.connection.borrow().stream_limit()
    }

    pub(crate) fn ping(&self) {
        self.writer().ping();
    }

    /// Ends the connection gracefully.
    pub(crate) fn shut_down(&self) {
        self.writer().shut_down();
    }

    /// Ends the connection at once.
    pub(crate) fn fail(&self, code: Code) {
        self.writer().fail(code);
    }

    /// Whether it is to be closed, once its output was sent.
    pub(crate) fn is_finished(&self) -> bool {
        self.connection.borrow().is_finished()
    }

    /// Whether the client's settings were received, which come first.
    pub(crate) fn has_settings(&self) -> bool {
        self.connection.borrow().has_settings()
    }

    /// The number of the head of which `unread` is a part; `None` between heads.
    pub(crate) fn head_being_received(&self, unread: &[u8]) -> Option<u64> {
        let connection = self.connection.borrow();
        let is_within = connection.is_within_head(unread);
        is_within.then(|| connection.sections().saturating_add(1))
    }

    /// What it means that the input ends, of which `unread` is left.
    pub(crate) fn end_of_input(&self, unread: &[u8]) -> EndOfInput {
        self.connection.borrow().end_of_input(unread)
    }

    /// Releases the memory of an idle connection.
    pub(crate) fn release_memory(&self) {
        let mut connection = self.connection.borrow_mut();
        if self.users.get() == 0 {
            self.streams.replace(Vec::new());
            self.waiting.replace(VecDeque::new());
            self.opening.replace(VecDeque::new());
        }
        connection.release_memory();
    }
}

/// For streams.
impl Session {
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    pub(super) fn pool(&self) -> &Rc<BufferPool> {
        &self.pool
    }

    /// A stream has a user. The first and the last one change what the connection waits for.
    pub(super) fn enter(&self) {
        let before = self.users.get();
        self.users.set(before.saturating_add(1));
        if before == 0 {
            self.wake_driver();
        }
    }

    /// Whether the peer accepts extended CONNECT.
    pub(super) fn offers_extended_connect(&self) -> bool {
        self.connection.borrow().offers_extended_connect()
    }

    /// Opens a stream with the head of its request, once the peer allows another one. Those that wait do so
    /// in the order in which they came.
    ///
    /// # Errors
    ///
    /// The connection opens no more streams.
    pub(super) fn poll_open(&self, state: &Rc<StreamState>) -> Poll<Result<(), StreamGone>> {
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
    pub(super) fn open(
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
    pub(super) fn poll_room(&self, state: &Rc<StreamState>) -> Poll<()> {
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
    pub(super) fn respond(
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
    pub(super) fn inform(
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
    pub(super) fn poll_data(
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
    pub(super) fn end_body(&self, state: &StreamState) -> Result<(), StreamGone> {
        let written = self.writer().write_data(state.key(), b"", Then::End);
        self.wake_driver();
        written.map(|_| ())
    }

    /// Ends a body with trailers, which are lines.
    ///
    /// # Errors
    ///
    /// The stream cannot send any more.
    pub(super) fn write_trailers(
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
    pub(super) fn give_back(&self, state: &StreamState, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let mut connection = self.connection.borrow_mut();
        connection.give_back(state.key(), bytes);
        if !connection.output().is_empty() {
            self.wake_driver();
        }
    }

    pub(super) fn reset(&self, state: &StreamState, code: Code) {
        self.writer().reset(state.key(), code);
        self.wake_driver();
    }

    /// A stream has no user any more.
    pub(super) fn release(&self, state: &Rc<StreamState>) {
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

    /// Memory for a head that waits to be sent.
    pub(super) fn take_head(&self) -> HeldHead {
        self.memory.take_head()
    }

    pub(super) fn put_head(&self, head: HeldHead) {
        self.memory.put_head(head);
    }

    /// Returns the memory of a response head.
    pub(super) fn put_response(&self, response: Box<ReceivedHead>) {
        self.memory.put_response(response);
    }
}

/// Bytes that a stream may write in one turn while others wait.
const FRAME: usize = H2_FRAME_BYTES as usize;

impl From<StreamGone> for io::Error {
    fn from(gone: StreamGone) -> Self {
        Self::new(io::ErrorKind::BrokenPipe, gone)
    }
}
