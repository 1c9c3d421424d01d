//! Datagram sockets, with the local address of each datagram.
//!
//! They never block: wait for readability, then receive. A datagram that cannot be sent at once is
//! dropped.

#![expect(
    unsafe_code,
    reason = "recvmsg(2) and sendmsg(2) with the address that a datagram was sent to"
)]

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use monoio::net::udp::UdpSocket;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::descriptor::shutdown;

pub(crate) struct Datagrams {
    fd: RawFd,
    /// For waiting; closes it on drop.
    socket: UdpSocket,
}

/// Length and addresses of a received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    /// Bytes of the payload.
    pub(crate) len: usize,
    /// Whether it was truncated.
    pub(crate) is_cut: bool,
    pub(crate) from: SocketAddr,
    /// The local address that it was sent to, if reported.
    pub(crate) to: Option<IpAddr>,
}

impl Datagrams {
    /// Adopts a bound socket, whose options are set.
    ///
    /// # Errors
    ///
    /// The runtime cannot adopt it.
    pub(crate) fn bound(socket: OwnedFd) -> io::Result<Self> {
        let fd = socket.as_raw_fd();
        let socket = UdpSocket::from_std(socket.into())?;
        Ok(Self { fd, socket })
    }

    /// A socket connected to one address, which reports errors on the way there.
    ///
    /// # Errors
    ///
    /// No descriptor is left, or there is no route.
    pub(crate) fn connected(peer: SocketAddr) -> io::Result<Self> {
        let domain = Domain::for_address(peer);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        socket.connect(&peer.into())?;
        Self::bound(socket.into())
    }

    /// Waits until a datagram is available. Cancel-safe: it holds no bytes.
    ///
    /// # Errors
    ///
    /// Errors of poll(2).
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.socket.readable(false).await
    }

    /// Wakes the waiter of a connected socket, permanently.
    pub(crate) fn wake(&self) {
        shutdown(self.fd, libc::SHUT_RDWR);
    }

    /// Receives a datagram.
    ///
    /// # Errors
    ///
    /// Errors of recvmsg(2); `WouldBlock` if there is none.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut control = Control::default();
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut received = |storage: *mut libc::sockaddr_storage, length: *mut libc::socklen_t| {
            // SAFETY: `msghdr` is plain data for which zeros are valid.
            let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
            message.msg_name = storage.cast();
            message.msg_namelen = socklen(size_of::<libc::sockaddr_storage>());
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = control.0.len();
            // SAFETY: every pointer in the message names live memory of the length beside it.
            let count = unsafe { libc::recvmsg(self.fd, &raw mut message, libc::MSG_DONTWAIT) };
            let len = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
            // SAFETY: the kernel has just filled the message in.
            let to = unsafe { address_in(&message) };
            // SAFETY: socket2 lends the pointer for this write.
            unsafe { *length = message.msg_namelen };
            Ok((len, message.msg_flags & libc::MSG_TRUNC != 0, to))
        };
        // SAFETY: the closure has the kernel write an address and tells its length.
        let ((len, is_cut, to), from) =
            unsafe { SockAddr::try_init(|storage, length| received(storage.cast(), length)) }?;
        let from = from.as_socket().ok_or(io::ErrorKind::InvalidData)?;
        Ok(Received {
            len,
            is_cut,
            from,
            to,
        })
    }

    /// Receives a datagram from a connected socket: its length, and whether it was truncated.
    ///
    /// # Errors
    ///
    /// Errors of recv(2); `WouldBlock` if there is none, and network errors.
    pub(crate) fn receive_from_peer(&self, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
        // SAFETY: the pointer and length name the buffer. With MSG_TRUNC the datagram's own length
        // is returned.
        let count = unsafe {
            libc::recv(
                self.fd,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
            )
        };
        let length = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        Ok((length.min(buffer.len()), length > buffer.len()))
    }

    /// Sends to the connected address.
    ///
    /// # Errors
    ///
    /// Errors of send(2), including network errors of earlier datagrams.
    pub(crate) fn send_to_peer(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the pointer and length name the bytes.
        let count = unsafe {
            libc::send(
                self.fd,
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Sends to `to` from the given local address.
    ///
    /// # Errors
    ///
    /// Errors of sendmsg(2).
    pub(crate) fn send_from(
        &self,
        bytes: &[u8],
        from: Option<IpAddr>,
        to: SocketAddr,
    ) -> io::Result<()> {
        let to = SockAddr::from(to);
        let mut control = Control::default();
        let mut part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: `msghdr` is plain data for which zeros are valid.
        let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        message.msg_name = to.as_ptr().cast_mut().cast();
        message.msg_namelen = to.len();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if let Some(from) = from {
            message.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: the message points at the control bytes, which have room for either form.
            message.msg_controllen = unsafe { put_address(&mut message, from) };
        }
        // SAFETY: every pointer in the message names live memory, which the kernel only reads.
        let count = unsafe {
            libc::sendmsg(
                self.fd,
                &raw const message,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// Space for the one control message used here, aligned as its header requires.
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

impl Default for Control {
    fn default() -> Self {
        Self([0; CONTROL_BYTES])
    }
}

/// A header and an `in6_pktinfo` take 40 bytes.
const CONTROL_BYTES: usize = 64;

/// The local address of a received datagram.
///
/// # Safety
///
/// The kernel has filled the message in, and its control bytes are live.
unsafe fn address_in(message: &libc::msghdr) -> Option<IpAddr> {
    // SAFETY: the caller's promise.
    let header = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    // SAFETY: the data follows its header.
    let data = unsafe { libc::CMSG_DATA(header) };
    match (header.cmsg_level, header.cmsg_type) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            // SAFETY: the kernel wrote this type there; the pointer may be less aligned than it.
            let info = unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into())
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            // SAFETY: as above.
            let info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
            Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Writes the source address of a datagram to send; returns the length.
///
/// # Safety
///
/// The message points to `CONTROL_BYTES` of live, aligned memory.
unsafe fn put_address(message: &mut libc::msghdr, from: IpAddr) -> usize {
    message.msg_controllen = CONTROL_BYTES;
    let put = |level, kind, info: &[u8]| {
        // SAFETY: there is space for a header and either kind of data.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = libc::CMSG_LEN(socklen(info.len())) as usize;
            libc::CMSG_DATA(header).copy_from_nonoverlapping(info.as_ptr(), info.len());
            libc::CMSG_SPACE(socklen(info.len())) as usize
        }
    };
    // Interface 0 (any), then the address; IPv4 has a second one, used only when receiving.
    match from {
        IpAddr::V4(from) => {
            let mut info = [0; size_of::<libc::in_pktinfo>()];
            info[4..8].copy_from_slice(&from.octets());
            put(libc::IPPROTO_IP, libc::IP_PKTINFO, &info)
        }
        IpAddr::V6(from) => {
            let mut info = [0; size_of::<libc::in6_pktinfo>()];
            info[..16].copy_from_slice(&from.octets());
            put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info)
        }
    }
}

fn socklen(length: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(length).unwrap_or_default()
}
