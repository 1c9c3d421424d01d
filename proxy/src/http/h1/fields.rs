//! The field lines of a head: strict line ends, spans, and the fields that affect processing.

use memchr::memchr;

use super::error::HeadError;
use super::framing::FramingFields;
use super::scan::HeadLimits;
use crate::http::grammar;
use crate::http::head::{Field, Fields, Span};
use crate::http::known::KnownHeader;
use crate::limits::MAX_CONNECTION_OPTIONS;

/// The fields that affect the message's framing and its connection.
#[derive(Debug, Default)]
pub(super) struct DecisiveFields {
    pub(super) framing: FramingFields,
    pub(super) connection: ConnectionOptions,
    pub(super) host: AtMostOnce,
    pub(super) upgrade: AtMostOnce,
    pub(super) expect: AtMostOnce,
}

/// A field that may occur once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum AtMostOnce {
    #[default]
    Nothing,
    Once(Span),
    Repeated,
}

impl AtMostOnce {
    fn add(&mut self, value: Span) {
        *self = match self {
            Self::Nothing => Self::Once(value),
            Self::Once(_) | Self::Repeated => Self::Repeated,
        };
    }
}

/// The options of Connection.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent options of one list, each either said or not"
)]
pub(super) struct ConnectionOptions {
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) upgrade: bool,
    pub(super) others: bool,
    count: usize,
}

impl ConnectionOptions {
    fn add(&mut self, value: &[u8]) -> Result<(), HeadError> {
        for option in grammar::list(value) {
            self.count = self.count.saturating_add(1);
            if self.count > MAX_CONNECTION_OPTIONS {
                return Err(HeadError::Connection);
            }
            if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else if grammar::is_token(option) {
                self.others = true;
            } else if !option.is_empty() {
                return Err(HeadError::Connection);
            }
        }
        Ok(())
    }
}

/// The first line of a head parsed by `httparse`, without its CRLF: checks the limits of head and
/// line, and their line ends.
pub(super) fn first_line<'a>(head: &'a [u8], limits: &HeadLimits) -> Result<&'a [u8], HeadError> {
    if head.len() > limits.effective_head_bytes() {
        return Err(HeadError::HeadTooLarge);
    }
    let end = memchr(b'\n', head).ok_or(HeadError::LineEnding)?;
    let line = head.get(..end).unwrap_or_default();
    match line.strip_suffix(b"\r") {
        Some(line) if line.len() > limits.line_bytes => Err(HeadError::LineTooLong),
        Some(line) if head.ends_with(b"\r\n\r\n") => Ok(line),
        _ => Err(HeadError::LineEnding),
    }
}

/// Fills `fields` from `httparse`'s result for `bytes`, and evaluates the decisive ones.
pub(super) fn collect(
    bytes: &[u8],
    found: &[httparse::Header<'_>],
    fields: &mut Fields,
) -> Result<DecisiveFields, HeadError> {
    let mut decisive = DecisiveFields::default();
    fields.clear();
    for header in found {
        let known = KnownHeader::of(header.name.as_bytes());
        let name = Span::within(bytes, header.name.as_bytes()).ok_or(HeadError::HeadTooLarge)?;
        let value = Span::within(bytes, header.value).ok_or(HeadError::HeadTooLarge)?;
        if !ends_in_crlf(bytes, value) {
            return Err(HeadError::LineEnding);
        }
        match known {
            KnownHeader::ContentLength => decisive.framing.content_length(header.value)?,
            KnownHeader::TransferEncoding => decisive.framing.transfer_encoding(header.value)?,
            KnownHeader::Connection => decisive.connection.add(header.value)?,
            KnownHeader::Host => decisive.host.add(value),
            KnownHeader::Upgrade => decisive.upgrade.add(value),
            KnownHeader::Expect => decisive.expect.add(value),
            _ => {}
        }
        fields.push(Field { name, value, known });
    }
    if decisive.connection.others {
        fields.record_connection_lists();
    }
    Ok(decisive)
}

/// Whether only white space lies between a value and a CRLF. `httparse` accepts other line ends
/// too.
pub(super) fn ends_in_crlf(bytes: &[u8], value: Span) -> bool {
    let rest = bytes.get(usize::from(value.end)..).unwrap_or_default();
    let end = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
    end == Some(&b'\r')
}

/// Maps the errors of `httparse`.
pub(super) fn blame(error: httparse::Error) -> HeadError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyFields,
        httparse::Error::NewLine => HeadError::LineEnding,
        httparse::Error::HeaderName | httparse::Error::HeaderValue => HeadError::Field,
        httparse::Error::Token | httparse::Error::Status | httparse::Error::Version => {
            HeadError::Line
        }
    }
}
