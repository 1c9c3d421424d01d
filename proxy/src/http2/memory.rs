//! Working memory that the HTTP/2 connections of a shard share, so that a connection without streams has
//! next to none.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use super::session::Session;
use super::stream::{ReceivedHead, StreamState};
use crate::http::engine::{Decoded, HeldHead, Pressure};
use crate::limits::{H2_SEND_BYTES, SMALL_BUFFER_BYTES};
use crate::memory::FreeList;

/// The memory.
#[derive(Default)]
pub(crate) struct Memory {
    /// Heads are decoded into it.
    pub(crate) decoded: RefCell<Decoded>,
    outputs: FreeList<Vec<u8>>,
    heads: FreeList<HeldHead>,
    responses: FreeList<Box<ReceivedHead>>,
    /// Of streams that have ended.
    states: FreeList<Rc<StreamState>>,
    pressure: Cell<Pressure>,
    /// Connections whose windows are smaller because of it.
    pressed: RefCell<Vec<Weak<Session>>>,
}

impl Memory {
    /// Memory for bytes to be sent.
    pub(super) fn take_output(&self) -> Vec<u8> {
        self.outputs.take().unwrap_or_default()
    }

    /// Returns it; unusually much is freed.
    pub(super) fn put_output(&self, mut output: Vec<u8>) {
        if (1..=MAX_KEPT_OUTPUT).contains(&output.capacity()) {
            output.clear();
            self.outputs.put(output);
        }
    }

    /// Memory for a head that waits to be sent.
    pub(super) fn take_head(&self) -> HeldHead {
        self.heads.take().unwrap_or_default()
    }

    pub(super) fn put_head(&self, head: HeldHead) {
        if head.capacity() <= MAX_KEPT_HEAD {
            self.heads.put(head);
        }
    }

    /// Takes the response head that was just decoded.
    #[expect(
        clippy::unnecessary_box_returns,
        reason = "it is moved several times: into its stream, and out"
    )]
    pub(super) fn take_response(&self) -> Box<ReceivedHead> {
        let mut response = self.responses.take().unwrap_or_default();
        let decoded = &mut *self.decoded.borrow_mut();
        std::mem::swap(&mut response.bytes, &mut decoded.bytes);
        std::mem::swap(&mut response.head, &mut decoded.response);
        response
    }

    /// Returns the memory of a response head.
    pub(super) fn put_response(&self, response: Box<ReceivedHead>) {
        if response.bytes.capacity() <= MAX_KEPT_HEAD {
            self.responses.put(response);
        }
    }

    /// Memory for a stream that is to be opened, or accepted.
    pub(super) fn take_state(&self) -> Rc<StreamState> {
        self.states.take().unwrap_or_default()
    }

    /// Returns it; nobody else knows it.
    pub(super) fn put_state(&self, state: Rc<StreamState>) {
        self.states.put(state);
    }

    /// The state of the shard's memory.
    pub(super) fn pressure(&self) -> Pressure {
        self.pressure.get()
    }

    /// Sets it. When it relaxes, connections are woken: their peers may wait for windows.
    pub(crate) fn set_pressure(&self, pressure: Pressure) {
        if pressure < self.pressure.replace(pressure) {
            for session in self.pressed.take().iter().filter_map(Weak::upgrade) {
                session.relieve();
            }
        }
    }

    /// A connection is to be woken when the pressure relaxes.
    pub(super) fn await_relief(&self, session: &Rc<Session>) {
        let mut pressed = self.pressed.borrow_mut();
        if pressed.len() == pressed.capacity() {
            // Some have ended meanwhile: as many as came since it was last full, or it grows.
            pressed.retain(|other| other.strong_count() > 0);
        }
        pressed.push(Rc::downgrade(session));
    }

    /// Frees what was not used since the last call. Returns how many pieces.
    pub(crate) fn trim(&self) -> usize {
        let outputs = self.outputs.trim(drop);
        let heads = self.heads.trim(drop);
        let responses = self.responses.trim(drop);
        let states = self.states.trim(drop);
        let all = [outputs, heads, responses, states];
        all.into_iter().fold(0, usize::saturating_add)
    }
}

/// Capacity of the largest head that is kept: hardly any is longer.
const MAX_KEPT_HEAD: usize = SMALL_BUFFER_BYTES;

/// Capacity of the largest output that is kept: the vector of a full send has doubled beyond it once.
const MAX_KEPT_OUTPUT: usize = H2_SEND_BYTES.saturating_mul(2);
