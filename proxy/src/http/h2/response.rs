//! Converts HTTP/2 response heads into the proxy's form.

use http::{HeaderMap, StatusCode};

use super::request::{BodyPresence, Lines, WEBSOCKET};
use crate::http::h1::{HeadLimits, RequestKind, ResponseError};
use crate::http::head::{Framing, ResponseHead, Version};

/// Converts a response head: `head` points into `bytes`, where every field has its own line. The
/// success of an extended CONNECT becomes the equivalent 101 of HTTP/1 (RFC 8441 section 5).
///
/// # Errors
///
/// The response cannot be forwarded.
pub fn convert(
    (status, fields): (StatusCode, &HeaderMap),
    follows: BodyPresence,
    request_kind: RequestKind,
    limits: &HeadLimits,
    bytes: &mut Vec<u8>,
    head: &mut ResponseHead,
) -> Result<(), ResponseError> {
    bytes.clear();
    let mut lines = Lines::new(bytes, &mut head.fields, limits);
    // RFC 9113 section 8.6: HTTP/2 has no 101.
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(ResponseError::Upgrade);
    }
    let switched = request_kind == RequestKind::Upgrade && status.is_success();
    let status = if switched {
        StatusCode::SWITCHING_PROTOCOLS
    } else {
        status
    };
    head.status = status.as_u16();
    head.reason = lines.write(status.canonical_reason().unwrap_or_default().as_bytes())?;
    head.upgrade = if switched {
        Some(lines.write(WEBSOCKET.as_bytes())?)
    } else {
        None
    };
    let decisive = lines.collect(fields)?;
    let length = decisive.framing.length();
    let is_bodiless =
        request_kind == RequestKind::Head || matches!(head.status, 100..=199 | 204 | 304);
    head.framing = match (length, follows) {
        _ if is_bodiless => Framing::Empty,
        (Some(length), _) => Framing::Length(length),
        (None, BodyPresence::Nothing) => Framing::Length(0),
        (None, BodyPresence::Body) => Framing::Chunked,
    };
    // RFC 9110 section 8.6: these must not have one.
    head.content_length = length.filter(|_| !matches!(head.status, 100..=199 | 204));
    head.version = Version::Http2;
    head.keep_alive = true;
    Ok(())
}

#[cfg(test)]
mod tests;
