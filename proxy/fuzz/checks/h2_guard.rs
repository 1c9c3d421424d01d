//! The guard of an HTTP/2 connection: how the bytes are cut does not matter, and it sees the frames
//! that are there and no others.

use std::time::Duration;

use proxy::http::h2::frame::{FrameHead, Frames, Kind, PREFACE};
use proxy::http::h2::guard::{Abuse, Guard, Peer};

/// Checks `data`: a byte that picks the size of pieces, one that picks the peer, what comes.
pub(crate) fn check(data: &[u8]) {
    let [piece, pick, bytes @ ..] = data else {
        return;
    };
    let piece = usize::from(*piece).max(1);
    let peer = if pick % 2 == 0 {
        Peer::Client
    } else {
        Peer::Server
    };
    let whole = watch(peer, bytes, bytes.len().max(1));
    assert_eq!(whole, watch(peer, bytes, piece));
    check_frames(bytes, piece);
}

/// What a guard says of bytes that come and go out again.
fn watch(peer: Peer, bytes: &[u8], piece: usize) -> (Result<(), Abuse>, Result<(), Abuse>) {
    let mut guard = Guard::against(peer);
    let now = Duration::from_secs(1);
    let mut pieces = bytes.chunks(piece);
    let received = pieces.try_for_each(|bytes| guard.received(bytes, now));
    let sent = bytes.chunks(piece).try_for_each(|bytes| guard.sent(bytes));
    (received, sent)
}

/// The frames that are found are those that a reading of the whole finds.
fn check_frames(bytes: &[u8], piece: usize) {
    let mut found = Vec::new();
    let mut frames = Frames::after_preface();
    for bytes in bytes.chunks(piece) {
        let all: Result<(), ()> = frames.feed(bytes, |frame| {
            found.push((frame.head, frame.padding));
            Ok(())
        });
        assert_eq!(all, Ok(()));
    }
    let mut rest = bytes.get(PREFACE.len()..).unwrap_or_default();
    let mut expected = Vec::new();
    while let Some((head, behind)) = rest.split_at_checked(FrameHead::BYTES) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let is_padded = matches!(head[3], 0 | 1) && head[4] & FrameHead::PADDED != 0 && length > 0;
        if is_padded && behind.is_empty() {
            break;
        }
        let padding = if is_padded {
            u32::from(behind[0]) + 1
        } else {
            0
        };
        expected.push((length, head[3], padding));
        rest = behind.get(length as usize..).unwrap_or_default();
    }
    assert_eq!(found.len(), expected.len());
    for ((head, padding), (length, kind, expected)) in found.into_iter().zip(expected) {
        assert_eq!((head.length, padding), (length, expected));
        assert_eq!(head.kind == Kind::Data, kind == 0);
        assert_eq!(head.kind == Kind::Continuation, kind == 9);
    }
}
