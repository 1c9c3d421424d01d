//! Reassembles the heads and trailers of a peer from their frames and scans them before the `h2` crate
//! does: for requests with a path that it would cut, responses with fields that it would drop, or for
//! which it would end the connection, and trailers with pseudo-header fields, which it would drop.

use super::field_blocks::{BlockFindings, FieldBlocks};
use super::frame::{FrameHead, Kind, Part};
use super::guard::Peer;
use crate::limits::{H2_WATCHED_STREAMS, MAX_HEAD_BYTES};

/// The heads of one connection.
#[derive(Debug)]
pub(super) struct Heads {
    peer: Peer,
    blocks: FieldBlocks,
    /// The part of the current block received so far.
    block: Vec<u8>,
    /// The current frame, if it is part of one.
    frame: Option<Fragment>,
    /// Whether the current block ends its stream.
    is_end: bool,
    /// Whether the current block is not the first one of its stream.
    is_later: bool,
    /// The highest stream with a head. A client opens them in ascending order.
    last_stream: u32,
    /// Whether a block was unreadable: later ones are too, and the connection ends.
    is_lost: bool,
    /// Streams whose path has a fragment.
    fragments: Vec<u32>,
    /// Streams whose response or request's trailers are malformed.
    malformed: Vec<u32>,
    /// Streams that a block with a status ended: a response without a body, or else trailers.
    ended: Vec<u32>,
    /// Those for which the `h2` crate ends the connection.
    invalid: Vec<u32>,
}

/// The part of a block in one frame.
#[derive(Debug, Clone, Copy)]
struct Fragment {
    stream: u32,
    /// Bytes to skip before it.
    skipped: usize,
    /// Missing bytes of it.
    left: usize,
    is_last: bool,
}

impl Heads {
    pub(super) fn of(peer: Peer) -> Self {
        Self {
            peer,
            blocks: FieldBlocks::default(),
            block: Vec::new(),
            frame: None,
            is_end: false,
            is_later: false,
            last_stream: 0,
            is_lost: false,
            fragments: Vec::new(),
            malformed: Vec::new(),
            ended: Vec::new(),
            invalid: Vec::new(),
        }
    }

    /// Processes the next element of the connection.
    pub(super) fn feed(&mut self, part: Part<'_>) {
        match part {
            Part::Frame(found) => {
                let head = found.head;
                if head.kind == Kind::Headers {
                    self.begin_block(head);
                }
                self.frame = match head.kind {
                    Kind::Headers | Kind::Continuation => Some(Fragment::of(head, found.padding)),
                    _ => None,
                };
                self.end_fragment();
            }
            Part::Payload(payload) => self.take_payload(payload),
        }
    }

    /// Whether a stream's head has a path with a fragment; true only once.
    pub(super) fn take_fragment(&mut self, stream: u32) -> bool {
        let place = self.fragments.iter().position(|known| *known == stream);
        place
            .map(|place| self.fragments.swap_remove(place))
            .is_some()
    }

    /// Streams whose responses have invalid fields or pseudo-header fields of a request, or whose
    /// requests have trailers with pseudo-header fields; each is returned once.
    pub(super) fn take_malformed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.malformed)
    }

    /// Streams whose responses have invalid fields; each is returned once.
    pub(super) fn take_invalid(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.invalid)
    }

    /// Streams that a block with a status ended, each once. It was their response, if that has no body;
    /// otherwise, their trailers.
    pub(super) fn drain_ended(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.ended.drain(..)
    }

    fn begin_block(&mut self, head: FrameHead) {
        self.is_end = head.has(FrameHead::END_STREAM);
        self.is_later = head.stream <= self.last_stream;
        self.last_stream = self.last_stream.max(head.stream);
    }

    fn take_payload(&mut self, payload: &[u8]) {
        let Some(frame) = &mut self.frame else {
            return;
        };
        let skipped = frame.skipped.min(payload.len());
        frame.skipped = frame.skipped.saturating_sub(skipped);
        let payload = payload.get(skipped..).unwrap_or_default();
        // Padding follows.
        let payload = payload.get(..frame.left).unwrap_or(payload);
        frame.left = frame.left.saturating_sub(payload.len());
        if self.block.len() <= MAX_BLOCK_BYTES {
            self.block.extend_from_slice(payload);
        }
        self.end_fragment();
    }

    fn end_fragment(&mut self) {
        let Some(frame) = self.frame.filter(|frame| frame.left == 0) else {
            return;
        };
        self.frame = None;
        if frame.is_last {
            self.end_block(frame.stream);
        }
    }

    fn end_block(&mut self, stream: u32) {
        self.is_lost |= self.block.len() > MAX_BLOCK_BYTES;
        if !self.is_lost {
            match self.blocks.read(&self.block) {
                Some(found) => self.record(stream, found),
                None => self.is_lost = true,
            }
        }
        // Unreadable, so it is rejected as if it had all of them.
        if self.is_lost {
            let all = BlockFindings {
                fragment: true,
                request: true,
                status: true,
                invalid: true,
            };
            self.record(stream, all);
        }
        self.block.clear();
        self.block.shrink_to(KEPT_BLOCK_BYTES);
    }

    fn record(&mut self, stream: u32, found: BlockFindings) {
        if found.fragment {
            keep(&mut self.fragments, stream);
        }
        let is_malformed = match self.peer {
            Peer::Client => self.is_later && (found.request || found.status),
            Peer::Server => found.request || found.invalid,
        };
        if is_malformed {
            keep(&mut self.malformed, stream);
        }
        if self.peer == Peer::Client {
            return;
        }
        if found.invalid {
            keep(&mut self.invalid, stream);
        }
        if found.status && self.is_end {
            keep(&mut self.ended, stream);
        }
    }
}

/// Streams that are reset before they are served are never queried.
fn keep(streams: &mut Vec<u32>, stream: u32) {
    if streams.len() >= H2_WATCHED_STREAMS {
        streams.remove(0);
    }
    streams.push(stream);
}

impl Fragment {
    fn of(head: FrameHead, padding: u32) -> Self {
        let size = |bytes: u32| usize::try_from(bytes).unwrap_or(usize::MAX);
        let prioritised = head.kind == Kind::Headers && head.has(FrameHead::PRIORITY);
        let skipped = if prioritised { PRIORITY_BYTES } else { 0 };
        let payload = size(head.length).saturating_sub(size(padding));
        Self {
            stream: head.stream,
            skipped,
            left: payload.saturating_sub(skipped),
            is_last: head.has(FrameHead::END_HEADERS),
        }
    }
}

/// Bytes of the priority in a HEADERS frame (RFC 9113 section 6.2).
const PRIORITY_BYTES: usize = 5;

/// Largest block scanned, in bytes: the largest head that any policy allows, with a margin for
/// inefficient encodings.
const MAX_BLOCK_BYTES: usize = 2 * MAX_HEAD_BYTES as usize;

/// Capacity kept for the next block.
const KEPT_BLOCK_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::Heads;
    use crate::http::h2::frame::Frames;
    use crate::http::h2::guard::Peer;

    /// A frame of this kind, flags and stream.
    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).expect("short");
        let mut bytes = vec![0, 0, length, kind, flags, 0, 0, 0, stream];
        bytes.extend_from_slice(payload);
        bytes
    }

    fn heads(bytes: &[u8], piece: usize) -> Heads {
        heads_of(Peer::Client, bytes, piece)
    }

    fn heads_of(peer: Peer, bytes: &[u8], piece: usize) -> Heads {
        let (mut heads, mut frames) = (Heads::of(peer), Frames::at_once());
        for bytes in bytes.chunks(piece) {
            let all: Result<(), ()> = frames.feed_with_payload(bytes, |part| {
                heads.feed(part);
                Ok(())
            });
            assert_eq!(all, Ok(()));
        }
        heads
    }

    #[test]
    fn a_split_header_block_is_reassembled() {
        // HEADERS with padding and priority, and two CONTINUATION, between other frames.
        let mut bytes = frame(4, 0, 0, &[]);
        bytes.extend(frame(1, 0x28, 1, b"\x02PPPPP\x44\x04/a00"));
        bytes.extend(frame(9, 0, 1, b""));
        bytes.extend(frame(9, 0x4, 1, b"#b\x87"));
        bytes.extend(frame(0, 0, 1, b"\x44\x02/#"));
        bytes.extend(frame(1, 0x4, 3, b"\x04\x02/a"));
        bytes.extend(frame(1, 0x4, 5, b"\xbe"));
        for piece in 1..=bytes.len() {
            let mut heads = heads(&bytes, piece);
            let found: Vec<_> = (1..7).filter(|id| heads.take_fragment(*id)).collect();
            assert_eq!(found, [1, 5], "in pieces of {piece}");
            assert!(!heads.take_fragment(1), "reported once");
        }
    }

    #[test]
    fn trailers_with_pseudo_header_fields_are_reported() {
        // Heads with a method, and a body to come.
        let mut bytes = frame(1, 0x4, 1, b"\x83");
        bytes.extend(frame(1, 0x4, 3, b"\x83"));
        bytes.extend(frame(1, 0x4, 5, b"\x83"));
        bytes.extend(frame(1, 0x5, 1, b"\x84"));
        bytes.extend(frame(1, 0x5, 3, b"\x00\x03x-a\x01b"));
        // In two frames.
        bytes.extend(frame(1, 0x1, 5, b""));
        bytes.extend(frame(9, 0x4, 5, b"\x88"));
        for piece in 1..=bytes.len() {
            assert_eq!(heads(&bytes, piece).take_malformed(), [1, 5]);
        }
    }

    #[test]
    fn streams_that_a_block_with_a_status_ends_are_reported() {
        let mut bytes = frame(1, 0x4, 1, b"\x88");
        bytes.extend(frame(1, 0x5, 3, b"\x89"));
        bytes.extend(frame(1, 0x5, 1, b"\x00\x03x-a\x01b"));
        bytes.extend(frame(1, 0x4, 5, b"\x88"));
        bytes.extend(frame(1, 0x1, 5, b""));
        bytes.extend(frame(9, 0x4, 5, b"\x88"));
        let mut heads = heads_of(Peer::Server, &bytes, usize::MAX);
        assert_eq!(heads.drain_ended().collect::<Vec<_>>(), [3, 5]);
        assert!(heads.take_malformed().is_empty());
    }

    #[test]
    fn undecodable_header_blocks_are_rejected() {
        let mut bytes = frame(1, 0x4, 1, b"\xbe");
        bytes.extend(frame(1, 0x4, 3, b"\x84"));
        let mut heads = heads(&bytes, usize::MAX);
        assert!(heads.take_fragment(1) && heads.take_fragment(3));
    }
}
