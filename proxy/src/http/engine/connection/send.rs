//! Heads, trailers and resets, sent.

use thiserror::Error;

use super::closing::Closing;
use super::{Connection, Role};
use crate::http::engine::error::Code;
use crate::http::engine::frame::{self, FrameHead, Kind};
use crate::http::engine::head_sink::Then;
use crate::http::engine::head_writer::HeadWriter;
use crate::http::engine::streams::{Half, Reset, Stream, StreamKey, Waiting};
use crate::http::h1::RequestKind;
use crate::limits::{H2_FRAME_BYTES, H2_RESET_MEMORY, MAX_H2_WINDOW_BYTES};

/// A stream cannot send what it was to send: it was reset, has ended, or its connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the stream cannot send any more")]
pub struct StreamGone;

impl Connection {
    /// Whether streams can still be opened, now or when others have ended: neither side ends the
    /// connection, and there are identifiers left.
    #[must_use]
    pub fn opens_streams(&self) -> bool {
        self.options.role == Role::Client
            && self.closing == Closing::No
            && self.peer_last.is_none()
            && self.highest < MAX_H2_WINDOW_BYTES
    }

    /// Whether another stream can be opened now: the peer allows it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.opens_streams() && self.room() > 0
    }

    /// Number of further streams that the peer allows now. Those that have ended do not count (RFC 9113
    /// section 5.1.2), although their users may not have released them.
    #[must_use]
    pub fn room(&self) -> usize {
        let limit = self.stream_limit();
        match limit.saturating_sub(self.streams.len()) {
            // Only a full connection is worth a look at all of its streams.
            0 => limit.saturating_sub(self.streams.open()),
            room => room,
        }
    }

    /// The most streams that the peer allows at once.
    #[must_use]
    pub fn stream_limit(&self) -> usize {
        usize::try_from(self.peer.streams).unwrap_or(usize::MAX)
    }

    /// Opens a stream with the head of a request that `write` writes; `None` if [there is no
    /// room](Self::has_room).
    pub fn open(
        &mut self,
        request: RequestKind,
        then: Then,
        write: impl FnOnce(&mut HeadWriter<'_>),
    ) -> Option<StreamKey> {
        if !self.has_room() {
            return None;
        }
        let id = match self.highest {
            0 => 1,
            highest => highest.saturating_add(2),
        };
        self.highest = id;
        let mut stream = self.new_stream(id);
        stream.request = request;
        stream.sending = after(then);
        let key = self.streams.add(stream);
        self.unsent_from.get_or_insert(id);
        self.write_section(id, then, write);
        // As the client, we count only what allows the server to update windows.
        let counted = self.guard.opened();
        debug_assert!(counted.is_ok(), "a server's streams are ours");
        Some(key)
    }

    /// Writes the head of the final response to a client's request.
    ///
    /// # Errors
    ///
    /// The stream cannot send one any more.
    pub fn respond(
        &mut self,
        key: StreamKey,
        then: Then,
        write: impl FnOnce(&mut HeadWriter<'_>),
    ) -> Result<(), StreamGone> {
        let stream = self.check_sending(key, Half::Head)?;
        stream.sending = after(then);
        let id = stream.id;
        self.write_section(id, then, write);
        Ok(())
    }

    /// Writes an interim response (1xx).
    ///
    /// # Errors
    ///
    /// The stream cannot send one any more.
    pub fn inform(
        &mut self,
        key: StreamKey,
        write: impl FnOnce(&mut HeadWriter<'_>),
    ) -> Result<(), StreamGone> {
        let id = self.check_sending(key, Half::Head)?.id;
        self.write_section(id, Then::More, write);
        Ok(())
    }

    /// Writes trailers, which end the message.
    ///
    /// # Errors
    ///
    /// The stream cannot send any more.
    pub fn write_trailers(
        &mut self,
        key: StreamKey,
        write: impl FnOnce(&mut HeadWriter<'_>),
    ) -> Result<(), StreamGone> {
        let stream = self.check_sending(key, Half::Body)?;
        stream.sending = Half::Ended;
        let id = stream.id;
        self.write_section(id, Then::End, write);
        Ok(())
    }

    /// Resets a stream, unless both of its sides have ended.
    pub fn reset(&mut self, key: StreamKey, code: Code) {
        self.reset_stream(key, code);
    }

    /// Releases a stream: its key is not valid any more. If it has not ended, it is reset: a server
    /// that has responded needs no more of the request (section 8.1); everything else is cancelled.
    pub fn release(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.remove(key) else {
            return;
        };
        match stream.waiting {
            Waiting::No | Waiting::Stream => {}
            Waiting::Connection => self.waiting.retain(|(_, waiting)| *waiting != key),
            Waiting::Ready => self.ready.retain(|ready| *ready != key),
        }
        let is_answered = self.options.role == Role::Server && stream.sending == Half::Ended;
        if !stream.is_closed() {
            let code = if is_answered {
                Code::NO_ERROR
            } else {
                Code::CANCEL
            };
            self.write_reset(stream.id, code);
            self.remember_reset(stream.id);
        } else if stream.reset == Reset::Ours {
            self.remember_reset(stream.id);
        }
        self.return_to_connection(stream.receive_window.held());
        self.wake_waiting();
    }

    /// The frames of this stream may still be on the way. As the client, we ignore those of all.
    pub(super) fn remember_reset(&mut self, id: u32) {
        if self.options.role == Role::Server {
            self.resets.add(id, H2_RESET_MEMORY);
        }
    }

    /// The stream, if what it sends next is what it is to send.
    pub(super) fn check_sending(
        &mut self,
        key: StreamKey,
        next: Half,
    ) -> Result<&mut Stream, StreamGone> {
        if self.closing == Closing::Failed {
            return Err(StreamGone);
        }
        let stream = self.streams.get_mut(key).ok_or(StreamGone)?;
        if stream.reset != Reset::No || stream.sending != next {
            return Err(StreamGone);
        }
        Ok(stream)
    }

    /// Writes a field section as HEADERS, and CONTINUATION if it takes more than a frame.
    fn write_section(&mut self, id: u32, then: Then, write: impl FnOnce(&mut HeadWriter<'_>)) {
        let start = self.output.len();
        self.output.extend_from_slice(&[0; FrameHead::BYTES]);
        self.encoder.begin(&mut self.output);
        write(&mut HeadWriter::new(&mut self.encoder, &mut self.output));
        let block = start.saturating_add(FrameHead::BYTES);
        let length = self.output.len().saturating_sub(block);
        let most = usize::try_from(H2_FRAME_BYTES).unwrap_or(usize::MAX);
        let end = match then {
            Then::More => 0,
            Then::End => FrameHead::END_STREAM,
        };
        let is_whole = length <= most;
        let last = if is_whole { FrameHead::END_HEADERS } else { 0 };
        self.patch_head(start, Kind::Headers, end | last, id, length.min(most));
        if !is_whole {
            self.split_section(block.saturating_add(most), id, most);
        }
    }

    /// Puts headers of CONTINUATION between the parts of a long block, which ends the output.
    fn split_section(&mut self, start: usize, id: u32, most: usize) {
        let rest = self.output.split_off(start);
        let mut parts = rest.chunks(most).peekable();
        while let Some(part) = parts.next() {
            let flags = match parts.peek() {
                Some(_) => 0,
                None => FrameHead::END_HEADERS,
            };
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            frame::write_head(&mut self.output, Kind::Continuation, flags, id, length);
            self.output.extend_from_slice(part);
        }
    }

    /// Sets the header of a frame that was written without it.
    fn patch_head(&mut self, start: usize, kind: Kind, flags: u8, stream: u32, length: usize) {
        let head = FrameHead {
            length: u32::try_from(length).unwrap_or(u32::MAX),
            kind,
            flags,
            stream,
        };
        let place = self.output.get_mut(start..);
        if let Some(place) = place.and_then(<[u8]>::first_chunk_mut) {
            *place = head.bytes();
        }
    }
}

/// What a stream sends after its head.
fn after(then: Then) -> Half {
    match then {
        Then::More => Half::Body,
        Then::End => Half::Ended,
    }
}
