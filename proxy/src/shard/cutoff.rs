//! Shuts down a channel from outside of its task, as deadlines do.

use std::os::fd::RawFd;
use std::rc::Rc;

use super::signals::Signals;
use crate::net::{self, Liveness};

/// A handle to end a channel that its owner waits for.
#[derive(Clone)]
pub(crate) enum Cutoff {
    Socket(RawFd),
    Stream(Rc<Signals>),
}

impl From<RawFd> for Cutoff {
    fn from(fd: RawFd) -> Self {
        Self::Socket(fd)
    }
}

impl Cutoff {
    /// Shuts down the receiving direction.
    pub(crate) fn stop_reading(&self) {
        match self {
            Self::Socket(fd) => net::shutdown(*fd, libc::SHUT_RD),
            Self::Stream(signals) => signals.stop_reading(),
        }
    }

    /// Shuts down both directions.
    pub(crate) fn disconnect(&self) {
        match self {
            Self::Socket(fd) => net::shutdown(*fd, libc::SHUT_RDWR),
            Self::Stream(signals) => signals.disconnect(),
        }
    }

    /// Resets it, so that the peer does not take a truncated message for a complete one.
    pub(crate) fn reset(&self) {
        match self {
            Self::Socket(fd) => net::reset(*fd),
            Self::Stream(signals) => signals.disconnect(),
        }
    }

    /// Bytes that the peer has received so far, as far as known: acknowledged by its kernel, or
    /// within its stream's window.
    pub(crate) fn taken(&self) -> u64 {
        match self {
            Self::Socket(fd) => net::acknowledged(*fd),
            Self::Stream(signals) => signals.taken(),
        }
    }

    /// Probes the peer of a socket, which may not exist any more.
    pub(crate) fn probe(&self) {
        if let Self::Socket(fd) = self {
            net::probe(*fd);
        }
    }

    /// Whether the peer is still connected.
    pub(crate) fn liveness(&self) -> Liveness {
        match self {
            Self::Socket(fd) => net::liveness(*fd),
            Self::Stream(signals) => signals.liveness(),
        }
    }
}
