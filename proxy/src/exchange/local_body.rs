//! Bodies of responses of the gateway itself, and how they are sent: in pieces, of which no response keeps a copy.

use std::io;

use crate::channel::Channel;
use crate::channel::relay::Side;
use crate::limits::ANSWER_PIECE_BYTES;
use crate::memory::Kept;
use crate::policy::answer::Filled;
use crate::shard::deadline::Expiry;

/// The body of a response of the gateway itself.
#[derive(Debug)]
pub(crate) enum LocalBody<'b> {
    Bytes(&'b [u8]),
    /// A text of the configuration, which is not copied.
    Filled(Filled<'b>),
    /// A page of a server, counted with the buffers in use until it is sent.
    Kept(Kept),
}

/// The content of an error, in the place of the former.
pub(crate) struct Page<'p> {
    /// The lines of its fields.
    pub(crate) lines: Vec<u8>,
    pub(crate) body: LocalBody<'p>,
}

impl LocalBody<'_> {
    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Filled(filled) => filled.len(),
            Self::Kept(kept) => kept.len(),
        }
    }

    /// The bytes from `at` on that can be sent at once; none at the end.
    fn piece_at(&self, at: usize) -> &[u8] {
        let rest = match self {
            Self::Bytes(bytes) => bytes.get(at..).unwrap_or_default(),
            Self::Filled(filled) => filled.part_at(at),
            Self::Kept(kept) => kept.get(at..).unwrap_or_default(),
        };
        rest.get(..ANSWER_PIECE_BYTES).unwrap_or(rest)
    }

    /// Sends it, or nothing of it if it is only stated, after the head: that is in `out`, or the stream's. The
    /// client has to take each piece within its timeout. Counts the bytes sent.
    ///
    /// # Errors
    ///
    /// The client is gone, or takes too long.
    pub(crate) async fn send(
        &self,
        client: &Side<'_>,
        out: &mut Vec<u8>,
        presence: Presence,
        sent: &mut u64,
    ) -> io::Result<()> {
        let length = match presence {
            Presence::Sent => self.len(),
            Presence::Stated => 0,
        };
        let mut at = 0;
        loop {
            client.arm(Expiry::Disconnect);
            let before = at;
            match client.stream {
                Channel::Socket(socket) => {
                    at = self.write(at, length, out);
                    socket.write_vec(out).await?;
                    out.clear();
                }
                Channel::H2(stream) => {
                    let piece = if length > 0 { self.piece_at(at) } else { &[] };
                    at = at.saturating_add(piece.len());
                    let end = (at >= length).then_some(&b""[..]);
                    stream.send(piece, end).await?;
                }
            }
            *sent = sent.saturating_add(at.saturating_sub(before) as u64);
            if at >= length {
                return Ok(());
            }
        }
    }

    /// Appends what is to be written at once from `at` on to `out`. Returns where it ends.
    fn write(&self, at: usize, length: usize, out: &mut Vec<u8>) -> usize {
        let end = length.min(at.saturating_add(ANSWER_PIECE_BYTES));
        let mut at = at;
        while at < end {
            let piece = self.piece_at(at);
            let piece = piece.get(..end.saturating_sub(at)).unwrap_or(piece);
            if piece.is_empty() {
                break;
            }
            out.extend_from_slice(piece);
            at = at.saturating_add(piece.len());
        }
        at
    }
}

/// Whether a body is sent: the response to HEAD only states its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Sent,
    Stated,
}

impl<'b> From<&'b [u8]> for LocalBody<'b> {
    fn from(bytes: &'b [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, StatusCode};
    use xds::model::{Body, Content};

    use super::LocalBody;
    use crate::limits::ANSWER_PIECE_BYTES;
    use crate::policy::answer::{Facts, Template};

    /// What is written at a time.
    fn writes(body: &LocalBody<'_>) -> Vec<Vec<u8>> {
        let (mut writes, mut at) = (Vec::new(), 0);
        while at < body.len() {
            let mut out = Vec::new();
            at = body.write(at, body.len(), &mut out);
            writes.push(out);
        }
        writes
    }

    #[test]
    fn a_body_is_written_in_pieces_whatever_its_parts() {
        let text = "{status}".repeat(3) + &"x".repeat(40_000) + "{host}" + &"y".repeat(9_000);
        let template = Template::compile(&Content {
            media_type: HeaderValue::from_static("text/plain"),
            body: Body::new(text.as_bytes()),
        });
        let filled = LocalBody::Filled(template.fill(Facts {
            request_id: "",
            status: StatusCode::NOT_FOUND,
            host: "a.test",
        }));
        let expected = "404".repeat(3) + &"x".repeat(40_000) + "a.test" + &"y".repeat(9_000);
        for body in [filled, LocalBody::Bytes(expected.as_bytes())] {
            let writes = writes(&body);
            let sizes: Vec<usize> = writes.iter().map(Vec::len).collect();
            let rest = expected.len() - 2 * ANSWER_PIECE_BYTES;
            assert_eq!(sizes, [ANSWER_PIECE_BYTES, ANSWER_PIECE_BYTES, rest]);
            assert!(writes.concat() == expected.as_bytes(), "other bytes");
        }
        assert!(writes(&LocalBody::Bytes(b"")).is_empty());
    }
}
