//! However the bytes are cut, a connection reports the same and answers the same.

use super::*;

fn client_bytes() -> Vec<u8> {
    let long = block(&[("x-long", &"y".repeat(300))]);
    let (start, rest) = long.split_at(100);
    [
        PREFACE.to_vec(),
        setting(4, 100_000),
        get(1),
        headers(3, 0, &[POST, &[("content-length", "5")]].concat()),
        data(3, 0, b"abc"),
        frame(Kind::Headers, END, 5, &[&block(GET)[..], start].concat()),
        frame(Kind::Continuation, 0, 5, b""),
        frame(Kind::Continuation, HEAD, 5, rest),
        data(3, END | FrameHead::PADDED, b"\x02de\0\0"),
        frame(Kind::Ping, 0, 0, b"12345678"),
        post(7),
        headers(7, END, &[("x-sum", "1")]),
        frame(Kind::Unknown(200), 0, 9, b"whatever"),
        post(9),
        frame(Kind::Reset, 0, 9, &[0, 0, 0, 8]),
        headers(11, END, &[("x", "malformed")]),
        window(0, 7),
        data(13, 0, b"idle"),
    ]
    .concat()
}

/// What is reported, and what is sent.
fn outcome(pieces: &[&[u8]]) -> (Vec<String>, Vec<String>) {
    let mut side = Side::new(options(Role::Server));
    side.sent();
    let mut all = Vec::new();
    for piece in pieces {
        match side.feed(piece) {
            Ok(events) => all.extend(events),
            Err(error) => all.push(error.to_string()),
        }
    }
    (all, side.sent())
}

#[test]
fn every_split_has_the_same_outcome() {
    let bytes = client_bytes();
    // The last frame ends the connection, so what comes before it is fed first.
    let whole = outcome(&[&bytes]);
    assert_eq!(
        whole.1.last().map(String::as_str),
        Some("goaway 11 PROTOCOL_ERROR")
    );
    let (good, bad) = bytes.split_at(bytes.len() - 13);
    let expected = outcome(&[good, bad]);
    assert_eq!(expected.0.len(), 11, "{:?}", expected.0);
    for split in 0..good.len() {
        let (one, other) = good.split_at(split);
        assert_eq!(outcome(&[one, other, bad]), expected, "split at {split}");
    }
    let bytewise: Vec<_> = bytes.chunks(1).collect();
    assert_eq!(outcome(&bytewise), expected);
}

#[test]
fn the_end_of_the_input_is_clean_only_between_frames() {
    use crate::http::engine::EndOfInput;
    let mut side = Side::server();
    let bytes = [get(1), frame(Kind::Headers, 0, 3, b"\x82")].concat();
    let boundary = get(1).len();
    for (at, byte) in bytes.iter().enumerate() {
        assert!(side.feed(&[*byte]).is_ok());
        let clean = at + 1 == boundary;
        let end = side.connection.end_of_input(&side.input);
        assert_eq!(end == EndOfInput::BetweenFrames, clean, "{at}");
    }
    assert!(side.connection.is_within_head(b""));
}
