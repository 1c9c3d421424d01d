//! The body of a message that a stream receives, and its trailers.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream};

use super::broken;
use crate::http::h2::trailers;
use crate::http2::usage::Usage;
use crate::memory::Buffer;

/// A body being received.
pub(super) struct Body {
    stream: RecvStream,
    /// Received, but without space in the reader's buffer.
    left: Bytes,
    /// Bytes that the reader has and has not forwarded.
    lent: usize,
    pub(super) trailers: Vec<u8>,
    /// Whether the trailers have pseudo-header fields.
    is_malformed: bool,
    done: bool,
    /// The peer's reset code.
    pub(super) reset: Option<Reason>,
}

impl Body {
    pub(super) fn new(stream: RecvStream) -> Self {
        Self {
            done: false,
            stream,
            left: Bytes::new(),
            lent: 0,
            trailers: Vec::new(),
            is_malformed: false,
            reset: None,
        }
    }

    /// Whether it ended with malformed trailers (RFC 9113 section 8.1), so that no more can be read.
    pub(super) fn is_malformed(&self) -> bool {
        self.is_malformed
    }

    pub(super) fn is_done(&self) -> bool {
        let has_ended = self.done || (self.left.is_empty() && self.stream.is_end_stream());
        has_ended && !self.is_malformed
    }

    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut Buffer,
        usage: &Usage,
    ) -> Poll<io::Result<usize>> {
        let lent = std::mem::take(&mut self.lent);
        self.release(lent);
        loop {
            self.deliver(buffer);
            if self.done || !self.left.is_empty() {
                break;
            }
            match self.poll_next(context, usage) {
                Poll::Ready(Ok(())) => {}
                // It is polled again once the available bytes were taken.
                Poll::Ready(Err(_)) | Poll::Pending if self.lent > 0 => break,
                Poll::Ready(Err(error)) => {
                    self.reset = error.reason().filter(|_| error.is_remote());
                    return Poll::Ready(Err(broken(error)));
                }
                Poll::Pending => {
                    buffer.release();
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(self.lent))
    }

    /// Drops the next bytes, and lets the peer send as many again. Ready with `false` at the end.
    pub(super) fn poll_drop(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let (left, lent) = (
            std::mem::take(&mut self.left),
            std::mem::take(&mut self.lent),
        );
        self.release(left.len().saturating_add(lent));
        match ready!(self.stream.poll_data(context)) {
            Some(Ok(data)) => {
                self.release(data.len());
                Poll::Ready(true)
            }
            Some(Err(_)) | None => Poll::Ready(false),
        }
    }

    /// Opens the peer's windows by so many bytes.
    fn release(&mut self, bytes: usize) {
        if bytes > 0 {
            // It fails for a closed stream, whose window does not matter any more.
            let _ = self.stream.flow_control().release_capacity(bytes);
        }
    }

    /// Moves received bytes to the reader's buffer, as far as they fit.
    fn deliver(&mut self, buffer: &mut Buffer) {
        if buffer.room() < self.left.len() {
            buffer.grow();
        }
        let count = buffer.room().min(self.left.len());
        if buffer.append(self.left.get(..count).unwrap_or_default()) {
            self.left.advance(count);
            self.lent = self.lent.saturating_add(count);
        }
    }

    /// Polls for the next bytes, or the end.
    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        usage: &Usage,
    ) -> Poll<Result<(), h2::Error>> {
        if self.is_malformed {
            return Poll::Ready(Err(Reason::PROTOCOL_ERROR.into()));
        }
        if let Some(data) = ready!(self.stream.poll_data(context)) {
            self.left = data?;
            return Poll::Ready(Ok(()));
        }
        if let Some(map) = ready!(self.stream.poll_trailers(context))? {
            if usage.has_malformed_trailers(self.stream.stream_id().into()) {
                self.is_malformed = true;
                return Poll::Ready(Err(Reason::PROTOCOL_ERROR.into()));
            }
            trailers::write_lines(&map, &mut self.trailers);
        }
        self.done = true;
        Poll::Ready(Ok(()))
    }
}
