//! The connections of a shard that receive the rest of a request after its response, oldest first: if
//! there are too many, the oldest ones are closed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::RawFd;

use super::wheel::Tick;
use crate::limits::LINGERING_SHARE;
use crate::net;

#[derive(Default)]
pub(crate) struct Lingering {
    /// By the order of their entries.
    sockets: RefCell<BTreeMap<u64, Socket>>,
    entered: Cell<u64>,
}

struct Socket {
    fd: RawFd,
    since: Tick,
}

/// A connection's entry, removed on drop.
pub(crate) struct LingeringPlace<'a> {
    list: &'a Lingering,
    number: u64,
}

impl Lingering {
    /// Adds a socket of a shard with room for this many clients, at this time. The oldest ones beyond their
    /// share are shut down, which their tasks notice.
    pub(crate) fn enter(&self, fd: RawFd, room: usize, since: Tick) -> LingeringPlace<'_> {
        let number = self.entered.get();
        self.entered.set(number.wrapping_add(1));
        let mut sockets = self.sockets.borrow_mut();
        sockets.insert(number, Socket { fd, since });
        while sockets.len() > (room / LINGERING_SHARE).max(1) {
            if let Some((_, oldest)) = sockets.pop_first() {
                net::shutdown(oldest.fd, libc::SHUT_RDWR);
            }
        }
        LingeringPlace { list: self, number }
    }

    /// Shuts down the sockets selected by the time when they were added.
    pub(crate) fn close_since(&self, which: impl Fn(Tick) -> bool) {
        let mut sockets = self.sockets.borrow_mut();
        while let Some(oldest) = sockets
            .first_entry()
            .filter(|oldest| which(oldest.get().since))
        {
            net::shutdown(oldest.remove().fd, libc::SHUT_RDWR);
        }
    }
}

impl Drop for LingeringPlace<'_> {
    fn drop(&mut self) {
        self.list.sockets.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::Lingering;
    use crate::shard::wheel::Tick;

    fn is_closed(peer: &mut UnixStream) -> bool {
        peer.set_nonblocking(true).expect("a socket");
        matches!(peer.read(&mut [0]), Ok(0))
    }

    #[test]
    fn the_oldest_lingering_connections_are_closed_beyond_a_quarter_of_the_room() {
        let list = Lingering::default();
        let mut pairs: Vec<_> = (0..4)
            .map(|_| UnixStream::pair().expect("two sockets"))
            .collect();
        let enter = |at: usize| list.enter(pairs[at].0.as_raw_fd(), 8, Tick::default());
        let (first, second) = (enter(0), enter(1));
        drop(first);
        let third = enter(2);
        let fourth = enter(3);
        drop((second, third, fourth));
        let closed: Vec<bool> = pairs.iter_mut().map(|(_, peer)| is_closed(peer)).collect();
        assert_eq!(closed, [false, true, false, false]);
        assert!(list.sockets.borrow().is_empty());
    }

    #[test]
    fn lingering_connections_are_closed_by_their_age() {
        let list = Lingering::default();
        let mut pairs: Vec<_> = (0..3)
            .map(|_| UnixStream::pair().expect("two sockets"))
            .collect();
        let now = |at: usize| Tick::at(Duration::from_secs(at as u64));
        let places: Vec<_> = (0..3)
            .map(|at| list.enter(pairs[at].0.as_raw_fd(), 100, now(at)))
            .collect();
        list.close_since(|since| since <= now(1));
        drop(places);
        let closed: Vec<bool> = pairs.iter_mut().map(|(_, peer)| is_closed(peer)).collect();
        assert_eq!(closed, [true, true, false]);
    }
}
