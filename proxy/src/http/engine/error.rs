//! Errors by blame: of the connection, which ends it with GOAWAY; of one stream, which resets it; and
//! what the peer did by itself.

use std::fmt;

use thiserror::Error;

use crate::http::engine::guard::Abuse;
use crate::http::h1::ResponseError;

/// An error code (RFC 9113 section 7). Codes that the protocol does not define are kept as received.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

impl Code {
    /// No error: an orderly end.
    pub const NO_ERROR: Self = Self(0x0);
    /// An error that no other code describes.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// The sender failed.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// A window was exceeded, or became too large.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// A frame on a stream that had ended.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame of an invalid size.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The stream was not processed at all.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is not needed any more.
    pub const CANCEL: Self = Self(0x8);
    /// A field block cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The peer causes excessive load.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
}

impl Code {
    /// Whether a reset with it concerns the other side of an exchange: it was cancelled, or its peer
    /// is overloaded. Other codes concern one connection only.
    #[must_use]
    pub fn concerns_other_side(self) -> bool {
        self == Self::CANCEL || self == Self::ENHANCE_YOUR_CALM
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::NO_ERROR => "NO_ERROR",
            Self::PROTOCOL_ERROR => "PROTOCOL_ERROR",
            Self::INTERNAL_ERROR => "INTERNAL_ERROR",
            Self::FLOW_CONTROL_ERROR => "FLOW_CONTROL_ERROR",
            Self::STREAM_CLOSED => "STREAM_CLOSED",
            Self::FRAME_SIZE_ERROR => "FRAME_SIZE_ERROR",
            Self::REFUSED_STREAM => "REFUSED_STREAM",
            Self::CANCEL => "CANCEL",
            Self::COMPRESSION_ERROR => "COMPRESSION_ERROR",
            Self::ENHANCE_YOUR_CALM => "ENHANCE_YOUR_CALM",
            Self(other) => return write!(formatter, "code {other}"),
        };
        formatter.write_str(name)
    }
}

/// Why a connection has to end. Its GOAWAY is in the output already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ConnectionError {
    /// The peer violated the protocol.
    #[error("the peer violated HTTP/2: {0}")]
    Violation(#[from] Violation),
    /// The peer exceeded a flood limit.
    #[error("the peer exceeded a limit: {}", .0.reason())]
    Abuse(Abuse),
}

impl ConnectionError {
    /// The code of the GOAWAY.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::Violation(violation) => violation.code(),
            Self::Abuse(_) => Code::ENHANCE_YOUR_CALM,
        }
    }
}

impl From<Abuse> for ConnectionError {
    fn from(abuse: Abuse) -> Self {
        Self::Abuse(abuse)
    }
}

/// A violation of the protocol that ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Violation {
    /// The connection does not begin as it has to (RFC 9113 section 3.4).
    #[error("no connection preface")]
    Preface,
    /// A frame is longer than allowed, or has another size than its type requires (section 4.2).
    #[error("a frame of an invalid size")]
    FrameSize,
    /// A frame of a stream on the connection, or the other way round (section 6).
    #[error("a frame on stream 0, or not on it")]
    WrongStream,
    /// Padding is longer than its frame (section 6.1).
    #[error("padding longer than its frame")]
    Padding,
    /// A frame between those of a field block, or CONTINUATION without one (section 6.10).
    #[error("a field block is not contiguous")]
    Interleaved,
    /// A frame on a stream that was never opened, or that the peer may not open (section 5.1).
    #[error("a frame on an idle stream")]
    IdleStream,
    /// A frame on a stream that the peer has ended (section 5.1).
    #[error("a frame on a closed stream")]
    ClosedStream,
    /// `PUSH_PROMISE`, which no peer of ours may send (section 8.4).
    #[error("PUSH_PROMISE")]
    Push,
    /// A stream depends on itself (RFC 7540 section 5.3.1), which no correct peer says.
    #[error("a stream that depends on itself")]
    SelfDependency,
    /// A setting's value is invalid (section 6.5.2).
    #[error("an invalid setting")]
    Setting,
    /// `WINDOW_UPDATE` of 0 (section 6.9).
    #[error("WINDOW_UPDATE of 0")]
    ZeroIncrement,
    /// DATA beyond a window, or a window above 2³¹−1 (section 6.9.1).
    #[error("a window was exceeded")]
    Window,
    /// A field block cannot be decoded (section 4.3).
    #[error("an invalid field block")]
    Compression,
    /// A field block decodes to far more than any head may have.
    #[error("a field block far above the limits")]
    BlockTooLarge,
}

impl Violation {
    /// The code that RFC 9113 names for it.
    #[must_use]
    pub fn code(self) -> Code {
        match self {
            Self::FrameSize => Code::FRAME_SIZE_ERROR,
            Self::ClosedStream => Code::STREAM_CLOSED,
            Self::Window => Code::FLOW_CONTROL_ERROR,
            Self::Compression => Code::COMPRESSION_ERROR,
            Self::BlockTooLarge => Code::ENHANCE_YOUR_CALM,
            Self::Preface
            | Self::WrongStream
            | Self::Padding
            | Self::Interleaved
            | Self::IdleStream
            | Self::Push
            | Self::SelfDependency
            | Self::Setting
            | Self::ZeroIncrement => Code::PROTOCOL_ERROR,
        }
    }
}

/// Why a message is malformed (RFC 9113 section 8.1.1): its stream is reset with `PROTOCOL_ERROR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Malformed {
    /// A name is not in lower case or not a token, or a value has control characters or surrounding
    /// white space (section 8.2.1).
    #[error("an invalid field name or value")]
    Field,
    /// A field that belongs to a connection of HTTP/1, or TE other than `trailers` (section 8.2.2).
    #[error("a connection-specific field")]
    ConnectionField,
    /// A pseudo-header field is missing, unknown, repeated, invalid, or in the wrong place (section
    /// 8.3).
    #[error("invalid pseudo-header fields")]
    PseudoField,
    /// The bytes of DATA are not as many as Content-Length says (section 8.1.1).
    #[error("DATA differs from Content-Length")]
    Length,
    /// DATA before the head of a response, or head after head (section 8.1).
    #[error("frames of a message in the wrong order")]
    Order,
    /// Trailers without `END_STREAM`, or an interim response with it (section 8.1).
    #[error("a field section that must end the stream does not, or the other way round")]
    End,
    /// Trailers beyond the limits.
    #[error("trailers exceed the limit")]
    TrailersTooLarge,
}

/// Why a stream was reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ResetCause {
    /// The peer reset it.
    #[error("reset by the peer: {0:?}")]
    Peer(Code),
    /// The peer did not process it: it refused it, or ended the connection before it (RFC 9113
    /// section 8.7). It may be sent again.
    #[error("not processed by the peer")]
    Unprocessed,
    /// We reset it, because the peer's message is malformed.
    #[error("malformed: {0}")]
    Malformed(#[from] Malformed),
    /// We reset it, because the response cannot be forwarded.
    #[error("response cannot be forwarded: {0}")]
    Response(#[from] ResponseError),
}

#[cfg(test)]
mod tests {
    use super::{Code, ConnectionError, Violation};
    use crate::http::engine::guard::Abuse;

    #[test]
    fn abuse_is_answered_with_enhance_your_calm() {
        let error = ConnectionError::from(Abuse::Pings);
        assert_eq!(error.code(), Code::ENHANCE_YOUR_CALM);
        assert_eq!(error.to_string(), "the peer exceeded a limit: pings");
        let error = ConnectionError::from(Violation::FrameSize);
        assert_eq!(error.code(), Code::FRAME_SIZE_ERROR);
    }

    #[test]
    fn codes_are_shown_by_name() {
        assert_eq!(format!("{:?}", Code::CANCEL), "CANCEL");
        assert_eq!(format!("{:?}", Code(99)), "code 99");
    }
}
