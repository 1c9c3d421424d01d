//! Finds the frames in a stream of bytes (RFC 9113 section 4.1), received in any pieces.

/// The connection preface of clients (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The nine-byte header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Length of the payload in bytes.
    pub length: u32,
    /// Type of the frame.
    pub kind: Kind,
    /// Flags; their meaning depends on the type.
    pub flags: u8,
    /// Stream identifier; 0 is the connection.
    pub stream: u32,
}

/// Type of a frame (section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `DATA` (RFC 9113 section 6.1)
    Data,
    /// `HEADERS` (section 6.2)
    Headers,
    /// `PRIORITY` (section 6.3), which is deprecated
    Priority,
    /// `RST_STREAM` (section 6.4)
    Reset,
    /// `SETTINGS` (section 6.5)
    Settings,
    /// `PUSH_PROMISE` (section 6.6)
    PushPromise,
    /// `PING` (section 6.7)
    Ping,
    /// `GOAWAY` (section 6.8)
    GoAway,
    /// `WINDOW_UPDATE` (section 6.9)
    WindowUpdate,
    /// `CONTINUATION` (section 6.10)
    Continuation,
    /// An unknown type, which is ignored.
    Other,
}

impl FrameHead {
    /// Length of a frame header.
    pub const BYTES: usize = 9;
    /// On DATA and HEADERS: the stream's last frame.
    pub const END_STREAM: u8 = 0x1;
    /// On SETTINGS and PING.
    pub const ACK: u8 = 0x1;
    /// On HEADERS and CONTINUATION: the block's last frame.
    pub const END_HEADERS: u8 = 0x4;
    /// On DATA and HEADERS.
    pub const PADDED: u8 = 0x8;
    /// On HEADERS: five bytes of priority follow.
    pub const PRIORITY: u8 = 0x20;

    pub(crate) fn of(bytes: [u8; Self::BYTES]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = bytes;
        Self {
            length: u32::from_be_bytes([0, l0, l1, l2]),
            kind: Kind::of(kind),
            flags,
            // The first bit is reserved (section 4.1).
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & (u32::MAX >> 1),
        }
    }

    /// Whether all of these flags are set.
    #[must_use]
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

impl Kind {
    fn of(byte: u8) -> Self {
        match byte {
            0x0 => Self::Data,
            0x1 => Self::Headers,
            0x2 => Self::Priority,
            0x3 => Self::Reset,
            0x4 => Self::Settings,
            0x5 => Self::PushPromise,
            0x6 => Self::Ping,
            0x7 => Self::GoAway,
            0x8 => Self::WindowUpdate,
            0x9 => Self::Continuation,
            _ => Self::Other,
        }
    }
}

/// A frame's header, with the length of its padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaddedFrame {
    /// Header of the frame.
    pub head: FrameHead,
    /// Bytes of padding, including the length byte.
    pub padding: u32,
}

/// An element of a stream of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// The header of a frame, which begins here.
    Frame(PaddedFrame),
    /// Payload bytes of the current frame.
    Payload(&'a [u8]),
}

/// Finds frames one after another.
#[derive(Debug, Clone)]
pub struct Frames {
    /// Missing bytes of the preface.
    preface: usize,
    head: [u8; FrameHead::BYTES],
    /// Bytes of the header received.
    filled: usize,
    /// A header whose padding length is the next byte.
    padded: Option<FrameHead>,
    /// Missing bytes of the payload.
    left: u32,
}

impl Frames {
    /// Expects the client preface before the first frame.
    #[must_use]
    pub fn after_preface() -> Self {
        Self {
            preface: PREFACE.len(),
            ..Self::at_once()
        }
    }

    /// Expects a frame from the first byte on.
    #[must_use]
    pub fn at_once() -> Self {
        Self {
            preface: 0,
            head: [0; FrameHead::BYTES],
            filled: 0,
            padded: None,
            left: 0,
        }
    }

    /// Missing bytes of the preface.
    #[must_use]
    pub fn preface_left(&self) -> usize {
        self.preface
    }

    /// Whether a frame is incomplete.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.filled > 0 || self.padded.is_some() || self.left > 0
    }

    /// Processes the next bytes, and passes on each frame once its size is known.
    ///
    /// # Errors
    ///
    /// Errors of `found`; the remaining bytes are not processed.
    pub fn feed<E>(
        &mut self,
        bytes: &[u8],
        mut found: impl FnMut(PaddedFrame) -> Result<(), E>,
    ) -> Result<(), E> {
        self.feed_with_payload(bytes, |part| match part {
            Part::Frame(frame) => found(frame),
            Part::Payload(_) => Ok(()),
        })
    }

    /// As [`Self::feed`], and passes on the payload after each frame's header, in pieces,
    /// without the padding length.
    ///
    /// # Errors
    ///
    /// Errors of `found`; the remaining bytes are not processed.
    pub fn feed_with_payload<E>(
        &mut self,
        mut bytes: &[u8],
        mut found: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            if self.preface > 0 {
                let skipped = self.preface.min(bytes.len());
                self.preface = self.preface.saturating_sub(skipped);
                bytes = bytes.get(skipped..).unwrap_or_default();
            }
            if self.left > 0 && self.padded.is_none() {
                let skipped = bytes
                    .len()
                    .min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left = self
                    .left
                    .saturating_sub(u32::try_from(skipped).unwrap_or(u32::MAX));
                let (payload, rest) = bytes.split_at(skipped);
                bytes = rest;
                if !payload.is_empty() {
                    found(Part::Payload(payload))?;
                }
            }
            if let Some(head) = self.padded {
                let Some((&byte, rest)) = bytes.split_first() else {
                    return Ok(());
                };
                bytes = rest;
                self.padded = None;
                self.left = self.left.saturating_sub(1);
                let padding = u32::from(byte).saturating_add(1);
                found(Part::Frame(PaddedFrame { head, padding }))?;
                continue;
            }
            let Some(head) = self.next_head(&mut bytes) else {
                return Ok(());
            };
            self.left = head.length;
            let is_padded = matches!(head.kind, Kind::Data | Kind::Headers);
            if is_padded && head.has(FrameHead::PADDED) && head.length > 0 {
                self.padded = Some(head);
            } else {
                found(Part::Frame(PaddedFrame { head, padding: 0 }))?;
            }
        }
    }

    /// Takes the next header off the front of `bytes`, or as much of it as there is.
    fn next_head(&mut self, bytes: &mut &[u8]) -> Option<FrameHead> {
        if self.filled == 0
            && let Some((head, rest)) = bytes.split_first_chunk()
        {
            *bytes = rest;
            return Some(FrameHead::of(*head));
        }
        let room = self.head.get_mut(self.filled..).unwrap_or_default();
        let (part, rest) = bytes.split_at(room.len().min(bytes.len()));
        for (place, byte) in room.iter_mut().zip(part) {
            *place = *byte;
        }
        *bytes = rest;
        self.filled = self.filled.saturating_add(part.len());
        if self.filled < FrameHead::BYTES {
            return None;
        }
        self.filled = 0;
        Some(FrameHead::of(self.head))
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameHead, Frames, Kind, PREFACE, PaddedFrame};

    fn read_frames(frames: &mut Frames, bytes: &[u8]) -> Vec<PaddedFrame> {
        let mut list = Vec::new();
        let all: Result<(), ()> = frames.feed(bytes, |found| {
            list.push(found);
            Ok(())
        });
        assert_eq!(all, Ok(()));
        list
    }

    fn connection() -> Vec<u8> {
        let mut bytes = PREFACE.to_vec();
        bytes.extend_from_slice(b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64");
        bytes.extend_from_slice(b"\0\0\x05\0\x09\x80\0\0\x01\x02ab\0\0");
        bytes.extend_from_slice(b"\0\0\0\0\x01\0\0\0\x03");
        bytes.extend_from_slice(b"\0\0\x01\xff\0\0\0\0\0x");
        bytes
    }

    #[test]
    fn frames_after_the_preface_are_found_at_every_split() {
        let bytes = connection();
        let whole = read_frames(&mut Frames::after_preface(), &bytes);
        let kinds: Vec<_> = whole.iter().map(|found| found.head.kind).collect();
        assert_eq!(kinds, [Kind::Settings, Kind::Data, Kind::Data, Kind::Other]);
        assert_eq!(whole[1].padding, 3);
        assert_eq!(whole[1].head.stream, 1, "without the reserved bit");
        assert!(whole[2].head.has(FrameHead::END_STREAM));
        for split in 0..bytes.len() {
            let mut frames = Frames::after_preface();
            let mut pieces = read_frames(&mut frames, &bytes[..split]);
            pieces.extend(read_frames(&mut frames, &bytes[split..]));
            assert_eq!(pieces, whole, "split at {split}");
        }
    }

    #[test]
    fn stops_at_an_error_of_the_callback() {
        let mut count = 0;
        let stopped = Frames::after_preface().feed(&connection(), |_| {
            count += 1;
            if count == 2 { Err("enough") } else { Ok(()) }
        });
        assert_eq!((stopped, count), (Err("enough"), 2));
    }
}
