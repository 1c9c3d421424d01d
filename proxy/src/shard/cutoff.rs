//! Shutting a channel down from outside of its task, as deadlines do.

use std::os::fd::RawFd;
use std::rc::Rc;

use super::signals::Signals;
use crate::net::{self, Liveness};

/// What is needed to end a channel whose owner waits for it.
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
    /// The peer's bytes end here.
    pub(crate) fn stop_reading(&self) {
        match self {
            Self::Socket(fd) => net::shutdown(*fd, libc::SHUT_RD),
            Self::Stream(signals) => signals.stop_reading(),
        }
    }

    /// Nothing goes either way any more.
    pub(crate) fn disconnect(&self) {
        match self {
            Self::Socket(fd) => net::shutdown(*fd, libc::SHUT_RDWR),
            Self::Stream(signals) => signals.disconnect(),
        }
    }

    /// Breaks it off, so that the peer cannot take what came for whole.
    pub(crate) fn reset(&self) {
        match self {
            Self::Socket(fd) => net::reset(*fd),
            Self::Stream(signals) => signals.disconnect(),
        }
    }

    /// Bytes that the peer has taken since the channel began, as far as is known: what its kernel has
    /// acknowledged, or what its stream's window had room for.
    pub(crate) fn taken(&self) -> u64 {
        match self {
            Self::Socket(fd) => net::acknowledged(*fd),
            Self::Stream(signals) => signals.taken(),
        }
    }

    /// Whether the peer is still there.
    pub(crate) fn liveness(&self) -> Liveness {
        match self {
            Self::Socket(fd) => net::liveness(*fd),
            Self::Stream(signals) => signals.liveness(),
        }
    }
}
