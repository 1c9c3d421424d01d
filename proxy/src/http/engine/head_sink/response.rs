//! The head of a response (RFC 9113 section 8.3.2).

use http::StatusCode;

use super::lines::Lines;
use super::request::WEBSOCKET;
use super::{Malformed, ResponseFault, Then};
use crate::http::engine::hpack::{DecodedField, FieldSink, NameKind, Pseudo};
use crate::http::h1::{HeadLimits, RequestKind, ResponseError};
use crate::http::head::{Fields, Framing, ResponseHead, Span, Version};

/// Decodes the head of a response.
pub(in crate::http::engine) struct ResponseSink<'a> {
    lines: Lines<'a>,
    status: Option<u16>,
}

impl FieldSink for ResponseSink<'_> {
    fn field(&mut self, field: DecodedField<'_>) {
        if self.lines.is_malformed() {
            return;
        }
        match field.kind {
            NameKind::Field(known) => self.lines.field(&field, known),
            NameKind::Pseudo(Pseudo::Status)
                if self.status.is_none() && self.lines.fields.is_empty() =>
            {
                self.status = parse_status(field.value);
                if self.status.is_none() {
                    self.lines.malform(Malformed::PseudoField);
                }
            }
            NameKind::Pseudo(_) => self.lines.malform(Malformed::PseudoField),
        }
    }
}

impl<'a> ResponseSink<'a> {
    pub(in crate::http::engine) fn new(
        bytes: &'a mut Vec<u8>,
        fields: &'a mut Fields,
        limits: HeadLimits,
    ) -> Self {
        Self {
            lines: Lines::new(bytes, fields, limits),
            status: None,
        }
    }

    /// Completes the head. The success of an extended CONNECT becomes the equivalent 101 of HTTP/1 (RFC
    /// 8441 section 5).
    pub(in crate::http::engine) fn finish(
        mut self,
        then: Then,
        request: RequestKind,
        outcome: &mut Outcome,
    ) -> Result<(), ResponseFault> {
        if let Some(cause) = self.lines.malformed {
            return Err(ResponseFault::Malformed(cause));
        }
        let status = self
            .status
            .ok_or(ResponseFault::Malformed(Malformed::PseudoField))?;
        let is_interim = (100..200).contains(&status);
        if is_interim && then == Then::End {
            return Err(ResponseFault::Malformed(Malformed::End));
        }
        // RFC 9113 section 8.6: HTTP/2 has no 101.
        if status == StatusCode::SWITCHING_PROTOCOLS.as_u16() {
            return Err(ResponseFault::Rejected(ResponseError::Upgrade));
        }
        let is_tunnel = request == RequestKind::Upgrade && (200..300).contains(&status);
        outcome.status = if is_tunnel {
            StatusCode::SWITCHING_PROTOCOLS.as_u16()
        } else {
            status
        };
        let reason = StatusCode::from_u16(outcome.status).ok();
        let reason = reason.and_then(|status| status.canonical_reason());
        outcome.reason = self.lines.write(reason.unwrap_or_default().as_bytes());
        outcome.upgrade = is_tunnel.then(|| self.lines.write(WEBSOCKET));
        let length = self.lines.framing.length();
        let has_no_body =
            request == RequestKind::Head || matches!(outcome.status, 100..=199 | 204 | 304);
        outcome.framing = match (length, then) {
            _ if has_no_body => Framing::Empty,
            (Some(length), _) => Framing::Length(length),
            (None, Then::End) => Framing::Length(0),
            (None, Then::More) => Framing::Chunked,
        };
        // RFC 9110 section 8.6: these must not have one.
        outcome.content_length = length.filter(|_| !matches!(outcome.status, 100..=199 | 204));
        match self.lines.rejected {
            Some(error) => Err(ResponseFault::Rejected(error.into())),
            None => Ok(()),
        }
    }
}

/// What a head is besides its fields: they are borrowed while it is decoded.
#[derive(Debug, Default)]
pub(in crate::http::engine) struct Outcome {
    status: u16,
    reason: Span,
    framing: Framing,
    upgrade: Option<Span>,
    content_length: Option<u64>,
}

impl Outcome {
    pub(in crate::http::engine) fn store(self, head: &mut ResponseHead) {
        head.status = self.status;
        head.reason = self.reason;
        head.version = Version::Http2;
        head.framing = self.framing;
        head.keep_alive = true;
        head.upgrade = self.upgrade;
        head.content_length = self.content_length;
    }
}

/// Three digits (RFC 9110 section 15).
fn parse_status(value: &[u8]) -> Option<u16> {
    let &[hundreds @ b'1'..=b'9', tens, ones] = value else {
        return None;
    };
    [hundreds, tens, ones]
        .iter()
        .try_fold(0_u16, |status, digit| {
            let digit = digit.is_ascii_digit().then(|| digit.wrapping_sub(b'0'))?;
            status.checked_mul(10)?.checked_add(u16::from(digit))
        })
}
