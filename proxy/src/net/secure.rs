//! TLS over a socket: the I/O around a [`Session`].
//!
//! The one task that owns a stream reads and writes it at once, and each is awaited. So the session
//! is borrowed for calls alone, and while the kernel has the buffer that records come into, writing
//! does without. What waits for bytes without having part of a record holds no buffer.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use thiserror::Error;

use super::Liveness;
use super::stream::Stream;
use crate::memory::Outgoing;
use crate::memory::{Buffer, BufferPool};
use crate::tls::session::{Session, SessionError};

/// The TLS of a stream.
pub(super) struct Secure {
    state: RefCell<State>,
    pool: Rc<BufferPool>,
    /// Whether records are on their way out: nothing may come between them.
    sending: Cell<bool>,
}

struct State {
    session: Session,
    /// Records that were received and not opened; without memory while the kernel has it, or there
    /// are none.
    incoming: Buffer,
}

/// Why a handshake did not come to its end.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// What the peer sent, or will not accept. An alert has told it, or come from it.
    #[error("the TLS handshake failed: {0}")]
    Tls(#[from] SessionError),
    /// The connection ended or broke.
    #[error("the connection broke off in the TLS handshake: {0}")]
    Broken(#[from] io::Error),
}

impl Secure {
    pub(super) fn new(session: Session, incoming: Buffer, pool: &Rc<BufferPool>) -> Self {
        Self {
            state: RefCell::new(State { session, incoming }),
            pool: Rc::clone(pool),
            sending: Cell::new(false),
        }
    }

    /// Lends the session, for one call.
    pub(super) fn with_session<R>(&self, look: impl FnOnce(&Session) -> R) -> R {
        look(&self.state.borrow().session)
    }

    /// Brings the handshake to its end. Plaintext that came with it is appended to `plain`.
    pub(super) async fn handshake(
        &self,
        socket: &Stream,
        plain: &mut Buffer,
    ) -> Result<(), HandshakeError> {
        loop {
            let opened = self.open(plain);
            let mut said = self.state.borrow_mut().session.take_outgoing();
            if !said.is_empty() {
                socket.send(&mut said).await?;
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

    /// Reads plaintext into the room behind the buffer's bytes, of what has been received: how much,
    /// 0 where the peer has said that no more comes. `None` where more has to be received.
    pub(super) fn open_some(
        &self,
        socket: &Stream,
        plain: &mut Buffer,
    ) -> io::Result<Option<usize>> {
        match self.open(plain) {
            Ok(0) if plain.room() > 0 => {
                let at_end = self.with_session(Session::is_at_end);
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
        let mut lent = if incoming.is_empty() || Session::needs(incoming) {
            self.pool.take_small()
        } else {
            std::mem::take(incoming)
        };
        lent.make_room();
        lent
    }

    /// Takes it back with what was received. An end of the connection is an error, since anybody on
    /// the way can bring it about (RFC 8446 section 6.1).
    pub(super) fn take_back(&self, lent: Buffer, received: io::Result<usize>) -> io::Result<()> {
        let incoming = &mut self.state.borrow_mut().incoming;
        if incoming.is_empty() && !lent.is_empty() {
            self.pool.put(std::mem::replace(incoming, lent));
        } else {
            incoming.grow();
            incoming.make_room();
            // A message that is too large is cut here, and then found to fill the buffer.
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

    /// Seals what fits into a buffer of the front of `plain`: how much that was, and what it came to.
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

    /// Takes back a buffer that was sealed into.
    pub(super) fn sent(&self, buffer: Buffer) {
        self.sending.set(false);
        self.pool.put(buffer);
    }

    /// Tells the peer that nothing more comes, unless it is in the middle of a record.
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
            // A peer that has gone does not mind.
            let _ = socket.send(&mut notice).await;
        }
    }

    /// Tells the peer what was wrong, if that can be done without waiting: the connection is over.
    fn send_alert(&self, socket: &Stream) {
        let alert = self.state.borrow_mut().session.take_outgoing();
        if !self.sending.get() && !alert.is_empty() {
            socket.send_now(&alert);
        }
    }

    /// What is known without looking at the socket; `None` where that has to be looked at.
    pub(super) fn liveness(&self) -> Option<Liveness> {
        let state = self.state.borrow();
        if state.session.is_at_end() {
            return Some(Liveness::Gone);
        }
        let holds = state.session.has_more() || !state.incoming.is_empty();
        holds.then_some(Liveness::Readable)
    }
}
