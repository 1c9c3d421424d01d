//! A TCP connection read message by message, strictly, with a deadline on every read.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::message::{field_line, latin1, malformed, start_line};
use super::{Framing, Message, PATIENCE};

/// Why no message came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The peer ended the connection in order, in the middle of a message.
    Closed,
    /// The peer reset the connection.
    Reset,
    /// Nothing came in time.
    Late,
    /// What came is not HTTP/1.1 as the RFC has it.
    Malformed(String),
}

/// A connection and what was read ahead on it.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    ahead: Vec<u8>,
    raw: Vec<u8>,
}

impl Wire {
    /// Takes over a connection: no delay of small writes, [`PATIENCE`] on reads and writes.
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream
            .set_nodelay(true)
            .expect("TCP_NODELAY on a socket of ours");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout above zero");
        stream
            .set_write_timeout(Some(PATIENCE))
            .expect("a timeout above zero");
        Self {
            stream,
            ahead: Vec::new(),
            raw: Vec::new(),
        }
    }

    /// The connection itself.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Longest wait for the next bytes.
    pub(crate) fn wait_at_most(&self, time: Duration) {
        self.stream
            .set_read_timeout(Some(time))
            .expect("a timeout above zero");
    }

    /// Writes all of it.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.stream
            .write_all(bytes)
            .map_err(|error| broken(error.kind()))
    }

    /// Writes what the socket takes now, for counting.
    pub(crate) fn write_some(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        self.stream
            .write(bytes)
            .map_err(|error| broken(error.kind()))
    }

    /// Ends the writing half.
    pub(crate) fn finish(&self) {
        // A peer that has gone already has seen the end.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Makes the coming close a reset.
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

    /// Reads the body that `framing` announces into `message`.
    pub(crate) fn body(&mut self, message: &mut Message, framing: Framing) -> Result<(), Broken> {
        message.framing = framing;
        let read = match framing {
            Framing::Nothing => Ok(()),
            Framing::Length(length) => self.exactly(length, &mut message.body),
            Framing::Chunked => self.chunks(message),
            Framing::UntilClose => self.rest(&mut message.body),
        };
        message.raw.clone_from(&self.raw);
        message.complete = read.is_ok();
        read
    }

    /// Whatever comes next, at least one byte.
    pub(crate) fn some(&mut self) -> Result<Vec<u8>, Broken> {
        if self.ahead.is_empty() {
            self.fill()?;
        }
        Ok(std::mem::take(&mut self.ahead))
    }

    /// Exactly so many bytes, appended.
    pub(crate) fn exactly(&mut self, length: u64, into: &mut Vec<u8>) -> Result<(), Broken> {
        let mut left = usize::try_from(length).expect("bodies of tests fit into memory");
        while left > 0 {
            if self.ahead.is_empty() {
                self.fill()?;
            }
            let taken = self.take(left.min(self.ahead.len()));
            left -= taken.len();
            into.extend_from_slice(&taken);
        }
        Ok(())
    }

    fn rest(&mut self, into: &mut Vec<u8>) -> Result<(), Broken> {
        loop {
            let taken = self.take(self.ahead.len());
            into.extend_from_slice(&taken);
            match self.fill() {
                Err(Broken::Closed) => return Ok(()),
                other => other?,
            }
        }
    }

    fn chunks(&mut self, message: &mut Message) -> Result<(), Broken> {
        loop {
            let line = self.line()?;
            // No extensions: a proxy must drop what it does not understand.
            let hex = !line.is_empty() && line.bytes().all(|b| b.is_ascii_hexdigit());
            let size = u64::from_str_radix(&line, 16).ok().filter(|_| hex);
            let size = size.ok_or_else(|| malformed("chunk size", &line))?;
            if size == 0 {
                message.trailers = self.field_lines()?;
                return Ok(());
            }
            self.exactly(size, &mut message.body)?;
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
            match self.stream.read(&mut buffer) {
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
            Err(error) => Err(broken(error.kind())),
        }
    }
}

fn broken(kind: ErrorKind) -> Broken {
    match kind {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Broken::Late,
        _ => Broken::Reset,
    }
}
