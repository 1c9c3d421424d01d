//! Responses produced on a background thread, at the pace at which the client reads them.

use std::io::{self, ErrorKind, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::StatusCode;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::body::{Body, Chunk};
use super::encoding::Encoding;
use super::message::Response;
use crate::background::JobPermit;
use crate::limits::{ANSWER_TIMEOUT, CHUNK_BYTES, QUEUED_CHUNKS};

/// A response whose body `write` produces on a background thread. Where it fails, the response is
/// aborted.
pub(crate) fn streamed(
    slot: JobPermit,
    content_type: &'static str,
    encoding: Encoding,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel(QUEUED_CHUNKS);
    let mut chunks = Chunks {
        buffer: Vec::with_capacity(CHUNK_BYTES),
        sender,
        runtime: Handle::current(),
        until: Instant::now() + ANSWER_TIMEOUT,
    };
    slot.run(move || {
        let written = match encoding {
            Encoding::Identity => write(&mut chunks),
            Encoding::Gzip => {
                let mut gzip = GzEncoder::new(&mut chunks, Compression::fast());
                write(&mut gzip).and_then(|()| gzip.try_finish())
            }
        };
        // An error means that the client has disconnected or was too slow.
        if written.is_ok() {
            let _ = chunks.end();
        }
    });
    Response::new(StatusCode::OK, content_type, Body::Chunks(receiver)).encoded(encoding)
}

/// A text in this encoding.
///
/// # Errors
/// The encoder failed.
pub(crate) fn encode(text: String, encoding: Encoding) -> io::Result<Bytes> {
    match encoding {
        Encoding::Identity => Ok(text.into()),
        Encoding::Gzip => {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(text.as_bytes())?;
            gzip.finish().map(Bytes::from)
        }
    }
}

/// A writer that sends chunks to the connection.
struct Chunks {
    buffer: Vec<u8>,
    sender: mpsc::Sender<Chunk>,
    runtime: Handle,
    until: Instant,
}

impl Chunks {
    fn send(&mut self, chunk: Chunk) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        let sent = self.runtime.block_on(self.sender.send_timeout(chunk, left));
        sent.map_err(|_| ErrorKind::BrokenPipe.into())
    }

    fn send_buffer(&mut self) -> io::Result<()> {
        let bytes = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_BYTES));
        self.send(Chunk::Bytes(Bytes::from(bytes)))
    }

    fn end(mut self) -> io::Result<()> {
        self.send_buffer()?;
        self.send(Chunk::End)
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.send_buffer()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
