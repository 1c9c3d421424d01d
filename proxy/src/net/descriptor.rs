//! Non-blocking operations on a connected socket by its descriptor, for callers without its
//! [`Stream`](super::Stream), which its task owns.

#![expect(
    unsafe_code,
    reason = "connect(2), getsockopt(2), poll(2), recv(2), setsockopt(2), shutdown(2)"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::limits::{HALF_CLOSED_PROBE_INTERVAL, HALF_CLOSED_PROBES};

/// The state of an idle socket, determined without reading from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Open, no bytes available.
    Quiet,
    /// Open, with bytes that can be read.
    Readable,
    /// The peer has closed its direction behind bytes that can be read.
    Ending,
    /// The peer has closed its direction, without a TLS alert, and may still read.
    HalfClosed,
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
        Ok((_, 0)) if has_failed(fd) => Liveness::Gone,
        Ok((_, 0)) => Liveness::HalfClosed,
        Ok(((bytes, _), _)) => liveness_behind(bytes, events(fd)),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Liveness::Quiet,
        Err(_) => Liveness::Gone,
    }
}

/// The liveness of a socket from which bytes can be read, of which these are the first.
fn liveness_behind(bytes: &[u8], events: libc::c_short) -> Liveness {
    match events {
        events if events & FAILED != 0 => Liveness::Gone,
        events if events & libc::POLLRDHUP == 0 => Liveness::Readable,
        _ if is_close_alert(bytes) => Liveness::Gone,
        _ => Liveness::Ending,
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

/// Whether the connection was reset. After the peer's end, recv(2) does not tell.
fn has_failed(fd: RawFd) -> bool {
    events(fd) & FAILED != 0
}

fn events(fd: RawFd) -> libc::c_short {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: the pointer names one live `pollfd`, and the call does not wait.
    let found = unsafe { libc::poll(&raw mut poll, 1, 0) };
    if found == 1 { poll.revents } else { 0 }
}

/// Sends keepalive probes to the peer from now on, so that one that does not exist any more is noticed.
/// A socket that is not of TCP has none.
pub(crate) fn probe(fd: RawFd) {
    let seconds = |time: Duration| libc::c_int::try_from(time.as_secs()).unwrap_or(1);
    let probes = libc::c_int::try_from(HALF_CLOSED_PROBES).unwrap_or(1);
    let interval = seconds(HALF_CLOSED_PROBE_INTERVAL);
    set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, interval);
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, interval);
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, probes);
}

fn set_option(fd: RawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) {
    let length = libc::socklen_t::try_from(size_of_val(&value)).unwrap_or_default();
    // SAFETY: the pointer and length name a live integer; a closed descriptor is an error.
    let _ = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) };
}

/// Drops up to `max` bytes that can be read, without waiting and without copying them (tcp(7),
/// `MSG_TRUNC`). `None` if there are none yet, 0 at the end.
///
/// # Errors
///
/// Errors of recv(2).
pub(crate) fn drop_available(fd: RawFd, max: usize) -> io::Result<Option<usize>> {
    let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    // SAFETY: with `MSG_TRUNC`, nothing is written to the buffer of a TCP socket; a closed descriptor
    // is an error.
    let dropped = unsafe { libc::recv(fd, std::ptr::null_mut(), max, flags) };
    let Ok(dropped) = usize::try_from(dropped) else {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        };
    };
    Ok(Some(dropped))
}

/// Offset of `tcpi_bytes_acked` in the kernel's `struct tcp_info` (Linux 4.1); libc's ends before
/// it.
const ACKED_AT: usize = 120;

/// Events of a connection that is over in both directions.
const FAILED: libc::c_short = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;

/// Length of a sealed alert: 24 bytes in TLS 1.3, up to 31 in TLS 1.2.
const CLOSE_ALERT_BYTES: usize = 31;

/// shutdown(2); an error means that the peer was faster.
pub(crate) fn shutdown(fd: RawFd, how: libc::c_int) {
    // SAFETY: shutdown takes plain integers; a closed descriptor is an error it reports.
    let _ = unsafe { libc::shutdown(fd, how) };
}
