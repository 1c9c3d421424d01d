//! The request's head as the backend gets it.

use crate::channel::Channel;
use crate::config::Protection;
use crate::failure::{Failure, FailureKind};
use crate::http::h1::encode::{Expectation, UpstreamRequest};
use crate::http::h2::{self, encode::Switch};
use crate::http::head::Framing;
use crate::http::known::Known;
use crate::http::websocket;
use crate::tls::FORWARDED_CLIENT_CERT;

use super::{Destination, Exchange};

impl<'a> Exchange<'a> {
    /// Writes the request's head as the backend gets it: onto the stream, or where the bytes on
    /// their way to a socket stand.
    ///
    /// # Errors
    /// What the backend speaks cannot carry it.
    pub(crate) fn write_head(
        &mut self,
        drawn: Destination<'a>,
        channel: &Channel,
    ) -> Result<(), Failure> {
        match channel.as_h2() {
            None => self.encode_head(drawn),
            Some(stream) => {
                self.work.to_upstream.clear();
                let over = &drawn.cluster.protection;
                stream.put_request(self.make_head(drawn, over, stream.switch())?);
            }
        }
        Ok(())
    }

    /// The request's head as HTTP/2, for who is protected like this.
    pub(crate) fn make_head(
        &self,
        drawn: Destination<'a>,
        over: &Protection,
        switch: Switch,
    ) -> Result<http::Request<()>, Failure> {
        let scheme = match over {
            Protection::Plain => http::uri::Scheme::HTTP,
            Protection::Tls(_) | Protection::Unusable => http::uri::Scheme::HTTPS,
        };
        let made = h2::encode::request(&self.outgoing(drawn), &scheme, switch, |known, name| {
            self.drops(drawn, known, name)
        });
        let cannot = Failure::because(FailureKind::BadPath, "target not possible in HTTP/2");
        made.ok_or(cannot)
    }

    /// Writes the request's head as HTTP/1.
    pub(crate) fn encode_head(&mut self, drawn: Destination<'a>) {
        let mut out = std::mem::take(&mut self.work.to_upstream);
        out.clear();
        self.outgoing(drawn)
            .encode(&mut out, |known, name| self.drops(drawn, known, name));
        self.work.to_upstream = out;
    }

    /// Whether a field that the client sent is left out. The key of an extended CONNECT means
    /// nothing (RFC 8441 section 5.1), and beside the one that we write it would be a second one.
    fn drops(&self, drawn: Destination<'a>, known: Known, name: &[u8]) -> bool {
        known == Known::XRequestId
            || self.belief.drops(known, name)
            || (known == Known::Other
                && self.client.verified_certificate().is_some()
                && name.eq_ignore_ascii_case(FORWARDED_CLIENT_CERT.as_bytes()))
            || (self.received.is_extended_connect() && name.eq_ignore_ascii_case(websocket::KEY))
            || drawn.request_edits().is_some_and(|edits| edits.drops(name))
            || self.picked.as_ref().is_some_and(|it| it.drops(name))
            || self
                .principal
                .as_ref()
                .is_some_and(|principal| principal.drops(known, name))
            || self
                .said
                .as_ref()
                .is_some_and(|said| said.grants.drops(name))
    }

    /// How the request's body is delimited on its way to the backend.
    pub(crate) fn framing(&self) -> Framing {
        let picked = self.picked.as_ref();
        let replaced = picked.and_then(|picked| picked.framing());
        replaced.unwrap_or(self.received.head.framing)
    }

    fn outgoing(&self, drawn: Destination<'a>) -> UpstreamRequest<'_> {
        UpstreamRequest {
            head: &self.received.head,
            bytes: &self.received.bytes,
            target: &self.work.target,
            host: drawn
                .host()
                .map_or(self.received.authority(), str::as_bytes),
            framing: self.framing(),
            // We tell the client to go on: many origins never do, and it would wait in vain.
            expectation: Expectation::Ours,
            append: &self.work.request_lines,
        }
    }
}
