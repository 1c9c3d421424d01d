//! The request head sent to the backend.

use crate::channel::Channel;
use crate::config::Protection;
use crate::http::engine::SectionWriter;
use crate::http::engine::encode::{self, Switch};
use crate::http::h1::encode::{Expectation, UpstreamRequest};
use crate::http::head::Framing;
use crate::http::known::KnownHeader;
use crate::http::websocket;
use crate::tls::FORWARDED_CLIENT_CERT;

use super::{Destination, Exchange};

impl<'a> Exchange<'a> {
    /// Writes the request head: onto the stream, or into the bytes to send to the socket.
    pub(crate) fn write_head(&mut self, destination: Destination<'a>, channel: &Channel) {
        match channel.as_h2() {
            None => self.encode_head(destination),
            Some(stream) => {
                self.work.to_upstream.clear();
                let over = &destination.cluster.protection;
                stream.put_request(self.received.request_kind(), |head| {
                    self.make_head(destination, over, stream.switch(), head)
                });
            }
        }
    }

    /// Writes the request head for HTTP/2. Returns how it requests an upgrade.
    pub(crate) fn make_head(
        &self,
        destination: Destination<'a>,
        over: &Protection,
        switch: Switch,
        head: &mut impl SectionWriter,
    ) -> Switch {
        encode::request(
            &self.outgoing(destination),
            over.scheme(),
            switch,
            |known, name| self.drops(destination, known, name),
            head,
        )
    }

    /// Writes the request head as HTTP/1.
    pub(crate) fn encode_head(&mut self, destination: Destination<'a>) {
        let mut out = std::mem::take(&mut self.work.to_upstream);
        out.clear();
        self.outgoing(destination)
            .encode(&mut out, |known, name| self.drops(destination, known, name));
        self.work.to_upstream = out;
    }

    /// Whether a field of the client is dropped. The WebSocket key of an extended CONNECT is
    /// meaningless (RFC 8441 section 5.1), and would duplicate the one written here.
    fn drops(&self, destination: Destination<'a>, known: KnownHeader, name: &[u8]) -> bool {
        known == KnownHeader::XRequestId
            || self.header_trust.drops(known, name)
            || (known == KnownHeader::Other
                && self.client.verified_certificate().is_some()
                && name.eq_ignore_ascii_case(FORWARDED_CLIENT_CERT.as_bytes()))
            || (self.received.is_extended_connect() && name.eq_ignore_ascii_case(websocket::KEY))
            || destination
                .request_edits()
                .is_some_and(|edits| edits.drops(name))
            || self.picked.as_ref().is_some_and(|it| it.drops(name))
            || self
                .principal
                .as_ref()
                .is_some_and(|principal| principal.drops(known, name))
            || self
                .server_decision
                .as_ref()
                .is_some_and(|decision| decision.grants.drops(name))
    }

    /// The framing of the request body sent to the backend.
    pub(crate) fn framing(&self) -> Framing {
        let picked = self.picked.as_ref();
        let replaced = picked.and_then(|picked| picked.framing());
        replaced.unwrap_or(self.received.head.framing)
    }

    fn outgoing(&self, destination: Destination<'a>) -> UpstreamRequest<'_> {
        UpstreamRequest {
            head: &self.received.head,
            bytes: &self.received.bytes,
            target: &self.work.target,
            host: destination
                .host()
                .map_or(self.received.authority(), str::as_bytes),
            framing: self.framing(),
            // The gateway itself sends 100 Continue: many origins never do, and the client would
            // wait until it times out.
            expectation: Expectation::Ours,
            append: &self.work.request_lines,
        }
    }
}
