//! How a connection ends: by GOAWAY, after its streams or at once.

use super::control::DRAIN_PING;
use super::{Connection, Role};
use crate::http::engine::error::Code;
use crate::http::engine::frame;
use crate::limits::MAX_H2_WINDOW_BYTES;

/// How a connection is being closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    No,
    /// The client was told that no more streams are wanted, and its acknowledgement is to come: streams
    /// that are on the way are served.
    Announced,
    /// Streams above this one are ignored.
    Final {
        last: u32,
    },
    /// It has failed: nothing more is read or written.
    Failed,
}

/// Whether a connection that the peer has closed was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndOfInput {
    /// It ended between frames.
    BetweenFrames,
    /// It ended within a frame or a field block.
    CutOff,
}

impl Connection {
    /// Ends the connection gracefully: open streams continue. As a server, a first GOAWAY allows all
    /// streams, until the acknowledgement of a PING shows that the client has read it (RFC 9113 section
    /// 6.8).
    pub fn shut_down(&mut self) {
        if self.closing != Closing::No {
            return;
        }
        match self.options.role {
            Role::Server => {
                self.closing = Closing::Announced;
                let all = MAX_H2_WINDOW_BYTES;
                frame::write_go_away(&mut self.output, all, Code::NO_ERROR);
                frame::write_ping(&mut self.output, 0, DRAIN_PING);
            }
            Role::Client => {
                self.closing = Closing::Final { last: 0 };
                frame::write_go_away(&mut self.output, 0, Code::NO_ERROR);
            }
        }
    }

    /// The client has read the first GOAWAY.
    pub(super) fn finish_drain(&mut self) {
        if self.closing == Closing::Announced {
            let last = self.highest;
            self.closing = Closing::Final { last };
            frame::write_go_away(&mut self.output, last, Code::NO_ERROR);
        }
    }

    /// Ends the connection at once.
    pub fn fail(&mut self, code: Code) {
        if self.closing == Closing::Failed {
            return;
        }
        self.closing = Closing::Failed;
        let last = match self.options.role {
            Role::Server => self.highest,
            Role::Client => 0,
        };
        frame::write_go_away(&mut self.output, last, code);
    }

    /// Whether a connection that was shut down has no streams left, or has failed: it is to be closed
    /// once its output was sent.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match self.closing {
            Closing::No | Closing::Announced => false,
            Closing::Final { .. } => self.streams.len() == 0,
            Closing::Failed => true,
        }
    }

    /// Whether the peer has sent GOAWAY.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.peer_last.is_some()
    }

    /// What it means that the input ends, of which `unread` is left.
    #[must_use]
    pub fn end_of_input(&self, unread: &[u8]) -> EndOfInput {
        if unread.is_empty() && self.block.is_none() {
            EndOfInput::BetweenFrames
        } else {
            EndOfInput::CutOff
        }
    }
}
