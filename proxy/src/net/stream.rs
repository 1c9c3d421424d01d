//! A connected socket: TCP or unix, plain or with TLS over it, read and written at the same time by
//! the one task that owns it.

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
use std::rc::Rc;

use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt, CancelableAsyncReadRent};
use monoio::net::{TcpStream, UnixStream};

use super::buffer::Outgoing;
use super::secure::{HandshakeError, Secure};
use super::{Buffer, BufferPool};
use crate::tls::session::Session;

pub use monoio::io::{CancelHandle, Canceller};

/// A connected socket.
pub struct Stream {
    fd: RawFd,
    socket: Socket,
    secure: Option<Box<Secure>>,
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
            secure: None,
        }
    }

    /// Takes over a connected unix socket.
    #[must_use]
    pub fn unix(socket: UnixStream) -> Self {
        Self {
            fd: socket.as_raw_fd(),
            socket: Socket::Unix(UnsafeCell::new(socket)),
            secure: None,
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

    /// Addresses of the peer and of our end; none where it is no TCP.
    #[must_use]
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let Socket::Tcp(cell) = &self.socket else {
            return None;
        };
        // SAFETY: as above; the calls ask the kernel and keep nothing.
        let socket = unsafe { &*cell.get() };
        Option::zip(socket.peer_addr().ok(), socket.local_addr().ok())
    }

    /// Whether what passes through the socket is what is read and written.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.secure.is_none()
    }

    /// Puts TLS over it: brings the handshake of `session` to its end, and seals and opens from then
    /// on. `received` are the first records, where some were read already; plaintext that comes
    /// with the last one is appended to `plain`.
    ///
    /// # Errors
    /// There is no session; the connection is good for nothing but to be closed.
    pub async fn handshake(
        &mut self,
        session: Session,
        received: Buffer,
        plain: &mut Buffer,
        pool: &Rc<BufferPool>,
    ) -> Result<(), HandshakeError> {
        let secure = Box::new(Secure::new(session, received, pool));
        let done = secure.handshake(self, plain).await;
        self.secure = Some(secure);
        done
    }

    /// Lends what TLS has agreed on, for one call; `None` where there is no TLS.
    pub fn with_session<R>(&self, look: impl FnOnce(&Session) -> R) -> Option<R> {
        let secure = self.secure.as_deref()?;
        Some(secure.with_session(look))
    }

    /// Reads into the room behind the buffer's bytes; 0 at the end of the stream.
    ///
    /// Like every operation here, it must be awaited to its end: the kernel has the buffer.
    ///
    /// # Errors
    /// What recv(2) says; `InvalidData` for what is no TLS, and `UnexpectedEof` where its end may
    /// not be the peer's doing.
    pub fn read(&self, buffer: &mut Buffer) -> impl Future<Output = io::Result<usize>> {
        self.fill(buffer, None)
    }

    /// As [`Stream::read`], ended by the handle's canceller with `ECANCELED`.
    ///
    /// # Errors
    /// As for [`Stream::read`], or `ECANCELED`.
    pub fn read_until_canceled(
        &self,
        buffer: &mut Buffer,
        handle: CancelHandle,
    ) -> impl Future<Output = io::Result<usize>> {
        self.fill(buffer, Some(handle))
    }

    async fn fill(&self, buffer: &mut Buffer, cancel: Option<CancelHandle>) -> io::Result<usize> {
        loop {
            let mut lent = match &self.secure {
                None => std::mem::take(buffer),
                Some(secure) => match secure.open_some(self, buffer)? {
                    Some(count) => return Ok(count),
                    None => secure.lend(),
                },
            };
            let received;
            (received, lent) = match cancel.clone() {
                None => with_socket!(self, socket => socket.read(lent).await),
                Some(handle) => {
                    with_socket!(self, socket => socket.cancelable_read(lent, handle).await)
                }
            };
            if let Some(secure) = &self.secure {
                secure.take_back(lent, received)?;
                continue;
            }
            *buffer = lent;
            match received {
                Err(error) if would_block(&error) => {}
                received => return received,
            }
            if cancel.is_some() {
                // Nobody holds a buffer for as long as it takes: as good as canceled.
                return Err(io::Error::from_raw_os_error(libc::ECANCELED));
            }
            self.readable().await?;
        }
    }

    /// Sends a range of the buffer's bytes and keeps them, so that they can be sent again.
    ///
    /// # Errors
    /// What send(2) says.
    pub async fn write(&self, buffer: &mut Buffer, mut range: Range<usize>) -> io::Result<()> {
        loop {
            let mut outgoing = match &self.secure {
                None => Outgoing {
                    buffer: std::mem::take(buffer),
                    range: std::mem::take(&mut range),
                },
                Some(secure) => {
                    let plain = buffer.filled().get(range.clone()).unwrap_or_default();
                    let (sealed, outgoing) = secure.seal_some(plain)?;
                    range.start += sealed;
                    outgoing
                }
            };
            let result = self.write_all(&mut outgoing).await;
            match &self.secure {
                None => *buffer = outgoing.buffer,
                Some(secure) => secure.sent(outgoing.buffer),
            }
            if result.is_err() || range.is_empty() {
                return result;
            }
        }
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// What send(2) says.
    pub async fn write_vec(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        match &self.secure {
            Some(secure) => self.seal(secure, bytes).await,
            None => self.send(bytes).await,
        }
    }

    /// Sends bytes through TLS, in as few pieces as there are buffers' worth of them.
    async fn seal(&self, secure: &Secure, mut plain: &[u8]) -> io::Result<()> {
        let mut result = Ok(());
        while !plain.is_empty() && result.is_ok() {
            let (sealed, mut outgoing) = secure.seal_some(plain)?;
            plain = plain.get(sealed..).unwrap_or_default();
            result = self.write_all(&mut outgoing).await;
            secure.sent(outgoing.buffer);
        }
        result
    }

    async fn write_all(&self, outgoing: &mut Outgoing) -> io::Result<()> {
        while !outgoing.range.is_empty() {
            let taken = std::mem::take(outgoing);
            let result;
            (result, *outgoing) = with_socket!(self, socket => socket.write(taken).await);
            match result {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => outgoing.range.start += sent,
                Err(error) if would_block(&error) => self.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads bytes that nobody wants, as they are on the wire; 0 at the end of the stream.
    ///
    /// # Errors
    /// What recv(2) says.
    pub async fn discard(&self, buffer: &mut Buffer) -> io::Result<usize> {
        self.receive(buffer).await
    }

    /// Receives bytes as they are on the wire.
    pub(super) async fn receive(&self, buffer: &mut Buffer) -> io::Result<usize> {
        let taken = std::mem::take(buffer);
        let result;
        (result, *buffer) = with_socket!(self, socket => socket.read(taken).await);
        result
    }

    /// Sends all of `bytes` as they are.
    pub(super) async fn send(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let taken = std::mem::take(bytes);
        let result;
        (result, *bytes) = with_socket!(self, socket => socket.write_all(taken).await);
        result.map(drop)
    }

    /// Sends a few bytes as they are, if that can be done without waiting. Nothing else may be on
    /// its way.
    pub(super) fn send_now(&self, bytes: &[u8]) {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the pointer and length name bytes that outlive the call; a closed descriptor is
        // an error it reports.
        let _ = unsafe { libc::send(self.fd, bytes.as_ptr().cast(), bytes.len(), flags) };
    }

    /// Waits until there is something to read, holding no buffer.
    ///
    /// # Errors
    /// What poll(2) says.
    pub async fn readable(&self) -> io::Result<()> {
        with_socket!(self, socket => socket.readable(false).await)
    }

    /// Waits until something can be sent.
    ///
    /// # Errors
    /// What poll(2) says.
    pub async fn writable(&self) -> io::Result<()> {
        with_socket!(self, socket => socket.writable(false).await)
    }

    /// Looks at the socket without waiting and without taking bytes (250 ns).
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        let held = self.secure.as_deref().and_then(Secure::liveness);
        held.unwrap_or_else(|| liveness(self.fd))
    }

    /// Tells the peer that no more bytes will come.
    pub async fn shutdown_write(&self) {
        if let Some(secure) = &self.secure {
            secure.close(self).await;
        }
        shutdown(self.fd, libc::SHUT_WR);
    }

    /// Ends the connection both ways: whatever waits for it returns.
    pub fn disconnect(&self) {
        shutdown(self.fd, libc::SHUT_RDWR);
    }

    /// Resets the connection at once: whatever waits for it returns.
    pub fn reset(&self) {
        reset(self.fd);
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
    let mut bytes = [0_u8; GOODBYE_BYTES + 1];
    // SAFETY: the pointer and length name `bytes`; nothing is read from a descriptor that is closed.
    let read = unsafe {
        libc::recv(
            fd,
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            libc::MSG_PEEK | libc::MSG_DONTWAIT,
        )
    };
    match usize::try_from(read) {
        Ok(0) => Liveness::Gone,
        Ok(count) if is_goodbye(bytes.get(..count).unwrap_or_default()) && has_ended(fd) => {
            Liveness::Gone
        }
        Ok(_) => Liveness::Readable,
        Err(_) => match io::Error::last_os_error().kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Liveness::Quiet,
            _ => Liveness::Gone,
        },
    }
}

/// [`Stream::reset`] of a descriptor. A unix socket, which has no resets, is shut down.
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

/// Whether an operation came too early: sockets that were made non-blocking for splice(2) do not
/// wait by themselves.
fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
/// Whether all that can be read is a sealed record of an alert's size. Two bytes of data look like
/// one (RFC 8446 section 5.2), and are no request either.
fn is_goodbye(bytes: &[u8]) -> bool {
    matches!(bytes, [21 | 23, 3, 3, 0, length, record @ ..]
        if record.len() == usize::from(*length) && bytes.len() <= GOODBYE_BYTES)
}

/// Whether the peer has ended its half, whatever can still be read.
fn has_ended(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLRDHUP,
        revents: 0,
    };
    // SAFETY: the pointer names one live `pollfd`, and the call does not wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 && poll.revents & libc::POLLRDHUP != 0 }
}

/// Bytes of a sealed alert: 24 in TLS 1.3, up to 31 in TLS 1.2.
const GOODBYE_BYTES: usize = 31;

/// shutdown(2); an error means the peer was quicker.
pub(crate) fn shutdown(fd: RawFd, how: libc::c_int) {
    // SAFETY: shutdown takes plain integers; a closed descriptor is an error it reports.
    let _ = unsafe { libc::shutdown(fd, how) };
}
