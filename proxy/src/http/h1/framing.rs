//! The single decision about where a body ends (RFC 9112 section 6.3), for requests and responses.
//!
//! Everything else in the proxy uses the [`Framing`] decided here; nothing else reads
//! Content-Length or Transfer-Encoding.

use super::error::FramingError;
use super::response::RequestKind;
use crate::http::grammar;
use crate::http::head::{Framing, Version};

/// The framing fields of one head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FramingFields {
    length: Option<u64>,
    transfer_encoding: bool,
}

impl FramingFields {
    /// Adds a Content-Length. Repeated values must be equal (RFC 9110 section 8.6).
    ///
    /// # Errors
    ///
    /// Not a number of 64 bits, or different from before.
    pub fn content_length(&mut self, value: &[u8]) -> Result<(), FramingError> {
        for member in grammar::list(value) {
            let length = parse_length(member).ok_or(FramingError::ContentLength)?;
            if self.length.is_some_and(|before| before != length) {
                return Err(FramingError::ContentLength);
            }
            self.length = Some(length);
        }
        Ok(())
    }

    /// Adds a Transfer-Encoding: exactly one `chunked` in the message, and nothing else.
    ///
    /// # Errors
    ///
    /// RFC 9112 section 6.1: without a final `chunked` the length is ambiguous; codings before it
    /// are well-formed but not supported.
    pub fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), FramingError> {
        if self.transfer_encoding {
            return Err(FramingError::TransferEncoding);
        }
        self.transfer_encoding = true;
        if value.eq_ignore_ascii_case(b"chunked") {
            return Ok(());
        }
        let mut chunked = 0_usize;
        let mut last_is_chunked = false;
        for coding in grammar::list(value) {
            if !grammar::is_token(coding) {
                return Err(FramingError::TransferEncoding);
            }
            last_is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            chunked = chunked.saturating_add(usize::from(last_is_chunked));
        }
        Err(if last_is_chunked && chunked == 1 {
            FramingError::UnknownCoding
        } else {
            FramingError::TransferEncoding
        })
    }

    /// The Content-Length, if present.
    #[must_use]
    pub fn length(self) -> Option<u64> {
        self.length
    }

    /// The framing of a request's body.
    ///
    /// # Errors
    ///
    /// It is ambiguous.
    pub fn of_request(self, version: Version) -> Result<Framing, FramingError> {
        self.check(version)?;
        Ok(match self.length {
            // Section 6.3, item 4: chunked, whatever the method.
            _ if self.transfer_encoding => Framing::Chunked,
            // Item 6.
            Some(length) => Framing::Length(length),
            // Item 7: a request without either has no body.
            None => Framing::Empty,
        })
    }

    /// The framing of a response's body.
    ///
    /// # Errors
    ///
    /// It is ambiguous.
    pub fn of_response(
        self,
        version: Version,
        status: u16,
        request_kind: RequestKind,
    ) -> Result<Framing, FramingError> {
        self.check(version)?;
        // Section 6.3, item 1: these end with their head, whatever the fields say.
        if request_kind == RequestKind::Head || matches!(status, 100..=199 | 204 | 304) {
            return Ok(Framing::Empty);
        }
        Ok(match self.length {
            // Item 4.
            _ if self.transfer_encoding => Framing::Chunked,
            // Item 6.
            Some(length) => Framing::Length(length),
            // Item 8: up to the end of the connection.
            None => Framing::UntilClose,
        })
    }

    fn check(self, version: Version) -> Result<(), FramingError> {
        // Section 6.1: HTTP/1.0 has no transfer codings, so the sender is not trustworthy.
        if self.transfer_encoding && version == Version::Http10 {
            return Err(FramingError::TransferEncodingOn10);
        }
        // Section 6.3, item 3: a sender of both is smuggling or broken.
        if self.transfer_encoding && self.length.is_some() {
            return Err(FramingError::Conflict);
        }
        Ok(())
    }
}

impl Framing {
    /// The framing for forwarding: without a length it is chunked, except to HTTP/1.0, where the
    /// end of the connection delimits it.
    #[must_use]
    pub fn reframed_for(self, version: Version) -> Self {
        match (self, version) {
            (Self::Chunked | Self::UntilClose, Version::Http10) => Self::UntilClose,
            (Self::Chunked | Self::UntilClose, Version::Http11 | Version::Http2) => Self::Chunked,
            (Self::Empty | Self::Length(_), _) => self,
        }
    }
}

fn parse_length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |length, &digit| {
        let digit = digit.is_ascii_digit().then(|| digit.wrapping_sub(b'0'))?;
        length.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::{Framing, FramingError, FramingFields, Version};
    use crate::http::h1::RequestKind;

    fn length(values: &[&str]) -> Result<Option<u64>, FramingError> {
        let mut fields = FramingFields::default();
        for value in values {
            fields.content_length(value.as_bytes())?;
        }
        Ok(fields.length())
    }

    #[test]
    fn content_length_is_one_number() {
        for (values, expected) in [
            (&["0"][..], Some(0)),
            (&["5"], Some(5)),
            (&["5", "5"], Some(5)),
            (&["5, 5 ,5"], Some(5)),
            (&["18446744073709551615"], Some(u64::MAX)),
        ] {
            assert_eq!(length(values), Ok(expected), "{values:?}");
        }
        for values in [
            &["18446744073709551616"][..],
            &["99999999999999999999999"],
            &[""],
            &["+5"],
            &["-1"],
            &["0x5"],
            &["5 5"],
            &["5,6"],
            &["5", "6"],
            &["5,"],
            &["5."],
            &["5", "5", "05, 6"],
        ] {
            assert_eq!(
                length(values),
                Err(FramingError::ContentLength),
                "{values:?}"
            );
        }
    }

    #[test]
    fn transfer_encoding_is_one_chunked() {
        let of = |value: &str| FramingFields::default().transfer_encoding(value.as_bytes());
        assert_eq!(of("chunked"), Ok(()));
        assert_eq!(of("Chunked"), Ok(()));
        assert_eq!(of("gzip, chunked"), Err(FramingError::UnknownCoding));
        for value in [
            "",
            "identity",
            "gzip",
            "chunked, gzip",
            "chunked, chunked",
            "chunked,",
            "xchunked",
            "chunked;a=b",
            "\"chunked\"",
            "chun ked",
            "\u{b}chunked",
        ] {
            assert_eq!(of(value), Err(FramingError::TransferEncoding), "{value}");
        }
    }

    #[test]
    fn two_transfer_encodings_or_both_kinds_are_refused() {
        let mut fields = FramingFields::default();
        assert_eq!(fields.transfer_encoding(b"chunked"), Ok(()));
        assert_eq!(fields.of_request(Version::Http11), Ok(Framing::Chunked));
        let on_10 = fields.of_request(Version::Http10);
        assert_eq!(on_10, Err(FramingError::TransferEncodingOn10));
        assert_eq!(fields.content_length(b"5"), Ok(()));
        assert_eq!(
            fields.of_request(Version::Http11),
            Err(FramingError::Conflict)
        );
        let response = fields.of_response(Version::Http11, 200, RequestKind::Other);
        assert_eq!(response, Err(FramingError::Conflict));
        let again = fields.transfer_encoding(b"chunked");
        assert_eq!(again, Err(FramingError::TransferEncoding));
    }

    #[test]
    fn responses_without_a_body_ignore_framing_headers() {
        let mut fields = FramingFields::default();
        assert_eq!(fields.content_length(b"5"), Ok(()));
        for (status, request_kind, expected) in [
            (200, RequestKind::Other, Framing::Length(5)),
            (200, RequestKind::Head, Framing::Empty),
            (304, RequestKind::Other, Framing::Empty),
            (204, RequestKind::Other, Framing::Empty),
            (103, RequestKind::Other, Framing::Empty),
        ] {
            let framing = fields.of_response(Version::Http11, status, request_kind);
            assert_eq!(framing, Ok(expected), "{status}");
        }
        let none = FramingFields::default().of_response(Version::Http10, 200, RequestKind::Other);
        assert_eq!(none, Ok(Framing::UntilClose));
    }
}
