//! What each error of the connection is answered with, by section of RFC 9113: rows of bytes from the peer,
//! and the code of our GOAWAY.

use super::*;

/// Feeds a peer's bytes; what happens, and then what is sent in answer.
pub(super) fn answer(side: &mut Side, bytes: &[u8]) -> Vec<String> {
    let mut all = side
        .feed(bytes)
        .unwrap_or_else(|error| vec![error.code_text()]);
    all.extend(side.sent().into_iter().filter(|sent| sent != "ack"));
    all
}

impl ConnectionError {
    fn code_text(self) -> String {
        format!("error {:?}", self.code())
    }
}

#[track_caller]
fn assert_fails(mut side: Side, section: &str, bytes: &[u8], code: Code) {
    let all = answer(&mut side, bytes);
    let error = format!("error {code:?}");
    assert!(all.contains(&error), "{section}: {all:?}");
    let last = all.last().expect("an answer");
    assert!(last.starts_with("goaway"), "{section}: {all:?}");
    assert!(last.ends_with(&format!("{code:?}")), "{section}: {all:?}");
    // Nothing more happens.
    assert_eq!(answer(&mut side, &get(101)), [""; 0], "{section}");
    assert!(side.connection.is_finished());
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn errors_of_the_connection() {
    let whole = |kind, length| frame(kind, 0, 0, &vec![0; length]);
    let on = |kind, stream, length| frame(kind, 0, stream, &vec![0; length]);
    for (section, bytes, code) in [
        (
            "4.2",
            whole(Kind::Unknown(99), 16_385),
            Code::FRAME_SIZE_ERROR,
        ),
        ("4.2", on(Kind::Data, 1, 16_385), Code::FRAME_SIZE_ERROR),
        (
            "4.3",
            frame(Kind::Headers, HEAD | END, 1, &[0xff; 8]),
            Code::COMPRESSION_ERROR,
        ),
        (
            "4.3",
            frame(Kind::Headers, HEAD | END, 1, b"\x82\x20"),
            Code::COMPRESSION_ERROR,
        ),
        ("5.1", data(1, END, b"x"), Code::PROTOCOL_ERROR),
        ("5.1", on(Kind::Reset, 1, 4), Code::PROTOCOL_ERROR),
        ("5.1", window(1, 1), Code::PROTOCOL_ERROR),
        (
            "5.1",
            [get(1), data(1, END, b"x")].concat(),
            Code::STREAM_CLOSED,
        ),
        ("5.1", [get(1), get(1)].concat(), Code::STREAM_CLOSED),
        ("5.1.1", get(2), Code::PROTOCOL_ERROR),
        ("5.1.1", [get(5), get(3)].concat(), Code::STREAM_CLOSED),
        ("6.1", data(0, 0, b"x"), Code::PROTOCOL_ERROR),
        (
            "6.1",
            [post(1), data(1, FrameHead::PADDED, b"\x03\0\0")].concat(),
            Code::PROTOCOL_ERROR,
        ),
        (
            "6.1",
            [post(1), data(1, FrameHead::PADDED, b"")].concat(),
            Code::FRAME_SIZE_ERROR,
        ),
        (
            "6.2",
            frame(Kind::Headers, HEAD | FrameHead::PRIORITY, 1, b"\0\0\0"),
            Code::FRAME_SIZE_ERROR,
        ),
        ("6.2", headers(0, END, GET), Code::PROTOCOL_ERROR),
        ("6.3", on(Kind::Priority, 0, 5), Code::PROTOCOL_ERROR),
        ("6.3", on(Kind::Priority, 1, 4), Code::FRAME_SIZE_ERROR),
        ("6.4", on(Kind::Reset, 0, 4), Code::PROTOCOL_ERROR),
        (
            "6.4",
            [post(1), on(Kind::Reset, 1, 3)].concat(),
            Code::FRAME_SIZE_ERROR,
        ),
        ("6.5", on(Kind::Settings, 1, 6), Code::PROTOCOL_ERROR),
        ("6.5", whole(Kind::Settings, 5), Code::FRAME_SIZE_ERROR),
        (
            "6.5",
            frame(Kind::Settings, FrameHead::ACK, 0, &[0; 6]),
            Code::FRAME_SIZE_ERROR,
        ),
        ("6.5.2", setting(2, 2), Code::PROTOCOL_ERROR),
        ("6.5.2", setting(4, 1 << 31), Code::FLOW_CONTROL_ERROR),
        ("6.5.2", setting(5, 16_383), Code::PROTOCOL_ERROR),
        ("6.5.2", setting(5, 1 << 24), Code::PROTOCOL_ERROR),
        ("8441 3", setting(8, 2), Code::PROTOCOL_ERROR),
        (
            "8441 3",
            [setting(8, 1), setting(8, 0)].concat(),
            Code::PROTOCOL_ERROR,
        ),
        (
            "6.6",
            frame(Kind::PushPromise, HEAD, 1, &[0; 4]),
            Code::PROTOCOL_ERROR,
        ),
        ("6.7", on(Kind::Ping, 1, 8), Code::PROTOCOL_ERROR),
        ("6.7", whole(Kind::Ping, 7), Code::FRAME_SIZE_ERROR),
        ("6.8", on(Kind::GoAway, 1, 8), Code::PROTOCOL_ERROR),
        ("6.8", whole(Kind::GoAway, 7), Code::FRAME_SIZE_ERROR),
        ("6.9", window(0, 0), Code::PROTOCOL_ERROR),
        (
            "6.9",
            [post(1), window(1, 0)].concat(),
            Code::PROTOCOL_ERROR,
        ),
        ("6.9", whole(Kind::WindowUpdate, 3), Code::FRAME_SIZE_ERROR),
        (
            "6.9.1",
            [window(0, u32::MAX >> 1), window(0, u32::MAX >> 1)].concat(),
            Code::FLOW_CONTROL_ERROR,
        ),
        (
            "6.9.1",
            [post(1), window(1, u32::MAX >> 1)].concat(),
            Code::FLOW_CONTROL_ERROR,
        ),
        (
            "6.9.2",
            [
                post(1),
                window(1, (u32::MAX >> 1) - 65_535),
                setting(4, 65_536),
            ]
            .concat(),
            Code::FLOW_CONTROL_ERROR,
        ),
        (
            "6.10",
            frame(Kind::Continuation, HEAD, 1, b""),
            Code::PROTOCOL_ERROR,
        ),
        (
            "6.10",
            [frame(Kind::Headers, END, 1, b""), get(3)].concat(),
            Code::PROTOCOL_ERROR,
        ),
        (
            "6.10",
            [frame(Kind::Headers, END, 1, b""), whole(Kind::Ping, 8)].concat(),
            Code::PROTOCOL_ERROR,
        ),
        (
            "6.10",
            [
                frame(Kind::Headers, END, 1, b""),
                frame(Kind::Continuation, HEAD, 3, b""),
            ]
            .concat(),
            Code::PROTOCOL_ERROR,
        ),
        (
            "6.10",
            [get(1), frame(Kind::Continuation, HEAD, 1, b"")].concat(),
            Code::PROTOCOL_ERROR,
        ),
    ] {
        assert_fails(Side::server(), section, &bytes, code);
    }
}

#[test]
fn errors_of_the_preface() {
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nXX"] {
        let side = Side::new(options(Role::Server));
        assert_fails(side, "3.4", bytes, Code::PROTOCOL_ERROR);
    }
    // Settings come first, from both.
    let early = [PREFACE, &get(1)[..]].concat();
    let side = Side::new(options(Role::Server));
    assert_fails(side, "3.4", &early, Code::PROTOCOL_ERROR);
    let side = Side::new(options(Role::Client));
    let ack = frame(Kind::Settings, FrameHead::ACK, 0, b"");
    assert_fails(side, "3.4", &ack, Code::PROTOCOL_ERROR);
}

#[test]
fn errors_of_a_server() {
    let response: &[(&str, &str)] = &[(":status", "200")];
    for (section, bytes, code) in [
        ("5.1.1", headers(2, 0, response), Code::PROTOCOL_ERROR),
        ("5.1", headers(3, 0, response), Code::PROTOCOL_ERROR),
        (
            "5.1",
            [headers(1, END, response), headers(1, END, response)].concat(),
            Code::STREAM_CLOSED,
        ),
        ("6.5.2", setting(2, 1), Code::PROTOCOL_ERROR),
        (
            "8.4",
            frame(Kind::PushPromise, HEAD, 1, &[0; 4]),
            Code::PROTOCOL_ERROR,
        ),
    ] {
        let mut side = Side::client();
        side.open("GET", Then::End);
        side.sent();
        assert_fails(side, section, &bytes, code);
    }
}

/// RFC 9113 section 6.9.1 names a reset; the connection ends as well, since no correct peer sends this
/// (section 5.4.1).
#[test]
fn a_window_above_the_limit_resets_its_stream_and_ends_the_connection() {
    let mut side = Side::server();
    let bytes = [get(1), window(1, u32::MAX >> 1)].concat();
    let all = answer(&mut side, &bytes);
    let reset = all.iter().position(|sent| sent.starts_with("reset 1"));
    assert!(reset.is_some(), "{all:?}");
    let last = all.last().expect("an answer");
    assert!(
        last.starts_with("goaway") && last.ends_with("FLOW_CONTROL_ERROR"),
        "{all:?}"
    );
}
