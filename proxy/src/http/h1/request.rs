//! Parses and validates a request head (RFC 9112 sections 2 to 3).

use std::mem::MaybeUninit;

use super::error::{HeadError, RequestError};
use super::fields::{self, AtMostOnce, DecisiveFields};
use super::scan::{HeadLimits, HeadScan, Progress};
use super::target::Target;
use crate::http::authority;
use crate::http::head::{Framing, RequestHead, Span, Version};
use crate::http::method::is_refused;
use crate::limits::FEW_HEADER_FIELDS;

/// Parses the head at the start of `bytes` into `head`, whose spans then point into `bytes`.
///
/// Call again with the same bytes and more after them while it is [`Progress::Partial`]; the work
/// over all calls is linear in the head. `head` is valid only when complete.
///
/// # Errors
/// The request has to be answered with [`RequestError::status`] and the connection closed.
pub fn parse_request(
    bytes: &[u8],
    limits: &HeadLimits,
    scan: &mut HeadScan,
    head: &mut RequestHead,
) -> Result<Progress, RequestError> {
    let progress = if limits.fields <= FEW_HEADER_FIELDS {
        attempt::<FEW_HEADER_FIELDS>(bytes, limits, scan, head)
    } else {
        attempt_with_many_fields(bytes, limits, scan, head)
    };
    if progress != Ok(Progress::Partial) {
        *scan = HeadScan::default();
    }
    progress
}

/// On a stack frame of its own, which the usual limits do not need.
#[cold]
#[inline(never)]
fn attempt_with_many_fields(
    bytes: &[u8],
    limits: &HeadLimits,
    scan: &mut HeadScan,
    head: &mut RequestHead,
) -> Result<Progress, RequestError> {
    attempt::<{ HeadLimits::MAX_FIELDS }>(bytes, limits, scan, head)
}

fn attempt<const ROOM: usize>(
    bytes: &[u8],
    limits: &HeadLimits,
    scan: &mut HeadScan,
    head: &mut RequestHead,
) -> Result<Progress, RequestError> {
    if scan.has_begun() && !scan.advance(bytes, limits)? {
        return Ok(Progress::Partial);
    }
    let skipped = leading_crlf(bytes)?;
    let text = bytes.get(skipped..).unwrap_or_default();
    let mut found = [const { MaybeUninit::uninit() }; ROOM];
    let room = found.get_mut(..limits.fields.min(ROOM)).unwrap_or_default();
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(text, room) {
        Ok(httparse::Status::Complete(len)) => {
            fields::first_line(text.get(..len).unwrap_or_default(), limits)?;
            let len = skipped.saturating_add(len);
            validate(bytes, &request, head)?;
            Ok(Progress::Complete { len })
        }
        Ok(httparse::Status::Partial) if scan.advance(bytes, limits)? => {
            Err(HeadError::Line.into())
        }
        Ok(httparse::Status::Partial) => Ok(Progress::Partial),
        Err(httparse::Error::Version) if has_other_version(text) => Err(RequestError::Version),
        Err(error) => Err(fields::blame(error).into()),
    }
}

/// The length of an empty line before the request; one such line is tolerated.
fn leading_crlf(bytes: &[u8]) -> Result<usize, HeadError> {
    match bytes {
        [b'\r', b'\n', b'\r' | b'\n', ..] | [b'\n', ..] => Err(HeadError::LineEnding),
        [b'\r', b'\n', ..] => Ok(2),
        _ => Ok(0),
    }
}

/// Whether the third word is an HTTP version at all.
fn has_other_version(text: &[u8]) -> bool {
    text.split(|&byte| byte == b' ')
        .nth(2)
        .and_then(|word| word.strip_prefix(b"HTTP/"))
        .and_then(|version| version.first())
        .is_some_and(u8::is_ascii_digit)
}

fn validate(
    bytes: &[u8],
    request: &httparse::Request<'_, '_>,
    head: &mut RequestHead,
) -> Result<(), RequestError> {
    let method = request.method.unwrap_or_default().as_bytes();
    if is_refused(method) {
        return Err(RequestError::Method);
    }
    let target = Target::parse(request.path.unwrap_or_default().as_bytes(), method)?;
    let decisive = fields::collect(bytes, request.headers, &mut head.fields)?;
    head.version = match request.version {
        Some(0) => Version::Http10,
        _ => Version::Http11,
    };
    head.method = span(bytes, method)?;
    head.target = span(bytes, target.origin_form)?;
    head.framing = decisive.framing.of_request(head.version)?;
    head.authority = host(bytes, &decisive, head.version)?;
    if let Some(authority) = target.authority {
        // RFC 9112 section 3.2.2: the absolute form takes precedence over Host.
        head.authority = span(bytes, authority)?;
    }
    head.keep_alive = keeps_alive(&decisive, head.version);
    head.expect_continue = expects_continue(bytes, &decisive, head)?;
    head.upgrade = upgrade(bytes, &decisive, head);
    Ok(())
}

fn span(bytes: &[u8], part: &[u8]) -> Result<Span, HeadError> {
    Span::within(bytes, part).ok_or(HeadError::HeadTooLarge)
}

/// RFC 9112 section 3.2: exactly one valid Host, which only HTTP/1.0 may omit.
fn host(bytes: &[u8], decisive: &DecisiveFields, version: Version) -> Result<Span, RequestError> {
    match (decisive.host, version) {
        (AtMostOnce::Once(host), _) => authority::normal(bytes, host).ok_or(RequestError::Host),
        (AtMostOnce::Nothing, Version::Http10) => Ok(Span::default()),
        _ => Err(RequestError::Host),
    }
}

/// RFC 9112 section 9.3.
pub(super) fn keeps_alive(decisive: &DecisiveFields, version: Version) -> bool {
    match version {
        Version::Http11 | Version::Http2 => !decisive.connection.close,
        Version::Http10 => decisive.connection.keep_alive && !decisive.connection.close,
    }
}

/// RFC 9110 section 10.1.1: ignored on HTTP/1.0 and without a body.
fn expects_continue(
    bytes: &[u8],
    decisive: &DecisiveFields,
    head: &RequestHead,
) -> Result<bool, RequestError> {
    match decisive.expect {
        AtMostOnce::Nothing => Ok(false),
        _ if head.version == Version::Http10 => Ok(false),
        AtMostOnce::Once(value) if value.of(bytes).eq_ignore_ascii_case(b"100-continue") => {
            Ok(!matches!(head.framing, Framing::Empty | Framing::Length(0)))
        }
        _ => Err(RequestError::Expectation),
    }
}

/// RFC 9110 section 7.8: a server may ignore Upgrade. It is ignored unless it names one protocol
/// and the request has no body that could be mistaken for the new protocol's first bytes. An
/// upgrade to HTTP/2 is never forwarded: the origin would continue in a protocol that the proxy
/// does not parse here.
fn upgrade(bytes: &[u8], decisive: &DecisiveFields, head: &RequestHead) -> Option<Span> {
    let AtMostOnce::Once(protocol) = decisive.upgrade else {
        return None;
    };
    let requested = decisive.connection.upgrade && head.version == Version::Http11;
    let bodiless = matches!(head.framing, Framing::Empty | Framing::Length(0));
    (requested && bodiless && is_tunnelled(protocol.of(bytes))).then_some(protocol)
}

/// A single `token` or `token/version`, other than HTTP/2 or TLS.
pub(super) fn is_tunnelled(protocol: &[u8]) -> bool {
    let mut parts = protocol.split(|&byte| byte == b'/');
    let name = parts.next().unwrap_or_default();
    let is_token = crate::http::grammar::is_token;
    is_token(name)
        && parts.next().is_none_or(is_token)
        && parts.next().is_none()
        && !name.eq_ignore_ascii_case(b"h2c")
        && !name.eq_ignore_ascii_case(b"h2")
        && !name.eq_ignore_ascii_case(b"http")
        && !name.eq_ignore_ascii_case(b"tls")
}

#[cfg(test)]
mod tests;
