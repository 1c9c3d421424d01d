//! Why bytes are no message of ours: small, copyable, each with a stable name for logs and counters.

use http::StatusCode;
use thiserror::Error;

/// What is wrong with a head of either kind.
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
    /// A line that does not end in CRLF, or an empty line too many before the head.
    #[error("line not ended by CRLF")]
    LineEnding,
    /// The request or status line is not one.
    #[error("malformed first line")]
    Line,
    /// A field line is malformed: its name, white space before the colon, a folded or control
    /// byte in its value.
    #[error("malformed header field")]
    Field,
    /// Connection holds something else than tokens, or too many.
    #[error("malformed Connection header")]
    Connection,
    /// The body's end cannot be told for certain.
    #[error(transparent)]
    Framing(#[from] FramingError),
}

impl HeadError {
    /// A stable name for logs and counters.
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

/// Why a body's end cannot be told for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FramingError {
    /// Content-Length is no number, or two numbers, or above 64 bits.
    #[error("invalid Content-Length")]
    ContentLength,
    /// Transfer-Encoding does not end in one `chunked`.
    #[error("invalid Transfer-Encoding")]
    TransferEncoding,
    /// A transfer coding that we do not have comes before `chunked`.
    #[error("unknown transfer coding")]
    UnknownCoding,
    /// Content-Length and Transfer-Encoding together.
    #[error("both Content-Length and Transfer-Encoding")]
    Conflict,
    /// Transfer-Encoding on HTTP/1.0, which does not know it.
    #[error("Transfer-Encoding on HTTP/1.0")]
    TransferEncodingOn10,
}

impl FramingError {
    /// A stable name for logs and counters.
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

/// Why a request is refused before it is routed. The connection closes after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RequestError {
    /// A fault of the head as such.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A version of HTTP other than 1.0 and 1.1.
    #[error("HTTP version not supported")]
    Version,
    /// CONNECT or TRACE.
    #[error("method refused")]
    Method,
    /// The target has no form that fits the method.
    #[error("invalid request target")]
    Target,
    /// No Host, two, or an invalid one.
    #[error("missing, repeated or invalid Host")]
    Host,
    /// An expectation other than `100-continue`.
    #[error("expectation not supported")]
    Expectation,
}

impl RequestError {
    /// The answer's status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Head(HeadError::LineTooLong) => StatusCode::URI_TOO_LONG,
            Self::Head(HeadError::HeadTooLarge | HeadError::TooManyFields) => {
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
            }
            // Not 405, which would have to name the methods that the origin allows.
            Self::Head(HeadError::Framing(FramingError::UnknownCoding)) | Self::Method => {
                StatusCode::NOT_IMPLEMENTED
            }
            Self::Head(_) | Self::Target | Self::Host => StatusCode::BAD_REQUEST,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
        }
    }

    /// A stable name for logs and counters.
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

/// Why a response cannot be passed on: always 502, and the upstream connection closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ResponseError {
    /// A fault of the head as such.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A version of HTTP other than 1.0 and 1.1.
    #[error("HTTP version not supported")]
    Version,
    /// A status below 100.
    #[error("invalid status code")]
    Status,
    /// 101 that no one asked for, or that does not name one protocol that we tunnel.
    #[error("unsolicited switch of protocols")]
    Upgrade,
}

impl ResponseError {
    /// A stable name for logs and counters.
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

/// Why a body cannot be read on: 400 for a request's, 502 for a response's. The connection closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BodyError {
    /// A chunk's size is not 1 to 16 hexadecimal digits and CRLF.
    #[error("malformed chunk size")]
    ChunkSize,
    /// A chunk's extension is too long or holds a control byte.
    #[error("malformed chunk extension")]
    ChunkExtension,
    /// No CRLF after a chunk's data.
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
    /// A stable name for logs and counters.
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
