//! Writes a field section: the names of pseudo-header fields, and of fields in any case.

use super::hpack::encoder::Encoder;
use crate::http::known::KnownHeader;
use crate::http::lines::pairs;

/// Writes a field section. Pseudo-header fields come first.
pub struct HeadWriter<'a> {
    encoder: &'a mut Encoder,
    out: &'a mut Vec<u8>,
}

impl<'a> HeadWriter<'a> {
    pub(super) fn new(encoder: &'a mut Encoder, out: &'a mut Vec<u8>) -> Self {
        Self { encoder, out }
    }
}

/// What a field section is written to. Pseudo-header fields come first.
pub trait SectionWriter {
    /// Writes `:status`.
    fn status(&mut self, status: u16);

    /// Writes `:method`.
    fn method(&mut self, method: &[u8]);

    /// Writes `:scheme`.
    fn scheme(&mut self, scheme: Scheme);

    /// Writes `:path`.
    fn path(&mut self, path: &[u8]);

    /// Writes `:authority`.
    fn authority(&mut self, authority: &[u8]);

    /// Writes `:protocol` (RFC 8441 section 4).
    fn protocol(&mut self, protocol: &[u8]);

    /// Writes a field, whose name may be in any case.
    fn field(&mut self, known: KnownHeader, name: &[u8], value: &[u8]);

    /// Writes lines of HTTP/1, each terminated by CRLF, that we wrote, or that a decoder let pass.
    fn lines(&mut self, lines: &[u8]) {
        for (name, value) in pairs(lines) {
            self.field(KnownHeader::of(name), name, value);
        }
    }
}

impl SectionWriter for HeadWriter<'_> {
    fn status(&mut self, status: u16) {
        let index = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => {
                let mut digits = itoa::Buffer::new();
                let status = digits.format(status).as_bytes();
                return self.encoder.pseudo(self.out, 8, status);
            }
        };
        self.encoder.indexed(self.out, index);
    }

    fn method(&mut self, method: &[u8]) {
        match method {
            b"GET" => self.encoder.indexed(self.out, 2),
            b"POST" => self.encoder.indexed(self.out, 3),
            other => self.encoder.pseudo(self.out, 2, other),
        }
    }

    fn scheme(&mut self, scheme: Scheme) {
        let index = match scheme {
            Scheme::Http => 6,
            Scheme::Https => 7,
        };
        self.encoder.indexed(self.out, index);
    }

    fn path(&mut self, path: &[u8]) {
        if path == b"/" {
            self.encoder.indexed(self.out, 4);
        } else {
            self.encoder.pseudo(self.out, 4, path);
        }
    }

    fn authority(&mut self, authority: &[u8]) {
        self.encoder.pseudo(self.out, 1, authority);
    }

    fn protocol(&mut self, protocol: &[u8]) {
        self.encoder
            .field(self.out, KnownHeader::Other, b":protocol", protocol);
    }

    fn field(&mut self, known: KnownHeader, name: &[u8], value: &[u8]) {
        self.encoder.field(self.out, known, name, value);
    }
}

/// The scheme of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}
