//! Deadlines of sockets: what happens when a peer takes too long.
//!
//! Arming is one store into the shard's wheel. An operation that is under way is never dropped
//! (its buffer would be lost): expiry shuts the socket down or cancels the read, the operation
//! returns, and its owner asks [`Deadline::expired`] why.

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use super::Shard;
use super::wheel::Handle;
use crate::net::{self, CancelHandle, Canceller, Liveness};

/// What happens at a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// The peer's bytes end here; an answer can still be sent.
    StopReading,
    /// The socket is shut down both ways.
    Disconnect,
    /// The read under way ends with `ECANCELED`, and nothing else happens.
    CancelRead,
    /// Where the peer has left, `other` is shut down both ways; where it has not, look again.
    Watch {
        /// The socket of the peer that works for the one watched.
        other: RawFd,
        /// After how long to look again.
        again: Duration,
    },
}

/// A socket's deadline. One owner; ends with it.
pub(crate) struct Deadline {
    shard: Rc<Shard>,
    handle: Handle,
    state: Rc<Armed>,
}

/// What the wheel knows of a deadline.
pub(crate) struct Armed {
    fd: RawFd,
    expiry: Cell<Expiry>,
    expired: Cell<bool>,
    canceller: RefCell<Option<Canceller>>,
}

impl Deadline {
    /// A deadline for a socket, not armed.
    pub(crate) fn new(shard: &Rc<Shard>, fd: RawFd) -> Self {
        let state = Rc::new(Armed {
            fd,
            expiry: Cell::new(Expiry::Disconnect),
            expired: Cell::new(false),
            canceller: RefCell::new(None),
        });
        let handle = shard.wheel.borrow_mut().insert(Rc::clone(&state));
        Self {
            shard: Rc::clone(shard),
            handle,
            state,
        }
    }

    /// Sets what happens, and when; `None` means never. What was set before is forgotten.
    pub(crate) fn arm(&self, after: Option<Duration>, expiry: Expiry) {
        self.state.expiry.set(expiry);
        let mut wheel = self.shard.wheel.borrow_mut();
        match after {
            Some(after) => wheel.arm(self.handle, self.shard.now().after(after)),
            None => wheel.disarm(self.handle),
        }
    }

    /// Forgets what was set.
    pub(crate) fn disarm(&self) {
        self.shard.wheel.borrow_mut().disarm(self.handle);
    }

    /// Whether it expired since it was last asked.
    pub(crate) fn expired(&self) -> bool {
        self.state.expired.take()
    }

    /// A handle for a read that [`Expiry::CancelRead`] ends.
    pub(crate) fn cancel_handle(&self) -> CancelHandle {
        self.state
            .canceller
            .borrow_mut()
            .get_or_insert_default()
            .handle()
    }

    /// Ends the read that has the handle.
    pub(crate) fn cancel_read(&self) {
        self.state.cancel_read();
    }

    /// Forgets what was set, and gives back what only a busy connection needs.
    pub(crate) fn park(&self) {
        self.disarm();
        self.state.canceller.replace(None);
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.shard.wheel.borrow_mut().remove(self.handle);
    }
}

impl Armed {
    fn cancel_read(&self) {
        let mut canceller = self.canceller.borrow_mut();
        *canceller = canceller.take().map(Canceller::cancel);
    }

    /// Carries out what was set. Says after how long to look again, if at all.
    pub(crate) fn expire(&self) -> Option<Duration> {
        match self.expiry.get() {
            Expiry::StopReading => net::shutdown(self.fd, libc::SHUT_RD),
            Expiry::Disconnect => net::shutdown(self.fd, libc::SHUT_RDWR),
            Expiry::CancelRead => {
                self.cancel_read();
                return None;
            }
            Expiry::Watch { other, again } => {
                if net::liveness(self.fd) != Liveness::Gone {
                    return Some(again);
                }
                net::shutdown(other, libc::SHUT_RDWR);
            }
        }
        self.expired.set(true);
        None
    }
}
