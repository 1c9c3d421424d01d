//! A parsed message head, as spans of its bytes.
//!
//! A head is parsed into a value that its connection reuses, so the steady state does not allocate.
//! Spans stay valid while the head's bytes are unchanged.

use super::h1::{HeadError, HeadLimits};
use super::known::KnownHeader;

/// A range of a head's bytes. Heads are below 64 KiB (`limits.rs`), so 16 bits are enough.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u16,
    /// One past the last byte.
    pub end: u16,
}

impl Span {
    /// The position of `part` in `head`; `None` if it is not in it, or beyond 64 KiB.
    #[must_use]
    pub fn within(head: &[u8], part: &[u8]) -> Option<Self> {
        let start = part.as_ptr().addr().checked_sub(head.as_ptr().addr())?;
        let end = start.checked_add(part.len())?;
        (end <= head.len()).then(|| Self::new(start, end))?
    }

    /// From `start` up to `end`; `None` beyond 64 KiB.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Option<Self> {
        Some(Self {
            start: u16::try_from(start).ok()?,
            end: u16::try_from(end).ok()?,
        })
    }

    /// The bytes of the span; empty if `head` is not the head it came from.
    #[must_use]
    pub fn of(self, head: &[u8]) -> &[u8] {
        head.get(usize::from(self.start)..usize::from(self.end))
            .unwrap_or_default()
    }
}

/// One header field line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name as received, in any case.
    pub name: Span,
    /// Value without surrounding white space.
    pub value: Span,
    /// The name, if it is one that is treated specially.
    pub known: KnownHeader,
}

/// The field lines of a head, in order.
#[derive(Debug, Default)]
pub struct Fields {
    list: Vec<Field>,
    seen: u64,
    connection_lists: bool,
}

impl Fields {
    /// Removes all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.list.clear();
        self.seen = 0;
        self.connection_lists = false;
    }

    /// Records that Connection lists names of further hop-by-hop fields.
    pub(super) fn record_connection_lists(&mut self) {
        self.connection_lists = true;
    }

    /// Whether Connection lists names of further hop-by-hop fields.
    #[must_use]
    pub fn connection_lists(&self) -> bool {
        self.connection_lists
    }

    /// Appends a field line.
    pub fn push(&mut self, field: Field) {
        self.seen |= field.known.bit();
        self.list.push(field);
    }

    /// Extends the last line's value.
    pub(super) fn extend_last(&mut self, end: u16) {
        if let Some(last) = self.list.last_mut() {
            last.value.end = end;
        }
    }

    /// The last line.
    pub(super) fn last(&self) -> Option<&Field> {
        self.list.last()
    }

    /// Removes the first line of a known name, and appends `field` in place of it.
    pub(super) fn move_to_end(&mut self, field: Field) {
        let place = self.list.iter().position(|line| line.known == field.known);
        if let Some(place) = place {
            self.list.remove(place);
        }
        self.push(field);
    }

    /// Field lines, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Field> {
        self.list.iter()
    }

    /// Whether there is a line of this name. `bytes` are those that the lines are spans of.
    #[must_use]
    pub fn has_name(&self, name: &[u8], bytes: &[u8]) -> bool {
        let mut lines = self.list.iter();
        lines.any(|field| field.name.of(bytes).eq_ignore_ascii_case(name))
    }

    /// Number of field lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether a field of this name is present: one branch, no search.
    #[must_use]
    pub fn has(&self, known: KnownHeader) -> bool {
        self.seen & known.bit() != 0
    }

    /// The first value of a known name.
    #[must_use]
    pub fn value<'a>(&self, known: KnownHeader, head: &'a [u8]) -> Option<&'a [u8]> {
        if !self.has(known) {
            return None;
        }
        self.list
            .iter()
            .find(|field| field.known == known)
            .map(|field| field.value.of(head))
    }
}

impl<'a> IntoIterator for &'a Fields {
    type Item = &'a Field;
    type IntoIter = std::slice::Iter<'a, Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Protocol version of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: no persistence unless requested, no chunked coding.
    Http10,
    /// HTTP/1.1 (RFC 9112): persistent by default.
    #[default]
    Http11,
    /// HTTP/2 (RFC 9113): framing by the protocol, no hop-by-hop fields.
    Http2,
}

/// The framing of a message's body (RFC 9112 section 6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framing {
    /// No body, and no framing fields.
    #[default]
    Empty,
    /// Content-Length: exactly this many bytes.
    Length(u64),
    /// Chunked transfer coding (RFC 9112 section 7.1).
    Chunked,
    /// Until the connection closes; responses only.
    UntilClose,
}

impl Framing {
    /// The framing that a request of this method states. Without a body, that is a length of 0 if the
    /// method anticipates one (RFC 9110 section 8.6): some origins answer 411 otherwise. HTTP/2 clients
    /// may leave it out, since the end of the stream says it.
    #[must_use]
    pub fn stated_for(self, method: &[u8]) -> Self {
        match (self, method) {
            (Self::Empty, b"POST" | b"PUT" | b"PATCH") => Self::Length(0),
            (framing, _) => framing,
        }
    }
}

/// Head of a request; spans refer to the bytes that it was parsed from.
#[derive(Debug, Default)]
pub struct RequestHead {
    /// Method as received.
    pub method: Span,
    /// Path and query as received: `/…`, `*` for OPTIONS, or `?…` if an absolute form had a query
    /// and no path (normalising adds the `/`).
    pub target: Span,
    /// Host and port: of the absolute form if present, otherwise of Host; empty on HTTP/1.0 without
    /// Host.
    pub authority: Span,
    /// Version of the message as received.
    pub version: Version,
    /// Header fields, in the order received.
    pub fields: Fields,
    /// Framing of the body.
    pub framing: Framing,
    /// Whether the client allows keep-alive.
    pub keep_alive: bool,
    /// Whether it has `Expect: 100-continue`.
    pub expect_continue: bool,
    /// The requested protocol, if Connection and Upgrade name exactly one supported protocol.
    pub upgrade: Option<Span>,
}

/// The loggable parts of a request with a rejected head: as received and not validated; empty if
/// unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outline<'a> {
    /// Request method, case-sensitive (RFC 9110 section 9.1).
    pub method: &'a [u8],
    /// Path and query, or the target in another form.
    pub target: &'a [u8],
    /// Host with its port, if it has one.
    pub host: &'a [u8],
    /// Version of the message as received.
    pub version: Version,
}

/// Head of a response; spans refer to the bytes that it was parsed from.
#[derive(Debug, Default)]
pub struct ResponseHead {
    /// Status code, 100 to 999.
    pub status: u16,
    /// Reason phrase; may be empty.
    pub reason: Span,
    /// Version of the message as received.
    pub version: Version,
    /// Header fields, in the order received.
    pub fields: Fields,
    /// Framing of the body.
    pub framing: Framing,
    /// Whether the origin allows keep-alive.
    pub keep_alive: bool,
    /// The protocol of a 101.
    pub upgrade: Option<Span>,
    /// The Content-Length, also if no body follows (HEAD, 304).
    pub content_length: Option<u64>,
}

impl ResponseHead {
    /// Checks a head of `length` bytes that was received within other limits.
    ///
    /// # Errors
    ///
    /// It exceeds these.
    pub(crate) fn check_limits(&self, length: usize, limits: &HeadLimits) -> Result<(), HeadError> {
        if length > limits.effective_head_bytes() {
            return Err(HeadError::HeadTooLarge);
        }
        if self.fields.len() > limits.fields.min(HeadLimits::MAX_FIELDS) {
            return Err(HeadError::TooManyFields);
        }
        Ok(())
    }

    /// Whether another response to the same request follows (1xx except 101).
    #[must_use]
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }
}
