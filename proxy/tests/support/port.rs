//! Ports that are free, for processes that are told theirs.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports that were free a moment ago, each given out once by this process.
///
/// They lie below those that the kernel gives to clients: with one of those, a client that waits for
/// the listener would sooner or later be given the very port it connects to, and meet itself (TCP
/// simultaneous open); and other clients' ports would keep the listener from binding.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    std::iter::repeat_with(candidate)
        .filter(|port| is_free(*port))
        .take(count)
        .collect()
}

fn candidate() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test processes that run side by side start far from one another.
    let start = u16::try_from(process::id() * 151 % u32::from(PORTS)).unwrap_or_default();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    RANGE.start + start.wrapping_add(next) % PORTS
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

/// Above the ports of well-known services and of the gateway itself, below Linux' ephemeral ones.
const RANGE: Range<u16> = 16_000..32_000;
const PORTS: u16 = RANGE.end - RANGE.start;
