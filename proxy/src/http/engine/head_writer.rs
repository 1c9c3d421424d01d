//! Writes a field section: the names of pseudo-header fields, and of fields in any case.

use super::hpack::encoder::Encoder;
use crate::http::grammar;
use crate::http::known::KnownHeader;

/// Writes a field section. Pseudo-header fields come first.
pub struct HeadWriter<'a> {
    encoder: &'a mut Encoder,
    out: &'a mut Vec<u8>,
}

impl<'a> HeadWriter<'a> {
    pub(super) fn new(encoder: &'a mut Encoder, out: &'a mut Vec<u8>) -> Self {
        Self { encoder, out }
    }

    /// Writes `:method`.
    pub fn method(&mut self, method: &[u8]) {
        match method {
            b"GET" => self.encoder.indexed(self.out, 2),
            b"POST" => self.encoder.indexed(self.out, 3),
            other => self.encoder.pseudo(self.out, 2, other),
        }
    }

    /// Writes `:scheme`.
    pub fn scheme(&mut self, scheme: Scheme) {
        let index = match scheme {
            Scheme::Http => 6,
            Scheme::Https => 7,
        };
        self.encoder.indexed(self.out, index);
    }

    /// Writes `:path`.
    pub fn path(&mut self, path: &[u8]) {
        if path == b"/" {
            self.encoder.indexed(self.out, 4);
        } else {
            self.encoder.pseudo(self.out, 4, path);
        }
    }

    /// Writes `:authority`.
    pub fn authority(&mut self, authority: &[u8]) {
        self.encoder.pseudo(self.out, 1, authority);
    }

    /// Writes `:protocol` (RFC 8441 section 4).
    pub fn protocol(&mut self, protocol: &[u8]) {
        self.encoder
            .field(self.out, KnownHeader::Other, b":protocol", protocol);
    }

    /// Writes `:status`.
    pub fn status(&mut self, status: u16) {
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

    /// Writes a field, whose name may be in any case.
    pub fn field(&mut self, known: KnownHeader, name: &[u8], value: &[u8]) {
        self.encoder.field(self.out, known, name, value);
    }

    /// Writes lines of HTTP/1, each terminated by CRLF, that we wrote, or that a decoder let pass.
    pub fn lines(&mut self, lines: &[u8]) {
        for (name, value) in pairs(lines) {
            self.field(KnownHeader::of(name), name, value);
        }
    }
}

/// What the head of a response is written to.
pub trait ResponseWriter {
    /// Writes `:status`, first.
    fn status(&mut self, status: u16);

    /// Writes a field, whose name may be in any case.
    fn field(&mut self, known: KnownHeader, name: &[u8], value: &[u8]);

    /// Writes lines of HTTP/1, each terminated by CRLF, that we wrote, or that a decoder let pass.
    fn lines(&mut self, lines: &[u8]) {
        for (name, value) in pairs(lines) {
            self.field(KnownHeader::of(name), name, value);
        }
    }
}

impl ResponseWriter for HeadWriter<'_> {
    fn status(&mut self, status: u16) {
        HeadWriter::status(self, status);
    }

    fn field(&mut self, known: KnownHeader, name: &[u8], value: &[u8]) {
        HeadWriter::field(self, known, name, value);
    }
}

/// Name and value of each line, which ends in CRLF.
pub(super) fn pairs(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        loop {
            let end = memchr::memchr(b'\n', rest)?;
            let (line, after) = rest.split_at_checked(end)?;
            rest = after.get(1..)?;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if let Some(colon) = memchr::memchr(b':', line) {
                let (name, value) = line.split_at_checked(colon)?;
                return Some((name, grammar::trim(value.get(1..)?)));
            }
        }
    })
}

/// The scheme of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

#[cfg(test)]
mod tests {
    use super::pairs;

    #[test]
    fn lines_are_split_into_names_and_values() {
        let lines = b"A: b\r\nc:d:e \r\nno colon\r\nf:\r\n";
        let found: Vec<_> = pairs(lines).collect();
        let expected: [(&[u8], &[u8]); 3] = [(b"A", b"b"), (b"c", b"d:e"), (b"f", b"")];
        assert_eq!(found, expected);
        assert_eq!(pairs(b"").count(), 0);
    }
}
