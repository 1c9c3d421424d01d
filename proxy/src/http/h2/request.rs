//! Converts HTTP/2 request heads into the proxy's form.
//!
//! The `h2` crate has checked pseudo-header fields, lower case and connection fields (RFC 9113
//! sections 8.2 and 8.3). What it accepts but HTTP/1 could read in two ways is rejected here.

use http::request::Parts;
use http::{HeaderMap, Method};

use crate::http::authority;
use crate::http::grammar;
use crate::http::h1::framing::FramingFields;
use crate::http::h1::{HeadError, HeadLimits, RequestError};
use crate::http::head::{Field, Fields, Framing, Outline, RequestHead, Span, Version};
use crate::http::known::{KnownHeader, KnownSet};
use crate::http::method::is_refused;

/// Whether a body follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPresence {
    /// No: the head ended its stream.
    Nothing,
    /// Yes: DATA, or at least the stream's end.
    Body,
}

/// Marks, in a request's extensions, a `:path` with a fragment that the `h2` crate has cut off.
#[derive(Debug, Clone, Copy)]
pub struct Fragment;

/// Converts a request head: `head` points into `bytes`, where every field has its own line.
///
/// # Errors
///
/// The request must be answered with [`RequestError::status`].
pub fn convert(
    parts: &Parts,
    follows: BodyPresence,
    limits: &HeadLimits,
    bytes: &mut Vec<u8>,
    head: &mut RequestHead,
) -> Result<(), RequestError> {
    bytes.clear();
    let mut lines = Lines::new(bytes, &mut head.fields, limits);
    let protocol = parts.extensions.get::<h2::ext::Protocol>();
    // RFC 8441 section 5: the equivalent of GET with Upgrade in HTTP/1.
    let method = match (&parts.method, protocol.map(h2::ext::Protocol::as_str)) {
        (&Method::CONNECT, Some(WEBSOCKET)) => Method::GET.as_str(),
        (method, _) if is_refused(method.as_str().as_bytes()) => {
            return Err(RequestError::Method);
        }
        (method, _) => method.as_str(),
    };
    let target = target(parts)?;
    if method.len().saturating_add(target.len()) > limits.line_bytes {
        return Err(HeadError::LineTooLong.into());
    }
    head.method = lines.write(method.as_bytes())?;
    head.target = lines.write(target)?;
    if parts.extensions.get::<Fragment>().is_some() {
        // It is rejected with the other invalid targets.
        head.target.end = lines.write(b"#")?.end;
    }
    head.upgrade = match protocol {
        Some(protocol) => Some(lines.write(protocol.as_str().as_bytes())?),
        None => None,
    };
    let decisive = lines.collect(&parts.headers)?;
    head.authority = authority(parts, &decisive, &mut lines)?;
    head.framing = match (decisive.framing.length(), follows) {
        _ if head.upgrade.is_some() => Framing::Empty,
        (Some(length), _) => Framing::Length(length),
        (None, BodyPresence::Nothing) => Framing::Empty,
        (None, BodyPresence::Body) => Framing::Chunked,
    };
    head.version = Version::Http2;
    head.keep_alive = true;
    head.expect_continue = expects_continue(&parts.headers, head.framing)?;
    Ok(())
}

/// The loggable parts of a rejected head.
#[must_use]
pub fn outline(parts: &Parts) -> Outline<'_> {
    let (uri, host) = (&parts.uri, parts.headers.get(http::header::HOST));
    let authority = uri.authority().map(|it| it.as_str().as_bytes());
    Outline {
        method: parts.method.as_str().as_bytes(),
        target: uri
            .path_and_query()
            .map_or(b"", |target| target.as_str().as_bytes()),
        host: authority
            .or(host.map(http::HeaderValue::as_bytes))
            .unwrap_or_default(),
        version: Version::Http2,
    }
}

fn target(parts: &Parts) -> Result<&[u8], RequestError> {
    let target = parts
        .uri
        .path_and_query()
        .map_or("", |target| target.as_str());
    match target.as_bytes() {
        text @ [b'/', ..] => Ok(text),
        text @ b"*" if parts.method == Method::OPTIONS => Ok(text),
        _ => Err(RequestError::Target),
    }
}

/// RFC 9113 section 8.3.1: `:authority` and Host must not contradict each other, and one is
/// required.
fn authority(
    parts: &Parts,
    decisive: &DecisiveFields,
    lines: &mut Lines<'_>,
) -> Result<Span, RequestError> {
    let authority = parts
        .uri
        .authority()
        .map(|authority| authority.as_str().as_bytes());
    let span = match (authority, decisive.host, decisive.hosts) {
        (None, Some(host), 1) => host,
        (Some(authority), None, _) => lines.write(authority)?,
        (Some(authority), Some(host), 1)
            if host.of(lines.bytes).eq_ignore_ascii_case(authority) =>
        {
            host
        }
        _ => return Err(RequestError::Host),
    };
    authority::normal(lines.bytes, span).ok_or(RequestError::Host)
}

/// RFC 9110 section 10.1.1.
fn expects_continue(fields: &HeaderMap, framing: Framing) -> Result<bool, RequestError> {
    let mut values = fields.get_all(http::header::EXPECT).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(false),
        (Some(value), None) if value.as_bytes().eq_ignore_ascii_case(b"100-continue") => {
            Ok(!matches!(framing, Framing::Empty | Framing::Length(0)))
        }
        _ => Err(RequestError::Expectation),
    }
}

/// The fields that affect a message's framing.
#[derive(Debug, Default)]
pub(super) struct DecisiveFields {
    pub(super) framing: FramingFields,
    host: Option<Span>,
    hosts: usize,
}

/// Writes a head as text, field by field.
pub(super) struct Lines<'a> {
    pub(super) bytes: &'a mut Vec<u8>,
    fields: &'a mut Fields,
    limits: &'a HeadLimits,
}

impl<'a> Lines<'a> {
    pub(super) fn new(
        bytes: &'a mut Vec<u8>,
        fields: &'a mut Fields,
        limits: &'a HeadLimits,
    ) -> Self {
        fields.clear();
        Self {
            bytes,
            fields,
            limits,
        }
    }

    pub(super) fn write(&mut self, text: &[u8]) -> Result<Span, HeadError> {
        let start = self.bytes.len();
        let end = start.saturating_add(text.len());
        if end > self.limits.effective_head_bytes() {
            return Err(HeadError::HeadTooLarge);
        }
        self.bytes.extend_from_slice(text);
        Span::new(start, end).ok_or(HeadError::HeadTooLarge)
    }

    /// Writes every field in HTTP/1 form, and evaluates the decisive ones.
    pub(super) fn collect(&mut self, map: &HeaderMap) -> Result<DecisiveFields, HeadError> {
        let mut decisive = DecisiveFields::default();
        if map.len() > self.limits.fields.min(HeadLimits::MAX_FIELDS) {
            return Err(HeadError::TooManyFields);
        }
        for (name, value) in map {
            let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
            let known = KnownHeader::of(name);
            // Sections 8.2.1 and 8.2.2: forbidden in HTTP/2, but meaningful in HTTP/1.
            if NOT_IN_H2.has(known) || grammar::trim(value) != value {
                return Err(HeadError::Field);
            }
            if known == KnownHeader::Cookie && self.fields.has(KnownHeader::Cookie) {
                // Section 8.2.3. Values of one name are adjacent.
                self.add_crumb(value)?;
                continue;
            }
            let line = self.line(name, value, known)?;
            match known {
                KnownHeader::ContentLength => decisive.framing.content_length(value)?,
                KnownHeader::Te if !value.eq_ignore_ascii_case(b"trailers") => {
                    return Err(HeadError::Field);
                }
                KnownHeader::Host => {
                    decisive.host = Some(line.value);
                    decisive.hosts = decisive.hosts.saturating_add(1);
                }
                _ => {}
            }
        }
        Ok(decisive)
    }

    fn line(&mut self, name: &[u8], value: &[u8], known: KnownHeader) -> Result<Field, HeadError> {
        let name = self.write(name)?;
        self.write(b": ")?;
        let value = self.write(value)?;
        self.write(b"\r\n")?;
        let field = Field { name, value, known };
        self.fields.push(field);
        Ok(field)
    }

    /// Joins a cookie crumb to the cookie written last.
    fn add_crumb(&mut self, crumb: &[u8]) -> Result<(), HeadError> {
        let end = self.bytes.len().saturating_sub(b"\r\n".len());
        self.bytes.truncate(end);
        self.write(b"; ")?;
        let value = self.write(crumb)?;
        self.write(b"\r\n")?;
        self.fields.extend_last(value.end);
        Ok(())
    }
}

/// Connection-specific fields, which are forbidden in HTTP/2.
const NOT_IN_H2: KnownSet = KnownSet::of(&[
    KnownHeader::Connection,
    KnownHeader::KeepAlive,
    KnownHeader::ProxyConnection,
    KnownHeader::TransferEncoding,
    KnownHeader::Upgrade,
]);

/// The only protocol supported by extended CONNECT.
pub(super) const WEBSOCKET: &str = "websocket";

#[cfg(test)]
mod tests;
