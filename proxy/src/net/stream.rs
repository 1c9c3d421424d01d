//! A connected socket: TCP or unix, with or without TLS, read and written concurrently by the task
//! that owns it.

#![expect(
    unsafe_code,
    reason = "sockets are read and written at the same time, with operations that monoio lacks"
)]

use std::cell::{Cell, UnsafeCell};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::rc::Rc;

use monoio::buf::{IoBuf, IoBufMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent, CancelableAsyncReadRent};
use monoio::net::{TcpStream, UnixStream};
use monoio::utils::is_legacy;

use super::descriptor::{Liveness, liveness, reset, shutdown};
use super::secure::{HandshakeError, Secure};
use crate::memory::Outgoing;
use crate::memory::{Buffer, BufferPool};
use crate::tls::session::TlsSession;

pub use monoio::io::{CancelHandle, Canceller};

/// A connected stream socket, with TLS or without.
pub struct Stream {
    fd: RawFd,
    socket: Socket,
    secure: Option<Box<Secure>>,
    /// An error that followed bytes, for the next read; 0 is none.
    broke: Cell<i32>,
}

enum Socket {
    Tcp(UnsafeCell<TcpStream>),
    Unix(UnsafeCell<UnixStream>),
}

/// Runs `$body` with `$socket` bound to the socket of `$stream`, of either kind.
macro_rules! with_socket {
    ($stream:expr, $socket:ident => $body:expr) => {
        match &$stream.socket {
            Socket::Tcp(cell) => {
                // SAFETY: monoio's sockets are `Split`: their methods only copy the descriptor into
                // an operation, so a read and a write may be in progress at once. `Stream` is not
                // `Sync`, and one task owns it.
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
    /// Adopts an accepted or connected TCP socket.
    #[must_use]
    pub fn tcp(socket: TcpStream) -> Self {
        Self {
            fd: socket.as_raw_fd(),
            socket: Socket::Tcp(UnsafeCell::new(socket)),
            secure: None,
            broke: Cell::new(0),
        }
    }

    /// Adopts a connected unix socket.
    #[must_use]
    pub fn unix(socket: UnixStream) -> Self {
        Self {
            fd: socket.as_raw_fd(),
            socket: Socket::Unix(UnsafeCell::new(socket)),
            secure: None,
            broke: Cell::new(0),
        }
    }

    /// Connects to a TCP address.
    ///
    /// # Errors
    ///
    /// Errors of connect(2).
    pub async fn connect_tcp(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect_addr(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self::tcp(socket))
    }

    /// Connects to a unix socket.
    ///
    /// # Errors
    ///
    /// Errors of connect(2).
    pub async fn connect_unix(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path).await.map(Self::unix)
    }

    /// The descriptor, for deadlines to shut down. Valid while the stream lives.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// Peer and local address; `None` unless TCP.
    #[must_use]
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let Socket::Tcp(cell) = &self.socket else {
            return None;
        };
        // SAFETY: as above; the calls query the kernel and keep nothing.
        let socket = unsafe { &*cell.get() };
        Option::zip(socket.peer_addr().ok(), socket.local_addr().ok())
    }

    /// Whether it has no TLS.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.secure.is_none()
    }

    /// Adds TLS: completes the handshake of `session`, and encrypts and decrypts from then on.
    /// `received` holds the first records, if some were read already; plaintext that arrives with
    /// the last one is appended to `plain`.
    ///
    /// # Errors
    ///
    /// The handshake failed; the connection can only be closed.
    pub async fn handshake(
        &mut self,
        session: TlsSession,
        received: Buffer,
        plain: &mut Buffer,
        pool: &Rc<BufferPool>,
    ) -> Result<(), HandshakeError> {
        let secure = Box::new(Secure::new(session, received, pool));
        let done = secure.handshake(self, plain).await;
        self.secure = Some(secure);
        done
    }

    /// Borrows the TLS session for one call; `None` without TLS.
    pub fn with_session<R>(&self, inspect: impl FnOnce(&TlsSession) -> R) -> Option<R> {
        let secure = self.secure.as_deref()?;
        Some(secure.with_session(inspect))
    }

    /// Reads available bytes behind those in the buffer, and waits in a small buffer until there
    /// are any; 0 at the end of the stream.
    ///
    /// Like every operation here, it must be awaited to completion: the kernel has the buffer.
    ///
    /// # Errors
    ///
    /// Errors of recv(2); `InvalidData` for a TLS error, and `UnexpectedEof` for an end without a
    /// TLS close.
    pub async fn read(&self, buffer: &mut Buffer) -> io::Result<usize> {
        let count = self.fill(buffer, None).await?;
        Ok(count + self.read_on(buffer))
    }

    /// As [`Stream::read`], but at most the capacity of the waiting buffer: the rest can be
    /// spliced, or is for [`Stream::read_on`].
    ///
    /// # Errors
    ///
    /// As for [`Stream::read`].
    pub fn read_some(&self, buffer: &mut Buffer) -> impl Future<Output = io::Result<usize>> {
        self.fill(buffer, None)
    }

    /// As [`Stream::read`], but the handle's canceller ends it with `ECANCELED`.
    ///
    /// # Errors
    ///
    /// As for [`Stream::read`], or `ECANCELED`.
    pub async fn read_until_canceled(
        &self,
        buffer: &mut Buffer,
        handle: CancelHandle,
    ) -> io::Result<usize> {
        let count = self.fill(buffer, Some(handle)).await?;
        Ok(count + self.read_on(buffer))
    }

    /// Takes available bytes without waiting, if a read has filled the buffer, which becomes a
    /// large one. Returns how many.
    pub fn read_on(&self, buffer: &mut Buffer) -> usize {
        match self.secure {
            None if buffer.room() == 0 => self.receive_on(buffer),
            _ => 0,
        }
    }

    fn receive_on(&self, buffer: &mut Buffer) -> usize {
        buffer.grow();
        if buffer.room() == 0 {
            return 0;
        }
        match self.receive_now(buffer) {
            Some(Ok(count)) => count,
            Some(Err(error)) => {
                self.broke.set(error.raw_os_error().unwrap_or_default());
                0
            }
            None => 0,
        }
    }

    /// As [`Stream::read`], of what has arrived; `None` if it would wait.
    pub(crate) fn read_now(&self, buffer: &mut Buffer) -> Option<io::Result<usize>> {
        let read = self.read_some_now(buffer)?;
        Some(read.map(|count| count + self.read_on(buffer)))
    }

    /// As [`Stream::read_some`], of what has arrived; `None` if it would wait.
    pub(crate) fn read_some_now(&self, buffer: &mut Buffer) -> Option<io::Result<usize>> {
        let Some(secure) = &self.secure else {
            buffer.shrink();
            return self.receive_now(buffer);
        };
        loop {
            if let Some(opened) = secure.open_some(self, buffer).transpose() {
                return Some(opened);
            }
            buffer.shrink();
            let mut lent = secure.lend();
            let received = self.receive_now(&mut lent);
            if lent.room() == 0 {
                self.receive_on(&mut lent);
            }
            let would_wait = || Err(io::ErrorKind::WouldBlock.into());
            match secure.take_back(lent, received.unwrap_or_else(would_wait)) {
                Ok(()) => {}
                Err(error) if would_block(&error) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Receives behind the bytes of a buffer what has arrived; `None` if that is nothing.
    fn receive_now(&self, buffer: &mut Buffer) -> Option<io::Result<usize>> {
        if let broke @ 1.. = self.broke.take() {
            return Some(Err(io::Error::from_raw_os_error(broke)));
        }
        let (to, room) = (buffer.write_ptr(), buffer.bytes_total());
        // SAFETY: the pointer and length name the buffer's free space.
        let received = unsafe { libc::recv(self.fd, to.cast(), room, libc::MSG_DONTWAIT) };
        let Ok(count) = usize::try_from(received) else {
            let error = io::Error::last_os_error();
            let is_none = would_block(&error) || error.kind() == io::ErrorKind::Interrupted;
            return (!is_none).then_some(Err(error));
        };
        // SAFETY: the kernel has written this many bytes there.
        unsafe { buffer.set_init(count) };
        Some(Ok(count))
    }

    async fn fill(&self, buffer: &mut Buffer, cancel: Option<CancelHandle>) -> io::Result<usize> {
        loop {
            let mut lent = match &self.secure {
                None => {
                    buffer.shrink();
                    std::mem::take(buffer)
                }
                Some(secure) => {
                    if let Some(count) = secure.open_some(self, buffer)? {
                        return Ok(count);
                    }
                    buffer.shrink();
                    secure.lend()
                }
            };
            let broke = self.broke.take();
            let received;
            (received, lent) = match (broke, cancel.clone()) {
                (1.., _) => (Err(io::Error::from_raw_os_error(broke)), lent),
                (_, None) => with_socket!(self, socket => socket.read(lent).await),
                (_, Some(handle)) => {
                    with_socket!(self, socket => socket.cancelable_read(lent, handle).await)
                }
            };
            if let Some(secure) = &self.secure {
                if lent.room() == 0 {
                    self.receive_on(&mut lent);
                }
                secure.take_back(lent, received)?;
                continue;
            }
            *buffer = lent;
            match received {
                Err(error) if would_block(&error) => {}
                received => return received,
            }
            if cancel.is_some() {
                // A buffer must not be held while waiting for this: treat it as cancelled.
                return Err(io::Error::from_raw_os_error(libc::ECANCELED));
            }
            self.readable().await?;
        }
    }

    /// Sends a range of the buffer and keeps the bytes, so that they can be sent again.
    ///
    /// # Errors
    ///
    /// Errors of send(2).
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
    ///
    /// Errors of send(2).
    pub async fn write_vec(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        match &self.secure {
            Some(secure) => self.seal(secure, bytes).await,
            None => self.send(bytes).await,
        }
    }

    /// Encrypts and sends bytes, in as few pieces as buffers allow.
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
        outgoing.range.start += self.send_at_once(outgoing.bytes());
        while !outgoing.range.is_empty() {
            let taken = std::mem::take(outgoing);
            let result;
            (result, *outgoing) = with_socket!(self, socket => socket.write(taken).await);
            outgoing.range.start += self.taken(result).await?;
        }
        Ok(())
    }

    pub(super) async fn receive(&self, buffer: &mut Buffer) -> io::Result<usize> {
        let taken = std::mem::take(buffer);
        let result;
        (result, *buffer) = with_socket!(self, socket => socket.read(taken).await);
        result
    }

    /// Sends all of `bytes` unencrypted.
    pub(super) async fn send(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let mut sent = self.send_at_once(bytes);
        while sent < bytes.len() {
            let rest = std::mem::take(bytes).slice(sent..);
            let (result, rest) = with_socket!(self, socket => socket.write(rest).await);
            *bytes = rest.into_inner();
            sent += self.taken(result).await?;
        }
        Ok(())
    }

    /// Number of bytes sent; 0 if the socket was full and has space now.
    async fn taken(&self, result: io::Result<usize>) -> io::Result<usize> {
        match result {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Err(error) if would_block(&error) => self.writable().await.map(|()| 0),
            result => result,
        }
    }

    /// Sends a few raw bytes if possible without waiting. Nothing else may be in progress.
    pub(crate) fn send_now(&self, bytes: &[u8]) {
        // If the alert cannot be sent, the connection ends all the same.
        let _ = self.try_send(bytes, 0);
    }

    /// Sends what is possible of these bytes without waiting, in one segment with the next send.
    /// Returns how many; 0 if unknown.
    pub(crate) fn send_ahead(&self, bytes: &[u8]) -> usize {
        self.try_send(bytes, libc::MSG_MORE).unwrap_or(0)
    }

    /// Sends what is possible without waiting, where the driver waits for readiness: its operation would do the
    /// same call. A ring sends many at once. Returns how many bytes.
    fn send_at_once(&self, bytes: &[u8]) -> usize {
        if bytes.is_empty() || !is_legacy() {
            return 0;
        }
        self.try_send(bytes, 0).unwrap_or(0)
    }

    fn try_send(&self, bytes: &[u8], flags: libc::c_int) -> Option<usize> {
        let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the pointer and length name bytes that outlive the call; a closed descriptor is
        // an error it reports.
        let sent = unsafe { libc::send(self.fd, bytes.as_ptr().cast(), bytes.len(), flags) };
        usize::try_from(sent).ok()
    }

    /// Waits until bytes are available, without holding a buffer.
    ///
    /// # Errors
    ///
    /// Errors of poll(2).
    pub async fn readable(&self) -> io::Result<()> {
        with_socket!(self, socket => socket.readable(false).await)
    }

    /// Waits until bytes can be sent.
    ///
    /// # Errors
    ///
    /// Errors of poll(2).
    pub async fn writable(&self) -> io::Result<()> {
        with_socket!(self, socket => socket.writable(false).await)
    }

    /// Checks the socket without waiting and without reading (250 ns).
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        if self.broke.get() != 0 {
            return Liveness::Gone;
        }
        let held = self.secure.as_deref().and_then(Secure::liveness);
        held.unwrap_or_else(|| liveness(self.fd))
    }

    /// Closes the sending direction.
    pub async fn shutdown_write(&self) {
        if let Some(secure) = &self.secure {
            secure.close(self).await;
        }
        shutdown(self.fd, libc::SHUT_WR);
    }

    /// Shuts down both directions: pending operations return.
    pub fn disconnect(&self) {
        shutdown(self.fd, libc::SHUT_RDWR);
    }

    /// Resets the connection: pending operations return.
    pub fn reset(&self) {
        reset(self.fd);
    }

    /// Makes close(2) reset the connection, so that the peer does not take a truncated message for
    /// a complete one.
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

/// Whether an operation did not wait: on some kernels, io_uring does not wait on a socket that was
/// made non-blocking for splice(2).
fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
