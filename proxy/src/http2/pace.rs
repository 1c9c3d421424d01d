//! How long an HTTP/2 peer may take, and why its connection ends when it takes longer.

use std::time::Duration;

use crate::http::h2::guard::Abuse;
use crate::shard::deadline::Deadline;

/// Deadlines of the two directions.
#[derive(Clone, Copy)]
pub(crate) struct Deadlines<'a> {
    pub(crate) reads: &'a Deadline,
    pub(crate) writes: &'a Deadline,
}

/// How long the peer may take. `None` never ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// From a head's first byte to its last.
    pub(crate) head: Option<Duration>,
    /// Without a stream.
    pub(crate) idle: Option<Duration>,
    /// To take bytes.
    pub(crate) write: Option<Duration>,
    pub(crate) parks: Parks,
}

/// Whether a connection without streams gives its buffer back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parks {
    Yes,
    /// There are few, and whoever uses one again does not find it waiting for the socket alone.
    No,
}

/// Why a connection is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The peer does something too often.
    Abuse(Abuse),
    /// It began a head and did not come to its end.
    HeadLate,
    /// It owes bytes, and gave no sign of life.
    Silent,
    /// Nobody has used it for long.
    Idle,
}
