//! A connection as its driver and its streams share it.
//!
//! Streams write into the connection's output while they run, and wake the driver once; it sends the
//! output at the end of its turn. A stream that finds the output full, or others waiting for it, waits for
//! its turn, in which it writes one frame.

mod streams;

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use super::memory::Memory;
use super::stream::{SendTurn, Stream, StreamEnd, StreamState};
use crate::http::engine::error::{Code, ConnectionError, ResetCause};
use crate::http::engine::{Connection, EndOfInput, Options, Pressure, Step, StreamKey, Then};
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
        let state = self.memory.take_state();
        state.accept(key, then);
        self.register(&state);
        Stream::new(Rc::clone(self), state)
    }

    /// A stream that is to be opened with its request.
    pub(crate) fn stream_to_open(self: &Rc<Self>) -> Stream {
        Stream::new(Rc::clone(self), self.memory.take_state())
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

/// Bytes that a stream may write in one turn while others wait.
const FRAME: usize = H2_FRAME_BYTES as usize;
