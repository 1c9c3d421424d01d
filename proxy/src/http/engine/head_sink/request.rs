//! The head of a request (RFC 9113 section 8.3.1).

use super::lines::Lines;
use super::{Malformed, RequestFault, Then};
use crate::http::authority;
use crate::http::engine::hpack::{DecodedField, FieldSink, NameKind, Pseudo, Validity};
use crate::http::grammar::is_token;
use crate::http::h1::{HeadError, HeadLimits, RequestError};
use crate::http::head::{Fields, Framing, RequestHead, Span, Version};
use crate::http::known::KnownHeader;
use crate::http::method::is_refused;

/// Decodes the head of a request.
pub(in crate::http::engine) struct RequestSink<'a> {
    lines: Lines<'a>,
    limits: HeadLimits,
    pseudo: PseudoFields,
}

/// The pseudo-header fields received.
#[derive(Debug, Default)]
struct PseudoFields {
    method: Option<Span>,
    path: Option<Span>,
    scheme: Option<Span>,
    authority: Option<Span>,
    protocol: Option<Span>,
}

impl FieldSink for RequestSink<'_> {
    fn field(&mut self, field: DecodedField<'_>) {
        if self.lines.is_malformed() {
            return;
        }
        match field.kind {
            NameKind::Field(known) => self.lines.field(&field, known),
            NameKind::Pseudo(pseudo) => self.pseudo_field(pseudo, &field),
        }
    }
}

impl<'a> RequestSink<'a> {
    pub(in crate::http::engine) fn new(
        bytes: &'a mut Vec<u8>,
        fields: &'a mut Fields,
        limits: HeadLimits,
    ) -> Self {
        Self {
            lines: Lines::new(bytes, fields, limits),
            limits,
            pseudo: PseudoFields::default(),
        }
    }

    fn pseudo_field(&mut self, pseudo: Pseudo, field: &DecodedField<'_>) {
        let is_behind = !self.lines.fields.is_empty();
        let place = match pseudo {
            Pseudo::Authority => &mut self.pseudo.authority,
            Pseudo::Method => &mut self.pseudo.method,
            Pseudo::Path => &mut self.pseudo.path,
            Pseudo::Protocol => &mut self.pseudo.protocol,
            Pseudo::Scheme => &mut self.pseudo.scheme,
            Pseudo::Status | Pseudo::Unknown => {
                return self.lines.malform(Malformed::PseudoField);
            }
        };
        let is_valid = field.validity == Validity::Valid || pseudo == Pseudo::Path;
        if is_behind || place.is_some() || !is_valid {
            return self.lines.malform(Malformed::PseudoField);
        }
        if pseudo == Pseudo::Path && field.value.len() > self.limits.line_bytes {
            *place = Some(Span::default());
            return self.lines.reject(HeadError::LineTooLong);
        }
        *place = Some(self.lines.write(field.value));
    }

    /// Completes the head, of which as much is set as is known also if it is at fault.
    pub(in crate::http::engine) fn finish(
        mut self,
        then: Then,
        outcome: &mut Outcome,
    ) -> Result<(), RequestFault> {
        let method = self.pseudo.method.unwrap_or_default();
        outcome.method = method;
        outcome.target = self.pseudo.path.unwrap_or_default();
        outcome.authority = self
            .pseudo
            .authority
            .or(self.lines.host)
            .unwrap_or_default();
        self.check_form().map_err(RequestFault::Malformed)?;
        let is_tunnel = self.is_tunnel();
        let method = method.of(self.lines.bytes);
        if is_refused(method) && !is_tunnel {
            return Err(RequestFault::Rejected(RequestError::Method));
        }
        self.check_target(method.len())
            .map_err(RequestFault::Rejected)?;
        outcome.authority = self.authority().map_err(RequestFault::Rejected)?;
        if is_tunnel {
            // RFC 8441 section 5: the equivalent of GET with Upgrade in HTTP/1.
            outcome.method = self.lines.write(b"GET");
            outcome.upgrade = self.pseudo.protocol;
        }
        let length = self.lines.framing.length();
        outcome.framing = match (length, then) {
            _ if is_tunnel => Framing::Empty,
            (Some(length), _) => Framing::Length(length),
            (None, Then::End) => Framing::Empty,
            (None, Then::More) => Framing::Chunked,
        };
        outcome.expect_continue = self
            .expects_continue(outcome.framing)
            .map_err(RequestFault::Rejected)?;
        match self.lines.rejected {
            Some(error) => Err(RequestFault::Rejected(error.into())),
            None => Ok(()),
        }
    }

    /// What the RFC requires: a request without it is malformed.
    fn check_form(&self) -> Result<(), Malformed> {
        if let Some(cause) = self.lines.malformed {
            return Err(cause);
        }
        let bytes = &*self.lines.bytes;
        let text = |span: Option<Span>| span.map(|span| span.of(bytes));
        let method = text(self.pseudo.method).ok_or(Malformed::PseudoField)?;
        let is_connect = method == b"CONNECT";
        let is_plain_connect = is_connect && self.pseudo.protocol.is_none();
        let has_both = self.pseudo.scheme.is_some() && self.pseudo.path.is_some();
        let has_neither = self.pseudo.scheme.is_none() && self.pseudo.path.is_none();
        let is_right = if is_plain_connect {
            // Section 8.5.
            has_neither && self.pseudo.authority.is_some()
        } else {
            let is_scheme = text(self.pseudo.scheme).is_some_and(is_scheme);
            let is_path = self.lines.rejected.is_some()
                || text(self.pseudo.path).is_some_and(|path| !path.is_empty());
            // RFC 8441 section 4: a protocol only with CONNECT.
            has_both && is_scheme && is_path && (self.pseudo.protocol.is_none() || is_connect)
        };
        let is_method = self.lines.rejected.is_some() || is_token(method);
        let is_right = is_right && is_method;
        is_right.then_some(()).ok_or(Malformed::PseudoField)
    }

    /// Whether it requests the only protocol that is tunnelled.
    fn is_tunnel(&self) -> bool {
        let protocol = self.pseudo.protocol;
        protocol.is_some_and(|protocol| protocol.of(self.lines.bytes) == WEBSOCKET)
    }

    /// A target in origin form, or `*` of OPTIONS. Whatever else is wrong with it, and a fragment, is
    /// found when it is normalised.
    fn check_target(&self, method_len: usize) -> Result<(), RequestError> {
        if let Some(error @ HeadError::LineTooLong) = self.lines.rejected {
            return Err(error.into());
        }
        let bytes = &*self.lines.bytes;
        let method = self.pseudo.method.unwrap_or_default().of(bytes);
        let target = self.pseudo.path.unwrap_or_default().of(bytes);
        if method_len.saturating_add(target.len()) > self.limits.line_bytes {
            return Err(HeadError::LineTooLong.into());
        }
        let is_origin_form = target.first() == Some(&b'/') && !has_space_or_control(target);
        if is_origin_form || (target == b"*" && method == b"OPTIONS") {
            return Ok(());
        }
        match self.lines.rejected {
            // It is missing because it was too large.
            Some(error) => Err(error.into()),
            None => Err(RequestError::Target),
        }
    }

    /// `:authority` and Host must not contradict each other, and one is required.
    fn authority(&self) -> Result<Span, RequestError> {
        let bytes = &*self.lines.bytes;
        let span = match (self.pseudo.authority, self.lines.host, self.lines.hosts) {
            (None, Some(host), 1) => host,
            (Some(authority), None, _) => authority,
            (Some(authority), Some(host), 1)
                if host.of(bytes).eq_ignore_ascii_case(authority.of(bytes)) =>
            {
                host
            }
            _ => return Err(self.rejection(RequestError::Host)),
        };
        authority::normal(bytes, span).ok_or(self.rejection(RequestError::Host))
    }

    /// RFC 9110 section 10.1.1.
    fn expects_continue(&self, framing: Framing) -> Result<bool, RequestError> {
        if !self.lines.fields.has(KnownHeader::Expect) {
            return Ok(false);
        }
        let mut values = self
            .lines
            .fields
            .iter()
            .filter(|field| field.known == KnownHeader::Expect)
            .map(|field| field.value.of(self.lines.bytes));
        match (values.next(), values.next()) {
            (Some(value), None) if value.eq_ignore_ascii_case(b"100-continue") => {
                Ok(!matches!(framing, Framing::Empty | Framing::Length(0)))
            }
            _ => Err(self.rejection(RequestError::Expectation)),
        }
    }

    /// The first reason to reject the request: what is missing may have been beyond a limit.
    fn rejection(&self, error: RequestError) -> RequestError {
        self.lines.rejected.map_or(error, RequestError::from)
    }
}

/// What a head is besides its fields: they are borrowed while it is decoded.
#[derive(Debug, Default)]
pub(in crate::http::engine) struct Outcome {
    method: Span,
    target: Span,
    authority: Span,
    framing: Framing,
    expect_continue: bool,
    upgrade: Option<Span>,
}

impl Outcome {
    pub(in crate::http::engine) fn store(self, head: &mut RequestHead) {
        head.method = self.method;
        head.target = self.target;
        head.authority = self.authority;
        head.version = Version::Http2;
        head.framing = self.framing;
        head.keep_alive = true;
        head.expect_continue = self.expect_continue;
        head.upgrade = self.upgrade;
    }
}

/// RFC 3986 section 3.1.
fn is_scheme(text: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(is_allowed)
}

fn has_space_or_control(text: &[u8]) -> bool {
    let is_either = |byte: u8| byte <= b' ' || byte == 0x7f;
    // Without an early return, so that many bytes are checked at once.
    text.iter()
        .fold(false, |found, &byte| found | is_either(byte))
}

/// The only protocol supported by extended CONNECT.
pub(in crate::http::engine) const WEBSOCKET: &[u8] = b"websocket";
