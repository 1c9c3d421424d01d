//! A TCP connection, or TLS over one, read message by message, strictly, with a deadline on every
//! read.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustls::Connection;

use super::kernel::unread_by_peer;
use super::message::{field_line, latin1, malformed, start_line};
use super::{Framing, Message, TIMEOUT};

/// Why no message came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The peer closed the connection cleanly in the middle of a message.
    Closed,
    /// The peer reset the connection.
    Reset,
    /// Nothing came in time.
    Late,
    /// The received bytes are not valid HTTP/1.1.
    Malformed(String),
    /// The connection ended without `close_notify`.
    Truncated,
    /// TLS failed, with rustls' message.
    Tls(String),
}

/// A connection and the bytes read ahead on it.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    tls: Option<Box<Connection>>,
    ahead: Vec<u8>,
    raw: Vec<u8>,
}

impl Wire {
    /// Takes over a connection: no delay of small writes, [`TIMEOUT`] on reads and writes.
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream
            .set_nodelay(true)
            .expect("TCP_NODELAY on a socket of ours");
        stream
            .set_read_timeout(Some(TIMEOUT))
            .expect("a timeout above zero");
        stream
            .set_write_timeout(Some(TIMEOUT))
            .expect("a timeout above zero");
        Self {
            stream,
            tls: None,
            ahead: Vec::new(),
            raw: Vec::new(),
        }
    }

    /// Speaks TLS from here on; the handshake is done with the first bytes, or immediately by
    /// [`Wire::handshake`].
    pub(crate) fn over_tls(mut self, tls: impl Into<Connection>) -> Self {
        self.tls = Some(Box::new(tls.into()));
        self
    }

    /// The negotiated TLS parameters.
    pub(crate) fn tls(&self) -> &Connection {
        self.tls.as_deref().expect("a connection with TLS")
    }

    /// Updates its sending keys, and requests the same of the peer.
    pub(crate) fn change_keys(&mut self) {
        let tls = self.tls.as_deref_mut().expect("a connection with TLS");
        tls.refresh_traffic_keys()
            .expect("TLS 1.3, after the handshake");
    }

    /// Completes the handshake.
    pub(crate) fn handshake(&mut self) -> Result<(), Broken> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        while tls.is_handshaking() {
            tls.complete_io(&mut self.stream)
                .map_err(|error| broken(&error))?;
        }
        Ok(())
    }

    /// As [`Wire::handshake`], with our part of it sent byte by byte.
    pub(crate) fn handshake_byte_by_byte(&mut self) {
        let tls = self.tls.as_deref_mut().expect("a connection with TLS");
        while tls.is_handshaking() || tls.wants_write() {
            let mut hello = Vec::new();
            tls.write_tls(&mut hello).expect("memory");
            for byte in hello {
                self.stream
                    .write_all(&[byte])
                    .expect("a gateway that listens");
            }
            if tls.is_handshaking() && !tls.wants_write() {
                tls.read_tls(&mut self.stream)
                    .expect("a gateway that answers");
                tls.process_new_packets().expect("a valid handshake");
            }
        }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Timeout for the next bytes.
    pub(crate) fn wait_at_most(&self, time: Duration) {
        self.stream
            .set_read_timeout(Some(time))
            .expect("a timeout above zero");
    }

    /// Writes all of it.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let written = match &mut self.tls {
            Some(tls) => seal(tls, &mut self.stream, bytes),
            None => self.stream.write_all(bytes),
        };
        written.map_err(|error| broken(&error))
    }

    /// Writes what the socket accepts now, for counting; over TLS all of it.
    pub(crate) fn write_some(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        if self.tls.is_some() {
            return self.write(bytes).map(|()| bytes.len());
        }
        self.stream.write(bytes).map_err(|error| broken(&error))
    }

    /// Waits until the peer's kernel holds bytes that the peer has not read, unless the peer has
    /// closed the connection because of them.
    pub(crate) fn rest_unread(&self) -> Result<(), Broken> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match unread_by_peer(&self.stream) {
                Some(1..) | None => return Ok(()),
                Some(0) if Instant::now() > deadline => return Err(Broken::Late),
                Some(0) => std::thread::park_timeout(Duration::from_millis(1)),
            }
        }
    }

    /// Ends the writing half.
    pub(crate) fn finish(&mut self) {
        // A disconnected peer has seen the end.
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut self.stream);
        }
        self.cut();
    }

    /// Ends only the writing half of the connection, without `close_notify`.
    pub(crate) fn cut(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Makes the next close a reset.
    pub(crate) fn arm_reset(&self) {
        socket2::SockRef::from(&self.stream)
            .set_linger(Some(Duration::ZERO))
            .expect("SO_LINGER on a socket of ours");
    }

    /// The next head; `None` at an end of the connection where a message would begin.
    pub(crate) fn head(&mut self) -> Result<Option<Message>, Broken> {
        self.raw.clear();
        if self.ahead.is_empty() {
            match self.fill() {
                Err(Broken::Closed) => return Ok(None),
                other => other?,
            }
        }
        let start = start_line(&self.line()?)?;
        let fields = self.field_lines()?;
        Ok(Some(Message {
            start,
            fields,
            raw: self.raw.clone(),
            ..Message::default()
        }))
    }

    /// Reads the body with this framing into `message`.
    pub(crate) fn body(&mut self, message: &mut Message, framing: Framing) -> Result<(), Broken> {
        message.framing = framing;
        let body = &mut message.body;
        let read = self.parts(framing, &mut |part| {
            body.extend(part);
            Ok(())
        });
        let read = read.map(|trailers| message.trailers = trailers);
        message.raw.clone_from(&self.raw);
        message.complete = read.is_ok();
        read
    }

    /// Passes on the body with this framing part by part, as it arrives. Returns the trailers.
    pub(crate) fn parts(
        &mut self,
        framing: Framing,
        take: &mut impl FnMut(Vec<u8>) -> Result<(), Broken>,
    ) -> Result<Vec<(String, String)>, Broken> {
        match framing {
            Framing::Nothing => {}
            Framing::Length(length) => self.parts_of(length, take)?,
            Framing::Chunked => return self.chunks(take),
            Framing::UntilClose => self.rest(take)?,
        }
        Ok(Vec::new())
    }

    /// The next bytes, at least one.
    pub(crate) fn some(&mut self) -> Result<Vec<u8>, Broken> {
        if self.ahead.is_empty() {
            self.fill()?;
        }
        Ok(std::mem::take(&mut self.ahead))
    }

    /// Appends exactly this many bytes.
    pub(crate) fn exactly(&mut self, length: u64, into: &mut Vec<u8>) -> Result<(), Broken> {
        self.parts_of(length, &mut |part| {
            into.extend(part);
            Ok(())
        })
    }

    fn parts_of(
        &mut self,
        length: u64,
        take: &mut impl FnMut(Vec<u8>) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let mut left = usize::try_from(length).expect("bodies of tests fit into memory");
        while left > 0 {
            if self.ahead.is_empty() {
                self.fill()?;
            }
            let taken = self.take(left.min(self.ahead.len()));
            left -= taken.len();
            take(taken)?;
        }
        Ok(())
    }

    fn rest(&mut self, take: &mut impl FnMut(Vec<u8>) -> Result<(), Broken>) -> Result<(), Broken> {
        loop {
            take(self.take(self.ahead.len()))?;
            match self.fill() {
                Err(Broken::Closed) => return Ok(()),
                other => other?,
            }
        }
    }

    fn chunks(
        &mut self,
        take: &mut impl FnMut(Vec<u8>) -> Result<(), Broken>,
    ) -> Result<Vec<(String, String)>, Broken> {
        loop {
            let line = self.line()?;
            // No extensions: a proxy must drop what it does not understand.
            let hex = !line.is_empty() && line.bytes().all(|b| b.is_ascii_hexdigit());
            let size = u64::from_str_radix(&line, 16).ok().filter(|_| hex);
            let size = size.ok_or_else(|| malformed("chunk size", &line))?;
            if size == 0 {
                return self.field_lines();
            }
            self.parts_of(size, take)?;
            let end = self.line()?;
            if !end.is_empty() {
                return Err(malformed("end of a chunk", &end));
            }
        }
    }

    fn field_lines(&mut self) -> Result<Vec<(String, String)>, Broken> {
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(fields);
            }
            fields.push(field_line(&line)?);
        }
    }

    fn line(&mut self) -> Result<String, Broken> {
        let mut searched = 0;
        let end = loop {
            match self.ahead[searched..].iter().position(|b| *b == b'\n') {
                Some(at) => break searched + at,
                None => searched = self.ahead.len(),
            }
            self.fill()?;
        };
        let line = latin1(&self.take(end + 1));
        let text = line
            .strip_suffix("\r\n")
            .ok_or_else(|| malformed("bare LF", &line))?;
        if text.contains(['\r', '\0']) {
            return Err(malformed("control in a line", text));
        }
        Ok(text.to_owned())
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.ahead.split_off(count);
        let taken = std::mem::replace(&mut self.ahead, rest);
        self.raw.extend_from_slice(&taken);
        taken
    }

    fn fill(&mut self) -> Result<(), Broken> {
        let mut buffer = [0; 16 * 1024];
        let read = loop {
            let read = match &mut self.tls {
                Some(tls) => open(tls, &mut self.stream, &mut buffer),
                None => self.stream.read(&mut buffer),
            };
            match read {
                // The end of a ring in this process interrupts what waits with a deadline.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(0) => Err(Broken::Closed),
            Ok(count) => {
                self.ahead.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) => Err(broken(&error)),
        }
    }
}

fn seal(tls: &mut Connection, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    while tls.is_handshaking() {
        tls.complete_io(stream)?;
    }
    for piece in bytes.chunks(16 * 1024) {
        tls.writer().write_all(piece)?;
        while tls.wants_write() {
            tls.write_tls(stream)?;
        }
    }
    Ok(())
}

fn open(tls: &mut Connection, stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match tls.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
        while tls.wants_write() {
            tls.write_tls(stream)?;
        }
        tls.read_tls(stream)?;
        tls.process_new_packets()
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    }
}

fn broken(error: &io::Error) -> Broken {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Broken::Late,
        ErrorKind::UnexpectedEof => Broken::Truncated,
        ErrorKind::InvalidData => Broken::Tls(error.to_string()),
        _ => Broken::Reset,
    }
}
