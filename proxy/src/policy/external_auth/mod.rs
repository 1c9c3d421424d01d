//! Asking a server whether a request may pass (GEP-1494): what it is asked, and what its answer means.
//!
//! `http` and `grpc` are the two forms of question and answer. Both come to a [`Verdict`]. What a
//! server grants beside passage are header fields (a [`Mutation`]), which later servers, the router and
//! backends see in the place of the client's.

pub mod grpc;
pub mod http;
pub mod messages;

use ::http::StatusCode;

use super::mutation::{self, HeaderValueOption, Mutation};
use crate::http::h2::trailers::pairs;
use crate::http::head::Fields;
use crate::http::hop_by_hop;

/// A request, as far as a server is asked about it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its method.
    pub method: &'a [u8],
    /// Host and port as they came.
    pub authority: &'a [u8],
    /// Path and query in their normal form.
    pub target: &'a [u8],
    /// Its fields.
    pub fields: &'a Fields,
    /// The bytes that these are spans of.
    pub bytes: &'a [u8],
    /// What other servers have granted it already.
    pub grants: &'a Mutation,
    /// Its body, where the server is shown one.
    pub body: &'a [u8],
}

impl<'a> Subject<'a> {
    /// Its fields as they stand now, without those that end at each hop.
    fn lines(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let Self {
            fields,
            bytes,
            grants,
            ..
        } = *self;
        let own = fields.iter().filter_map(move |field| {
            let name = field.name.of(bytes);
            let passes = hop_by_hop::passes(fields, bytes, name, field.known);
            (passes && !grants.drops(name)).then(|| (name, field.value.of(bytes)))
        });
        own.chain(pairs(grants.lines()))
    }

    /// Whether it has a field.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        let mut lines = self.lines();
        lines.any(|(it, _)| it.eq_ignore_ascii_case(name))
    }
}

/// What a server said.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The request may pass.
    Allowed {
        /// Changes of its fields.
        grants: Mutation,
        /// Fields to set in the response to the client.
        response: Vec<HeaderValueOption>,
    },
    /// It may not.
    Denied(Denial),
}

/// Why an answer says neither. The request may not pass then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingVerdict(pub &'static str);

/// How a request is turned away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Status of the response.
    pub status: StatusCode,
    /// Its header fields as lines, each ended by CRLF.
    pub lines: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Denial {
    /// One that says nothing but no.
    fn bare(status: StatusCode) -> Self {
        Self {
            status,
            lines: Vec::new(),
            body: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
