//! Ports for processes whose ports are configured.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::{Deref, Range};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

use socket2::{Domain, Socket, Type};

/// Ports reserved for this test in all processes, until dropped.
///
/// They lie below those that the kernel gives to clients: with one of those, a client that waits
/// for the listener would sooner or later get the port it connects to, and connect to itself (TCP
/// simultaneous open); and other clients' ports would keep the listener from binding.
#[derive(Debug)]
pub(crate) struct Ports {
    numbers: Vec<u16>,
    /// Bound, so that no other process gets them by chance, and never listening: a process that
    /// binds in order to listen (`SO_REUSEADDR`) succeeds. A socket that listened for a moment, to
    /// try a port, would be open for longer in a process that is being forked, and take
    /// connections.
    _held: Vec<Socket>,
}

impl Ports {
    /// So many of them.
    pub(crate) fn free(count: usize) -> Self {
        let held = std::iter::repeat_with(candidate).filter_map(|port| Some((port, hold(port)?)));
        let (numbers, held) = held.take(count).unzip();
        Self {
            numbers,
            _held: held,
        }
    }
}

impl Deref for Ports {
    type Target = [u16];

    fn deref(&self) -> &[u16] {
        &self.numbers
    }
}

fn candidate() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test processes that run side by side start far from one another.
    let start = u16::try_from(process::id() * 151 % u32::from(PORTS)).unwrap_or_default();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    RANGE.start + start.wrapping_add(next) % PORTS
}

/// Reserves a port, if it is free.
fn hold(port: u16) -> Option<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    socket.bind(&any.into()).ok()?;
    // Only now: with it, we would share the port with others that hold it.
    socket.set_reuse_address(true).expect("a socket of ours");
    Some(socket)
}

/// Above the ports of well-known services and of the gateway itself, below Linux' ephemeral ones.
const RANGE: Range<u16> = 16_000..32_000;
const PORTS: u16 = RANGE.end - RANGE.start;
