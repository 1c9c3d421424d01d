//! The open client connections of a shard, so that a drain finds them.

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::Rc;

use crate::net;

/// The open client connections of a shard.
#[derive(Default)]
pub(crate) struct Registry {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    open: Cell<usize>,
}

#[derive(Clone, Copy)]
struct Slot {
    fd: RawFd,
    bind: u32,
    state: ClientState,
}

/// What a client connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientState {
    /// No connection is in this slot.
    Free,
    /// Between two requests.
    Idle,
    /// A request is under way, or its first bytes.
    Busy,
}

/// A connection's place in the registry; leaves it when dropped.
pub(crate) struct Registered {
    shard: Rc<super::Shard>,
    slot: u32,
}

impl Registry {
    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.open.get()
    }

    /// Shuts the idle connections down, where `which` says so of their bind. How many there were.
    pub(crate) fn close_idle(&self, which: impl Fn(u32) -> bool) -> usize {
        self.shut(libc::SHUT_RD, |slot| {
            slot.state == ClientState::Idle && which(slot.bind)
        })
    }

    /// Shuts every connection down. How many there were.
    pub(crate) fn close_all(&self) -> usize {
        self.shut(libc::SHUT_RDWR, |slot| slot.state != ClientState::Free)
    }

    fn shut(&self, how: libc::c_int, which: impl Fn(&Slot) -> bool) -> usize {
        let slots = self.slots.borrow();
        let chosen = slots.iter().filter(|slot| which(slot));
        chosen.map(|slot| net::shutdown(slot.fd, how)).count()
    }
}

impl Registered {
    /// Enters a connection of `bind`.
    pub(crate) fn new(shard: &Rc<super::Shard>, fd: RawFd, bind: u32) -> Self {
        let registry = &shard.clients;
        let entry = Slot {
            fd,
            bind,
            state: ClientState::Busy,
        };
        let mut slots = registry.slots.borrow_mut();
        let free = registry.free.borrow_mut().pop();
        let slot = free.unwrap_or_else(|| {
            slots.push(entry);
            u32::try_from(slots.len() - 1).expect("descriptors are fewer than 2^32")
        });
        slots[slot as usize] = entry;
        registry.open.set(registry.open.get() + 1);
        shard.counters.clients.up();
        Self {
            shard: Rc::clone(shard),
            slot,
        }
    }

    /// Says what the connection is doing.
    pub(crate) fn set(&self, state: ClientState) {
        self.shard.clients.slots.borrow_mut()[self.slot as usize].state = state;
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.set(ClientState::Free);
        let registry = &self.shard.clients;
        registry.free.borrow_mut().push(self.slot);
        registry.open.set(registry.open.get() - 1);
        self.shard.counters.clients.down();
    }
}
