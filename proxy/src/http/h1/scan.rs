//! Finds the end of a head received in pieces, examining every byte once.
//!
//! `httparse` starts over on every call, so a head received byte by byte would cost the square of
//! its size. It is called on the first piece, and then only once this scan has found the end.

use memchr::memchr;

use super::error::HeadError;
use crate::limits::{Limits, MAX_HEAD_BYTES, MAX_HEADER_FIELDS};

/// Limits of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Longest request or status line in bytes, without its CRLF.
    pub line_bytes: usize,
    /// Largest head in bytes; effective up to [`HeadLimits::MAX_HEAD_BYTES`].
    pub head_bytes: usize,
    /// Most field lines; effective up to [`HeadLimits::MAX_FIELDS`].
    pub fields: usize,
}

impl HeadLimits {
    /// The largest head that a policy can allow.
    pub const MAX_HEAD_BYTES: usize = MAX_HEAD_BYTES as usize;
    /// The most fields that a policy can allow.
    pub const MAX_FIELDS: usize = MAX_HEADER_FIELDS as usize;

    /// The limits of a request head.
    #[must_use]
    pub fn of_request(limits: &Limits) -> Self {
        Self {
            line_bytes: limits.request_line_bytes as usize,
            head_bytes: limits.head_bytes as usize,
            fields: limits.header_fields as usize,
        }
    }

    /// The limits of a response head, whose status line may use all of it.
    #[must_use]
    pub fn of_response(limits: &Limits) -> Self {
        Self {
            line_bytes: limits.response_head_bytes as usize,
            head_bytes: limits.response_head_bytes as usize,
            fields: limits.response_header_fields as usize,
        }
    }

    pub(in crate::http) fn effective_head_bytes(&self) -> usize {
        self.head_bytes.min(Self::MAX_HEAD_BYTES)
    }
}

/// The result of an attempt to parse a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The end of the head is missing: read more after the same bytes and try again.
    Partial,
    /// The head is complete.
    Complete {
        /// Its length; its body or the next message follows.
        len: usize,
    },
}

/// Progress of the scan. Create one for each head, and pass it to every attempt over the growing
/// bytes; it restarts by itself after a head or an error.
#[derive(Debug, Default)]
pub struct HeadScan {
    /// Everything before was examined.
    seen: usize,
    /// Where the current line starts.
    line: usize,
    lines: usize,
}

impl HeadScan {
    /// Whether an attempt has returned partial.
    pub(super) fn has_begun(&self) -> bool {
        self.seen != 0
    }

    /// Continues the scan; returns whether the empty line that ends the head was found.
    pub(super) fn advance(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<bool, HeadError> {
        while let Some(found) = bytes.get(self.seen..).and_then(|rest| memchr(b'\n', rest)) {
            let end = self.seen.saturating_add(found);
            let line = bytes.get(self.line..end).unwrap_or_default();
            let Some(line) = line.strip_suffix(b"\r") else {
                return Err(HeadError::LineEnding);
            };
            if line.is_empty() && self.lines > 0 {
                return Ok(true);
            }
            // RFC 9112 section 2.2: servers should tolerate an empty line before a request; one is
            // accepted.
            if line.is_empty() && self.line > 0 {
                return Err(HeadError::LineEnding);
            }
            self.check_line(line.len(), limits)?;
            self.lines = self.lines.saturating_add(usize::from(!line.is_empty()));
            self.seen = end.saturating_add(1);
            self.line = self.seen;
        }
        self.seen = bytes.len();
        self.check_line(bytes.len().saturating_sub(self.line), limits)?;
        if bytes.len() >= limits.effective_head_bytes() {
            return Err(HeadError::HeadTooLarge);
        }
        Ok(false)
    }

    fn check_line(&self, length: usize, limits: &HeadLimits) -> Result<(), HeadError> {
        // One more byte may be the CR of a line end.
        if self.lines == 0 && length > limits.line_bytes.saturating_add(1) {
            return Err(HeadError::LineTooLong);
        }
        Ok(())
    }
}
