//! Trailers (RFC 9113 section 8.1), as lines of HTTP/1.

use super::Malformed;
use crate::http::engine::hpack::{DecodedField, FieldSink, NameKind, Validity};
use crate::http::h1::encode::field;
use crate::http::hop_by_hop::is_forbidden_trailer;
use crate::http::known::{KnownHeader, KnownSet};
use crate::limits::{MAX_TRAILER_BYTES, MAX_TRAILER_FIELDS};

/// Decodes trailers; those that may not be forwarded are left out.
pub(in crate::http::engine) struct TrailerSink<'a> {
    bytes: &'a mut Vec<u8>,
    count: usize,
    malformed: Option<Malformed>,
}

impl FieldSink for TrailerSink<'_> {
    fn field(&mut self, decoded: DecodedField<'_>) {
        if self.malformed.is_some() {
            return;
        }
        self.malformed = self.add(&decoded).err();
    }
}

impl<'a> TrailerSink<'a> {
    pub(in crate::http::engine) fn new(bytes: &'a mut Vec<u8>) -> Self {
        bytes.clear();
        Self {
            bytes,
            count: 0,
            malformed: None,
        }
    }

    pub(in crate::http::engine) fn finish(self) -> Result<(), Malformed> {
        self.malformed.map_or(Ok(()), Err)
    }

    fn add(&mut self, decoded: &DecodedField<'_>) -> Result<(), Malformed> {
        let NameKind::Field(known) = decoded.kind else {
            return Err(Malformed::PseudoField);
        };
        if decoded.validity == Validity::Invalid {
            return Err(Malformed::Field);
        }
        if NOT_IN_H2.has(known) {
            return Err(Malformed::ConnectionField);
        }
        self.count = self.count.saturating_add(1);
        let length = decoded.name.len().saturating_add(decoded.value.len());
        let length = self.bytes.len().saturating_add(length);
        if self.count > MAX_TRAILER_FIELDS || length > MAX_TRAILER_BYTES {
            return Err(Malformed::TrailersTooLarge);
        }
        // That of every gRPC call is known to be allowed.
        if known == KnownHeader::GrpcStatus || !is_forbidden_trailer(decoded.name) {
            field(self.bytes, decoded.name, decoded.value);
        }
        Ok(())
    }
}

/// Connection-specific fields, which are forbidden in HTTP/2.
const NOT_IN_H2: KnownSet = KnownSet::of(&[
    KnownHeader::Connection,
    KnownHeader::KeepAlive,
    KnownHeader::ProxyConnection,
    KnownHeader::TransferEncoding,
    KnownHeader::Upgrade,
]);
