//! Frames of HTTP/2 (RFC 9113 sections 4 and 6): reading and writing each type, with the checks that
//! need nothing but the frame itself.

use super::error::{Code, Violation};

/// The bytes that a client sends first (section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The header of a frame (section 4.1).
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
    /// `DATA` (section 6.1)
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
    /// A type that the protocol does not define, which is ignored (section 5.5).
    Unknown(u8),
}

impl FrameHead {
    /// Length of a frame's header.
    pub const BYTES: usize = 9;
    /// On DATA and HEADERS: the sender's last frame on the stream.
    pub const END_STREAM: u8 = 0x1;
    /// On SETTINGS and PING: an acknowledgement.
    pub const ACK: u8 = 0x1;
    /// On HEADERS and CONTINUATION: the block's last frame.
    pub const END_HEADERS: u8 = 0x4;
    /// On DATA and HEADERS: padding follows.
    pub const PADDED: u8 = 0x8;
    /// On HEADERS: five bytes of priority follow.
    pub const PRIORITY: u8 = 0x20;

    /// Reads a header.
    #[must_use]
    pub fn read(bytes: [u8; Self::BYTES]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = bytes;
        Self {
            length: u32::from_be_bytes([0, l0, l1, l2]),
            kind: Kind::of(kind),
            flags,
            // The first bit is reserved (section 4.1).
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & STREAM_BITS,
        }
    }

    /// The header's bytes.
    #[must_use]
    pub fn bytes(self) -> [u8; Self::BYTES] {
        let [_, l0, l1, l2] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind.byte(), self.flags, s0, s1, s2, s3]
    }

    /// Whether all of these flags are set.
    #[must_use]
    pub fn has(self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Checks whether the frame is on a stream, or on the connection, as its type requires.
    ///
    /// # Errors
    ///
    /// `PROTOCOL_ERROR` of the connection (sections 6.1 to 6.10).
    pub(super) fn check_stream(self) -> Result<(), Violation> {
        let is_right = match self.kind {
            Kind::Data
            | Kind::Headers
            | Kind::Priority
            | Kind::Reset
            | Kind::PushPromise
            | Kind::Continuation => self.stream != 0,
            Kind::Settings | Kind::Ping | Kind::GoAway => self.stream == 0,
            Kind::WindowUpdate | Kind::Unknown(_) => true,
        };
        is_right.then_some(()).ok_or(Violation::WrongStream)
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
            other => Self::Unknown(other),
        }
    }

    fn byte(self) -> u8 {
        match self {
            Self::Data => 0x0,
            Self::Headers => 0x1,
            Self::Priority => 0x2,
            Self::Reset => 0x3,
            Self::Settings => 0x4,
            Self::PushPromise => 0x5,
            Self::Ping => 0x6,
            Self::GoAway => 0x7,
            Self::WindowUpdate => 0x8,
            Self::Continuation => 0x9,
            Self::Unknown(other) => other,
        }
    }
}

/// The payload of DATA, or of HEADERS before its priority, without the padding.
///
/// # Errors
///
/// The padding is as long as the payload or longer (sections 6.1 and 6.2).
pub fn unpad(head: FrameHead, payload: &[u8]) -> Result<&[u8], Violation> {
    if !head.has(FrameHead::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(Violation::FrameSize)?;
    let end = rest.len().checked_sub(usize::from(padding));
    let content = end.and_then(|end| rest.get(..end));
    content.ok_or(Violation::Padding)
}

/// The fragment of a field block in HEADERS.
///
/// # Errors
///
/// Its padding or priority does not fit into it (section 6.2).
pub fn field_block(head: FrameHead, payload: &[u8]) -> Result<&[u8], Violation> {
    let content = unpad(head, payload)?;
    if !head.has(FrameHead::PRIORITY) {
        return Ok(content);
    }
    let parts = content.split_at_checked(PRIORITY_BYTES);
    let (given, block) = parts.ok_or(Violation::FrameSize)?;
    priority(head, given)?;
    Ok(block)
}

/// Checks the payload of PRIORITY, or that part of HEADERS. It has no effect: priorities are deprecated
/// (section 5.3.2).
///
/// # Errors
///
/// It does not have five bytes (section 6.3), or makes the stream depend on itself (RFC 7540 section
/// 5.3.1).
pub fn priority(head: FrameHead, payload: &[u8]) -> Result<(), Violation> {
    let dependency = payload
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes));
    match dependency {
        Some(dependency) if payload.len() == PRIORITY_BYTES => {
            let is_own = dependency & STREAM_BITS == head.stream;
            (!is_own).then_some(()).ok_or(Violation::SelfDependency)
        }
        _ => Err(Violation::FrameSize),
    }
}

/// The code of `RST_STREAM`.
///
/// # Errors
///
/// It does not have four bytes (section 6.4).
pub fn reset(payload: &[u8]) -> Result<Code, Violation> {
    u32_of(payload).map(Code)
}

/// The increment of `WINDOW_UPDATE`, which may be 0.
///
/// # Errors
///
/// It does not have four bytes (section 6.9).
pub fn window_update(payload: &[u8]) -> Result<u32, Violation> {
    // The first bit is reserved.
    Ok(u32_of(payload)? & STREAM_BITS)
}

/// The data of PING.
///
/// # Errors
///
/// It does not have eight bytes (section 6.7).
pub fn ping(payload: &[u8]) -> Result<[u8; 8], Violation> {
    payload.try_into().map_err(|_| Violation::FrameSize)
}

/// The last processed stream and the code of GOAWAY; its debug data is ignored.
///
/// # Errors
///
/// It has less than eight bytes (section 6.8).
pub fn go_away(payload: &[u8]) -> Result<(u32, Code), Violation> {
    let (last, rest) = payload.split_first_chunk().ok_or(Violation::FrameSize)?;
    let code = rest.first_chunk().ok_or(Violation::FrameSize)?;
    let last = u32::from_be_bytes(*last) & STREAM_BITS;
    Ok((last, Code(u32::from_be_bytes(*code))))
}

/// The settings of SETTINGS, as identifier and value.
///
/// # Errors
///
/// Its length is not a multiple of six bytes (section 6.5).
pub fn settings(payload: &[u8]) -> Result<impl Iterator<Item = (u16, u32)>, Violation> {
    let (settings, rest) = payload.as_chunks::<SETTING_BYTES>();
    if !rest.is_empty() {
        return Err(Violation::FrameSize);
    }
    let read = |&[i0, i1, v0, v1, v2, v3]: &[u8; SETTING_BYTES]| {
        let id = u16::from_be_bytes([i0, i1]);
        (id, u32::from_be_bytes([v0, v1, v2, v3]))
    };
    Ok(settings.iter().map(read))
}

fn u32_of(payload: &[u8]) -> Result<u32, Violation> {
    let bytes = payload.try_into().map_err(|_| Violation::FrameSize)?;
    Ok(u32::from_be_bytes(bytes))
}

/// Appends the header of a frame whose payload the caller appends.
pub fn write_head(out: &mut Vec<u8>, kind: Kind, flags: u8, stream: u32, length: u32) {
    let head = FrameHead {
        length,
        kind,
        flags,
        stream,
    };
    out.extend_from_slice(&head.bytes());
}

/// Appends SETTINGS.
pub fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    let length = settings.len().saturating_mul(SETTING_BYTES);
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    write_head(out, Kind::Settings, 0, 0, length);
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgement of SETTINGS.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    write_head(out, Kind::Settings, FrameHead::ACK, 0, 0);
}

/// Appends PING, or with [`FrameHead::ACK`] the acknowledgement of one.
pub fn write_ping(out: &mut Vec<u8>, flags: u8, data: [u8; 8]) {
    write_head(out, Kind::Ping, flags, 0, 8);
    out.extend_from_slice(&data);
}

/// Length of a whole GOAWAY without debug data.
pub const GO_AWAY_BYTES: usize = FrameHead::BYTES + 8;

/// Appends GOAWAY.
pub fn write_go_away(out: &mut Vec<u8>, last: u32, code: Code) {
    write_head(out, Kind::GoAway, 0, 0, 8);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends `RST_STREAM`.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, code: Code) {
    write_head(out, Kind::Reset, 0, stream, 4);
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends `WINDOW_UPDATE`.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write_head(out, Kind::WindowUpdate, 0, stream, 4);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// The bits of a stream's identifier and of a window's size.
const STREAM_BITS: u32 = u32::MAX >> 1;

/// Bytes of a priority (section 6.3).
const PRIORITY_BYTES: usize = 5;

/// Bytes of a setting (section 6.5.1).
const SETTING_BYTES: usize = 6;

/// `SETTINGS_HEADER_TABLE_SIZE` (section 6.5.2).
pub const HEADER_TABLE_SIZE: u16 = 0x1;
/// `SETTINGS_ENABLE_PUSH`
pub const ENABLE_PUSH: u16 = 0x2;
/// `SETTINGS_MAX_CONCURRENT_STREAMS`
pub const MAX_CONCURRENT_STREAMS: u16 = 0x3;
/// `SETTINGS_INITIAL_WINDOW_SIZE`
pub const INITIAL_WINDOW_SIZE: u16 = 0x4;
/// `SETTINGS_MAX_FRAME_SIZE`
pub const MAX_FRAME_SIZE: u16 = 0x5;
/// `SETTINGS_MAX_HEADER_LIST_SIZE`
pub const MAX_HEADER_LIST_SIZE: u16 = 0x6;
/// `SETTINGS_ENABLE_CONNECT_PROTOCOL` (RFC 8441 section 3)
pub const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
/// `SETTINGS_NO_RFC7540_PRIORITIES` (RFC 9218 section 2.1)
pub const NO_RFC7540_PRIORITIES: u16 = 0x9;

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: Kind, flags: u8) -> FrameHead {
        FrameHead {
            length: 0,
            kind,
            flags,
            stream: 1,
        }
    }

    #[test]
    fn a_header_of_every_type_round_trips() {
        for byte in 0..=u8::MAX {
            let bytes = [1, 2, 3, byte, 0x5a, 0x7f, 4, 5, 6];
            let head = FrameHead::read(bytes);
            assert_eq!(head.bytes(), bytes);
            assert_eq!(
                (head.length, head.flags, head.stream),
                (0x01_0203, 0x5a, 0x7f04_0506)
            );
        }
        let reserved = FrameHead::read([0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(reserved.stream, u32::MAX >> 1, "without the reserved bit");
    }

    #[test]
    fn padding_is_removed_and_fits_into_its_frame() {
        let padded = head(Kind::Data, FrameHead::PADDED);
        assert_eq!(unpad(head(Kind::Data, 0), b"\x02ab"), Ok(&b"\x02ab"[..]));
        assert_eq!(unpad(padded, b"\x02ab\0\0"), Ok(&b"ab"[..]));
        assert_eq!(unpad(padded, b"\x02\0\0"), Ok(&b""[..]));
        assert_eq!(unpad(padded, b"\x03\0\0"), Err(Violation::Padding));
        assert_eq!(unpad(padded, b""), Err(Violation::FrameSize));
        let both = head(Kind::Headers, FrameHead::PADDED | FrameHead::PRIORITY);
        assert_eq!(field_block(both, b"\x01\0\0\0\0\x10x\0"), Ok(&b"x"[..]));
        assert_eq!(
            field_block(both, b"\x01\0\0\0\0\0"),
            Err(Violation::FrameSize)
        );
    }

    #[test]
    fn payloads_have_their_exact_size() {
        let bytes = [0; 16];
        for length in 0..bytes.len() {
            let payload = &bytes[..length];
            let found = priority(head(Kind::Priority, 0), payload);
            assert_eq!(found.is_ok(), length == 5);
            assert_eq!(reset(payload).is_ok(), length == 4);
            assert_eq!(window_update(payload).is_ok(), length == 4);
            assert_eq!(ping(payload).is_ok(), length == 8);
            assert_eq!(go_away(payload).is_ok(), length >= 8);
            assert_eq!(settings(payload).is_ok(), length % 6 == 0);
        }
    }

    #[test]
    fn a_stream_cannot_depend_on_itself() {
        let error = Err(Violation::SelfDependency);
        let alone = head(Kind::Priority, 0);
        assert_eq!(priority(alone, b"\0\0\0\x01\x10"), error);
        assert_eq!(priority(alone, b"\x80\0\0\x01\x10"), error, "exclusively");
        assert_eq!(priority(alone, b"\0\0\0\x03\x10"), Ok(()));
        let block = head(Kind::Headers, FrameHead::PRIORITY);
        assert_eq!(field_block(block, b"\0\0\0\x01\x10x").err(), error.err());
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let mut out = Vec::new();
        write_settings(&mut out, &[(MAX_FRAME_SIZE, 16_384), (ENABLE_PUSH, 0)]);
        write_go_away(&mut out, 7, Code::ENHANCE_YOUR_CALM);
        write_reset(&mut out, 5, Code::CANCEL);
        write_window_update(&mut out, 3, 100);
        write_ping(&mut out, FrameHead::ACK, *b"12345678");
        let mut rest = &out[..];
        let mut next = || {
            let (head, payload) = rest.split_first_chunk().expect("a frame");
            let head = FrameHead::read(*head);
            let (payload, after) = payload.split_at(head.length as usize);
            rest = after;
            (head, payload)
        };
        let (_, payload) = next();
        let read: Vec<_> = settings(payload).expect("settings").collect();
        assert_eq!(read, [(MAX_FRAME_SIZE, 16_384), (ENABLE_PUSH, 0)]);
        assert_eq!(go_away(next().1), Ok((7, Code::ENHANCE_YOUR_CALM)));
        let (head, payload) = next();
        assert_eq!((head.stream, reset(payload)), (5, Ok(Code::CANCEL)));
        let (head, payload) = next();
        assert_eq!((head.stream, window_update(payload)), (3, Ok(100)));
        let (head, payload) = next();
        assert!(head.has(FrameHead::ACK));
        assert_eq!(ping(payload), Ok(*b"12345678"));
        assert!(rest.is_empty());
    }

    #[test]
    fn frames_of_the_connection_and_of_streams_are_told_apart() {
        for (kind, on_connection, on_stream) in [
            (Kind::Data, false, true),
            (Kind::Headers, false, true),
            (Kind::Priority, false, true),
            (Kind::Reset, false, true),
            (Kind::Settings, true, false),
            (Kind::PushPromise, false, true),
            (Kind::Ping, true, false),
            (Kind::GoAway, true, false),
            (Kind::WindowUpdate, true, true),
            (Kind::Continuation, false, true),
            (Kind::Unknown(77), true, true),
        ] {
            let frame = head(kind, 0);
            assert_eq!(frame.check_stream().is_ok(), on_stream, "{kind:?}");
            let frame = FrameHead { stream: 0, ..frame };
            assert_eq!(frame.check_stream().is_ok(), on_connection, "{kind:?}");
        }
    }
}
