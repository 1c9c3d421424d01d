//! Moves bytes between sockets through a kernel pipe: splice(2).
//!
//! The calls are made directly, on non-blocking sockets: as io_uring operations they would each go
//! to a kernel worker thread (about 40 µs).

#![expect(unsafe_code, reason = "pipe2(2), fcntl(2) and splice(2)")]

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use crate::limits::{SPLICE_PIPE_BYTES, SPLICE_PIPES};

/// A pipe for splicing.
pub(crate) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    /// Bytes in the pipe.
    held: usize,
    /// Its slot in the shard's limit of pipes.
    _counted: Rc<()>,
}

impl Pipe {
    fn new(counted: Rc<()>) -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: the pointer names room for both descriptors.
        let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        let [out, into] = ends;
        // SAFETY: the kernel has just created both, for this owner.
        let (out, into) = unsafe { (OwnedFd::from_raw_fd(out), OwnedFd::from_raw_fd(into)) };
        // SAFETY: fcntl takes plain integers. If the pipe may not grow, its default size is used.
        unsafe { libc::fcntl(into.as_raw_fd(), libc::F_SETPIPE_SZ, SPLICE_PIPE_BYTES) };
        Ok(Self {
            out,
            into,
            held: 0,
            _counted: counted,
        })
    }

    /// Whether it holds no bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Moves up to `max` available bytes from a socket into the pipe; returns how many, 0 at the
    /// end.
    ///
    /// # Errors
    ///
    /// Errors of splice(2); `WouldBlock` if none are available.
    pub(crate) fn fill(&mut self, from: RawFd, max: u64) -> io::Result<usize> {
        let room = SPLICE_PIPE_BYTES.unsigned_abs() as usize;
        let max = usize::try_from(max).map_or(room, |max| max.min(room));
        let count = splice(from, self.into.as_raw_fd(), max)?;
        self.held = self.held.saturating_add(count);
        Ok(count)
    }

    /// Moves bytes from the pipe to a socket; returns how many.
    ///
    /// # Errors
    ///
    /// Errors of splice(2); `WouldBlock` if the socket is full.
    pub(crate) fn empty(&mut self, to: RawFd) -> io::Result<usize> {
        let count = splice(self.out.as_raw_fd(), to, self.held)?;
        self.held = self.held.saturating_sub(count);
        Ok(count)
    }
}

fn splice(from: RawFd, to: RawFd, max: usize) -> io::Result<usize> {
    // SAFETY: splice takes plain integers; null offsets are required for sockets and pipes.
    let count = unsafe {
        libc::splice(
            from,
            std::ptr::null_mut(),
            to,
            std::ptr::null_mut(),
            max,
            libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK,
        )
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Makes a socket non-blocking.
///
/// # Errors
///
/// Errors of fcntl(2).
pub(crate) fn never_block(fd: RawFd) -> io::Result<()> {
    NonBlockingGuard::begin(fd).map(std::mem::forget)
}

/// A socket made non-blocking; restored on drop.
pub(crate) struct NonBlockingGuard {
    fd: RawFd,
    flags: libc::c_int,
}

impl NonBlockingGuard {
    /// Makes a socket non-blocking that stays open until the drop.
    ///
    /// # Errors
    ///
    /// Errors of fcntl(2).
    pub(crate) fn begin(fd: RawFd) -> io::Result<Self> {
        // SAFETY: fcntl takes plain integers.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        let unblocked = Self { fd, flags };
        if flags >= 0 && (!unblocked.was_blocking() || set_flags(fd, flags | libc::O_NONBLOCK)) {
            Ok(unblocked)
        } else {
            Err(io::Error::last_os_error())
        }
    }

    fn was_blocking(&self) -> bool {
        self.flags & libc::O_NONBLOCK == 0
    }
}

impl Drop for NonBlockingGuard {
    fn drop(&mut self) {
        if self.was_blocking() {
            set_flags(self.fd, self.flags);
        }
    }
}

fn set_flags(fd: RawFd, flags: libc::c_int) -> bool {
    // SAFETY: fcntl takes plain integers.
    unsafe { libc::fcntl(fd, libc::F_SETFL, flags) == 0 }
}

/// The pipes of a shard.
#[derive(Default)]
pub(crate) struct Pipes {
    free: RefCell<Vec<Pipe>>,
    /// Counts the existing pipes.
    made: Rc<()>,
}

impl Pipes {
    /// An empty pipe, unless all are in use.
    pub(crate) fn take(&self) -> Option<Pipe> {
        if let Some(pipe) = self.free.borrow_mut().pop() {
            return Some(pipe);
        }
        let made = Rc::strong_count(&self.made) - 1;
        (made < SPLICE_PIPES)
            .then(|| Pipe::new(Rc::clone(&self.made)).ok())
            .flatten()
    }

    /// Returns a pipe; one that still holds bytes is closed.
    pub(crate) fn put(&self, pipe: Pipe) {
        if pipe.is_empty() {
            self.free.borrow_mut().push(pipe);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::{Pipes, never_block};
    use crate::limits::SPLICE_PIPES;

    #[test]
    fn bytes_are_spliced_between_sockets() {
        let (mut client, ours) = UnixStream::pair().expect("sockets");
        let (towards, mut backend) = UnixStream::pair().expect("sockets");
        never_block(ours.as_raw_fd()).expect("a socket of ours");
        let mut pipe = Pipes::default().take().expect("a pipe");
        let nothing = pipe
            .fill(ours.as_raw_fd(), u64::MAX)
            .expect_err("no bytes were sent");
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        client.write_all(b"hello").expect("taken");
        assert_eq!(pipe.fill(ours.as_raw_fd(), u64::MAX).expect("bytes"), 5);
        assert_eq!(pipe.empty(towards.as_raw_fd()).expect("taken"), 5);
        let mut back = [0; 5];
        backend.read_exact(&mut back).expect("bytes");
        assert_eq!(&back, b"hello");
        drop(client);
        assert_eq!(pipe.fill(ours.as_raw_fd(), u64::MAX).expect("an end"), 0);
    }

    #[test]
    fn pipes_are_limited_and_reused_when_empty() {
        let pipes = Pipes::default();
        let mut taken: Vec<_> = std::iter::from_fn(|| pipes.take()).collect();
        assert_eq!(taken.len(), SPLICE_PIPES);
        let (mut client, ours) = UnixStream::pair().expect("sockets");
        client.write_all(b"secret").expect("taken");
        let mut used = taken.pop().expect("many");
        used.fill(ours.as_raw_fd(), u64::MAX).expect("bytes");
        pipes.put(used);
        let another = pipes.take().expect("the closed one is not counted");
        assert!(another.is_empty());
        assert!(pipes.take().is_none());
    }
}
