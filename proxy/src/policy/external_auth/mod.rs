//! External authorization (GEP-1494): the request to the server, and the meaning of its response.
//!
//! `http` and `grpc` are its two forms; both result in a [`Verdict`]. With its permission, a server
//! can set header fields (a [`Mutation`]), which replace the client's for later servers, the router
//! and backends.

pub mod grpc;
pub mod http;
#[expect(missing_docs, reason = "the protobuf definitions document the fields")]
pub mod messages;

use ::http::StatusCode;

use super::effective_fields::EffectiveFields;
use super::mutation::{self, HeaderValueOption, Mutation, TooManyEdits};
use crate::http::head::Field;
use crate::http::hop_by_hop;

/// The parts of a request that are sent to a server.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Method, such as `GET`.
    pub method: &'a [u8],
    /// Host and port as received.
    pub authority: &'a [u8],
    /// Path and query in their normal form.
    pub target: &'a [u8],
    /// Header fields of the request.
    pub fields: EffectiveFields<'a>,
    /// Its body, if it is sent to the server.
    pub body: &'a [u8],
}

impl<'a> Subject<'a> {
    /// The header fields, without hop-by-hop fields.
    fn lines(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let EffectiveFields { fields, bytes, .. } = self.fields;
        let passes = move |field: &Field| {
            hop_by_hop::passes(fields, bytes, field.name.of(bytes), field.known)
        };
        self.fields.lines(passes)
    }

    /// Whether it has a field.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        let mut lines = self.lines();
        lines.any(|(it, _)| it.eq_ignore_ascii_case(name))
    }
}

/// The decision of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The request is allowed.
    Allowed {
        /// Changes of its fields.
        grants: Mutation,
        /// Fields to set in the response to the client.
        response: Vec<HeaderValueOption>,
    },
    /// The request is denied; the client receives this response.
    Denied(Denial),
}

/// Why a response is not a decision. The request is rejected then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingVerdict(pub &'static str);

impl From<TooManyEdits> for MissingVerdict {
    fn from(TooManyEdits: TooManyEdits) -> Self {
        Self("the response edits too many header fields")
    }
}

/// The response for a denied request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Status of the response.
    pub status: StatusCode,
    /// Its header fields as lines, each ended by CRLF.
    pub lines: Vec<u8>,
    /// Body of the response to the client.
    pub body: Vec<u8>,
}

impl Denial {
    /// A denial with this status, and nothing else.
    fn with_status(status: StatusCode) -> Self {
        Self {
            status,
            lines: Vec::new(),
            body: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
