//! One end of a TLS connection, sans-io.
//!
//! Built on rustls' unbuffered connections, so that waiting sessions hold no memory. The socket
//! around it is in `net`; certificates and trust come from the configuration of a session.

use std::fmt;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, ReadTraffic,
    UnbufferedStatus, WriteTraffic,
};
use rustls::{ClientConfig, CommonState, ServerConfig};
use thiserror::Error;

use self::spilled::SpilledPlaintext;
use crate::limits::BUFFER_BYTES;
use crate::memory::Buffer;
use crate::names::causes;

mod spilled;

/// One end of a TLS connection.
pub struct TlsSession {
    end: End,
    /// Plaintext of a record that did not fit into the reader's buffer.
    spilled: SpilledPlaintext,
    /// Records to send before any other: handshake messages and alerts.
    outgoing: Vec<u8>,
    /// Whether `process` stopped for lack of space, with complete records left.
    stopped: bool,
    peer_closed: bool,
    us: LocalState,
}

/// The state of our own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LocalState {
    Open,
    /// Only reading: close was sent, and the peer would drop anything after it.
    Closed,
    /// Nothing: an error has ended it, and rustls must not be called again.
    Failed(Fault),
}

causes! {
    /// The error that ended a session, as far as known.
    Fault;
    /// A record that fails decryption, or exceeds the size limit.
    Record "bad_record";
    /// A fatal alert of the peer.
    Alert "alert";
    /// A protocol violation, or an internal error.
    Protocol "protocol";
}

impl Fault {
    fn of(error: &SessionError) -> Self {
        match error {
            SessionError::Tls(
                rustls::Error::DecryptError | rustls::Error::PeerSentOversizedRecord,
            ) => Self::Record,
            SessionError::Tls(rustls::Error::AlertReceived(_)) => Self::Alert,
            _ => Self::Protocol,
        }
    }
}

enum End {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// Why a session cannot continue.
#[derive(Debug, Error)]
pub enum SessionError {
    /// A TLS error of either side.
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    /// A record or handshake message is larger than a buffer.
    #[error("a TLS message does not fit into a buffer")]
    TooLarge,
    /// The keys have encrypted the allowed number of records (TLS 1.2).
    #[error("the TLS keys are used up")]
    Exhausted,
    /// Its handshake is incomplete, or it was closed.
    #[error("the TLS session is not open")]
    NotOpen,
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.end {
            End::Server(_) => "server",
            End::Client(_) => "client",
        };
        f.debug_tuple("Session").field(&side).finish()
    }
}

impl TlsSession {
    /// A server session.
    ///
    /// # Errors
    ///
    /// The configuration is unusable.
    pub fn server(config: Arc<ServerConfig>) -> Result<Self, SessionError> {
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Self::new(End::Server(Box::new(connection))))
    }

    /// A client session for this server name.
    ///
    /// # Errors
    ///
    /// The configuration is unusable.
    pub fn client(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, SessionError> {
        let connection = UnbufferedClientConnection::new(config, name)?;
        Ok(Self::new(End::Client(Box::new(connection))))
    }

    fn new(end: End) -> Self {
        Self {
            end,
            spilled: SpilledPlaintext::default(),
            outgoing: Vec::new(),
            stopped: false,
            peer_closed: false,
            us: LocalState::Open,
        }
    }

    /// The negotiated version, protocol and peer certificates.
    #[must_use]
    pub fn agreed(&self) -> &CommonState {
        match &self.end {
            End::Server(connection) => connection,
            End::Client(connection) => connection,
        }
    }

    /// Whether the peer has closed the session, and everything received was read.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.peer_closed && self.spilled.is_empty()
    }

    /// The error that ended it, if any.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        match self.us {
            LocalState::Failed(fault) => Some(fault),
            LocalState::Open | LocalState::Closed => None,
        }
    }

    /// Whether plaintext is available without receiving more.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.stopped || !self.spilled.is_empty()
    }

    /// Decrypts the records at the front of `incoming` and appends their plaintext to `plain`,
    /// until either is exhausted. Returns how many bytes were appended. An incomplete record or
    /// handshake message stays in `incoming`, and has to be there again with more after it.
    ///
    /// # Errors
    ///
    /// The session has failed; an alert may be in [`TlsSession::take_outgoing`].
    pub fn process(
        &mut self,
        incoming: &mut Buffer,
        plain: &mut Buffer,
    ) -> Result<usize, SessionError> {
        if self.fault().is_some() {
            return Err(SessionError::NotOpen);
        }
        let before = plain.len();
        self.spilled.drain_into(plain);
        self.stopped = !self.spilled.is_empty();
        while !self.stopped {
            let records = incoming.filled_mut();
            let mut sinks = Sinks {
                plain,
                spilled: &mut self.spilled,
                outgoing: &mut self.outgoing,
            };
            let (discard, turn) = match &mut self.end {
                End::Server(end) => sinks.turn(end.process_tls_records(records)),
                End::Client(end) => sinks.turn(end.process_tls_records(records)),
            };
            incoming.consume(discard);
            match turn {
                Ok(Progress::Continue) => self.stopped = !self.spilled.is_empty(),
                Ok(Progress::PeerClosed) => self.peer_closed = true,
                Ok(Progress::Waiting) => break,
                Err(error) => return Err(self.fail(error)),
            }
        }
        if !self.stopped && !self.peer_closed && incoming.len() >= BUFFER_BYTES {
            return Err(self.fail(SessionError::TooLarge));
        }
        Ok(plain.len() - before)
    }

    /// Encrypts as much of `plain` as fits into `out`, after records that have to be sent first.
    /// Returns how many bytes of `plain` were encrypted. `incoming` is what [`TlsSession::process`]
    /// left of it, or empty while it is lent to the kernel.
    ///
    /// # Errors
    ///
    /// The session is not open, or cannot encrypt any more.
    pub fn seal(
        &mut self,
        plain: &[u8],
        incoming: &mut Buffer,
        out: &mut Buffer,
    ) -> Result<usize, SessionError> {
        let mut sealed = Err(SessionError::NotOpen);
        self.when_open(incoming, |traffic, first| {
            // Records are numbered: they must be sent in the order of their encryption.
            sealed = if out.append(first) {
                first.clear();
                seal_into(traffic, plain, out)
            } else {
                Err(SessionError::TooLarge)
            };
        })?;
        sealed
    }

    /// Sends a close alert (RFC 8446 section 6.1).
    pub fn close(&mut self, incoming: &mut Buffer) {
        // A session that is not open needs no alert.
        let queued = self.when_open(incoming, |traffic, outgoing| {
            let mut notice = [0; NOTICE_BYTES];
            let length = traffic.queue_close_notify(&mut notice).unwrap_or_default();
            outgoing.extend_from_slice(notice.get(..length).unwrap_or_default());
        });
        if queued.is_ok() {
            self.us = LocalState::Closed;
        }
    }

    /// Takes the records to send immediately.
    #[must_use]
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    /// Whether `incoming`, as [`TlsSession::process`] left it, begins with a part of a message: while
    /// it does, nothing can be sealed without it.
    #[must_use]
    pub fn needs(incoming: &Buffer) -> bool {
        let Some(&[_, _, _, high, low]) = incoming.filled().first_chunk::<RECORD_HEADER_BYTES>()
        else {
            return false;
        };
        let record = RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
        incoming.len() >= record
    }

    /// Lends the writing half once everything that precedes its data was sent.
    fn when_open(
        &mut self,
        incoming: &mut Buffer,
        write: impl FnOnce(&mut dyn Writes, &mut Vec<u8>),
    ) -> Result<(), SessionError> {
        if self.us != LocalState::Open {
            return Err(SessionError::NotOpen);
        }
        let mut write = Some(write);
        let mut nothing = Buffer::default();
        // Complete records stay encrypted while there is no space for their plaintext; the session
        // is then between messages.
        let incoming = if self.stopped { &mut nothing } else { incoming };
        loop {
            let records = incoming.filled_mut();
            let mut sinks = Sinks {
                plain: &mut Buffer::default(),
                spilled: &mut self.spilled,
                outgoing: &mut self.outgoing,
            };
            let (discard, turn) = match &mut self.end {
                End::Server(end) => sinks.write_turn(end.process_tls_records(records), &mut write),
                End::Client(end) => sinks.write_turn(end.process_tls_records(records), &mut write),
            };
            incoming.consume(discard);
            match turn {
                Ok(Progress::Continue) => {}
                Ok(Progress::PeerClosed) => self.peer_closed = true,
                Ok(Progress::Waiting) if write.is_none() => return Ok(()),
                Ok(Progress::Waiting) => return Err(SessionError::NotOpen),
                Err(error) => return Err(self.fail(error)),
            }
        }
    }

    /// Records a failure. An alert may be queued, and is all that can still be sent.
    fn fail(&mut self, error: SessionError) -> SessionError {
        self.us = LocalState::Failed(Fault::of(&error));
        while self.agreed().wants_write() {
            let mut sinks = Sinks {
                plain: &mut Buffer::default(),
                spilled: &mut SpilledPlaintext::default(),
                outgoing: &mut self.outgoing,
            };
            let (_, turn) = match &mut self.end {
                End::Server(end) => sinks.turn(end.process_tls_records(&mut [])),
                End::Client(end) => sinks.turn(end.process_tls_records(&mut [])),
            };
            if turn.is_err() {
                break;
            }
        }
        error
    }
}

/// The result of a call to rustls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// There may be more to do.
    Continue,
    /// The peer has closed its half in order.
    PeerClosed,
    /// For bytes from the peer, or from us.
    Waiting,
}

/// Where the output of a call goes.
struct Sinks<'a> {
    plain: &'a mut Buffer,
    spilled: &'a mut SpilledPlaintext,
    outgoing: &'a mut Vec<u8>,
}

impl Sinks<'_> {
    /// Number of input bytes that were consumed, and the result.
    fn turn<Data>(
        &mut self,
        status: UnbufferedStatus<'_, '_, Data>,
    ) -> (usize, Result<Progress, SessionError>) {
        self.write_turn(status, &mut None::<fn(&mut dyn Writes, &mut Vec<u8>)>)
    }

    /// As `turn`; where the session is open, `write` is called.
    fn write_turn<Data>(
        &mut self,
        status: UnbufferedStatus<'_, '_, Data>,
        write: &mut Option<impl FnOnce(&mut dyn Writes, &mut Vec<u8>)>,
    ) -> (usize, Result<Progress, SessionError>) {
        let mut discard = status.discard;
        let turn = match status.state {
            Ok(ConnectionState::ReadTraffic(traffic)) => self.take_plaintext(traffic, &mut discard),
            Ok(ConnectionState::EncodeTlsData(data)) => self.take_record(data),
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                Ok(Progress::Continue)
            }
            Ok(ConnectionState::PeerClosed) => Ok(Progress::PeerClosed),
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                if let Some(write) = write.take() {
                    write(&mut traffic, self.outgoing);
                }
                Ok(Progress::Waiting)
            }
            Ok(ConnectionState::BlockedHandshake | ConnectionState::Closed) => {
                Ok(Progress::Waiting)
            }
            // Early data is not offered, and there are no other states.
            Ok(_) => Err(SessionError::NotOpen),
            Err(error) => Err(error.into()),
        };
        (discard, turn)
    }

    fn take_plaintext<Data>(
        &mut self,
        mut traffic: ReadTraffic<'_, '_, Data>,
        discard: &mut usize,
    ) -> Result<Progress, SessionError> {
        while let Some(record) = traffic.next_record() {
            let record = record?;
            *discard += record.discard;
            self.spilled.put(record.payload, self.plain);
        }
        Ok(Progress::Continue)
    }

    fn take_record<Data>(
        &mut self,
        mut data: EncodeTlsData<'_, Data>,
    ) -> Result<Progress, SessionError> {
        let start = self.outgoing.len();
        // Without space, it returns the length that it needs.
        if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) =
            data.encode(&mut [])
        {
            self.outgoing.resize(start + required_size, 0);
            let room = self.outgoing.get_mut(start..).unwrap_or_default();
            data.encode(room).map_err(|_| SessionError::TooLarge)?;
        }
        Ok(Progress::Continue)
    }
}

/// The writing half of an open session, whichever end it is.
trait Writes {
    fn encrypt(&mut self, plain: &[u8], out: &mut [u8]) -> Result<usize, EncryptError>;
    fn queue_close_notify(&mut self, out: &mut [u8]) -> Result<usize, EncryptError>;
}

impl<Data> Writes for WriteTraffic<'_, Data> {
    fn encrypt(&mut self, plain: &[u8], out: &mut [u8]) -> Result<usize, EncryptError> {
        WriteTraffic::encrypt(self, plain, out)
    }

    fn queue_close_notify(&mut self, out: &mut [u8]) -> Result<usize, EncryptError> {
        WriteTraffic::queue_close_notify(self, out)
    }
}

/// Seals what fits of `plain`; how many bytes those are.
fn seal_into(
    traffic: &mut dyn Writes,
    plain: &[u8],
    out: &mut Buffer,
) -> Result<usize, SessionError> {
    let max = out.room().saturating_sub(SEALING_BYTES);
    let piece = plain.get(..max).unwrap_or(plain);
    let mut sealed = Ok(0);
    let fits = out.append_with((piece.len() + SEALING_BYTES).min(out.room()), |room| {
        sealed = traffic.encrypt(piece, room);
        *sealed.as_ref().unwrap_or(&0)
    });
    match sealed {
        Ok(_) if fits => Ok(piece.len()),
        Ok(_) | Err(EncryptError::InsufficientSize(_)) => Err(SessionError::TooLarge),
        Err(EncryptError::EncryptExhausted) => Err(SessionError::Exhausted),
    }
}

const RECORD_HEADER_BYTES: usize = 5;
/// Bytes that sealing a whole buffer may add: at most 29 a record of 16 KiB, five records, and a
/// key update.
const SEALING_BYTES: usize = 256;
/// Bytes of a sealed alert, and of a key update before it: 31 and 51 at most.
const NOTICE_BYTES: usize = 128;

#[cfg(test)]
mod tests;
