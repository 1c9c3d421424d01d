//! Parse errors: small, copyable, each with a stable name for logs and metrics.

use http::StatusCode;
use thiserror::Error;

/// An error in a head of either kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HeadError {
    /// The request or status line is longer than the limit.
    #[error("start line exceeds the limit")]
    LineTooLong,
    /// The head is larger than the limit.
    #[error("header section exceeds the limit")]
    HeadTooLarge,
    /// More field lines than the limit.
    #[error("too many header fields")]
    TooManyFields,
    /// A line that does not end in CRLF, or a second empty line before the head.
    #[error("line not ended by CRLF")]
    LineEnding,
    /// A malformed request or status line.
    #[error("malformed first line")]
    Line,
    /// A field line is malformed: its name, white space before the colon, a folded or control
    /// byte in its value.
    #[error("malformed header field")]
    Field,
    /// Connection contains something other than tokens, or too many.
    #[error("malformed Connection header")]
    Connection,
    /// The end of the body is ambiguous.
    #[error(transparent)]
    Framing(#[from] FramingError),
}

impl HeadError {
    /// A stable name for logs and metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::LineTooLong => "line_too_long",
            Self::HeadTooLarge => "head_too_large",
            Self::TooManyFields => "too_many_fields",
            Self::LineEnding => "line_ending",
            Self::Line => "malformed_line",
            Self::Field => "malformed_field",
            Self::Connection => "malformed_connection",
            Self::Framing(error) => error.reason(),
        }
    }
}

/// Why the end of a body is ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FramingError {
    /// Content-Length is not a number, has two values, or exceeds 64 bits.
    #[error("invalid Content-Length")]
    ContentLength,
    /// Transfer-Encoding does not end in one `chunked`.
    #[error("invalid Transfer-Encoding")]
    TransferEncoding,
    /// A transfer coding other than `chunked` is applied.
    #[error("unknown transfer coding")]
    UnknownCoding,
    /// Both Content-Length and Transfer-Encoding.
    #[error("both Content-Length and Transfer-Encoding")]
    Conflict,
    /// Transfer-Encoding on HTTP/1.0, which does not support it.
    #[error("Transfer-Encoding on HTTP/1.0")]
    TransferEncodingOn10,
}

impl FramingError {
    /// A stable name for logs and metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::ContentLength => "content_length",
            Self::TransferEncoding => "transfer_encoding",
            Self::UnknownCoding => "unknown_transfer_coding",
            Self::Conflict => "length_and_transfer_encoding",
            Self::TransferEncodingOn10 => "transfer_encoding_on_http10",
        }
    }
}

/// Why a request is rejected before routing. The connection closes after the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RequestError {
    /// An error in the head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A version of HTTP other than 1.0 and 1.1.
    #[error("HTTP version not supported")]
    Version,
    /// CONNECT or TRACE, which a reverse proxy does not support.
    #[error("method refused")]
    Method,
    /// The target has no form that fits the method.
    #[error("invalid request target")]
    Target,
    /// Host is missing, repeated or invalid.
    #[error("missing, repeated or invalid Host")]
    Host,
    /// An expectation other than `100-continue`.
    #[error("expectation not supported")]
    Expectation,
}

impl RequestError {
    /// Status of the response.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Head(HeadError::LineTooLong) => StatusCode::URI_TOO_LONG,
            Self::Head(HeadError::HeadTooLarge | HeadError::TooManyFields) => {
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
            }
            // Not 405, which would have to list the methods that the origin allows.
            Self::Head(HeadError::Framing(FramingError::UnknownCoding)) | Self::Method => {
                StatusCode::NOT_IMPLEMENTED
            }
            Self::Head(_) | Self::Target | Self::Host => StatusCode::BAD_REQUEST,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
        }
    }

    /// A stable name for logs and metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Head(error) => error.reason(),
            Self::Version => "version",
            Self::Method => "method_refused",
            Self::Target => "malformed_target",
            Self::Host => "host",
            Self::Expectation => "expectation",
        }
    }
}

impl From<FramingError> for RequestError {
    fn from(error: FramingError) -> Self {
        Self::Head(error.into())
    }
}

/// Why a response cannot be forwarded: always 502, and the upstream connection closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ResponseError {
    /// An error in the head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A version of HTTP other than 1.0 and 1.1.
    #[error("HTTP version not supported")]
    Version,
    /// A status below 100.
    #[error("invalid status code")]
    Status,
    /// A 101 that was not requested, or without exactly one supported protocol.
    #[error("unsolicited switch of protocols")]
    Upgrade,
}

impl ResponseError {
    /// A stable name for logs and metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Head(error) => error.reason(),
            Self::Version => "version",
            Self::Status => "status",
            Self::Upgrade => "upgrade_not_asked_for",
        }
    }
}

impl From<FramingError> for ResponseError {
    fn from(error: FramingError) -> Self {
        Self::Head(error.into())
    }
}

/// Why a body is malformed: 400 for a request's, 502 for a response's. The connection closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BodyError {
    /// A chunk's size is not 1 to 16 hexadecimal digits and CRLF.
    #[error("malformed chunk size")]
    ChunkSize,
    /// A chunk extension that is too long or contains a control byte.
    #[error("malformed chunk extension")]
    ChunkExtension,
    /// Missing CRLF after a chunk's data.
    #[error("chunk not ended by CRLF")]
    ChunkEnd,
    /// A malformed trailer section.
    #[error("malformed trailers")]
    Trailers,
    /// Trailers above the limit.
    #[error("trailers exceed the limit")]
    TrailersTooLarge,
    /// The connection ended before the body did.
    #[error("body cut short")]
    Truncated,
}

impl BodyError {
    /// A stable name for logs and metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::ChunkSize => "chunk_size",
            Self::ChunkExtension => "chunk_extension",
            Self::ChunkEnd => "chunk_end",
            Self::Trailers => "malformed_trailers",
            Self::TrailersTooLarge => "trailers_too_large",
            Self::Truncated => "body_truncated",
        }
    }
}
