//! The fields of a head, as lines of text.

use super::Malformed;
use crate::http::engine::hpack::{DecodedField, Validity};
use crate::http::h1::framing::FramingFields;
use crate::http::h1::{HeadError, HeadLimits};
use crate::http::head::{Field, Fields, Span};
use crate::http::known::{KnownHeader, KnownSet};

/// Writes the fields of a head in the form of HTTP/1, and evaluates those that decide how it is read.
pub(super) struct Lines<'a> {
    pub(super) bytes: &'a mut Vec<u8>,
    pub(super) fields: &'a mut Fields,
    limits: HeadLimits,
    /// Cookie crumbs that were joined to another.
    crumbs: usize,
    /// Content-Length.
    pub(super) framing: FramingFields,
    pub(super) host: Option<Span>,
    pub(super) hosts: u32,
    /// The first violation of the RFC.
    pub(super) malformed: Option<Malformed>,
    /// The first excess of a limit, or invalid field that the RFC allows to answer.
    pub(super) rejected: Option<HeadError>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(bytes: &'a mut Vec<u8>, fields: &'a mut Fields, limits: HeadLimits) -> Self {
        bytes.clear();
        fields.clear();
        Self {
            bytes,
            fields,
            limits,
            crumbs: 0,
            framing: FramingFields::default(),
            host: None,
            hosts: 0,
            malformed: None,
            rejected: None,
        }
    }

    /// Whether a violation was found: nothing more is written.
    pub(super) fn is_malformed(&self) -> bool {
        self.malformed.is_some()
    }

    pub(super) fn malform(&mut self, cause: Malformed) {
        self.malformed.get_or_insert(cause);
    }

    pub(super) fn reject(&mut self, error: HeadError) {
        self.rejected.get_or_insert(error);
    }

    /// Appends a text without a line of its own; an empty span if it does not fit.
    pub(super) fn write(&mut self, text: &[u8]) -> Span {
        let start = self.bytes.len();
        match Span::new(start, start.saturating_add(text.len())) {
            Some(span) if usize::from(span.end) <= self.limits.effective_head_bytes() => {
                self.bytes.extend_from_slice(text);
                span
            }
            _ => {
                self.reject(HeadError::HeadTooLarge);
                Span::default()
            }
        }
    }

    /// Adds a header field.
    pub(super) fn field(&mut self, field: &DecodedField<'_>, known: KnownHeader) {
        if field.validity == Validity::Invalid {
            return self.malform(Malformed::Field);
        }
        if known != KnownHeader::Other && SPECIAL.has(known) && !self.evaluate(field, known) {
            return;
        }
        if self.rejected.is_some() {
            return;
        }
        let before = self.fields.len().saturating_add(self.crumbs);
        if before >= self.limits.fields.min(HeadLimits::MAX_FIELDS) {
            return self.reject(HeadError::TooManyFields);
        }
        if known == KnownHeader::Cookie && self.fields.has(known) {
            return self.add_crumb(field.value);
        }
        let Some(line) = self.line(field.name, field.value, known) else {
            return self.reject(HeadError::HeadTooLarge);
        };
        if known == KnownHeader::Host {
            self.host = Some(line.value);
            self.hosts = self.hosts.saturating_add(1);
        }
        self.fields.push(line);
    }

    /// Checks a field that has a rule of its own; whether it is allowed.
    fn evaluate(&mut self, field: &DecodedField<'_>, known: KnownHeader) -> bool {
        match known {
            KnownHeader::ContentLength => {
                if let Err(error) = self.framing.content_length(field.value) {
                    self.reject(error.into());
                }
            }
            // Section 8.2.2.
            KnownHeader::Te if field.value.eq_ignore_ascii_case(b"trailers") => {}
            KnownHeader::Host | KnownHeader::Cookie => {}
            _ => {
                self.malform(Malformed::ConnectionField);
                return false;
            }
        }
        true
    }

    /// Appends `name: value\r\n`; `None` if it does not fit.
    fn line(&mut self, name: &[u8], value: &[u8], known: KnownHeader) -> Option<Field> {
        let start = self.bytes.len();
        let colon = start.checked_add(name.len())?;
        let text = colon.checked_add(SEPARATOR.len())?;
        let end = text.checked_add(value.len())?;
        let after = end.checked_add(LINE_END.len())?;
        if after > self.limits.effective_head_bytes() {
            return None;
        }
        self.bytes.reserve(after.saturating_sub(start));
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(SEPARATOR);
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(LINE_END);
        Some(Field {
            name: Span::new(start, colon)?,
            value: Span::new(text, end)?,
            known,
        })
    }

    /// Joins a cookie crumb to the one before (section 8.2.3). Usually that is the last line; otherwise
    /// it is copied to the end, which counts towards the limit.
    fn add_crumb(&mut self, crumb: &[u8]) {
        let is_last = self
            .fields
            .last()
            .is_some_and(|line| line.known == KnownHeader::Cookie);
        let copied = if is_last {
            0
        } else {
            let cookie = self.fields.value(KnownHeader::Cookie, self.bytes);
            let length = cookie.map_or(0, <[u8]>::len);
            length.saturating_add(b"cookie: \r\n".len())
        };
        let added = crumb.len().saturating_add(CRUMB_SEPARATOR.len());
        let all = self
            .bytes
            .len()
            .saturating_add(copied)
            .saturating_add(added);
        if all > self.limits.effective_head_bytes() {
            return self.reject(HeadError::HeadTooLarge);
        }
        self.crumbs = self.crumbs.saturating_add(1);
        if !is_last {
            self.move_cookie_to_end();
        }
        let end = self.bytes.len().saturating_sub(LINE_END.len());
        self.bytes.truncate(end);
        self.bytes.extend_from_slice(CRUMB_SEPARATOR);
        self.bytes.extend_from_slice(crumb);
        let end = self.bytes.len();
        self.bytes.extend_from_slice(LINE_END);
        if let Ok(end) = u16::try_from(end) {
            self.fields.extend_last(end);
        }
    }

    fn move_cookie_to_end(&mut self) {
        let line = self
            .fields
            .iter()
            .find(|line| line.known == KnownHeader::Cookie);
        let Some(Field { value, .. }) = line.copied() else {
            return;
        };
        let start = self.bytes.len();
        self.bytes.extend_from_slice(b"cookie: ");
        self.bytes
            .extend_from_within(usize::from(value.start)..usize::from(value.end));
        let end = self.bytes.len();
        self.bytes.extend_from_slice(LINE_END);
        let name = Span::new(start, start.saturating_add(b"cookie".len()));
        let value = Span::new(start.saturating_add(b"cookie: ".len()), end);
        if let (Some(name), Some(value)) = (name, value) {
            self.fields.move_to_end(Field {
                name,
                value,
                known: KnownHeader::Cookie,
            });
        }
    }
}

const SEPARATOR: &[u8] = b": ";
const LINE_END: &[u8] = b"\r\n";
const CRUMB_SEPARATOR: &[u8] = b"; ";

/// Fields with a rule of their own.
const SPECIAL: KnownSet = KnownSet::of(&[
    KnownHeader::Connection,
    KnownHeader::ContentLength,
    KnownHeader::Cookie,
    KnownHeader::Host,
    KnownHeader::KeepAlive,
    KnownHeader::ProxyConnection,
    KnownHeader::Te,
    KnownHeader::TransferEncoding,
    KnownHeader::Upgrade,
]);
