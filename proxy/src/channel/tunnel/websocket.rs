//! Tracks the frames of one direction of a WebSocket (RFC 6455 section 5.2), so that a frame of our
//! own can be inserted between two of them.
//!
//! Sans-io, and without validation: the peers check their own frames. Bytes that are not valid
//! frames are counted as if they were.

/// Position within the frames of a WebSocket.
#[derive(Debug, Default)]
pub(crate) struct FrameTracker {
    state: State,
    /// Whether a Close frame has begun.
    closing: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Within the header of a frame.
    Header {
        /// The second byte, if received.
        second: Option<u8>,
        /// Bytes of the current frame header received so far.
        seen: u8,
        /// The length as far as received.
        length: u64,
    },
    /// Remaining payload bytes of the frame.
    Payload(u64),
}

impl Default for State {
    fn default() -> Self {
        START
    }
}

const START: State = State::Header {
    second: None,
    seen: 0,
    length: 0,
};

impl FrameTracker {
    /// Advances over the next bytes. Returns how many of them belong to complete frames, if a frame
    /// ends within them.
    pub(crate) fn advance(&mut self, mut bytes: &[u8]) -> Option<usize> {
        let all = bytes.len();
        let mut whole = None;
        while let Some((&first, rest)) = bytes.split_first() {
            match &mut self.state {
                State::Header { .. } => {
                    self.header_byte(first);
                    bytes = rest;
                }
                State::Payload(left) => {
                    let here = usize::try_from(*left)
                        .unwrap_or(usize::MAX)
                        .min(bytes.len());
                    *left = left.saturating_sub(here as u64);
                    bytes = bytes.get(here..).unwrap_or_default();
                }
            }
            if matches!(self.state, State::Payload(0)) {
                self.state = START;
                whole = Some(all.saturating_sub(bytes.len()));
            }
        }
        whole
    }

    /// Whether the position is at the end of a frame.
    pub(crate) fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Header { seen: 0, .. })
    }

    /// Whether a Close frame has begun: nothing may follow it.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    fn header_byte(&mut self, byte: u8) {
        let State::Header {
            second,
            seen,
            length,
        } = &mut self.state
        else {
            return;
        };
        match *seen {
            0 => self.closing |= byte & OPCODE == CLOSE,
            1 => {
                *second = Some(byte);
                if extended_bytes(byte) == 0 {
                    *length = u64::from(byte & LENGTH);
                }
            }
            at if u32::from(at) < 2 + extended_bytes(second.unwrap_or_default()) => {
                *length = length.wrapping_shl(8) | u64::from(byte);
            }
            // The masking key.
            _ => {}
        }
        *seen = seen.saturating_add(1);
        if second.is_some_and(|second| u32::from(*seen) == header_bytes(second)) {
            self.state = State::Payload(*length);
        }
    }
}

/// The receiver of a frame of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// The client; frames to it are not masked.
    Client,
    /// The server; frames to it are masked (with zeros, since there is nothing to hide).
    Server,
}

/// A Close frame with the status "going away" (RFC 6455 section 7.4.1).
pub(crate) fn going_away(receiver: Receiver) -> &'static [u8] {
    match receiver {
        Receiver::Client => b"\x88\x02\x03\xe9",
        Receiver::Server => b"\x88\x82\0\0\0\0\x03\xe9",
    }
}

fn extended_bytes(second: u8) -> u32 {
    match second & LENGTH {
        126 => 2,
        127 => 8,
        _ => 0,
    }
}

fn header_bytes(second: u8) -> u32 {
    let key = if second & MASKED == 0 { 0 } else { 4 };
    2 + extended_bytes(second) + key
}

const OPCODE: u8 = 0x0f;
const CLOSE: u8 = 0x8;
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7f;

#[cfg(test)]
mod tests {
    use super::{FrameTracker, Receiver, going_away};

    /// A frame with this first byte and payload length.
    fn frame(first: u8, length: usize, masked: bool) -> Vec<u8> {
        let mask = if masked { 0x80 } else { 0 };
        let mut frame = vec![first];
        match length {
            0..=125 => frame.push(mask | u8::try_from(length).expect("below 126")),
            126..=0xffff => {
                frame.push(mask | 0x7e);
                frame.extend(u16::try_from(length).expect("16 bits").to_be_bytes());
            }
            _ => {
                frame.push(mask | 0x7f);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        if masked {
            frame.extend([1, 2, 3, 4]);
        }
        // Payload that looks like the start of a Close.
        frame.resize(frame.len() + length, 0x88);
        frame
    }

    fn stream() -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for masked in [false, true] {
            for length in [0, 1, 125, 126, 127, 0xffff, 0x1_0000] {
                bytes.extend(frame(0x82, length, masked));
                ends.push(bytes.len());
            }
        }
        (bytes, ends)
    }

    #[test]
    fn frame_boundaries_do_not_depend_on_chunk_sizes() {
        let (bytes, ends) = stream();
        for size in [1, 2, 3, 7, 64, 4096, bytes.len()] {
            let (mut tracker, mut at) = (FrameTracker::default(), 0);
            for chunk in bytes.chunks(size) {
                let boundary = tracker.advance(chunk);
                let last = ends
                    .iter()
                    .rfind(|end| **end > at && **end <= at + chunk.len());
                assert_eq!(
                    boundary.map(|boundary| at + boundary).as_ref(),
                    last,
                    "{size} {at}"
                );
                at += chunk.len();
                assert_eq!(
                    tracker.is_between_frames(),
                    ends.contains(&at),
                    "{size} {at}"
                );
            }
            assert!(!tracker.is_closing());
        }
    }

    #[test]
    fn a_close_frame_is_detected() {
        for receiver in [Receiver::Client, Receiver::Server] {
            let mut tracker = FrameTracker::default();
            let close = going_away(receiver);
            assert_eq!(tracker.advance(close), Some(close.len()));
            assert!(tracker.is_closing() && tracker.is_between_frames());
        }
        let mut tracker = FrameTracker::default();
        tracker.advance(&frame(0x81, 200, true));
        assert!(!tracker.is_closing());
        tracker.advance(&[0x88]);
        assert!(tracker.is_closing());
    }

    #[test]
    fn a_frame_with_a_huge_length_stays_open() {
        let mut tracker = FrameTracker::default();
        assert_eq!(tracker.advance(&[0x82, 127]), None);
        assert_eq!(tracker.advance(&[0xff; 8]), None);
        assert_eq!(tracker.advance(&[0; 1000]), None);
        assert!(!tracker.is_between_frames());
    }
}
