//! HTTP/2 frame by frame: the test determines every byte that is sent, and received frames are
//! parsed without a library. A peer can be either end of a connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::{Driver, Gateway, TIMEOUT, gateway};

/// The connection preface of a client.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Represents an HTTP/1 response; its payload is the status.
pub(crate) const ANSWER_OF_HTTP_1: u8 = 0xff;

pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A frame that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The error code of a `RST_STREAM` or GOAWAY.
    pub(crate) fn code(&self) -> Option<u32> {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        let bytes = self.payload.get(at..at + 4)?;
        bytes.try_into().ok().map(u32::from_be_bytes)
    }

    /// The last stream that a GOAWAY names.
    pub(crate) fn last_stream(&self) -> u32 {
        let bytes = self.payload.first_chunk().expect("a GOAWAY");
        u32::from_be_bytes(*bytes)
    }

    /// The status of a response, if it is the first of its connection.
    pub(crate) fn status(&self) -> Option<u16> {
        let block = match self.payload.as_slice() {
            [update, rest @ ..] if update & 0xe0 == 0x20 => rest,
            block => block,
        };
        match block {
            [indexed @ 0x88..=0x8e, ..] => {
                Some([200, 204, 206, 304, 400, 404, 500][usize::from(indexed - 0x88)])
            }
            [0x48 | 0x08 | 0x18, length, text @ ..] if length & 0x80 == 0 => {
                std::str::from_utf8(text.get(..3)?).ok()?.parse().ok()
            }
            [0x48 | 0x08 | 0x18, _, text @ ..] => digits(text),
            _ => None,
        }
    }
}

/// Three digits in the code of HPACK (RFC 7541 appendix B): `0` to `2` have five bits, the others
/// six.
fn digits(text: &[u8]) -> Option<u16> {
    let bit = |at: usize| text.get(at / 8).map(|byte| byte >> (7 - at % 8) & 1);
    let (mut number, mut at) = (0, 0);
    for _ in 0..3 {
        let mut code = 0;
        let mut digit = None;
        for length in 1..=6 {
            code = code << 1 | bit(at)?;
            at += 1;
            digit = match (length, code) {
                (5, 0..=2) => Some(u16::from(code)),
                (6, 0x19..=0x1f) => Some(u16::from(code) - 0x19 + 3),
                _ => None,
            };
            if digit.is_some() {
                break;
            }
        }
        number = number * 10 + digit?;
    }
    Some(number)
}

/// A frame to send.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Fields in the simplest form of HPACK: literal, not indexed, not compressed.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            push_length(text.len(), &mut bytes);
            bytes.extend(text.chars().map(|c| c as u8));
        }
    }
    bytes
}

fn push_length(length: usize, bytes: &mut Vec<u8>) {
    let Some(mut rest) = length.checked_sub(127) else {
        return bytes.push(u8::try_from(length).expect("below 127"));
    };
    bytes.push(127);
    while rest >= 128 {
        bytes.push(u8::try_from(rest % 128).expect("seven bits") | 0x80);
        rest /= 128;
    }
    bytes.push(u8::try_from(rest).expect("seven bits"));
}

/// The fields of a request for `/`.
pub(crate) fn request(method: &str) -> Vec<(&str, &str)> {
    vec![
        (":method", method),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "a.test"),
    ]
}

/// The frame of a whole GET.
pub(crate) fn get(stream: u32) -> Vec<u8> {
    let block = block(&request("GET"));
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block)
}

/// The frame of a POST whose body follows.
pub(crate) fn post(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &block(&request("POST")))
}

/// A gateway whose only backend speaks HTTP/2, frame by frame under the test's control.
pub(crate) fn before_frames(driver: Driver) -> (TcpListener, Gateway) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let gateway = gateway(driver)
        .backend("origin", &[address])
        .speaks("origin", "H2C")
        .rule("{backendRefs: [{@origin}]}");
    (listener, gateway.start())
}

/// The next connection; fails after a timeout.
#[track_caller]
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a socket of ours");
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("a socket of ours");
                return stream;
            }
            Err(_) if Instant::now() < deadline => {
                std::thread::park_timeout(Duration::from_millis(2));
            }
            Err(error) => panic!("the gateway does not connect: {error}"),
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    stream: TcpStream,
    ahead: Vec<u8>,
    silence: OnSilence,
}

/// The meaning of silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnSilence {
    Failure,
    /// Silence is allowed.
    Tolerated,
    Met,
}

impl Peer {
    /// A client that has sent nothing.
    #[track_caller]
    pub(crate) fn silent(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT).expect("the listener accepts");
        Self::over(stream)
    }

    /// A client that has sent preface and SETTINGS.
    #[track_caller]
    pub(crate) fn client(address: SocketAddr) -> Self {
        let mut peer = Self::silent(address);
        peer.sends(PREFACE).sends(frame(SETTINGS, 0, 0, b""));
        peer
    }

    /// The server of the next connection, which has read the preface and sent SETTINGS.
    #[track_caller]
    pub(crate) fn server(listener: &TcpListener) -> Self {
        Self::server_with_settings(listener, b"")
    }

    /// As [`Peer::server`], with settings.
    #[track_caller]
    pub(crate) fn server_with_settings(listener: &TcpListener, settings: &[u8]) -> Self {
        Self::server_after_preamble(listener, b"", settings)
    }

    /// As [`Peer::server_with_settings`], of a connection that begins with this.
    #[track_caller]
    pub(crate) fn server_after_preamble(
        listener: &TcpListener,
        preamble: &[u8],
        settings: &[u8],
    ) -> Self {
        let stream = accept(listener);
        let mut peer = Self::over(stream);
        let received = peer.exactly(preamble.len()).unwrap_or_default();
        assert_eq!(
            received.escape_ascii().to_string(),
            preamble.escape_ascii().to_string()
        );
        assert_eq!(peer.exactly(PREFACE.len()).as_deref(), Some(PREFACE));
        peer.sends(frame(SETTINGS, 0, 0, settings));
        peer
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("a socket of ours");
        stream.set_read_timeout(Some(TIMEOUT)).expect("above zero");
        stream.set_write_timeout(Some(TIMEOUT)).expect("above zero");
        Self {
            stream,
            ahead: Vec::new(),
            silence: OnSilence::Failure,
        }
    }

    /// Its own end of the connection.
    pub(crate) fn address(&self) -> SocketAddr {
        self.stream.local_addr().expect("connected")
    }

    /// Sends bytes. A closed connection is no failure here: what the peer sent before decides.
    pub(crate) fn sends(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let _ = self.stream.write_all(bytes.as_ref());
        self
    }

    /// Ends the writing half.
    pub(crate) fn finishes(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// From now on, silence of this length is not a failure but an end, which [`Peer::was_silent`] reports.
    pub(crate) fn tolerates_silence_of(&mut self, time: Duration) -> &mut Self {
        self.stream
            .set_read_timeout(Some(time))
            .expect("above zero");
        self.silence = OnSilence::Tolerated;
        self
    }

    /// Whether the end was silence.
    pub(crate) fn was_silent(&self) -> bool {
        self.silence == OnSilence::Met
    }

    /// The next frame; `None` at the end of the connection.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let head = self.exactly(9)?;
        if head == b"HTTP/1.1 " {
            let payload = self.exactly(3)?;
            return Some(Frame {
                kind: ANSWER_OF_HTTP_1,
                flags: 0,
                stream: 0,
                payload,
            });
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = self.exactly(usize::try_from(length).expect("24 bits"))?;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream,
            payload,
        })
    }

    /// The next frame of a kind, others left out.
    #[track_caller]
    pub(crate) fn next_of(&mut self, kind: u8) -> Frame {
        loop {
            match self.next() {
                Some(frame) if frame.kind == kind => return frame,
                Some(_) => {}
                None => panic!("the connection ended before a frame of kind {kind}"),
            }
        }
    }

    /// The error code of the GOAWAY that ends the connection, once it has ended.
    #[track_caller]
    pub(crate) fn expects_goaway(&mut self) -> u32 {
        let mut code = None;
        while let Some(frame) = self.next() {
            if frame.kind == GOAWAY {
                code = frame.code();
            }
        }
        code.expect("a GOAWAY before the end")
    }

    /// Acknowledges its SETTINGS, and waits for the acknowledgement of ours.
    #[track_caller]
    pub(crate) fn settles(&mut self) -> &mut Self {
        let mut acknowledged = false;
        let mut answered = false;
        while !(acknowledged && answered) {
            let frame = self.next_of(SETTINGS);
            if frame.flags & ACK == 0 {
                self.sends(self::frame(SETTINGS, ACK, 0, b""));
                answered = true;
            } else {
                acknowledged = true;
            }
        }
        self
    }

    #[track_caller]
    fn exactly(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut buffer = [0; 16 * 1024];
        while self.ahead.len() < count {
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(read) => self.ahead.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(_) if self.silence != OnSilence::Failure => {
                    self.silence = OnSilence::Met;
                    return None;
                }
                Err(error) => panic!("no data arrived in time: {error}"),
            }
        }
        let rest = self.ahead.split_off(count);
        Some(std::mem::replace(&mut self.ahead, rest))
    }
}
