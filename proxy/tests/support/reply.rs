//! What an origin does with a request: a script of small steps, built like a sentence.

use super::{ByteCounter, Gate};

/// One thing an origin does.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Reads the request's body to its end.
    ReadBody,
    /// Reads so many bytes of the request's body.
    ReadSome(u64),
    Send(Vec<u8>),
    /// Sends zeros until the peer is gone or so many are sent, counting what the kernel took.
    Pour(usize, ByteCounter),
    /// Waits until what was sent has arrived at the gateway, which has not read it; counts one.
    Arrive(ByteCounter),
    /// Waits for the test.
    Wait(Gate),
    /// Sends back whatever comes, until the peer ends.
    Echo,
    /// Reads and never answers.
    Stall,
    /// Ends the connection in order.
    Close,
    /// Ends the connection without the goodbye that TLS wants.
    Cut,
    Reset,
}

/// A script of what an origin does with one request, whose head it has read.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) steps: Vec<Step>,
}

/// Answers with a status and nothing else.
pub(crate) fn status(code: u16) -> Reply {
    raw(format!(
        "HTTP/1.1 {code} Scripted\r\nContent-Length: 0\r\n\r\n"
    ))
}

/// Answers 200 with a body of known length.
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

/// Answers 200 with these chunks.
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
    /// Begins before the body is read.
    pub(crate) fn at_once() -> Self {
        Self { steps: Vec::new() }
    }

    /// Then reads the request's body.
    pub(crate) fn reads_the_body(self) -> Self {
        self.then(Step::ReadBody)
    }

    /// Then reads so many bytes of the request's body.
    pub(crate) fn reads(self, bytes: u64) -> Self {
        self.then(Step::ReadSome(bytes))
    }

    pub(crate) fn sends(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Step::Send(bytes.as_ref().to_vec()))
    }

    /// Then sends so many zeros, counting what the kernel took.
    pub(crate) fn pours(self, bytes: usize, tally: &ByteCounter) -> Self {
        self.then(Step::Pour(bytes, tally.clone()))
    }

    /// Then waits until the gateway's kernel holds what was sent and the gateway has not read it, and
    /// adds one to the tally.
    pub(crate) fn arrives(self, tally: &ByteCounter) -> Self {
        self.then(Step::Arrive(tally.clone()))
    }

    /// Then waits for the test to open the gate.
    pub(crate) fn waits_for(self, gate: &Gate) -> Self {
        self.then(Step::Wait(gate.clone()))
    }

    /// Then sends back whatever comes, until the peer ends in order.
    pub(crate) fn echoes(self) -> Self {
        self.then(Step::Echo)
    }

    /// Then neither answers nor closes.
    pub(crate) fn stalls(self) -> Self {
        self.then(Step::Stall)
    }

    /// Then ends the connection in order.
    pub(crate) fn closes(self) -> Self {
        self.then(Step::Close)
    }

    /// Then ends the connection without the goodbye that TLS wants.
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
