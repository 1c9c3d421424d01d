//! A client that sends exactly the bytes of the test and parses responses strictly.

use std::fmt;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustls::HandshakeKind;

use super::pki::Credential;
use super::{Broken, MOMENT, Message, TIMEOUT, Tls, Wire};

/// How the gateway ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    Closed,
    Reset,
    /// Without `close_notify`.
    Truncated,
}

/// A truncated response.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) broken: Broken,
    /// The part that was received.
    pub(crate) so_far: Box<Message>,
}

impl Cut {
    fn by(broken: Broken, so_far: Message) -> Self {
        Self {
            broken,
            so_far: Box::new(so_far),
        }
    }

    /// Whether the peer ended the connection, one way or the other.
    pub(crate) fn by_peer(&self) -> bool {
        matches!(
            self.broken,
            Broken::Closed | Broken::Reset | Broken::Truncated
        )
    }

    /// Whether no byte was received.
    pub(crate) fn is_empty(&self) -> bool {
        self.so_far.raw.is_empty()
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} after `{}`", self.broken, self.so_far)
    }
}

/// Connects to an address.
#[track_caller]
pub(crate) fn client(address: SocketAddr) -> Client {
    Client::over(TcpStream::connect_timeout(&address, TIMEOUT).expect("the listener accepts"))
}

/// Connects to an address by TLS. The handshake is done with the first bytes, or by
/// [`Client::completes_handshake`].
#[track_caller]
pub(crate) fn tls_client(address: SocketAddr, tls: &Tls) -> Client {
    let Client { wire } = client(address);
    Client {
        wire: wire.over_tls(tls.connection()),
    }
}

/// A connection to the gateway.
#[derive(Debug)]
pub(crate) struct Client {
    wire: Wire,
}

impl Client {
    /// A client over a connection that was made already.
    pub(crate) fn over(stream: TcpStream) -> Self {
        Self {
            wire: Wire::new(stream),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.wire.stream().local_addr().expect("it is connected")
    }

    /// Completes its TLS handshake, from the client's point of view.
    #[track_caller]
    pub(crate) fn completes_handshake(&mut self) -> &mut Self {
        assert_eq!(self.wire.handshake(), Ok(()));
        self
    }

    /// As [`Client::completes_handshake`], with its own part of it sent byte by byte.
    pub(crate) fn handshakes_byte_by_byte(&mut self) {
        self.wire.handshake_byte_by_byte();
    }

    /// Expects that the TLS handshake fails, also by an alert after it as in TLS 1.3. Returns the
    /// failure.
    #[track_caller]
    pub(crate) fn is_refused(&mut self) -> Broken {
        if let Err(broken) = self.wire.handshake() {
            return broken;
        }
        self.gets("/");
        match self.wire.some() {
            Ok(bytes) => panic!("it was let in: {}", bytes.escape_ascii()),
            Err(broken) => broken,
        }
    }

    /// The negotiated TLS parameters.
    pub(crate) fn tls(&self) -> &rustls::Connection {
        self.wire.tls()
    }

    /// Whether the server presented this certificate.
    #[track_caller]
    pub(crate) fn received_certificate(&self, pair: &Credential) -> bool {
        let chain = self
            .tls()
            .peer_certificates()
            .expect("a handshake that is done");
        chain.first() == Some(&pair.der())
    }

    /// Whether its handshake resumed an earlier session.
    pub(crate) fn has_resumed(&self) -> bool {
        self.tls().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Updates its sending keys, and requests the same of the gateway.
    pub(crate) fn changes_keys(&mut self) -> &mut Self {
        self.wire.change_keys();
        self
    }

    /// Sends bytes past TLS.
    pub(crate) fn sends_raw(&mut self, bytes: &[u8]) -> &mut Self {
        let mut stream = self.wire.stream();
        let _ = stream.write_all(bytes);
        self
    }

    /// Sends bytes. A closed connection is no failure here: the response decides.
    pub(crate) fn sends(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let _ = self.wire.write(bytes.as_ref());
        self
    }

    /// Sends a GET for a path.
    pub(crate) fn gets(&mut self, path: &str) -> &mut Self {
        self.sends(format!("GET {path} HTTP/1.1\r\nHost: example.test\r\n\r\n"))
    }

    /// Sends a POST with a body of known length, in one piece: requests with a pending body are
    /// tested elsewhere.
    pub(crate) fn posts(&mut self, path: &str, body: impl AsRef<[u8]>) -> &mut Self {
        let body = body.as_ref();
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: example.test\r\nContent-Length: {length}\r\n\r\n"
        );
        self.sends([head.as_bytes(), body].concat())
    }

    /// Sends `bytes` in two pieces, the second a moment after the first.
    pub(crate) fn sends_split(&mut self, bytes: &[u8], at: usize) -> &mut Self {
        let (first, second) = bytes.split_at(at);
        self.sends(first);
        // Not a synchronization: it makes a split in the gateway's reads likely, and both outcomes
        // are right.
        std::thread::park_timeout(Duration::from_micros(200));
        self.sends(second)
    }

    /// Sends as much as the peer accepts within a moment. Returns the number of bytes.
    pub(crate) fn sends_until_full(&mut self, most: usize) -> usize {
        let stream = self.wire.stream();
        stream
            .set_write_timeout(Some(MOMENT))
            .expect("a timeout above zero");
        let zeros = [0; 16 * 1024];
        let mut sent = 0;
        while sent < most {
            match self.wire.write_some(&zeros) {
                Ok(count) => sent += count,
                Err(_) => break,
            }
        }
        sent
    }

    /// Ends the writing half.
    pub(crate) fn finishes(&mut self) -> &mut Self {
        self.wire.finish();
        self
    }

    /// Ends the writing half of the connection without `close_notify`.
    pub(crate) fn cuts(&mut self) -> &mut Self {
        self.wire.cut();
        self
    }

    /// Leaves with a reset.
    pub(crate) fn resets(self) {
        self.wire.arm_reset();
    }

    /// Reads a response to a GET or POST; fails if none comes or it is malformed.
    #[track_caller]
    pub(crate) fn reads(&mut self) -> Message {
        self.reads_reply_to("GET")
    }

    /// Reads a response, whose body depends on the request's method.
    #[track_caller]
    pub(crate) fn reads_reply_to(&mut self, method: &str) -> Message {
        match self.reply_to(method) {
            Ok(message) => message,
            Err(cut) => panic!("no complete response: {cut}"),
        }
    }

    /// Reads a response and checks its status.
    #[track_caller]
    pub(crate) fn expects(&mut self, status: u16) -> Message {
        let response = self.reads();
        assert_eq!(response.status(), status, "in {response}");
        response
    }

    /// Reads only a head, and leaves its body unread.
    #[track_caller]
    pub(crate) fn reads_head(&mut self) -> Message {
        self.wire
            .head()
            .expect("a well-formed head")
            .expect("a head, not the end")
    }

    /// Reads this many raw bytes.
    #[track_caller]
    pub(crate) fn reads_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = self.wire.exactly(count as u64, &mut bytes);
        assert_eq!(read, Ok(()), "after {}", bytes.escape_ascii());
        bytes
    }

    /// Reads the body that belongs to a head read before.
    #[track_caller]
    pub(crate) fn reads_body_of(&mut self, mut head: Message) -> Message {
        let framing = head.response_framing("GET").expect("one framing");
        let read = self.wire.body(&mut head, framing);
        assert_eq!(read, Ok(()), "in {head}");
        head
    }

    /// A response, or the reason why there is none, with the part that was received.
    pub(crate) fn reply_to(&mut self, method: &str) -> Result<Message, Cut> {
        let mut head = match self.wire.head() {
            Ok(Some(head)) => head,
            Ok(None) => return Err(Cut::by(Broken::Closed, Message::default())),
            Err(broken) => return Err(Cut::by(broken, Message::default())),
        };
        let framing = match head.response_framing(method) {
            Ok(framing) => framing,
            Err(broken) => return Err(Cut::by(broken, head)),
        };
        match self.wire.body(&mut head, framing) {
            Ok(()) => Ok(head),
            Err(broken) => Err(Cut::by(broken, head)),
        }
    }

    /// Reads a response that must be truncated.
    #[track_caller]
    pub(crate) fn expects_broken_response(&mut self) -> Message {
        match self.reply_to("GET") {
            Ok(message) => panic!("a complete response instead of a truncated one: {message}"),
            Err(cut) if cut.by_peer() && cut.so_far.status() != 0 => *cut.so_far,
            Err(cut) => panic!("{cut}"),
        }
    }

    /// Everything up to the end of the connection, as text.
    #[track_caller]
    pub(crate) fn reads_to_the_end(&mut self) -> String {
        let mut text = Vec::new();
        loop {
            match self.wire.some() {
                Ok(bytes) => text.extend(bytes),
                Err(Broken::Closed) => return String::from_utf8_lossy(&text).into_owned(),
                Err(broken) => panic!("{broken:?} after {}", String::from_utf8_lossy(&text)),
            }
        }
    }

    /// The gateway must end the connection without another byte.
    #[track_caller]
    pub(crate) fn expects_end(&mut self) -> ConnectionEnd {
        match self.wire.some() {
            Err(Broken::Closed) => ConnectionEnd::Closed,
            Err(Broken::Reset) => ConnectionEnd::Reset,
            Err(Broken::Truncated) => ConnectionEnd::Truncated,
            Err(Broken::Late) => panic!("the connection is still open"),
            other => panic!("the connection should end: {other:?}"),
        }
    }

    /// The gateway must close the connection cleanly, without another byte.
    #[track_caller]
    pub(crate) fn expects_close(&mut self) {
        assert_eq!(self.expects_end(), ConnectionEnd::Closed);
    }

    /// Waits for data as long as this from now on.
    pub(crate) fn waits_at_most(&mut self, time: Duration) -> &mut Self {
        self.wire.wait_at_most(time);
        self
    }

    /// Expects that no data arrives for a moment.
    #[track_caller]
    pub(crate) fn expects_silence(&mut self) -> &mut Self {
        self.expects_silence_for(MOMENT)
    }

    /// Expects that no data arrives for this long.
    #[track_caller]
    pub(crate) fn expects_silence_for(&mut self, time: Duration) -> &mut Self {
        self.wire.wait_at_most(time);
        let received = self.wire.some();
        assert_eq!(received, Err(Broken::Late), "data arrived unexpectedly");
        self.wire.wait_at_most(TIMEOUT);
        self
    }
}
