//! Parses and validates a response head (RFC 9112 section 4).

use std::mem::MaybeUninit;

use super::error::{HeadError, ResponseError};
use super::fields::{self, AtMostOnce};
use super::request::{is_tunnelled, keeps_alive};
use super::scan::{HeadLimits, HeadScan, Progress};
use crate::http::head::{Framing, ResponseHead, Span, Version};
use crate::limits::FEW_HEADER_FIELDS;

/// The kind of request, which a response's framing depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// HEAD: no body follows.
    Head,
    /// An upgrade: 101 may follow.
    Upgrade,
    /// Any other request: framing follows RFC 9112 section 6.3 alone.
    Other,
}

/// Parses the head at the start of `bytes` into `head`, as
/// [`parse_request`](super::parse_request) does. After an interim response
/// ([`ResponseHead::is_interim`]) parse the next one.
///
/// # Errors
/// The response cannot be passed on, and its connection has to be closed.
pub fn parse_response(
    bytes: &[u8],
    request_kind: RequestKind,
    limits: &HeadLimits,
    scan: &mut HeadScan,
    head: &mut ResponseHead,
) -> Result<Progress, ResponseError> {
    let progress = if limits.fields <= FEW_HEADER_FIELDS {
        attempt::<FEW_HEADER_FIELDS>(bytes, request_kind, limits, scan, head)
    } else {
        attempt_with_many_fields(bytes, request_kind, limits, scan, head)
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
    request_kind: RequestKind,
    limits: &HeadLimits,
    scan: &mut HeadScan,
    head: &mut ResponseHead,
) -> Result<Progress, ResponseError> {
    attempt::<{ HeadLimits::MAX_FIELDS }>(bytes, request_kind, limits, scan, head)
}

fn attempt<const ROOM: usize>(
    bytes: &[u8],
    request_kind: RequestKind,
    limits: &HeadLimits,
    scan: &mut HeadScan,
    head: &mut ResponseHead,
) -> Result<Progress, ResponseError> {
    if bytes.first().is_some_and(|&byte| byte != b'H') {
        return Err(HeadError::Line.into());
    }
    if scan.has_begun() && !scan.advance(bytes, limits)? {
        return Ok(Progress::Partial);
    }
    let mut found = [const { MaybeUninit::uninit() }; ROOM];
    let room = found.get_mut(..limits.fields.min(ROOM)).unwrap_or_default();
    let mut response = httparse::Response::new(&mut []);
    let mut config = httparse::ParserConfig::default();
    // RFC 9112 section 5.1: removed from a response, while it makes a request malformed.
    config.allow_spaces_after_header_name_in_responses(true);
    match config.parse_response_with_uninit_headers(&mut response, bytes, room) {
        Ok(httparse::Status::Complete(len)) => {
            let line = fields::first_line(bytes.get(..len).unwrap_or_default(), limits)?;
            head.reason = reason(line)?;
            validate(bytes, request_kind, &response, head)?;
            Ok(Progress::Complete { len })
        }
        Ok(httparse::Status::Partial) if scan.advance(bytes, limits)? => {
            Err(HeadError::Line.into())
        }
        Ok(httparse::Status::Partial) => Ok(Progress::Partial),
        Err(httparse::Error::Version) => Err(ResponseError::Version),
        Err(error) => Err(fields::blame(error).into()),
    }
}

/// The reason phrase: what follows `HTTP/1.1 200 ` on the status line.
fn reason(line: &[u8]) -> Result<Span, HeadError> {
    let start = "HTTP/1.1 200 ".len().min(line.len());
    Span::new(start, line.len()).ok_or(HeadError::LineTooLong)
}

fn validate(
    bytes: &[u8],
    request_kind: RequestKind,
    response: &httparse::Response<'_, '_>,
    head: &mut ResponseHead,
) -> Result<(), ResponseError> {
    head.status = response.code.unwrap_or_default();
    if head.status < 100 {
        return Err(ResponseError::Status);
    }
    head.version = match response.version {
        Some(0) => Version::Http10,
        _ => Version::Http11,
    };
    let decisive = fields::collect(bytes, response.headers, &mut head.fields)?;
    head.framing = decisive
        .framing
        .of_response(head.version, head.status, request_kind)?;
    // RFC 9110 section 8.6: these must not have one.
    let has_length = !matches!(head.status, 100..=199 | 204);
    head.content_length = decisive.framing.length().filter(|_| has_length);
    head.keep_alive = keeps_alive(&decisive, head.version) && head.framing != Framing::UntilClose;
    head.upgrade = match (head.status, decisive.upgrade) {
        (101, AtMostOnce::Once(protocol))
            if request_kind == RequestKind::Upgrade
                && head.version == Version::Http11
                && decisive.connection.upgrade
                && is_tunnelled(protocol.of(bytes)) =>
        {
            Some(protocol)
        }
        (101, _) => return Err(ResponseError::Upgrade),
        _ => None,
    };
    Ok(())
}

#[cfg(test)]
mod tests;
