//! The TLS handshake of a client: selects the listener by SNI, uses its certificates, and keeps the
//! client's certificate and protocol.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use rustls::{Error, HandshakeKind, PeerIncompatible};
use xds::model::{Alpn, Scheme};

use crate::config::{Accepts, Listener};
use crate::exchange::NextStep;
use crate::exchange::client::{Client, ClientTls};
use crate::memory::Buffer;
use crate::names::Interned;
use crate::net::{HandshakeError, Stream};
use crate::observe::handshakes::HandshakeFailure;
use crate::policy::forwarded::Hop;
use crate::shard::Shard;
use crate::tls::certificate_flaw::{CertificateFlaw, is_certificate_rejection};
use crate::tls::client_hello::{ClientHello, HelloError, HelloReader, Progress};
use crate::tls::session::{SessionError, TlsSession};
use crate::tls::{ClientCertificate, ServerTls};

/// Why a connection ends before its first request.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsAcceptError {
    #[error("it does not begin with a TLS handshake")]
    NotTls,
    #[error("it begins with an HTTP request without TLS")]
    PlainHttp,
    #[error("its ClientHello is malformed: {0}")]
    Hello(#[from] HelloError),
    #[error("no listener serves the name in its ClientHello")]
    NoListener,
    #[error("the listener's TLS configuration is invalid")]
    NoTls,
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    #[error("the TLS handshake timed out")]
    Late,
    #[error("it was closed before its TLS handshake")]
    Ended,
    #[error("I/O error: {0}")]
    Broken(#[from] io::Error),
}

impl TlsAcceptError {
    fn cause(&self) -> HandshakeFailure {
        match self {
            Self::NotTls | Self::PlainHttp => HandshakeFailure::NotTls,
            Self::Hello(_) => HandshakeFailure::Malformed,
            Self::NoListener => HandshakeFailure::NoListener,
            Self::NoTls => HandshakeFailure::NotSetUp,
            Self::Handshake(HandshakeError::Tls(error)) => refusal(error),
            Self::Late => HandshakeFailure::Timeout,
            Self::Handshake(HandshakeError::Broken(_)) | Self::Ended | Self::Broken(_) => {
                HandshakeFailure::Broken
            }
        }
    }
}

/// Which side rejected the other, and why.
fn refusal(error: &SessionError) -> HandshakeFailure {
    let SessionError::Tls(error) = error else {
        return HandshakeFailure::Refused;
    };
    match error {
        Error::PeerIncompatible(
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::SupportedVersionsExtensionRequired,
        ) => HandshakeFailure::NoVersion,
        Error::NoApplicationProtocol => HandshakeFailure::NoProtocol,
        Error::NoCertificatesPresented => HandshakeFailure::CertificateMissing,
        Error::InvalidCertificate(error) => match CertificateFlaw::from(error) {
            CertificateFlaw::Expired => HandshakeFailure::CertificateExpired,
            CertificateFlaw::Untrusted => HandshakeFailure::CertificateUntrusted,
            CertificateFlaw::OtherName | CertificateFlaw::Other => HandshakeFailure::CertificateBad,
        },
        Error::AlertReceived(alert) if is_certificate_rejection(*alert) => {
            HandshakeFailure::Distrusted
        }
        _ => HandshakeFailure::Refused,
    }
}

/// Reads the first message of a new connection into `buffer`. The handshake timeout starts here.
pub(super) async fn read_client_hello(
    shard: &Shard,
    client: &Client,
    buffer: &mut Buffer,
) -> Result<ClientHello, NextStep> {
    client.limit_handshake(shard);
    let hello = read_hello(client, buffer).await;
    hello.map_err(|why| refuse(shard, client, why))
}

/// What a handshake keeps of its listener: a client may take long, and a configuration is large.
pub(super) struct Terminator {
    listener: Interned,
    tls: ServerTls,
}

impl Terminator {
    /// That of the listener for a connection's SNI.
    pub(super) fn of(listener: Option<&Listener>) -> Result<Self, TlsAcceptError> {
        let listener = listener.ok_or(TlsAcceptError::NoListener)?;
        let Accepts::Tls(tls) = &listener.accepts else {
            return Err(TlsAcceptError::NoTls);
        };
        Ok(Self {
            listener: listener.id,
            tls: tls.clone(),
        })
    }
}

/// Performs the handshake of a connection with the listener for its SNI. `buffer` holds the first
/// bytes received, and then the first decrypted bytes.
pub(super) async fn accept(
    shard: &Rc<Shard>,
    client: &mut Client,
    (terminator, server_name): (Result<Terminator, TlsAcceptError>, Option<&str>),
    buffer: &mut Buffer,
) -> Result<(), NextStep> {
    let accepted = match terminator {
        Ok(terminator) => handshake(shard, client, (&terminator, server_name), buffer).await,
        Err(error) => Err(error),
    };
    client.deadline.disarm();
    accepted.map_err(|why| refuse(shard, client, why))
}

/// Rejects a connection before its first request.
fn refuse(shard: &Shard, client: &Client, why: TlsAcceptError) -> NextStep {
    let why = if client.deadline.expired() {
        TlsAcceptError::Late
    } else {
        why
    };
    shard.counters.handshakes.failed.count(why.cause());
    tracing::debug!(client = %client.hop.address(), %why, "closed a connection");
    let answer: &[u8] = match why {
        // An alert has been sent.
        TlsAcceptError::Handshake(HandshakeError::Tls(_)) => return NextStep::Linger,
        TlsAcceptError::NoListener | TlsAcceptError::NoTls => UNRECOGNIZED_NAME,
        TlsAcceptError::PlainHttp => PLAIN_HTTP_RESPONSE,
        _ => return NextStep::Close,
    };
    if let Some(socket) = client.stream.as_socket() {
        // Nothing was sent before, so there is room; and the client learns no more than why.
        socket.send_now(answer);
    }
    NextStep::Linger
}

/// A fatal alert in plain text (RFC 6066 section 3, RFC 8446 section 6): no certificate serves the name.
const UNRECOGNIZED_NAME: &[u8] = &[21, 3, 3, 0, 2, 2, 112];

/// The response to HTTP on a port of HTTPS.
const PLAIN_HTTP_RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\nContent-Length: 44\r\nConnection: close\r\n\r\n\
    this port expects TLS: use an https:// URL.\n";

async fn handshake(
    shard: &Rc<Shard>,
    client: &mut Client,
    (Terminator { listener, tls }, server_name): (&Terminator, Option<&str>),
    buffer: &mut Buffer,
) -> Result<(), TlsAcceptError> {
    let mut received = std::mem::replace(buffer, shard.buffers.take());
    let session = tls
        .session(&mut received, buffer)
        .map_err(HandshakeError::from)?;
    let socket = client.stream.as_socket_mut().ok_or(TlsAcceptError::NoTls)?;
    socket
        .handshake(session, received, buffer, &shard.buffers)
        .await?;
    let certificate = certificate(socket, tls);
    let kind = |session: &TlsSession| session.agreed().handshake_kind();
    match socket.with_session(kind).flatten() {
        Some(HandshakeKind::Resumed) => shard.counters.handshakes.resumed.increment(),
        _ => shard.counters.handshakes.full.increment(),
    }
    client.hop = Hop::new(client.hop.address(), Scheme::Https);
    client.deadline.end_half_closed();
    client.tls = Some(Rc::new(ClientTls {
        listener: *listener,
        server_name: server_name.map(Box::from),
        domain: Arc::clone(&tls.domain),
        certificate,
        protocol: socket.with_session(agreed_protocol).flatten(),
    }));
    Ok(())
}

/// Reads until the buffer holds a complete ClientHello, which stays in it.
async fn read_hello(client: &Client, buffer: &mut Buffer) -> Result<ClientHello, TlsAcceptError> {
    let mut reader = HelloReader::default();
    loop {
        match reader.read(buffer.filled())? {
            Progress::Hello(hello) => return Ok(hello),
            Progress::NotTls if is_http(buffer.filled()) => return Err(TlsAcceptError::PlainHttp),
            Progress::NotTls => return Err(TlsAcceptError::NotTls),
            Progress::NeedMore => {}
        }
        if client.stream.read(buffer).await? == 0 {
            return Err(TlsAcceptError::Ended);
        }
    }
}

/// Whether bytes begin as an HTTP request does, with a method in upper case.
fn is_http(bytes: &[u8]) -> bool {
    let method = bytes.iter().take_while(|byte| byte.is_ascii_uppercase());
    let length = method.count();
    length > 0 && bytes.get(length).is_none_or(|&byte| byte == b' ')
}

fn agreed_protocol(session: &TlsSession) -> Option<Alpn> {
    let name = session.agreed().alpn_protocol()?;
    let is_named = |protocol: &Alpn| protocol.as_str().as_bytes() == name;
    [Alpn::H2, Alpn::Http11].into_iter().find(is_named)
}

fn certificate(socket: &Stream, tls: &ServerTls) -> Option<ClientCertificate> {
    let verifier = tls.clients.as_deref()?;
    let read = |session: &TlsSession| {
        let chain = session.agreed().peer_certificates()?;
        ClientCertificate::read(chain, verifier)
    };
    socket.with_session(read).flatten()
}
