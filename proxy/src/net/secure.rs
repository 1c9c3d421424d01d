//! TLS over a socket: the I/O around a [`TlsSession`].
//!
//! The task that owns a stream reads and writes it concurrently. So the session is borrowed only
//! for single calls, and writing does not need the receive buffer while the kernel has it. A stream
//! that waits without a partial record holds no buffer.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use thiserror::Error;

use super::Liveness;
use super::stream::Stream;
use crate::memory::Outgoing;
use crate::memory::{Buffer, BufferPool};
use crate::tls::session::{SessionError, TlsSession};

/// The TLS of a stream.
pub(super) struct Secure {
    state: RefCell<State>,
    pool: Rc<BufferPool>,
    /// Whether records are being sent: nothing may be sent in between.
    sending: Cell<bool>,
}

struct State {
    session: TlsSession,
    /// Records received and not decrypted; without memory while the kernel has it, or when empty.
    incoming: Buffer,
}

/// Why a handshake failed.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// A TLS error on either side. An alert was sent or received.
    #[error("the TLS handshake failed: {0}")]
    Tls(#[from] SessionError),
    /// The connection ended or failed.
    #[error("the connection failed during the TLS handshake: {0}")]
    Broken(#[from] io::Error),
}

impl Secure {
    pub(super) fn new(session: TlsSession, incoming: Buffer, pool: &Rc<BufferPool>) -> Self {
        Self {
            state: RefCell::new(State { session, incoming }),
            pool: Rc::clone(pool),
            sending: Cell::new(false),
        }
    }

    /// Borrows the session for one call.
    pub(super) fn with_session<R>(&self, inspect: impl FnOnce(&TlsSession) -> R) -> R {
        inspect(&self.state.borrow().session)
    }

    /// Completes the handshake. Plaintext received with it is appended to `plain`.
    pub(super) async fn handshake(
        &self,
        socket: &Stream,
        plain: &mut Buffer,
    ) -> Result<(), HandshakeError> {
        loop {
            let opened = self.open(plain);
            let mut outgoing = self.state.borrow_mut().session.take_outgoing();
            if !outgoing.is_empty() {
                socket.send(&mut outgoing).await?;
            }
            opened?;
            if !self.with_session(|session| session.agreed().is_handshaking()) {
                return Ok(());
            }
            let mut lent = self.lend();
            let received = socket.receive(&mut lent).await;
            self.take_back(lent, received)?;
        }
    }

    /// Decrypts received records behind the buffer's bytes; returns how many bytes, 0 after the
    /// peer's close. `None` if more has to be received.
    pub(super) fn open_some(
        &self,
        socket: &Stream,
        plain: &mut Buffer,
    ) -> io::Result<Option<usize>> {
        match self.open(plain) {
            Ok(0) if plain.room() > 0 => {
                let at_end = self.with_session(TlsSession::is_at_end);
                Ok(at_end.then_some(0))
            }
            Ok(count) => Ok(Some(count)),
            Err(error) => {
                self.send_alert(socket);
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
        }
    }

    fn open(&self, plain: &mut Buffer) -> Result<usize, SessionError> {
        let mut state = self.state.borrow_mut();
        let State { session, incoming } = &mut *state;
        if plain.room() < incoming.len() {
            plain.grow();
        }
        let opened = session.process(incoming, plain);
        if incoming.is_empty() {
            self.pool.put(std::mem::take(incoming));
        }
        opened
    }

    /// A buffer for the kernel to receive into.
    pub(super) fn lend(&self) -> Buffer {
        let incoming = &mut self.state.borrow_mut().incoming;
        let mut lent = if incoming.is_empty() || TlsSession::needs(incoming) {
            self.pool.take_small()
        } else {
            std::mem::take(incoming)
        };
        lent.make_room();
        lent
    }

    /// Takes the buffer back with the received bytes. An end without a TLS close is an error, since anyone
    /// on the network can cause it (RFC 8446 section 6.1).
    pub(super) fn take_back(&self, lent: Buffer, received: io::Result<usize>) -> io::Result<()> {
        let incoming = &mut self.state.borrow_mut().incoming;
        if incoming.is_empty() && !lent.is_empty() {
            self.pool.put(std::mem::replace(incoming, lent));
        } else {
            incoming.grow();
            incoming.make_room();
            // A message that is too large is truncated here, and then found to fill the buffer.
            let fits = lent.len().min(incoming.room());
            let appended = incoming.append(lent.filled().get(..fits).unwrap_or_default());
            debug_assert!(appended, "no more than its room was taken");
            self.pool.put(lent);
        }
        match received? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Encrypts the front of `plain` that fits into a buffer; returns its length and the buffer.
    pub(super) fn seal_some(&self, plain: &[u8]) -> io::Result<(usize, Outgoing)> {
        let mut out = self.pool.take();
        let mut state = self.state.borrow_mut();
        let State { session, incoming } = &mut *state;
        let sealed = session
            .seal(plain, incoming, &mut out)
            .map_err(io::Error::other)?;
        self.sending.set(true);
        let range = 0..out.len();
        Ok((sealed, Outgoing { buffer: out, range }))
    }

    /// Takes back a sent buffer.
    pub(super) fn sent(&self, buffer: Buffer) {
        self.sending.set(false);
        self.pool.put(buffer);
    }

    /// Sends a close alert, unless a record is incomplete.
    pub(super) async fn close(&self, socket: &Stream) {
        if self.sending.get() {
            return;
        }
        let mut notice = {
            let mut state = self.state.borrow_mut();
            let State { session, incoming } = &mut *state;
            session.close(incoming);
            session.take_outgoing()
        };
        if !notice.is_empty() {
            // A failed peer does not matter.
            let _ = socket.send(&mut notice).await;
        }
    }

    /// Sends an alert if possible without waiting: the connection is over.
    fn send_alert(&self, socket: &Stream) {
        let alert = self.state.borrow_mut().session.take_outgoing();
        if !self.sending.get() && !alert.is_empty() {
            socket.send_now(&alert);
        }
    }

    /// The liveness known without checking the socket; `None` if it has to be checked.
    pub(super) fn liveness(&self) -> Option<Liveness> {
        let state = self.state.borrow();
        if state.session.is_at_end() {
            return Some(Liveness::Gone);
        }
        let holds = state.session.has_more() || !state.incoming.is_empty();
        holds.then_some(Liveness::Readable)
    }
}
