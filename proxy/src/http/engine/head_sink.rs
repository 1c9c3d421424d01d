//! Field sections as heads: decodes into the text and spans that HTTP/1 uses ([`crate::http::head`]),
//! and checks what RFC 9113 section 8 requires of a message.
//!
//! A message that is malformed by the RFC resets its stream. What HTTP/2 allows, but the gateway does
//! not, or HTTP/1 could read in two ways, rejects a request with a status.

mod lines;
mod request;
mod response;
mod trailers;

pub(super) use request::{Outcome as RequestOutcome, RequestSink, WEBSOCKET};
pub(super) use response::{Outcome as ResponseOutcome, ResponseSink};
pub(super) use trailers::TrailerSink;

use super::error::Malformed;
use super::hpack::decoder::Scratch;
use crate::http::h1::{RequestError, ResponseError};
use crate::http::head::{RequestHead, ResponseHead};

/// Where field sections are decoded to: working memory, which all connections of a shard may share.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The text of the last head or trailers: each field has its own line.
    pub bytes: Vec<u8>,
    /// The last request's head, as spans of `bytes`.
    pub request: RequestHead,
    /// The last response's head, as spans of `bytes`.
    pub response: ResponseHead,
    pub(super) scratch: Scratch,
}

/// Whether a stream goes on after what was received or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// More follows, or at least the end.
    More,
    /// This was the last one.
    End,
}

/// Why a request's head is not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestFault {
    /// The stream is reset.
    Malformed(Malformed),
    /// The request is answered with [`RequestError::status`].
    Rejected(RequestError),
}

/// Why a response's head is not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseFault {
    Malformed(Malformed),
    /// It is well-formed, and cannot be forwarded.
    Rejected(ResponseError),
}

#[cfg(test)]
mod tests;
