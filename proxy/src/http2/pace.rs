//! Timeouts of an HTTP/2 peer, and which of them has closed its connection.

use std::time::Duration;

/// Timeouts of the peer; `None` disables one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// From a head's first byte to its last.
    pub(crate) head: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    pub(crate) write: Option<Duration>,
    pub(crate) parks: BufferParking,
}

/// Whether a connection without streams returns its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BufferParking {
    Yes,
    /// No: such connections are few, and reuse must not wait for the socket.
    No,
}

/// Why a connection has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A head was incomplete for too long.
    HeadLate,
    /// The peer owed bytes, and did not respond to a PING.
    Silent,
    Idle,
}
