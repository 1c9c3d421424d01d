//! Answers made on a background thread, piece by piece, as fast as the client takes them.

use std::io::{self, ErrorKind, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, StatusCode};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::answer::Answer;
use super::body::{Body, Piece};
use crate::background::Slot;
use crate::limits::{ANSWER_TIMEOUT, PIECE_BYTES, PIECES_WAITING};

/// Whether an answer is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
}

impl Encoding {
    /// What a request asks for (RFC 9110 section 12.5.3).
    pub(crate) fn asked(headers: &HeaderMap) -> Self {
        let lists = headers.get_all(http::header::ACCEPT_ENCODING).iter();
        let lists = lists.filter_map(|list| list.to_str().ok());
        let mut codings = lists.flat_map(|list| list.split(','));
        if codings.any(accepts_gzip) {
            Self::Gzip
        } else {
            Self::Identity
        }
    }

    /// Bytes in this encoding.
    pub(crate) fn encode(self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Identity => bytes,
            Self::Gzip => {
                let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
                let written = gzip.write_all(&bytes).and_then(|()| gzip.finish());
                written.expect("memory takes what is written")
            }
        }
    }
}

fn accepts_gzip(coding: &str) -> bool {
    let mut parts = coding.split(';').map(str::trim);
    let is_gzip = parts
        .next()
        .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
    let quality = parts.find_map(|part| part.strip_prefix("q="));
    is_gzip && quality.is_none_or(|q| q.parse::<f32>().is_ok_and(|q| q > 0.0))
}

/// The answer that `make` writes, on a thread of low priority. Where it fails, the answer breaks off.
pub(crate) fn made(
    slot: Slot,
    content_type: &'static str,
    encoding: Encoding,
    make: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> Answer {
    let (sender, receiver) = mpsc::channel(PIECES_WAITING);
    let mut pieces = Pieces {
        buffer: Vec::with_capacity(PIECE_BYTES),
        sender,
        runtime: Handle::current(),
        until: Instant::now() + ANSWER_TIMEOUT,
    };
    slot.run(move || {
        let written = match encoding {
            Encoding::Identity => make(&mut pieces),
            Encoding::Gzip => {
                let mut gzip = GzEncoder::new(&mut pieces, Compression::fast());
                make(&mut gzip).and_then(|()| gzip.try_finish())
            }
        };
        // The client left, or was too slow: nobody is there to be told.
        if written.is_ok() {
            let _ = pieces.end();
        }
    });
    Answer::new(StatusCode::OK, content_type, Body::Pieces(receiver)).encoded(encoding)
}

/// Collects what is written into pieces.
struct Pieces {
    buffer: Vec<u8>,
    sender: mpsc::Sender<Piece>,
    runtime: Handle,
    until: Instant,
}

impl Pieces {
    fn send(&mut self, piece: Piece) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        let sent = self.runtime.block_on(self.sender.send_timeout(piece, left));
        sent.map_err(|_| ErrorKind::BrokenPipe.into())
    }

    fn send_buffer(&mut self) -> io::Result<()> {
        let bytes = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE_BYTES));
        self.send(Piece::Bytes(Bytes::from(bytes)))
    }

    fn end(mut self) -> io::Result<()> {
        self.send_buffer()?;
        self.send(Piece::End)
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE_BYTES {
            self.send_buffer()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::Encoding;

    #[test]
    fn gzip_is_for_those_who_ask() {
        for (accept, encoding) in [
            ("gzip", Encoding::Gzip),
            ("br, GZIP;q=0.5", Encoding::Gzip),
            ("gzip;q=0", Encoding::Identity),
            ("identity", Encoding::Identity),
            ("", Encoding::Identity),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("accept-encoding", accept.parse().expect("a value"));
            assert_eq!(Encoding::asked(&headers), encoding, "{accept}");
        }
    }
}
