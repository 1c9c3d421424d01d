//! One HTTP/2 connection, in either role: bytes in, events and bytes out.
//!
//! [`Connection::receive`] is the whole of receiving, from top to bottom: it takes one frame after
//! another off the input, checks what holds for every frame, and passes it to the function of its type.
//! Frames are not queued: what they mean is returned as an [`Event`] while their bytes are in the input.
//!
//! | file | frames |
//! |---|---|
//! | `data` | DATA, both ways, and the windows |
//! | `sections` | HEADERS and CONTINUATION, received |
//! | `control` | SETTINGS, PING, GOAWAY, `WINDOW_UPDATE`, `RST_STREAM`, received |
//! | `send` | heads, trailers and resets, sent |
//! | `closing` | how a connection ends |

mod closing;
mod control;
mod data;
mod sections;
mod send;

#[cfg(test)]
mod tests;

pub use closing::EndOfInput;
pub use send::StreamGone;

use std::collections::VecDeque;
use std::time::Duration;

use self::closing::Closing;
use self::sections::Block;
use super::error::{Code, ConnectionError, ResetCause, Violation};
use super::event::{Event, Step};
use super::flow::{Pressure, ReceiveWindow, SendWindow};
use super::frame::{self, FrameHead, Kind, PREFACE};
use super::guard::Guard;
use super::head_sink::Decoded;
use super::hpack::decoder::Decoder;
use super::hpack::encoder::{Encoder, Huffman};
use super::streams::{Reset, ResetIds, StreamKey, Streams, Waiting};
use crate::http::engine::guard::{Abuse, Peer};
use crate::http::h1::HeadLimits;
use crate::limits::{H2_CONTROL_BYTES, H2_FRAME_BYTES, H2_HEADS_PER_TURN, MAX_H2_WINDOW_BYTES};

/// Our role on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The peer is a client, which opens streams.
    Server,
    /// The peer is a server: we open streams.
    Client,
}

/// What a connection is made with.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Our role.
    pub role: Role,
    /// As a server: streams of the client that are not released. Further ones are refused.
    pub streams: u32,
    /// Bytes of a stream's receive window, at most 2³¹−1.
    pub stream_window: u32,
    /// Bytes of the connection's receive window, from 65 535 to 2³¹−1.
    pub connection_window: u32,
    /// Limits of received heads.
    pub heads: HeadLimits,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    options: Options,
    /// The current time, from any fixed moment.
    now: Duration,
    /// Whether the client's preface is still to come.
    awaits_preface: bool,
    /// Whether the peer has acknowledged our settings.
    are_settings_applied: bool,
    peer: PeerSettings,
    decoder: Decoder,
    encoder: Encoder,
    guard: Guard,
    streams: Streams,
    /// As a server: streams that were reset by us and released.
    resets: ResetIds,
    /// The highest stream that was opened, by the peer or by us.
    highest: u32,
    /// The field block that is not complete.
    block: Option<Block>,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    pressure: Pressure,
    /// Streams that wait for the connection's window, by the turn in which they sent last.
    waiting: VecDeque<(u64, StreamKey)>,
    /// Those whose users are to be told of a window.
    ready: VecDeque<StreamKey>,
    /// Number of DATA frames sent.
    turn: u64,
    /// Heads that may be decoded in this turn.
    heads_left: usize,
    /// Number of field sections received.
    sections: u64,
    closing: Closing,
    /// The last stream that the peer processes, once it has sent GOAWAY.
    peer_last: Option<u32>,
    /// The same, then the last stream above it that was reported, until all were.
    unprocessed_above: Option<u32>,
    /// What is to be sent.
    output: Vec<u8>,
    /// Bytes of it that only the peer's frames have caused.
    control_bytes: usize,
    /// The first stream of ours whose head is in the output.
    unsent_from: Option<u32>,
    /// A limit that was exceeded while something was sent.
    abuse: Option<Abuse>,
}

/// Settings of the peer; before they are received, those of RFC 9113 section 6.5.2.
#[derive(Debug)]
struct PeerSettings {
    are_received: bool,
    initial_window: u32,
    streams: u32,
    connect_protocol: bool,
}

/// A received frame.
struct Frame<'a> {
    head: FrameHead,
    payload: &'a [u8],
    /// Offset of the payload in the input.
    start: usize,
}

impl Connection {
    /// A connection, whose first bytes are in the output.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let is_server = options.role == Role::Server;
        let mut connection = Self {
            options,
            now: Duration::ZERO,
            awaits_preface: is_server,
            are_settings_applied: false,
            peer: PeerSettings {
                are_received: false,
                initial_window: DEFAULT_WINDOW_BYTES,
                streams: u32::MAX,
                connect_protocol: false,
            },
            decoder: Decoder::default(),
            encoder: Encoder::new(if is_server {
                Huffman::Long
            } else {
                Huffman::Never
            }),
            guard: Guard::against(if is_server {
                Peer::Client
            } else {
                Peer::Server
            }),
            streams: Streams::default(),
            resets: ResetIds::default(),
            highest: 0,
            block: None,
            send_window: SendWindow::new(DEFAULT_WINDOW_BYTES),
            receive_window: ReceiveWindow::new(DEFAULT_WINDOW_BYTES),
            pressure: Pressure::None,
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            turn: 0,
            heads_left: H2_HEADS_PER_TURN,
            sections: 0,
            closing: Closing::No,
            peer_last: None,
            unprocessed_above: None,
            output: Vec::new(),
            control_bytes: 0,
            unsent_from: None,
            abuse: None,
        };
        connection.write_preface();
        connection
    }

    /// Begins a turn of the connection's driver. `now` is relative to any fixed moment.
    pub fn begin_turn(&mut self, now: Duration) {
        self.now = now;
        self.heads_left = H2_HEADS_PER_TURN;
    }

    /// Reads on in `input` from `at`, which is advanced over what was read, up to the next event. Heads
    /// and trailers are decoded into `decoded`. Ranges of events are those of `input`.
    ///
    /// # Errors
    ///
    /// The connection must end: its GOAWAY is in the output, and everything else is ignored.
    pub fn receive(
        &mut self,
        input: &[u8],
        at: &mut usize,
        decoded: &mut Decoded,
    ) -> Result<Step, ConnectionError> {
        let step = self.next_step(input, at, decoded);
        if let Err(error) = step {
            self.fail(error.code());
        }
        step
    }

    fn next_step(
        &mut self,
        input: &[u8],
        at: &mut usize,
        decoded: &mut Decoded,
    ) -> Result<Step, ConnectionError> {
        loop {
            if let Some(abuse) = self.abuse.take() {
                return Err(abuse.into());
            }
            if self.closing == Closing::Failed {
                *at = input.len();
                return Ok(Step::NeedMore);
            }
            if let Some(event) = self.pending_event() {
                return Ok(Step::Event(event));
            }
            if self.heads_left == 0 {
                return Ok(Step::NextTurn);
            }
            if self.control_bytes > H2_CONTROL_BYTES {
                return Ok(Step::OutputFull);
            }
            let Some(frame) = self.next_frame(input, at)? else {
                return Ok(Step::NeedMore);
            };
            if let Some(event) = self.dispatch(&frame, decoded)? {
                return Ok(Step::Event(event));
            }
        }
    }

    /// What earlier frames have caused besides their own event.
    fn pending_event(&mut self) -> Option<Event> {
        if let Some(last) = self.unprocessed_above {
            if let Some(key) = self.next_unprocessed(last) {
                let cause = ResetCause::Unprocessed;
                return Some(Event::Reset { key, cause });
            }
            self.unprocessed_above = None;
        }
        while let Some(key) = self.ready.pop_front() {
            if let Some(stream) = self.streams.get_mut(key) {
                stream.waiting = Waiting::No;
                if !stream.is_closed() {
                    return Some(Event::Writable { key });
                }
            }
        }
        None
    }

    /// Takes the next frame off the input, if it is complete.
    fn next_frame<'a>(
        &mut self,
        input: &'a [u8],
        at: &mut usize,
    ) -> Result<Option<Frame<'a>>, Violation> {
        let mut rest = input.get(*at..).unwrap_or_default();
        if self.awaits_preface {
            let Some(after) = rest.strip_prefix(PREFACE) else {
                let is_part = PREFACE.starts_with(rest);
                return is_part.then_some(None).ok_or(Violation::Preface);
            };
            self.awaits_preface = false;
            rest = after;
            *at = at.saturating_add(PREFACE.len());
        }
        let Some((head, behind)) = rest.split_first_chunk() else {
            return Ok(None);
        };
        let head = FrameHead::read(*head);
        self.check_frame(head)?;
        let length = usize::try_from(head.length).unwrap_or(usize::MAX);
        let Some(payload) = behind.get(..length) else {
            return Ok(None);
        };
        let start = at.saturating_add(FrameHead::BYTES);
        *at = start.saturating_add(length);
        Ok(Some(Frame {
            head,
            payload,
            start,
        }))
    }

    /// What holds for every frame, before its payload has arrived.
    fn check_frame(&self, head: FrameHead) -> Result<(), Violation> {
        // Section 4.2. We do not raise the size that every peer may send.
        if head.length > H2_FRAME_BYTES {
            return Err(Violation::FrameSize);
        }
        // Section 3.4.
        let is_settings = head.kind == Kind::Settings && !head.has(FrameHead::ACK);
        if !self.peer.are_received && !is_settings {
            return Err(Violation::Preface);
        }
        head.check_stream()?;
        // Section 6.10: nothing comes between the frames of a block.
        let continues = head.kind == Kind::Continuation;
        let is_next = match &self.block {
            Some(block) => continues && block.stream == head.stream,
            None => !continues,
        };
        is_next.then_some(()).ok_or(Violation::Interleaved)
    }

    /// Passes a frame to the function of its type.
    fn dispatch(
        &mut self,
        frame: &Frame<'_>,
        decoded: &mut Decoded,
    ) -> Result<Option<Event>, ConnectionError> {
        match frame.head.kind {
            Kind::Data => self.receive_data(frame),
            Kind::Headers => self.receive_headers(frame, decoded),
            Kind::Continuation => self.receive_continuation(frame, decoded),
            Kind::Priority => {
                frame::priority(frame.head, frame.payload)?;
                self.guard.priority()?;
                Ok(None)
            }
            Kind::Reset => self.receive_reset(frame),
            Kind::Settings => self.receive_settings(frame),
            Kind::PushPromise => Err(Violation::Push.into()),
            Kind::Ping => self.receive_ping(frame),
            Kind::GoAway => self.receive_go_away(frame),
            Kind::WindowUpdate => self.receive_window_update(frame),
            // Section 5.5.
            Kind::Unknown(_) => Ok(None),
        }
    }

    /// Whether no frame has ever opened this stream (section 5.1).
    fn is_idle(&self, id: u32) -> bool {
        // Servers could only open streams by pushing, which is off.
        id.is_multiple_of(2) || id > self.highest
    }

    /// Whether the rest of a head is missing, of which `unread` is the part in the input.
    #[must_use]
    pub fn is_within_head(&self, unread: &[u8]) -> bool {
        let kind = unread.first_chunk().map(|head| FrameHead::read(*head).kind);
        self.block.is_some() || kind == Some(Kind::Headers)
    }

    /// Number of complete heads and trailers received.
    #[must_use]
    pub fn sections(&self) -> u64 {
        self.sections
    }

    /// Whether the peer's settings were received, which come first.
    #[must_use]
    pub fn has_settings(&self) -> bool {
        self.peer.are_received
    }

    /// Whether the peer accepts extended CONNECT (RFC 8441 section 3).
    #[must_use]
    pub fn offers_extended_connect(&self) -> bool {
        self.peer.connect_protocol
    }

    /// Number of streams that were not released.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// What is to be sent. The driver may take it and put another buffer in its place; then it reports
    /// so by [`Self::output_taken`].
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// The output was taken: the peer may cause more.
    pub fn output_taken(&mut self) {
        self.control_bytes = 0;
        self.unsent_from = None;
    }

    /// Whether the head of this stream of ours is in the output, as everything of it then is.
    #[must_use]
    pub fn is_unsent(&self, key: StreamKey) -> bool {
        let stream = self.streams.get(key).zip(self.unsent_from);
        stream.is_some_and(|(stream, first)| stream.id >= first)
    }

    /// Drops the output of a connection that has ended, if streams were opened in it: they can be opened
    /// elsewhere only if it is not sent. The GOAWAY at its end stays, so that the peer learns why.
    pub fn drop_unsent(&mut self) {
        if self.unsent_from.take().is_none() {
            return;
        }
        let kept = match self.closing {
            Closing::Failed => frame::GO_AWAY_BYTES,
            Closing::No | Closing::Announced | Closing::Final { .. } => 0,
        };
        let dropped = self.output.len().saturating_sub(kept);
        self.output.drain(..dropped);
    }

    /// Releases the memory of an idle connection, except for what the peer's table holds.
    pub fn release_memory(&mut self) {
        if self.streams.len() > 0 || self.block.is_some() {
            return;
        }
        self.encoder.release_memory();
        self.streams.release_memory();
        self.resets.release_memory();
        self.waiting = VecDeque::new();
        self.ready = VecDeque::new();
        if self.output.is_empty() {
            self.output = Vec::new();
        }
    }

    /// Writes a frame that the peer has caused.
    fn write_control(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.closing == Closing::Failed {
            return;
        }
        let before = self.output.len();
        write(&mut self.output);
        let written = self.output.len().saturating_sub(before);
        self.control_bytes = self.control_bytes.saturating_add(written);
    }

    /// Resets a stream that has a record. Its frames that are on the way are ignored.
    fn reset_stream(&mut self, key: StreamKey, code: Code) {
        let Some(stream) = self.streams.get_mut(key) else {
            return;
        };
        if stream.is_closed() {
            return;
        }
        stream.reset = Reset::Ours;
        let id = stream.id;
        self.write_reset(id, code);
    }

    fn write_reset(&mut self, id: u32, code: Code) {
        self.write_control(|out| frame::write_reset(out, id, code));
    }

    /// Counts a reset that the peer's frames have caused. Others are not its fault, as that of a response
    /// whose endpoint failed.
    fn count_reset(&mut self) {
        if let Err(abuse) = self.guard.own_reset() {
            self.abuse = Some(abuse);
        }
    }

    /// Writes what a connection begins with (section 3.4).
    fn write_preface(&mut self) {
        let options = self.options;
        let head_bytes = u32::try_from(options.heads.head_bytes).unwrap_or(u32::MAX);
        let common = [
            (frame::INITIAL_WINDOW_SIZE, options.stream_window),
            (frame::MAX_HEADER_LIST_SIZE, head_bytes),
        ];
        let own = match options.role {
            Role::Server => [
                (frame::MAX_CONCURRENT_STREAMS, options.streams),
                (frame::ENABLE_CONNECT_PROTOCOL, 1),
            ],
            Role::Client => {
                self.output.extend_from_slice(PREFACE);
                [(frame::ENABLE_PUSH, 0), (frame::NO_RFC7540_PRIORITIES, 1)]
            }
        };
        let [one, other] = own;
        let [window, list] = common;
        let mut settings = vec![one, other, window, list];
        if options.role == Role::Server {
            settings.push((frame::NO_RFC7540_PRIORITIES, 1));
        }
        frame::write_settings(&mut self.output, &settings);
        let window = options.connection_window.min(MAX_H2_WINDOW_BYTES);
        let more = window.saturating_sub(DEFAULT_WINDOW_BYTES);
        if more > 0 {
            frame::write_window_update(&mut self.output, 0, more);
            self.receive_window.change(more.into());
        }
    }
}

/// Bytes of every window before it is changed (section 6.9.2).
const DEFAULT_WINDOW_BYTES: u32 = 65_535;
