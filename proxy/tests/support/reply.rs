//! What an origin does with a request: a script of small steps, built like a sentence.

use super::{ByteCounter, Gate};

/// One thing an origin does.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Reads the request's body to its end.
    ReadBody,
    /// Reads this many bytes of the request's body.
    ReadSome(u64),
    Send(Vec<u8>),
    /// Sends this many zeros or until the peer is gone, counting the bytes the kernel accepted.
    Pour(usize, ByteCounter),
    /// Waits until the sent bytes have arrived at the gateway and are unread; counts one.
    Arrive(ByteCounter),
    /// Waits for the test.
    Wait(Gate),
    /// Echoes until the peer ends.
    Echo,
    /// Reads and never responds.
    Stall,
    /// Closes the connection cleanly.
    Close,
    /// Closes the connection without `close_notify`.
    Cut,
    Reset,
}

/// A script of what an origin does with one request, whose head it has read.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) steps: Vec<Step>,
}

/// Responds with a status and nothing else.
pub(crate) fn status(code: u16) -> Reply {
    raw(format!(
        "HTTP/1.1 {code} Scripted\r\nContent-Length: 0\r\n\r\n"
    ))
}

/// Responds with 200 and a body of known length.
pub(crate) fn ok(body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let mut bytes =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    raw(bytes)
}

/// The default response of an origin: `ok`, and no body to HEAD.
pub(super) fn unscripted(method: &str) -> Reply {
    match method {
        "HEAD" => raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"),
        _ => ok("ok"),
    }
}

/// Responds with 200 and these chunks.
pub(crate) fn chunked(chunks: &[&str]) -> Reply {
    let framed = |chunk: &&str| format!("{:x}\r\n{chunk}\r\n", chunk.len());
    let text: String = chunks.iter().map(framed).collect();
    raw(format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{text}0\r\n\r\n"
    ))
}

/// Reads the whole request, then sends these bytes.
pub(crate) fn raw(bytes: impl AsRef<[u8]>) -> Reply {
    Reply::at_once().reads_the_body().sends(bytes)
}

impl Reply {
    /// Starts before the body is read.
    pub(crate) fn at_once() -> Self {
        Self { steps: Vec::new() }
    }

    /// Then reads the request's body.
    pub(crate) fn reads_the_body(self) -> Self {
        self.then(Step::ReadBody)
    }

    /// Then reads this many bytes of the request's body.
    pub(crate) fn reads(self, bytes: u64) -> Self {
        self.then(Step::ReadSome(bytes))
    }

    pub(crate) fn sends(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Step::Send(bytes.as_ref().to_vec()))
    }

    /// Then sends this many zeros, counting the bytes the kernel accepted.
    pub(crate) fn pours(self, bytes: usize, tally: &ByteCounter) -> Self {
        self.then(Step::Pour(bytes, tally.clone()))
    }

    /// Then waits until the gateway's kernel holds the sent bytes unread, and adds one to the
    /// counter.
    pub(crate) fn arrives(self, tally: &ByteCounter) -> Self {
        self.then(Step::Arrive(tally.clone()))
    }

    /// Then waits for the test to open the gate.
    pub(crate) fn waits_for(self, gate: &Gate) -> Self {
        self.then(Step::Wait(gate.clone()))
    }

    /// Then echoes until the peer half-closes.
    pub(crate) fn echoes(self) -> Self {
        self.then(Step::Echo)
    }

    /// Then neither responds nor closes.
    pub(crate) fn stalls(self) -> Self {
        self.then(Step::Stall)
    }

    /// Then closes the connection cleanly.
    pub(crate) fn closes(self) -> Self {
        self.then(Step::Close)
    }

    /// Then closes the connection without `close_notify`.
    pub(crate) fn cuts(self) -> Self {
        self.then(Step::Cut)
    }

    /// Then resets the connection.
    pub(crate) fn resets(self) -> Self {
        self.then(Step::Reset)
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}
