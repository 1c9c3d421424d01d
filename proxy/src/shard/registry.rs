//! The open client connections of a shard, for closing them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::task::Waker;

use super::open_connections::{ConnectionKey, OpenConnections};
use super::wheel::Tick;
use crate::names::Interned;
use crate::net;

/// The open client connections of a shard.
#[derive(Default)]
pub(crate) struct Registry {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    open: Cell<usize>,
    /// Wakers of connections that are notified of a drain, by slot.
    listening: RefCell<HashMap<u32, Waker>>,
}

#[derive(Clone, Copy)]
struct Slot {
    fd: RawFd,
    bind: u32,
    state: ClientState,
    /// When it entered this state.
    since: Tick,
    /// What it is counted by where the connections of a client are limited.
    client: Option<ConnectionKey>,
}

/// The state of a client connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientState {
    /// The slot is free.
    Free,
    Idle,
    /// A request is in progress, or its first bytes have arrived.
    Busy,
}

/// A connection's entry, removed on drop.
pub(crate) struct Registered {
    shard: Rc<super::Shard>,
    slot: u32,
}

impl Registry {
    /// Number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.get()
    }

    /// Closes the idle connections of binds selected by `which`. Returns how many.
    pub(crate) fn close_idle(&self, which: impl Fn(u32) -> bool) -> usize {
        let idle = |slot: &Slot| slot.state == ClientState::Idle && which(slot.bind);
        self.each(idle, |fd| net::shutdown(fd, libc::SHUT_RD))
    }

    /// Wakes connections that close themselves, to check whether to.
    pub(crate) fn wake_listening(&self) {
        self.listening
            .borrow()
            .values()
            .for_each(Waker::wake_by_ref);
    }

    /// Closes connections by the time since when they are idle.
    pub(crate) fn close_idle_since(&self, which: impl Fn(Tick) -> bool) -> usize {
        let idle = |slot: &Slot| slot.state == ClientState::Idle && which(slot.since);
        self.each(idle, |fd| net::shutdown(fd, libc::SHUT_RD))
    }

    /// Closes at most `max` idle connections. Returns how many.
    pub(crate) fn close_idle_some(&self, max: usize) -> usize {
        let left = Cell::new(max);
        let some = |slot: &Slot| {
            let chosen = slot.state == ClientState::Idle && left.get() > 0;
            left.set(left.get() - usize::from(chosen));
            chosen
        };
        self.each(some, |fd| net::shutdown(fd, libc::SHUT_RD))
    }

    /// Takes back what the connections of a shard that has panicked have counted: its tasks are not dropped.
    pub(crate) fn uncount(&self, counts: &OpenConnections) {
        for slot in self.slots.borrow_mut().iter_mut() {
            if slot.state != ClientState::Free
                && let Some(client) = slot.client.take()
            {
                counts.leave(client);
            }
        }
    }

    /// Resets every connection. Returns how many.
    pub(crate) fn reset_all(&self) -> usize {
        self.each(|slot| slot.state != ClientState::Free, net::reset)
    }

    fn each(&self, which: impl Fn(&Slot) -> bool, end: impl Fn(RawFd)) -> usize {
        let slots = self.slots.borrow();
        let chosen = slots.iter().filter(|slot| which(slot));
        chosen.map(|slot| end(slot.fd)).count()
    }
}

impl Registered {
    /// Adds a connection of `bind`.
    pub(crate) fn new(shard: &Rc<super::Shard>, fd: RawFd, bind: u32) -> Self {
        let registry = &shard.clients;
        let entry = Slot {
            fd,
            bind,
            state: ClientState::Busy,
            since: shard.now(),
            client: None,
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
        let counters = shard.counters.binds.of(Interned::bind(bind));
        counters.accepted.increment();
        counters.connections.up();
        Self {
            shard: Rc::clone(shard),
            slot,
        }
    }

    /// Sets what the connection is counted by, until it ends.
    pub(crate) fn count_by(&self, client: ConnectionKey) {
        self.shard.clients.slots.borrow_mut()[self.slot as usize].client = Some(client);
    }

    /// Registers `waker` to be woken when connections may have to close.
    pub(crate) fn listen_for_drain(&self, waker: &Waker) {
        let mut listening = self.shard.clients.listening.borrow_mut();
        listening.insert(self.slot, waker.clone());
    }

    /// Sets the state of the connection.
    pub(crate) fn set(&self, state: ClientState) {
        let slot = &mut self.shard.clients.slots.borrow_mut()[self.slot as usize];
        slot.state = state;
        slot.since = self.shard.now();
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let Slot { bind, client, .. } = self.shard.clients.slots.borrow()[self.slot as usize];
        if let Some(client) = client {
            self.shard.client_connections.leave(client);
        }
        let counters = self.shard.counters.binds.of(Interned::bind(bind));
        counters.connections.down();
        self.set(ClientState::Free);
        let registry = &self.shard.clients;
        registry.listening.borrow_mut().remove(&self.slot);
        registry.free.borrow_mut().push(self.slot);
        registry.open.set(registry.open.get() - 1);
        self.shard.counters.clients.down();
    }
}
