//! Listening sockets: bound once, held by the supervisor, and lent to the shards as duplicates.
//!
//! Each shard has its own socket on the port (`SO_REUSEPORT`), so that the kernel distributes
//! connections and no shard waits for another's accept. A socket stays open through configuration
//! changes that keep its address: closing it would reset the connections in its queue.

#![expect(unsafe_code, reason = "listen(2) and a filter on a listening socket")]

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use xds::model::Transport;

use crate::limits::{ACCEPT_BACKLOG, KEEPALIVE_AFTER};

/// The listening sockets of an address, one per shard. The port is free again when the supervisor
/// and the last shard have dropped them.
#[derive(Debug)]
pub struct Listening {
    transport: Transport,
    address: SocketAddr,
    sockets: Vec<OwnedFd>,
}

impl Listening {
    /// Binds one listening socket for each of `shards`.
    ///
    /// # Errors
    ///
    /// The port is in use or not permitted, or the address is not one of this machine.
    pub fn bind(transport: Transport, address: SocketAddr, shards: usize) -> io::Result<Self> {
        let sockets = bind(transport, address, shards)?;
        Ok(Self {
            transport,
            address,
            sockets,
        })
    }

    /// Transport protocol of the sockets.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Address that the sockets are bound to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A duplicate of a shard's socket, which listens, whatever was done to it before.
    ///
    /// # Errors
    ///
    /// No descriptor is left, or the kernel does not let it listen again.
    pub(crate) fn duplicate(&self, shard: u16) -> io::Result<OwnedFd> {
        let socket = self.sockets.get(usize::from(shard));
        let socket = socket.ok_or(io::ErrorKind::NotFound)?.try_clone()?;
        if self.transport == Transport::Udp {
            return Ok(socket);
        }
        admit_clients(socket.as_raw_fd());
        // SAFETY: listen takes plain integers. On a socket that listens it changes nothing.
        if unsafe { libc::listen(socket.as_raw_fd(), ACCEPT_BACKLOG) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(socket)
    }
}

/// Rejects new TCP handshakes; those in progress complete. The client notices nothing and retries
/// after a second.
pub(crate) fn refuse_clients(socket: RawFd) {
    let mut steps = SYN_FILTER;
    let program = libc::sock_fprog {
        len: u16::try_from(steps.len()).unwrap_or_default(),
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the pointer and size name a live program, which the kernel copies. If it fails,
    // clients that arrive in the last moment are reset.
    unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            libc::socklen_t::try_from(size_of_val(&program)).unwrap_or_default(),
        );
    }
}

fn admit_clients(socket: RawFd) {
    let unused: libc::c_int = 0;
    // SAFETY: the pointer and size name a live integer. Without a filter it fails harmlessly.
    unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_DETACH_FILTER,
            (&raw const unused).cast(),
            libc::socklen_t::try_from(size_of_val(&unused)).unwrap_or_default(),
        );
    }
}

/// Drops segments with SYN and without ACK. A filter of a TCP socket sees a segment from its TCP
/// header on, whose byte 13 has the flags.
const SYN_FILTER: [libc::sock_filter; 5] = {
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    const FLAGS_AT: u32 = 13;
    const fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        #[expect(clippy::cast_possible_truncation, reason = "codes are below 256")]
        let code = code as u16;
        libc::sock_filter { code, jt, jf, k }
    }
    [
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, FLAGS_AT),
        step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, SYN | ACK),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, SYN),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ]
};

fn bind(transport: Transport, address: SocketAddr, shards: usize) -> io::Result<Vec<OwnedFd>> {
    match bind_all(transport, address, shards) {
        // A machine without IPv6 still has every IPv4 address.
        Err(error)
            if address.ip().is_unspecified()
                && address.is_ipv6()
                && matches!(
                    error.raw_os_error(),
                    Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
                ) =>
        {
            bind_all(
                transport,
                (Ipv4Addr::UNSPECIFIED, address.port()).into(),
                shards,
            )
        }
        result => result,
    }
}

fn bind_all(transport: Transport, address: SocketAddr, shards: usize) -> io::Result<Vec<OwnedFd>> {
    // With SO_REUSEPORT alone, another process of the same user could take half of the connections:
    // binding without it detects that.
    drop(socket(transport, address, Sharing::Exclusive)?);
    (0..shards)
        .map(|_| socket(transport, address, Sharing::Reuseport).map(OwnedFd::from))
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Exclusive,
    Reuseport,
}

fn socket(transport: Transport, address: SocketAddr, sharing: Sharing) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = match transport {
        Transport::Tcp => Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?,
        Transport::Udp => Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?,
    };
    if transport == Transport::Tcp {
        // For UDP this would share the port with any process.
        socket.set_reuse_address(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    if sharing == Sharing::Reuseport {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&address.into())?;
    if transport == Transport::Udp {
        report_local_address(&socket, address)?;
        // Datagrams are received without waiting, on either driver.
        socket.set_nonblocking(true)?;
    } else if sharing == Sharing::Reuseport {
        // Accepted sockets inherit both.
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_AFTER))?;
        socket.listen(ACCEPT_BACKLOG)?;
    }
    Ok(socket)
}

/// Makes the kernel report with each datagram which of our addresses it was sent to: responses have
/// to come from there.
fn report_local_address(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    let (level, option) = if address.is_ipv4() {
        (libc::IPPROTO_IP, libc::IP_PKTINFO)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
    };
    let on: libc::c_int = 1;
    // SAFETY: the pointer and size name a live integer.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            libc::socklen_t::try_from(size_of_val(&on)).unwrap_or_default(),
        )
    };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

    use super::Transport;

    fn bind(address: SocketAddr, shards: usize) -> std::io::Result<Vec<std::os::fd::OwnedFd>> {
        super::bind(Transport::Tcp, address, shards)
    }

    fn free() -> SocketAddr {
        let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        probe.local_addr().expect("it is bound")
    }

    #[test]
    fn every_shard_gets_a_socket_for_the_port() {
        let address = free();
        assert_eq!(bind(address, 3).expect("the port is free").len(), 3);
    }

    #[test]
    fn a_port_bound_by_another_process_is_an_error_despite_so_reuseport() {
        let address = free();
        let _other = bind(address, 1).expect("the port is free");
        let error = bind(address, 1).expect_err("it is taken");
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    }

    #[test]
    fn connections_are_queued_before_the_first_accept() {
        let address = free();
        let _sockets = bind(address, 2).expect("the port is free");
        TcpStream::connect(address).expect("the kernel answers");
    }
}
