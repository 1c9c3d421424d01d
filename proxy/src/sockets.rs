//! Listening sockets: bound once, kept by the supervisor, lent to the shards as duplicates.
//!
//! Each shard has a socket of its own on the port (SO_REUSEPORT), so that the kernel spreads
//! connections and no shard waits for another's accept. A socket is never closed for a change of
//! configuration: closing it would reset whatever waits in its queue.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::limits::{ACCEPT_BACKLOG, KEEPALIVE_AFTER};

/// Binds one listening socket for each of `shards`.
///
/// # Errors
/// Another process has the port, we may not bind it, or the address is not ours.
pub fn bind(address: SocketAddr, shards: usize) -> io::Result<Vec<OwnedFd>> {
    match bind_all(address, shards) {
        // A machine without IPv6 still has every IPv4 address.
        Err(error)
            if address.ip().is_unspecified()
                && address.is_ipv6()
                && matches!(
                    error.raw_os_error(),
                    Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
                ) =>
        {
            bind_all((Ipv4Addr::UNSPECIFIED, address.port()).into(), shards)
        }
        result => result,
    }
}

fn bind_all(address: SocketAddr, shards: usize) -> io::Result<Vec<OwnedFd>> {
    // With SO_REUSEPORT alone, another process of ours could take half of the connections: a
    // socket without it tells whether anybody else is there.
    drop(socket(address, Sharing::Alone)?);
    (0..shards)
        .map(|_| socket(address, Sharing::Reuseport).map(OwnedFd::from))
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    Reuseport,
}

fn socket(address: SocketAddr, sharing: Sharing) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    if sharing == Sharing::Reuseport {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    if sharing == Sharing::Reuseport {
        // Accepted sockets inherit both.
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_AFTER))?;
        socket.listen(ACCEPT_BACKLOG)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

    use super::bind;

    fn free() -> SocketAddr {
        let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        probe.local_addr().expect("it is bound")
    }

    #[test]
    fn every_shard_gets_a_socket_of_the_port() {
        let address = free();
        assert_eq!(bind(address, 3).expect("the port is free").len(), 3);
    }

    #[test]
    fn a_port_of_another_process_is_an_error_even_if_it_would_share() {
        let address = free();
        let _other = bind(address, 1).expect("the port is free");
        let error = bind(address, 1).expect_err("it is taken");
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    }

    #[test]
    fn clients_are_queued_before_anyone_accepts() {
        let address = free();
        let _sockets = bind(address, 2).expect("the port is free");
        TcpStream::connect(address).expect("the kernel answers");
    }
}
