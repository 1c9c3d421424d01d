//! Writes heads, chunk framing and plain answers. Framing and connection fields are always ours;
//! of the received ones, those that may pass are copied, runs of lines at a time.
//!
//! Everything appends to the caller's `Vec`, which keeps its memory from message to message.

use http::StatusCode;

use super::response::Asked;
use crate::http::grammar;
use crate::http::h2::trailers::pairs;
use crate::http::head::{Field, Fields, Framing, RequestHead, ResponseHead, Version};
use crate::http::hop_by_hop;
use crate::http::known::Known;

/// What the client gets that waits with its body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A request on its way to an origin, as HTTP/1.1.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamRequest<'a> {
    /// The client's head.
    pub head: &'a RequestHead,
    /// The bytes that `head` was parsed from.
    pub bytes: &'a [u8],
    /// Target to ask for: normalised, perhaps rewritten.
    pub target: &'a [u8],
    /// Value of Host.
    pub host: &'a [u8],
    /// How the body is delimited.
    pub framing: Framing,
    /// Who answers `Expect: 100-continue`.
    pub expectation: Expectation,
    /// Further field lines, each ended by CRLF.
    pub append: &'a [u8],
}

/// Who answers `Expect: 100-continue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// The origin: the field is passed on.
    Origin,
    /// We did, or will: the field is dropped.
    Ours,
}

impl UpstreamRequest<'_> {
    /// Appends the head to `out`, without the fields that `drop` tells of.
    pub fn encode(&self, out: &mut Vec<u8>, drop: impl Fn(Known, &[u8]) -> bool) {
        let Self { head, bytes, .. } = *self;
        request_line(out, head.method.of(bytes), self.target, self.host);
        copy_fields(out, &head.fields, bytes, |known, name| {
            let passes = hop_by_hop::passes(&head.fields, bytes, name, known);
            passes && (known != Known::Expect || self.passes_expectation()) && !drop(known, name)
        });
        framing(out, self.framing);
        if takes_trailers(&head.fields, bytes) {
            // RFC 9110 section 10.1.4: TE goes with a connection option of its name.
            out.extend_from_slice(b"TE: trailers\r\nConnection: TE\r\n");
        }
        if let Some(protocol) = head.upgrade {
            upgrade(out, protocol.of(bytes));
        }
        out.extend_from_slice(self.append);
        out.extend_from_slice(b"\r\n");
    }

    /// One that is ignored, as HTTP/1.0's, would mean something to the origin, so it ends here.
    fn passes_expectation(&self) -> bool {
        self.head.expect_continue && self.expectation == Expectation::Origin
    }
}

/// What becomes of the connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persist {
    /// It lives on.
    Keep,
    /// It is closed.
    Close,
}

/// An origin's response on its way to the client.
#[derive(Debug, Clone, Copy)]
pub struct DownstreamResponse<'a> {
    /// The origin's head.
    pub head: &'a ResponseHead,
    /// The bytes that `head` was parsed from.
    pub bytes: &'a [u8],
    /// What the client speaks. The body goes out as [`Framing::resent_to`] it.
    pub client: Version,
    /// Whether the connection lives on. It cannot where its end is the body's end.
    pub persist: Persist,
    /// Further field lines, each ended by CRLF.
    pub append: &'a [u8],
}

impl DownstreamResponse<'_> {
    /// Appends the head to `out`, without the fields that `drop` tells of.
    pub fn encode(&self, out: &mut Vec<u8>, drop: impl Fn(Known, &[u8]) -> bool) {
        let Self { head, bytes, .. } = *self;
        status_line(out, head.status, head.reason.of(bytes));
        copy_fields(out, &head.fields, bytes, |known, name| {
            hop_by_hop::passes(&head.fields, bytes, name, known) && !drop(known, name)
        });
        match head.framing.resent_to(self.client) {
            // HEAD and 304 tell the length that a GET would have.
            Framing::Empty => {
                if let Some(length) = head.content_length {
                    framing(out, Framing::Length(length));
                }
                self.connection(out, self.persist);
            }
            Framing::UntilClose => self.connection(out, Persist::Close),
            delimited => {
                framing(out, delimited);
                self.connection(out, self.persist);
            }
        }
        out.extend_from_slice(self.append);
        out.extend_from_slice(b"\r\n");
    }

    fn connection(&self, out: &mut Vec<u8>, persist: Persist) {
        if let Some(protocol) = self.head.upgrade {
            upgrade(out, protocol.of(self.bytes));
        } else if !self.head.is_interim() {
            connection(out, self.client, persist);
        }
    }
}

/// An answer of our own.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// Its status.
    pub status: StatusCode,
    /// What the client asked for.
    pub asked: Asked,
    /// What the client speaks.
    pub client: Version,
    /// Whether the connection lives on.
    pub persist: Persist,
    /// Further field lines, each ended by CRLF.
    pub append: &'a [u8],
    /// A text to read.
    pub body: &'a [u8],
}

impl Answer<'_> {
    /// Whether an answer of this status has a body, as far as that is not up to what was asked.
    pub(in crate::http) fn has_body(&self) -> bool {
        !matches!(self.status.as_u16(), 100..=199 | 204 | 304)
    }

    /// Whether its lines say what its body is; else it is plain text.
    pub(in crate::http) fn names_content_type(&self) -> bool {
        let mut lines = pairs(self.append);
        lines.any(|(name, _)| name.eq_ignore_ascii_case(b"content-type"))
    }

    /// Appends the whole answer to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let reason = self.status.canonical_reason().unwrap_or_default();
        status_line(out, self.status.as_u16(), reason.as_bytes());
        if self.has_body() {
            if !self.body.is_empty() && !self.names_content_type() {
                field(out, b"Content-Type", b"text/plain; charset=utf-8");
            }
            content_length(out, self.body.len());
        }
        connection(out, self.client, self.persist);
        out.extend_from_slice(self.append);
        out.extend_from_slice(b"\r\n");
        if self.has_body() && self.asked != Asked::Head {
            out.extend_from_slice(self.body);
        }
    }
}

/// Appends `METHOD target HTTP/1.1` and Host.
pub fn request_line(out: &mut Vec<u8>, method: &[u8], target: &[u8], host: &[u8]) {
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(target);
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(host);
    out.extend_from_slice(b"\r\n");
}

/// Appends `HTTP/1.1 status reason`.
pub fn status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

/// Appends `name: value`.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends the field that tells where a body ends, if one does.
pub fn framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::Empty | Framing::UntilClose => {}
        Framing::Length(length) => content_length(out, length),
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
}

/// Appends the size line that comes before `length` bytes of chunk data; `length` is not 0, which
/// would end the body.
pub fn chunk_head(out: &mut Vec<u8>, length: usize) {
    debug_assert!(length > 0, "an empty chunk ends the body");
    let bits = usize::BITS.saturating_sub(length.leading_zeros()).max(1);
    for shift in (0..bits).step_by(4).rev() {
        let digit = length.unbounded_shr(shift) & 0xf;
        out.extend(b"0123456789abcdef".get(digit));
    }
    out.extend_from_slice(b"\r\n");
}

/// What comes after the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// Appends the last chunk and `trailers`: lines, each ended by CRLF.
pub fn last_chunk(out: &mut Vec<u8>, trailers: &[u8]) {
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(trailers);
    out.extend_from_slice(b"\r\n");
}

fn content_length(out: &mut Vec<u8>, length: impl itoa::Integer) {
    field(
        out,
        b"Content-Length",
        itoa::Buffer::new().format(length).as_bytes(),
    );
}

/// RFC 9112 section 9.3: HTTP/1.1 lives on unless told, HTTP/1.0 only if told.
fn connection(out: &mut Vec<u8>, client: Version, persist: Persist) {
    match (persist, client) {
        (Persist::Close, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (Persist::Keep, Version::Http10) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (Persist::Keep, Version::Http11 | Version::Http2) => {}
    }
}

fn upgrade(out: &mut Vec<u8>, protocol: &[u8]) {
    out.extend_from_slice(b"Connection: Upgrade\r\n");
    field(out, b"Upgrade", protocol);
}

/// RFC 9110 section 10.1.4: of TE, `trailers` alone is known to us.
pub(in crate::http) fn takes_trailers(fields: &Fields, bytes: &[u8]) -> bool {
    fields.has(Known::Te)
        && fields
            .iter()
            .filter(|field| field.known == Known::Te)
            .flat_map(|field| grammar::list(field.value.of(bytes)))
            .any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
}

/// Appends the field lines that `keep` wants. Neighbours that came in the form in which we would
/// write them are copied at one go.
fn copy_fields(
    out: &mut Vec<u8>,
    fields: &Fields,
    bytes: &[u8],
    keep: impl Fn(Known, &[u8]) -> bool,
) {
    let mut run = 0..0;
    for line in fields {
        let name = line.name.of(bytes);
        if !keep(line.known, name) {
            continue;
        }
        let start = usize::from(line.name.start);
        let end = usize::from(line.value.end).saturating_add(2);
        if !is_canonical(line, bytes) {
            out.extend_from_slice(bytes.get(run).unwrap_or_default());
            run = 0..0;
            field(out, name, line.value.of(bytes));
        } else if start == run.end {
            run.end = end;
        } else {
            out.extend_from_slice(bytes.get(run).unwrap_or_default());
            run = start..end;
        }
    }
    out.extend_from_slice(bytes.get(run).unwrap_or_default());
}

/// Whether a line came as `name: value\r\n`, with no other white space.
fn is_canonical(line: &Field, bytes: &[u8]) -> bool {
    let between = usize::from(line.name.end)..usize::from(line.value.start);
    bytes.get(between) == Some(b": ") && bytes.get(usize::from(line.value.end)) == Some(&b'\r')
}

#[cfg(test)]
mod tests;
