//! Encodes heads, chunk framing and local responses. Framing and connection fields are always
//! generated; the allowed ones of the received fields are copied, in runs of lines.
//!
//! Everything is appended to the caller's `Vec`, which keeps its memory from message to message.

use http::StatusCode;

use super::response::RequestKind;
use crate::http::grammar;
use crate::http::head::{Field, Fields, Framing, RequestHead, ResponseHead, Version};
use crate::http::hop_by_hop;
use crate::http::known::KnownHeader;
use crate::http::lines::pairs;

/// The interim response to `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A request for an origin, as HTTP/1.1.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamRequest<'a> {
    /// The request as the client sent it.
    pub head: &'a RequestHead,
    /// The bytes that `head` was parsed from.
    pub bytes: &'a [u8],
    /// Request target: normalised, possibly rewritten.
    pub target: &'a [u8],
    /// Value of `Host`: the client's authority, or a rewritten one.
    pub host: &'a [u8],
    /// Framing of the body.
    pub framing: Framing,
    /// Which side responds to `Expect: 100-continue`.
    pub expectation: Expectation,
    /// Further field lines, each terminated by CRLF.
    pub append: &'a [u8],
}

/// Which side responds to `Expect: 100-continue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// The origin: the field is forwarded.
    Origin,
    /// The proxy: the field is dropped.
    Ours,
}

impl UpstreamRequest<'_> {
    /// Appends the head to `out`, without the fields that `drop` selects.
    pub fn encode(&self, out: &mut Vec<u8>, drop: impl Fn(KnownHeader, &[u8]) -> bool) {
        let Self { head, bytes, .. } = *self;
        let method = head.method.of(bytes);
        request_line(out, method, self.target, self.host);
        copy_fields(out, &head.fields, bytes, |known, name| {
            let passes = hop_by_hop::passes(&head.fields, bytes, name, known);
            passes
                && (known != KnownHeader::Expect || self.passes_expectation())
                && !drop(known, name)
        });
        framing(out, self.framing.stated_for(method));
        if takes_trailers(&head.fields, bytes) {
            // RFC 9110 section 10.1.4: TE requires a connection option of its name.
            out.extend_from_slice(b"TE: trailers\r\nConnection: TE\r\n");
        }
        if let Some(protocol) = head.upgrade {
            upgrade(out, protocol.of(bytes));
        }
        out.extend_from_slice(self.append);
        out.extend_from_slice(b"\r\n");
    }

    /// An expectation of HTTP/1.0 is ignored, but would mean something to the origin, so it is
    /// dropped.
    fn passes_expectation(&self) -> bool {
        self.head.expect_continue && self.expectation == Expectation::Origin
    }
}

/// Whether the connection is kept alive after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persist {
    /// It is kept alive.
    Keep,
    /// Closed after the response, which has `Connection: close`.
    Close,
}

/// An origin's response for the client.
#[derive(Debug, Clone, Copy)]
pub struct DownstreamResponse<'a> {
    /// The response as the endpoint sent it.
    pub head: &'a ResponseHead,
    /// The bytes that `head` was parsed from.
    pub bytes: &'a [u8],
    /// The client's protocol version. The body is sent as [`Framing::reframed_for`] it.
    pub client: Version,
    /// Whether the connection is kept alive. It cannot be if it delimits the body.
    pub persist: Persist,
    /// Further field lines, each terminated by CRLF.
    pub append: &'a [u8],
}

impl DownstreamResponse<'_> {
    /// Appends the head to `out`, without the fields that `drop` selects.
    pub fn encode(&self, out: &mut Vec<u8>, drop: impl Fn(KnownHeader, &[u8]) -> bool) {
        let Self { head, bytes, .. } = *self;
        status_line(out, head.status, head.reason.of(bytes));
        copy_fields(out, &head.fields, bytes, |known, name| {
            hop_by_hop::passes(&head.fields, bytes, name, known) && !drop(known, name)
        });
        match head.framing.reframed_for(self.client) {
            // HEAD and 304 state the length that a GET would have.
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

/// A response generated by the proxy.
#[derive(Debug, Clone, Copy)]
pub struct LocalResponse<'a> {
    /// Status code of the response.
    pub status: StatusCode,
    /// The kind of request.
    pub request_kind: RequestKind,
    /// The client's protocol version.
    pub client: Version,
    /// Whether the connection is kept alive.
    pub persist: Persist,
    /// Further field lines, each terminated by CRLF.
    pub append: &'a [u8],
    /// Length of its body in bytes. That is plain text, unless the lines have a content type.
    pub length: usize,
}

impl LocalResponse<'_> {
    /// Whether a response of this status has a body, regardless of the request.
    pub(in crate::http) fn has_body(&self) -> bool {
        !matches!(self.status.as_u16(), 100..=199 | 204 | 304)
    }

    /// Whether its lines have a content type; otherwise it is plain text.
    pub(in crate::http) fn names_content_type(&self) -> bool {
        let mut lines = pairs(self.append);
        lines.any(|(name, _)| name.eq_ignore_ascii_case(b"content-type"))
    }

    /// Whether its body follows its head.
    #[must_use]
    pub fn sends_body(&self) -> bool {
        self.has_body() && self.request_kind != RequestKind::Head
    }

    /// Appends its head to `out`.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        let reason = self.status.canonical_reason().unwrap_or_default();
        status_line(out, self.status.as_u16(), reason.as_bytes());
        if self.has_body() {
            if self.length > 0 && !self.names_content_type() {
                field(out, b"Content-Type", b"text/plain; charset=utf-8");
            }
            content_length(out, self.length);
        }
        connection(out, self.client, self.persist);
        out.extend_from_slice(self.append);
        out.extend_from_slice(b"\r\n");
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

/// Appends the field line `name: value` with its CRLF.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends the framing field, if the framing needs one.
pub fn framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::Empty | Framing::UntilClose => {}
        Framing::Length(length) => content_length(out, length),
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
}

/// Appends the size line before `length` bytes of chunk data; `length` is not 0, which would end
/// the body.
pub fn chunk_head(out: &mut Vec<u8>, length: usize) {
    debug_assert!(length > 0, "an empty chunk ends the body");
    let bits = usize::BITS.saturating_sub(length.leading_zeros()).max(1);
    for shift in (0..bits).step_by(4).rev() {
        let digit = length.unbounded_shr(shift) & 0xf;
        out.extend(b"0123456789abcdef".get(digit));
    }
    out.extend_from_slice(b"\r\n");
}

/// The bytes after the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// Appends the last chunk and `trailers`: lines, each terminated by CRLF.
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

/// RFC 9112 section 9.3: HTTP/1.1 is kept alive by default, HTTP/1.0 only on request.
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

/// RFC 9110 section 10.1.4: of TE, only `trailers` is supported.
pub(in crate::http) fn takes_trailers(fields: &Fields, bytes: &[u8]) -> bool {
    fields.has(KnownHeader::Te)
        && fields
            .iter()
            .filter(|field| field.known == KnownHeader::Te)
            .flat_map(|field| grammar::list(field.value.of(bytes)))
            .any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
}

/// Appends the field lines that `keep` selects. Neighbouring lines in canonical form are copied at
/// once.
fn copy_fields(
    out: &mut Vec<u8>,
    fields: &Fields,
    bytes: &[u8],
    keep: impl Fn(KnownHeader, &[u8]) -> bool,
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

/// Whether a line has the form `name: value\r\n`, without other white space.
fn is_canonical(line: &Field, bytes: &[u8]) -> bool {
    let between = usize::from(line.name.end)..usize::from(line.value.start);
    bytes.get(between) == Some(b": ") && bytes.get(usize::from(line.value.end)) == Some(&b'\r')
}

#[cfg(test)]
mod tests;
