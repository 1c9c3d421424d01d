//! Field sections received: heads and trailers, from HEADERS and CONTINUATION.

use super::closing::Closing;
use super::data::then;
use super::{Connection, DEFAULT_WINDOW_BYTES, Frame, Role};
use crate::http::engine::error::{Code, ConnectionError, Malformed, ResetCause, Violation};
use crate::http::engine::event::Event;
use crate::http::engine::flow::Pressure;
use crate::http::engine::frame::{self, FrameHead};
use crate::http::engine::head_sink::{
    Decoded, RequestFault, RequestOutcome, RequestSink, ResponseFault, ResponseOutcome,
    ResponseSink, Then, TrailerSink,
};
use crate::http::engine::hpack::decoder::Scratch;
use crate::http::engine::hpack::{DecodedField, FieldSink, HpackError};
use crate::http::engine::streams::{Half, Reset, Stream, StreamKey};
use crate::http::head::Framing;
use crate::limits::{H2_BLOCK_BYTES, H2_BLOCK_FACTOR};

/// A field block whose last frame has not arrived.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    then: Then,
    bytes: Vec<u8>,
}

impl Connection {
    /// HEADERS (section 6.2).
    pub(super) fn receive_headers(
        &mut self,
        frame: &Frame<'_>,
        decoded: &mut Decoded,
    ) -> Result<Option<Event>, ConnectionError> {
        let (head, then) = (frame.head, then(frame.head));
        self.guard.begin_block();
        let fragment = frame::field_block(head, frame.payload)?;
        if head.has(FrameHead::END_HEADERS) {
            return self.receive_section(head.stream, then, fragment, decoded);
        }
        // Rare: only large heads take more than a frame.
        self.block = Some(Block {
            stream: head.stream,
            then,
            bytes: fragment.to_vec(),
        });
        Ok(None)
    }

    /// CONTINUATION (section 6.10), of the current block.
    pub(super) fn receive_continuation(
        &mut self,
        frame: &Frame<'_>,
        decoded: &mut Decoded,
    ) -> Result<Option<Event>, ConnectionError> {
        let Some(block) = &mut self.block else {
            return Err(Violation::Interleaved.into());
        };
        let length = block.bytes.len().saturating_add(frame.payload.len());
        if length > H2_BLOCK_BYTES {
            return Err(Violation::BlockTooLarge.into());
        }
        block.bytes.extend_from_slice(frame.payload);
        if !frame.head.has(FrameHead::END_HEADERS) {
            self.guard.continuation()?;
            return Ok(None);
        }
        match self.block.take() {
            Some(block) => self.receive_section(block.stream, block.then, &block.bytes, decoded),
            None => Ok(None),
        }
    }

    /// A whole field section: what it is depends on our role, and on what its stream waits for. It is
    /// decoded in any case, since the tables have to stay the same.
    fn receive_section(
        &mut self,
        id: u32,
        then: Then,
        block: &[u8],
        decoded: &mut Decoded,
    ) -> Result<Option<Event>, ConnectionError> {
        self.heads_left = self.heads_left.saturating_sub(1);
        self.sections = self.sections.saturating_add(1);
        if let Some((key, stream)) = self.streams.find(id) {
            let (reset, receiving) = (stream.reset, stream.receiving);
            return match (reset, receiving) {
                (Reset::Ours, _) => self.skip(block, decoded),
                (Reset::Theirs, _) | (_, Half::Ended) => Err(Violation::ClosedStream.into()),
                (Reset::No, Half::Head) => self.receive_response(key, then, block, decoded),
                (Reset::No, Half::Body) => self.receive_trailers(key, then, block, decoded),
            };
        }
        if self.options.role == Role::Server && !id.is_multiple_of(2) && id > self.highest {
            return self.receive_request(id, then, block, decoded);
        }
        if self.is_idle(id) {
            return Err(Violation::IdleStream.into());
        }
        if self.ignores(id) {
            return self.skip(block, decoded);
        }
        Err(Violation::ClosedStream.into())
    }

    /// A request, which opens a stream.
    fn receive_request(
        &mut self,
        id: u32,
        then: Then,
        block: &[u8],
        decoded: &mut Decoded,
    ) -> Result<Option<Event>, ConnectionError> {
        self.highest = id;
        self.guard.opened()?;
        let mut outcome = RequestOutcome::default();
        let fields = &mut decoded.request.fields;
        let mut sink = RequestSink::new(&mut decoded.bytes, fields, self.options.heads);
        self.decode(block, &mut decoded.scratch, &mut sink)?;
        let finished = sink.finish(then, &mut outcome);
        outcome.store(&mut decoded.request);
        if self.ignores(id) {
            // It is above the last stream of our GOAWAY.
            return Ok(None);
        }
        let limit = usize::try_from(self.options.streams).unwrap_or(usize::MAX);
        if self.pressure == Pressure::Hard {
            // The client is not to blame: it does not count.
            self.write_control(|out| frame::write_reset(out, id, Code::REFUSED_STREAM));
            self.remember_reset(id);
            return Ok(None);
        }
        if self.streams.len() >= limit {
            return Ok(self.turn_down(id, Code::REFUSED_STREAM));
        }
        let rejected = match finished {
            Ok(()) => None,
            Err(RequestFault::Rejected(error)) => Some(error),
            Err(RequestFault::Malformed(_)) => {
                return Ok(self.turn_down(id, Code::PROTOCOL_ERROR));
            }
        };
        let mut stream = self.new_stream(id);
        stream.receiving = Half::Body;
        if let (None, Framing::Length(length)) = (rejected, decoded.request.framing) {
            stream.expected = Some(length);
        }
        if then == Then::End && stream.end_receiving().is_err() {
            return Ok(self.turn_down(id, Code::PROTOCOL_ERROR));
        }
        let key = self.streams.add(stream);
        Ok(Some(Event::Request {
            key,
            then,
            rejected,
        }))
    }

    /// Resets a stream that gets no record.
    fn turn_down(&mut self, id: u32, code: Code) -> Option<Event> {
        self.write_reset(id, code);
        self.count_reset();
        self.remember_reset(id);
        None
    }

    /// The response to a request of ours, or an interim one.
    fn receive_response(
        &mut self,
        key: StreamKey,
        then: Then,
        block: &[u8],
        decoded: &mut Decoded,
    ) -> Result<Option<Event>, ConnectionError> {
        let mut outcome = ResponseOutcome::default();
        let fields = &mut decoded.response.fields;
        let mut sink = ResponseSink::new(&mut decoded.bytes, fields, self.options.heads);
        self.decode(block, &mut decoded.scratch, &mut sink)?;
        let Some(stream) = self.streams.get_mut(key) else {
            return Ok(None);
        };
        let finished = sink.finish(then, stream.request, &mut outcome);
        outcome.store(&mut decoded.response);
        match finished {
            Ok(()) => {}
            Err(ResponseFault::Malformed(cause)) => return Ok(Some(self.malformed(key, cause))),
            Err(ResponseFault::Rejected(error)) => {
                self.reset_stream(key, Code::PROTOCOL_ERROR);
                let cause = ResetCause::Response(error);
                return Ok(Some(Event::Reset { key, cause }));
            }
        }
        if decoded.response.is_interim() {
            return Ok(Some(Event::Interim { key }));
        }
        stream.receiving = Half::Body;
        stream.expected = match decoded.response.framing {
            _ if decoded.response.upgrade.is_some() => None,
            Framing::Empty => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::UntilClose => None,
        };
        if then == Then::End
            && let Err(cause) = stream.end_receiving()
        {
            return Ok(Some(self.malformed(key, cause)));
        }
        Ok(Some(Event::Response { key, then }))
    }

    /// Trailers, which end the message (section 8.1).
    fn receive_trailers(
        &mut self,
        key: StreamKey,
        then: Then,
        block: &[u8],
        decoded: &mut Decoded,
    ) -> Result<Option<Event>, ConnectionError> {
        let mut sink = TrailerSink::new(&mut decoded.bytes);
        self.decode(block, &mut decoded.scratch, &mut sink)?;
        let mut finished = sink.finish();
        if then == Then::More {
            finished = Err(Malformed::End);
        }
        let Some(stream) = self.streams.get_mut(key) else {
            return Ok(None);
        };
        match finished.and_then(|()| stream.end_receiving()) {
            Ok(()) => Ok(Some(Event::Trailers { key })),
            Err(cause) => Ok(Some(self.malformed(key, cause))),
        }
    }

    /// Decodes a section that nobody waits for.
    fn skip(
        &mut self,
        block: &[u8],
        decoded: &mut Decoded,
    ) -> Result<Option<Event>, ConnectionError> {
        struct Nothing;
        impl FieldSink for Nothing {
            fn field(&mut self, _: DecodedField<'_>) {}
        }
        self.decode(block, &mut decoded.scratch, &mut Nothing)?;
        Ok(None)
    }

    fn decode(
        &mut self,
        block: &[u8],
        scratch: &mut Scratch,
        sink: &mut impl FieldSink,
    ) -> Result<(), Violation> {
        let most = self
            .options
            .heads
            .effective_head_bytes()
            .saturating_mul(H2_BLOCK_FACTOR);
        let decoded = self.decoder.decode(block, most, scratch, sink);
        decoded.map_err(|error| match error {
            HpackError::Malformed => Violation::Compression,
            HpackError::TooLarge => Violation::BlockTooLarge,
        })
    }

    /// A record for a stream that begins.
    pub(super) fn new_stream(&self, id: u32) -> Stream {
        let receive_window = if self.are_settings_applied {
            self.options.stream_window
        } else {
            self.window_before_settings()
        };
        Stream::new(id, self.peer.initial_window, receive_window)
    }

    /// The receive window of a stream while the peer may not know our settings. A server has read them
    /// before any stream of ours.
    pub(super) fn window_before_settings(&self) -> u32 {
        match self.options.role {
            Role::Server => self.options.stream_window.max(DEFAULT_WINDOW_BYTES),
            Role::Client => self.options.stream_window,
        }
    }

    /// Resets a stream whose message is malformed (section 8.1.1).
    pub(super) fn malformed(&mut self, key: StreamKey, cause: Malformed) -> Event {
        self.reset_stream(key, Code::PROTOCOL_ERROR);
        self.count_reset();
        let cause = ResetCause::Malformed(cause);
        Event::Reset { key, cause }
    }

    /// Whether frames of a stream without a record are ignored: we have reset it, or said that we would
    /// not process it. As the client, we have opened and released it: a server that was slow may answer any
    /// number of requests before it reads that they were given up.
    pub(super) fn ignores(&self, id: u32) -> bool {
        if self.options.role == Role::Client {
            return true;
        }
        let is_beyond = matches!(self.closing, Closing::Final { last } if id > last);
        is_beyond || self.resets.contains(id)
    }
}
