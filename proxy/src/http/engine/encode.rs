//! Encodes heads for HTTP/2, from the same input as the HTTP/1 encoder ([`crate::http::h1::encode`]).

use std::borrow::Cow;

use http::StatusCode;

use super::head_sink::WEBSOCKET;
use super::head_writer::{Scheme, SectionWriter};
use crate::http::h1::encode::{DownstreamResponse, LocalResponse, UpstreamRequest, takes_trailers};
use crate::http::head::{Fields, Framing};
use crate::http::hop_by_hop;
use crate::http::known::KnownHeader;
use crate::http::lines::pairs;
use crate::http::websocket;

/// How an upgrade is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// By an extended CONNECT, if the client requests one (RFC 8441).
    Tunnel,
    /// Not at all: servers may ignore upgrades (RFC 9110 section 7.8), and this one does not
    /// support them.
    Ignored,
}

/// Whether the client requests an upgrade to WebSocket, the only one supported over HTTP/2.
#[must_use]
pub fn asks_for_websocket(request: &UpstreamRequest<'_>) -> bool {
    let protocol = request
        .head
        .upgrade
        .map(|protocol| protocol.of(request.bytes));
    protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case(WEBSOCKET))
}

/// A request head, without the fields that `drop` selects. Returns how it requests an upgrade.
pub fn request(
    request: &UpstreamRequest<'_>,
    scheme: Scheme,
    switch: Switch,
    drop: impl Fn(KnownHeader, &[u8]) -> bool,
    writer: &mut impl SectionWriter,
) -> Switch {
    let UpstreamRequest { head, bytes, .. } = *request;
    let tunnel = switch == Switch::Tunnel && asks_for_websocket(request);
    if tunnel {
        writer.method(b"CONNECT");
        writer.protocol(WEBSOCKET);
    } else {
        writer.method(head.method.of(bytes));
    }
    writer.scheme(scheme);
    writer.path(&escaped(request.target));
    if !request.host.is_empty() {
        writer.authority(request.host);
    }
    copy(writer, &head.fields, bytes, |known, name| {
        // RFC 8441 section 5.1: HTTP/2 does not use the key.
        let replaced = tunnel && name.eq_ignore_ascii_case(websocket::KEY);
        known == KnownHeader::Expect || replaced || drop(known, name)
    });
    if let Framing::Length(length) = request.framing.stated_for(head.method.of(bytes)) {
        content_length(writer, length);
    }
    if takes_trailers(&head.fields, bytes) {
        writer.field(KnownHeader::Te, b"te", b"trailers");
    }
    for (name, value) in pairs(request.append) {
        if !(tunnel && name.eq_ignore_ascii_case(websocket::KEY)) {
            writer.field(KnownHeader::of(name), name, value);
        }
    }
    if tunnel {
        Switch::Tunnel
    } else {
        Switch::Ignored
    }
}

/// A response head, without the fields that `drop` selects.
pub fn response(
    response: &DownstreamResponse<'_>,
    drop: impl Fn(KnownHeader, &[u8]) -> bool,
    writer: &mut impl SectionWriter,
) {
    let DownstreamResponse { head, bytes, .. } = *response;
    let switched = head.status == StatusCode::SWITCHING_PROTOCOLS.as_u16();
    // RFC 8441 section 5: 200 opens the tunnel.
    writer.status(if switched {
        StatusCode::OK.as_u16()
    } else {
        head.status
    });
    copy(writer, &head.fields, bytes, |known, name| {
        let replaced = switched && name.eq_ignore_ascii_case(websocket::ACCEPT);
        replaced || drop(known, name)
    });
    if let Some(length) = head.content_length {
        content_length(writer, length);
    }
    writer.lines(response.append);
}

/// The head of a local response.
pub fn local_response(response: &LocalResponse<'_>, writer: &mut impl SectionWriter) {
    writer.status(response.status.as_u16());
    if response.has_body() && response.length > 0 {
        if !response.names_content_type() {
            let text = b"text/plain; charset=utf-8";
            writer.field(KnownHeader::ContentType, b"content-type", text);
        }
        let length = u64::try_from(response.length).unwrap_or(u64::MAX);
        content_length(writer, length);
    }
    writer.lines(response.append);
}

fn content_length(writer: &mut impl SectionWriter, length: u64) {
    let mut digits = itoa::Buffer::new();
    let length = digits.format(length).as_bytes();
    writer.field(KnownHeader::ContentLength, b"content-length", length);
}

/// Writes the allowed fields, except those that `drop` selects.
fn copy(
    writer: &mut impl SectionWriter,
    fields: &Fields,
    bytes: &[u8],
    drop: impl Fn(KnownHeader, &[u8]) -> bool,
) {
    for field in fields {
        let name = field.name.of(bytes);
        if hop_by_hop::passes(fields, bytes, name, field.known) && !drop(field.known, name) {
            writer.field(field.known, name, field.value.of(bytes));
        }
    }
}

/// A target in which bytes that servers do not accept in a path (RFC 3986 section 2) are escaped. That is
/// rare: HTTP/1 allows more.
fn escaped(target: &[u8]) -> Cow<'_, [u8]> {
    let is_accepted = |byte: &u8| {
        let accepted = PATH_BYTES.get(usize::from(*byte));
        accepted.copied().unwrap_or(false)
    };
    if target.iter().all(is_accepted) {
        return Cow::Borrowed(target);
    }
    let mut out = Vec::with_capacity(target.len());
    for byte in target {
        if is_accepted(byte) {
            out.push(*byte);
        } else {
            let digit = |nibble: u8| b"0123456789ABCDEF".get(usize::from(nibble)).copied();
            out.push(b'%');
            out.extend(digit(byte >> 4));
            out.extend(digit(byte & 0xf));
        }
    }
    Cow::Owned(out)
}

/// The bytes that are not escaped.
static PATH_BYTES: [bool; 256] = path_bytes();

#[expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "carried out by the compiler"
)]
const fn path_bytes() -> [bool; 256] {
    let mut accepted = [false; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        let is_delimiter = matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`');
        accepted[byte as usize] = !is_delimiter;
        byte += 1;
    }
    accepted
}

#[cfg(test)]
mod tests;
