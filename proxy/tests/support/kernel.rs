//! The kernel's state of a connection between two sockets of this machine.

use std::net::{SocketAddr, TcpStream};

/// Bytes that the other end of a connection over IPv4 has received and its process has not read;
/// `None` if it is closed.
pub(crate) fn unread_by_peer(stream: &TcpStream) -> Option<usize> {
    let ports = [stream.peer_addr(), stream.local_addr()];
    let [theirs, ours] = ports.map(|address| address.as_ref().map_or(0, SocketAddr::port));
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    table.lines().skip(1).find_map(|line| {
        // Its number, its address, ours, the state, and what waits to be sent and to be read.
        let mut columns = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (columns.next()?, columns.next()?);
        if (port(local)?, port(remote)?) != (theirs, ours) {
            return None;
        }
        let (_, unread) = columns.nth(1)?.split_once(':')?;
        usize::from_str_radix(unread, 16).ok()
    })
}

fn port(address: &str) -> Option<u16> {
    u16::from_str_radix(address.split_once(':')?.1, 16).ok()
}
