//! A connected socket: TCP or unix, plain or with TLS over it, read and written at the same time by
//! the one task that owns it.

#![expect(
    unsafe_code,
    reason = "sockets are read and written at once, and asked for what monoio has no call for"
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

use super::descriptor::{Liveness, liveness, reset, shutdown};
use super::secure::{HandshakeError, Secure};
use crate::memory::Outgoing;
use crate::memory::{Buffer, BufferPool};
use crate::tls::session::Session;

pub use monoio::io::{CancelHandle, Canceller};

/// A connected socket.
pub struct Stream {
    fd: RawFd,
    socket: Socket,
    secure: Option<Box<Secure>>,
    /// The error that came behind bytes, for whoever reads next; 0 is none.
    broke: Cell<i32>,
}

enum Socket {
    Tcp(UnsafeCell<TcpStream>),
    Unix(UnsafeCell<UnixStream>),
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
            broke: Cell::new(0),
        }
    }

    /// Takes over a connected unix socket.
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

    /// Reads what there is into the room behind the buffer's bytes, and waits in a small buffer until
    /// there is something; 0 at the end of the stream.
    ///
    /// Like every operation here, it must be awaited to its end: the kernel has the buffer.
    ///
    /// # Errors
    /// What recv(2) says; `InvalidData` for what is no TLS, and `UnexpectedEof` where its end may
    /// not be the peer's doing.
    pub async fn read(&self, buffer: &mut Buffer) -> io::Result<usize> {
        let count = self.fill(buffer, None).await?;
        Ok(count + self.read_on(buffer))
    }

    /// As [`Stream::read`], but no more than the buffer holds that it waits in: what is behind it can
    /// go on by another way, or is for [`Stream::read_on`].
    ///
    /// # Errors
    /// As for [`Stream::read`].
    pub fn read_some(&self, buffer: &mut Buffer) -> impl Future<Output = io::Result<usize>> {
        self.fill(buffer, None)
    }

    /// As [`Stream::read`], ended by the handle's canceller with `ECANCELED`.
    ///
    /// # Errors
    /// As for [`Stream::read`], or `ECANCELED`.
    pub async fn read_until_canceled(
        &self,
        buffer: &mut Buffer,
        handle: CancelHandle,
    ) -> io::Result<usize> {
        let count = self.fill(buffer, Some(handle)).await?;
        Ok(count + self.read_on(buffer))
    }

    /// Takes what has come, without waiting, if a read has filled the buffer: it becomes a large one.
    /// How much that was.
    pub fn read_on(&self, buffer: &mut Buffer) -> usize {
        match self.secure {
            None if buffer.room() == 0 => self.receive_on(buffer),
            _ => 0,
        }
    }

    fn receive_on(&self, buffer: &mut Buffer) -> usize {
        buffer.grow();
        let (to, room) = (buffer.write_ptr(), buffer.bytes_total());
        if room == 0 {
            return 0;
        }
        // SAFETY: the pointer and length name the buffer's room.
        let received = unsafe { libc::recv(self.fd, to.cast(), room, libc::MSG_DONTWAIT) };
        let Ok(count) = usize::try_from(received) else {
            let error = io::Error::last_os_error();
            if !would_block(&error) && error.kind() != io::ErrorKind::Interrupted {
                self.broke.set(error.raw_os_error().unwrap_or_default());
            }
            return 0;
        };
        // SAFETY: the kernel has written so many bytes there.
        unsafe { buffer.set_init(count) };
        count
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
            outgoing.range.start += self.taken(result).await?;
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
        let mut sent = 0;
        while sent < bytes.len() {
            let rest = std::mem::take(bytes).slice(sent..);
            let (result, rest) = with_socket!(self, socket => socket.write(rest).await);
            *bytes = rest.into_inner();
            sent += self.taken(result).await?;
        }
        Ok(())
    }

    /// How many bytes a send took; 0 where the socket had no room and has some now.
    async fn taken(&self, result: io::Result<usize>) -> io::Result<usize> {
        match result {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Err(error) if would_block(&error) => self.writable().await.map(|()| 0),
            result => result,
        }
    }

    /// Sends a few bytes as they are, if that can be done without waiting. Nothing else may be on
    /// its way.
    pub(super) fn send_now(&self, bytes: &[u8]) {
        // An alert that does not go out is none: the connection ends all the same.
        let _ = self.try_send(bytes, 0);
    }

    /// Sends what of these bytes can be sent without waiting, in one segment with what is sent next.
    /// How many; none where that is not known.
    pub(crate) fn send_ahead(&self, bytes: &[u8]) -> usize {
        self.try_send(bytes, libc::MSG_MORE).unwrap_or(0)
    }

    fn try_send(&self, bytes: &[u8], flags: libc::c_int) -> Option<usize> {
        let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the pointer and length name bytes that outlive the call; a closed descriptor is
        // an error it reports.
        let sent = unsafe { libc::send(self.fd, bytes.as_ptr().cast(), bytes.len(), flags) };
        usize::try_from(sent).ok()
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
        if self.broke.get() != 0 {
            return Liveness::Gone;
        }
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

/// Whether an operation came too early: on some kernels, those of a ring do not wait on a socket that
/// was made non-blocking for splice(2).
fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
