//! A connected socket: TCP or unix, read and written at the same time by the one task that owns it.

#![expect(
    unsafe_code,
    reason = "sockets are read and written at once, and asked for what monoio has no call for"
)]

use std::cell::UnsafeCell;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt, CancelableAsyncReadRent};
use monoio::net::{TcpStream, UnixStream};

use super::Buffer;
use super::buffer::Outgoing;

pub use monoio::io::{CancelHandle, Canceller};

/// A connected socket.
pub struct Stream {
    fd: RawFd,
    socket: Socket,
}

enum Socket {
    Tcp(UnsafeCell<TcpStream>),
    Unix(UnsafeCell<UnixStream>),
}

/// What an idle socket looks like without taking a byte from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Open, nothing to read.
    Quiet,
    /// Open, bytes to read.
    Readable,
    /// Closed by the peer, or broken.
    Gone,
}

/// Runs `$body` with `$socket` bound to the socket of `$stream`, whichever kind it is.
macro_rules! with_socket {
    ($stream:expr, $socket:ident => $body:expr) => {
        match &$stream.socket {
            Socket::Tcp(cell) => {
                // SAFETY: monoio's sockets are `Split`: their methods only copy the descriptor
                // into an operation, so a read and a write may be under way at once. `Stream` is
                // not `Sync`, and one task owns it.
                let $socket = unsafe { &mut *cell.get() };
                $body
            }
            Socket::Unix(cell) => {
                // SAFETY: as above.
                let $socket = unsafe { &mut *cell.get() };
                $body
            }
        }
    };
}

impl Stream {
    /// Takes over an accepted or connected TCP socket.
    #[must_use]
    pub fn tcp(socket: TcpStream) -> Self {
        Self {
            fd: socket.as_raw_fd(),
            socket: Socket::Tcp(UnsafeCell::new(socket)),
        }
    }

    /// Takes over a connected unix socket.
    #[must_use]
    pub fn unix(socket: UnixStream) -> Self {
        Self {
            fd: socket.as_raw_fd(),
            socket: Socket::Unix(UnsafeCell::new(socket)),
        }
    }

    /// Connects to a TCP address.
    ///
    /// # Errors
    /// What connect(2) says.
    pub async fn connect_tcp(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect_addr(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self::tcp(socket))
    }

    /// Connects to a unix socket.
    ///
    /// # Errors
    /// What connect(2) says.
    pub async fn connect_unix(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path).await.map(Self::unix)
    }

    /// The descriptor, for deadlines to shut down. Valid while the stream lives.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// Reads into the room behind the buffer's bytes; 0 at the end of the stream.
    ///
    /// Like every operation here, it must be awaited to its end: the kernel has the buffer.
    ///
    /// # Errors
    /// What recv(2) says.
    pub async fn read(&self, buffer: &mut Buffer) -> io::Result<usize> {
        let taken = std::mem::take(buffer);
        let result;
        (result, *buffer) = with_socket!(self, socket => socket.read(taken).await);
        result
    }

    /// As [`Stream::read`], ended by the handle's canceller with `ECANCELED`.
    ///
    /// # Errors
    /// What recv(2) says, or `ECANCELED`.
    pub async fn read_until_canceled(
        &self,
        buffer: &mut Buffer,
        handle: CancelHandle,
    ) -> io::Result<usize> {
        let taken = std::mem::take(buffer);
        let result;
        (result, *buffer) =
            with_socket!(self, socket => socket.cancelable_read(taken, handle).await);
        result
    }

    /// Sends a range of the buffer's bytes and keeps them, so that they can be sent again.
    ///
    /// # Errors
    /// What send(2) says.
    pub async fn write(&self, buffer: &mut Buffer, range: Range<usize>) -> io::Result<()> {
        let mut outgoing = Outgoing {
            buffer: std::mem::take(buffer),
            range,
        };
        let result = self.write_all(&mut outgoing).await;
        *buffer = outgoing.buffer;
        result
    }

    async fn write_all(&self, outgoing: &mut Outgoing) -> io::Result<()> {
        while !outgoing.range.is_empty() {
            let taken = std::mem::take(outgoing);
            let result;
            (result, *outgoing) = with_socket!(self, socket => socket.write(taken).await);
            match result? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                sent => outgoing.range.start += sent,
            }
        }
        Ok(())
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// What send(2) says.
    pub async fn write_vec(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let taken = std::mem::take(bytes);
        let result;
        (result, *bytes) = with_socket!(self, socket => socket.write_all(taken).await);
        result.map(drop)
    }

    /// Waits until there is something to read, holding no buffer.
    ///
    /// # Errors
    /// What poll(2) says.
    pub async fn readable(&self) -> io::Result<()> {
        with_socket!(self, socket => socket.readable(false).await)
    }

    /// Looks at the socket without waiting and without taking bytes (250 ns).
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        liveness(self.fd)
    }

    /// Tells the peer that no more bytes will come.
    pub fn shutdown_write(&self) {
        shutdown(self.fd, libc::SHUT_WR);
    }

    /// Ends the connection both ways: whatever waits for it returns.
    pub fn disconnect(&self) {
        shutdown(self.fd, libc::SHUT_RDWR);
    }

    /// Makes close(2) reset the connection, so that the peer cannot take a torn message for whole.
    pub fn reset_on_close(&self) {
        let linger = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        // SAFETY: the descriptor is open while `self` lives, and the pointer and size name a
        // live `linger`.
        unsafe {
            libc::setsockopt(
                self.fd,
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                std::ptr::from_ref(&linger).cast(),
                libc::socklen_t::try_from(size_of::<libc::linger>()).unwrap_or_default(),
            );
        }
    }
}

/// [`Stream::liveness`] of a descriptor.
#[must_use]
pub(crate) fn liveness(fd: RawFd) -> Liveness {
    let mut byte = 0_u8;
    // SAFETY: one byte is read into one byte; nothing is read from a descriptor that is closed.
    let read = unsafe {
        libc::recv(
            fd,
            (&raw mut byte).cast(),
            1,
            libc::MSG_PEEK | libc::MSG_DONTWAIT,
        )
    };
    match read {
        0 => Liveness::Gone,
        1.. => Liveness::Readable,
        _ => match io::Error::last_os_error().kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Liveness::Quiet,
            _ => Liveness::Gone,
        },
    }
}

/// shutdown(2); an error means the peer was quicker.
pub(crate) fn shutdown(fd: RawFd, how: libc::c_int) {
    // SAFETY: shutdown takes plain integers; a closed descriptor is an error it reports.
    let _ = unsafe { libc::shutdown(fd, how) };
}
