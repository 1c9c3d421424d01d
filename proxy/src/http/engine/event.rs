//! What happens on a connection, for its driver.

use std::ops::Range;

use super::error::{Code, ResetCause};
use super::head_sink::Then;
use super::streams::StreamKey;
use crate::http::h1::RequestError;

/// The result of reading on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Something happened.
    Event(Event),
    /// The rest of the input is less than a frame: more bytes are needed behind it.
    NeedMore,
    /// Enough for this turn: go on in the next one, so that other connections get theirs.
    NextTurn,
    /// The peer does not read its acknowledgements: go on when the output was sent.
    OutputFull,
}

/// An event of a connection. After [`Then::End`], [`Event::Trailers`] or [`Event::Reset`] no more is
/// received on a stream; after a reset nothing more happens on it at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A client opened a stream: the head is [`Decoded::request`](super::Decoded::request).
    Request {
        /// The new stream.
        key: StreamKey,
        /// Whether a body follows.
        then: Then,
        /// Why it is to be rejected, if it is: answer it with [`RequestError::status`].
        rejected: Option<RequestError>,
    },
    /// An interim response (1xx): the head is [`Decoded::response`](super::Decoded::response).
    Interim {
        /// Stream of the request.
        key: StreamKey,
    },
    /// The final response: the head is [`Decoded::response`](super::Decoded::response).
    Response {
        /// Stream of the request.
        key: StreamKey,
        /// Whether a body follows.
        then: Then,
    },
    /// Bytes of a body, or its end. They count as held until they are [given
    /// back](super::Connection::give_back).
    Data {
        /// The stream.
        key: StreamKey,
        /// The bytes, as a range of the input; may be empty if they are the last.
        range: Range<usize>,
        /// Whether more follows.
        then: Then,
    },
    /// Trailers, which end the body: lines in [`Decoded::bytes`](super::Decoded::bytes).
    Trailers {
        /// The stream.
        key: StreamKey,
    },
    /// A stream was reset: release it.
    Reset {
        /// The stream.
        key: StreamKey,
        /// By whom, and why.
        cause: ResetCause,
    },
    /// A window has opened for a stream that could not send all of its data.
    Writable {
        /// The stream.
        key: StreamKey,
    },
    /// The peer's settings have arrived or changed.
    Settings,
    /// The peer will not process streams above this one. They are reset as
    /// [`ResetCause::Unprocessed`]; those up to it continue.
    GoAway {
        /// Identifier of the last stream that it processes.
        last: u32,
        /// Why it ends the connection.
        code: Code,
    },
    /// The acknowledgement of a [PING](super::Connection::ping).
    Pong,
}
