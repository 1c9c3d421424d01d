//! Non-blocking operations on a connected socket by its descriptor, for callers without its
//! [`Stream`](super::Stream), which its task owns.

#![expect(
    unsafe_code,
    reason = "connect(2), getsockopt(2), poll(2), shutdown(2)"
)]

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// The state of an idle socket, determined without reading from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Open, no bytes available.
    Quiet,
    /// Open, with bytes that can be read.
    Readable,
    /// Closed by the peer, or failed.
    Gone,
}

/// [`Stream::liveness`](super::Stream::liveness) of a descriptor.
#[must_use]
pub(crate) fn liveness(fd: RawFd) -> Liveness {
    let mut bytes = [MaybeUninit::uninit(); CLOSE_ALERT_BYTES + 1];
    // SAFETY: it is borrowed for this call alone; a closed descriptor is an error.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    // Not by libc, for which it is a point of thread cancellation: two atomic operations.
    match recv(socket, &mut bytes, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, 0)) => Liveness::Gone,
        Ok(((bytes, _), _)) if is_close_alert(bytes) && has_ended(fd) => Liveness::Gone,
        Ok(_) => Liveness::Readable,
        Err(Errno::WOULDBLOCK | Errno::INTR) => Liveness::Quiet,
        Err(_) => Liveness::Gone,
    }
}

/// Bytes acknowledged by the peer of a TCP socket since it was connected; 0 if unknown, as for a
/// unix socket.
#[must_use]
pub(crate) fn acknowledged(fd: RawFd) -> u64 {
    let mut info = [0_u8; ACKED_AT + size_of::<u64>()];
    let mut length = libc::socklen_t::try_from(info.len()).unwrap_or_default();
    // SAFETY: the pointers name `info` and its length; the kernel writes no more than fits. A closed
    // descriptor is an error.
    let read = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let acked = info.last_chunk().filter(|_| read == 0);
    acked.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// [`Stream::reset`](super::Stream::reset) of a descriptor. A unix socket, which has no resets, is
/// shut down.
pub(crate) fn reset(fd: RawFd) {
    let nowhere = libc::sockaddr {
        sa_family: libc::AF_UNSPEC
            .cast_unsigned()
            .try_into()
            .unwrap_or_default(),
        sa_data: [0; 14],
    };
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr>()).unwrap_or_default();
    // SAFETY: the pointer and length name a live `sockaddr`; a closed descriptor is an error.
    let disconnected = unsafe { libc::connect(fd, &raw const nowhere, length) };
    if disconnected != 0 {
        shutdown(fd, libc::SHUT_RDWR);
    }
}

/// Whether the only available bytes are a sealed record of an alert's size. Two bytes of data look
/// the same (RFC 8446 section 5.2), and are not a request either.
fn is_close_alert(bytes: &[u8]) -> bool {
    matches!(bytes, [21 | 23, 3, 3, 0, length, record @ ..]
        if record.len() == usize::from(*length) && bytes.len() <= CLOSE_ALERT_BYTES)
}

/// Whether the peer has closed its direction, even if bytes are available.
fn has_ended(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: the pointer names one live `pollfd`, and the call does not wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 && poll.revents & libc::POLLRDHUP != 0 }
}

/// Offset of `tcpi_bytes_acked` in the kernel's `struct tcp_info` (Linux 4.1); libc's ends before
/// it.
const ACKED_AT: usize = 120;

/// Length of a sealed alert: 24 bytes in TLS 1.3, up to 31 in TLS 1.2.
const CLOSE_ALERT_BYTES: usize = 31;

/// shutdown(2); an error means that the peer was faster.
pub(crate) fn shutdown(fd: RawFd, how: libc::c_int) {
    // SAFETY: shutdown takes plain integers; a closed descriptor is an error it reports.
    let _ = unsafe { libc::shutdown(fd, how) };
}
