//! Each flood ends its connection at its limit, with its reason.

use super::*;
use crate::http::engine::guard::Abuse;
use crate::limits::{
    H2_CONTINUATIONS, H2_CONTROL_BYTES, H2_FREE_FRAMES, H2_FREE_FRAMES_PER_STREAM,
    H2_HEADS_PER_TURN, H2_LOCAL_RESETS, H2_PINGS_PER_SECOND, H2_RESETS_PER_SECOND, H2_SAMPLE,
    H2_SETTINGS_PER_SECOND,
};

/// How many times the bytes are accepted, and the reason that ends the connection.
fn accepted(side: &mut Side, mut bytes: impl FnMut(u32) -> Vec<u8>) -> (u32, ConnectionError) {
    for count in 0..100_000 {
        if let Err(error) = side.feed(&bytes(count)) {
            let sent = side.sent();
            let code = format!("{:?}", error.code());
            assert!(sent.last().is_some_and(|last| last.ends_with(&code)));
            return (count, error);
        }
        side.sent();
    }
    panic!("accepted without limit");
}

#[track_caller]
fn assert_abuse((count, error): (u32, ConnectionError), limit: impl TryInto<u32>, abuse: Abuse) {
    assert_eq!(error, ConnectionError::Abuse(abuse));
    assert_eq!(Some(count), limit.try_into().ok(), "{abuse:?}");
}

#[test]
fn frames_that_cost_nothing_are_limited() {
    let ping = frame(Kind::Ping, 0, 0, &[0; 8]);
    let found = accepted(&mut Side::server(), |_| ping.clone());
    assert_abuse(found, H2_PINGS_PER_SECOND, Abuse::Pings);

    // Acknowledgements that answer nothing are no better.
    let pong = frame(Kind::Ping, FrameHead::ACK, 0, &[0; 8]);
    let found = accepted(&mut Side::server(), |_| pong.clone());
    assert_abuse(found, H2_PINGS_PER_SECOND, Abuse::Pings);

    for flags in [0, FrameHead::ACK] {
        let settings = frame(Kind::Settings, flags, 0, b"");
        let found = accepted(&mut Side::server(), |_| settings.clone());
        // The first one came with the preface.
        assert_abuse(found, H2_SETTINGS_PER_SECOND - 1, Abuse::Settings);
    }

    let allowed = H2_FREE_FRAMES + H2_FREE_FRAMES_PER_STREAM;
    let mut side = Side::server();
    side.feed(&post(1)).expect("a request");
    let found = accepted(&mut side, |_| data(1, 0, b""));
    assert_abuse(found, allowed, Abuse::EmptyData);

    let mut side = Side::server();
    side.feed(&post(1)).expect("a request");
    let found = accepted(&mut side, |_| data(1, FrameHead::PADDED, b"\x02\0\0"));
    assert_abuse(found, allowed, Abuse::EmptyData);

    let found = accepted(&mut Side::server(), |_| window(0, 1));
    assert_abuse(found, H2_FREE_FRAMES, Abuse::WindowUpdates);

    let priority = frame(Kind::Priority, 0, 3, &[0; 5]);
    let found = accepted(&mut Side::server(), |_| priority.clone());
    assert_abuse(found, H2_FREE_FRAMES, Abuse::Priorities);

    let mut side = Side::server();
    side.feed(&post(1)).expect("a request");
    let found = accepted(&mut side, |_| window(1, 1));
    assert_abuse(found, allowed, Abuse::WindowUpdates);
}

#[test]
fn a_head_has_few_continuations_even_if_they_are_empty() {
    let mut side = Side::server();
    side.feed(&frame(Kind::Headers, 0, 1, b"")).expect("a part");
    let found = accepted(&mut side, |_| frame(Kind::Continuation, 0, 1, b""));
    assert_abuse(found, H2_CONTINUATIONS, Abuse::Continuations);
}

#[test]
fn large_settings_are_abuse() {
    let entries = [0, 99, 0, 0, 0, 0].repeat(33);
    let error = Side::server().feed(&frame(Kind::Settings, 0, 0, &entries));
    assert_eq!(error, Err(ConnectionError::Abuse(Abuse::Settings)));
}

#[test]
fn rapid_resets_are_abuse() {
    let cancel = |stream| frame(Kind::Reset, 0, stream, &[0, 0, 0, 8]);
    let mut side = Side::server();
    let found = accepted(&mut side, |count| {
        let stream = 2 * count + 1;
        [get(stream), cancel(stream)].concat()
    });
    // None of them was released, so those beyond the limit of streams are not even started.
    assert_eq!(side.connection.streams(), 100);
    assert_abuse(found, H2_RESETS_PER_SECOND, Abuse::Resets);
}

#[test]
fn slow_resets_of_unanswered_streams_are_abuse() {
    let mut side = Side::server();
    let found = loop {
        let highest = side.connection.highest;
        let stream = if highest == 0 { 1 } else { highest + 2 };
        side.now += Duration::from_millis(20);
        side.connection.begin_turn(side.now);
        let bytes = [get(stream), frame(Kind::Reset, 0, stream, &[0, 0, 0, 8])].concat();
        match side.feed(&bytes) {
            Ok(_) => {
                let key = side.key(stream);
                side.connection.release(key);
            }
            Err(error) => break (side.connection.highest / 2 + 1, error),
        }
    };
    assert_abuse(found, H2_SAMPLE, Abuse::PrematureResets);
}

#[test]
fn responses_that_their_client_ends_are_not_premature_resets() {
    let mut side = Side::server();
    for nth in 0..2 * H2_SAMPLE {
        let stream = 2 * nth + 1;
        side.now += Duration::from_millis(20);
        side.connection.begin_turn(side.now);
        side.feed(&get(stream)).expect("a request");
        let key = side.key(stream);
        let responded = side.connection.respond(key, Then::More, status);
        assert_eq!(responded, Ok(()));
        let cancel = frame(Kind::Reset, 0, stream, &[0, 0, 0, 8]);
        side.feed(&cancel).expect("the end of a call");
        side.connection.release(key);
        side.sent();
    }
}

#[test]
fn resets_that_the_peer_causes_are_limited() {
    let mut side = Side::server();
    let (count, error) = accepted(&mut side, |count| {
        headers(2 * count + 1, END, &[("x", "y")])
    });
    // The limit is noticed when the next frame is read.
    assert_eq!(error, ConnectionError::Abuse(Abuse::OwnResets));
    assert!(count.abs_diff(H2_LOCAL_RESETS) <= 1, "{count}");
}

#[test]
fn resets_that_the_client_has_not_caused_are_not_counted() {
    let mut side = Side::server();
    for nth in 0..3 * H2_LOCAL_RESETS {
        let stream = 2 * nth + 1;
        side.feed(&post(stream)).expect("a request");
        let key = side.key(stream);
        match nth % 3 {
            // Its endpoint failed.
            0 => side.connection.reset(key, Code::INTERNAL_ERROR),
            // It was answered before its end (RFC 9113 section 8.1).
            1 => {
                let responded = side.connection.respond(key, Then::End, status);
                assert_eq!(responded, Ok(()));
            }
            // It is given up at a deadline of ours.
            _ => {}
        }
        side.connection.release(key);
        side.sent();
    }
    assert_eq!(side.feed(&get(100_001)).map(|events| events.len()), Ok(1));
}

#[test]
fn data_of_streams_that_were_reset_long_ago_is_limited() {
    let mut side = Side::server();
    side.feed(&get(20_001)).expect("a request");
    let (count, error) = accepted(&mut side, |count| data(2 * count + 1, 0, b"x"));
    assert_eq!(error, ConnectionError::Abuse(Abuse::OwnResets));
    assert!(count <= H2_LOCAL_RESETS + 1);
}

#[test]
fn a_bomb_of_references_ends_the_connection() {
    let mut bomb = block(GET);
    bomb.extend_from_slice(b"\x40\x01a\x7f\xf0\x1d");
    bomb.extend_from_slice(&[b'x'; 3_951]);
    bomb.extend_from_slice(&[0xbe; 10_000]);
    let mut side = Side::server();
    let error = side.feed(&frame(Kind::Headers, HEAD | END, 1, &bomb));
    assert_eq!(
        error.map_err(ConnectionError::code),
        Err(Code::ENHANCE_YOUR_CALM)
    );
    assert!(side.decoded.bytes.capacity() <= 64 * 1024);
}

#[test]
fn a_block_above_its_limit_ends_the_connection() {
    let part = vec![0; 16_384];
    let mut side = Side::server();
    let mut bytes = frame(Kind::Headers, 0, 1, &part);
    (0..4).for_each(|_| bytes.extend(frame(Kind::Continuation, 0, 1, &part)));
    let error = side.feed(&bytes).map_err(ConnectionError::code);
    assert_eq!(error, Err(Code::ENHANCE_YOUR_CALM));
}

#[test]
fn cookie_crumbs_count_as_fields() {
    let fields = [GET, &[("cookie", "a"); 101]].concat();
    let events = Side::server().feed(&headers(1, END, &fields));
    let rejected = "request 1 rejected: too many header fields";
    assert_eq!(events, Ok(vec![rejected.into()]));
}

#[test]
fn a_peer_that_does_not_read_its_acknowledgements_is_not_read() {
    let mut side = Side::server();
    let second = Duration::from_secs(1);
    let pings = frame(Kind::Ping, 0, 0, &[0; 8]).repeat(100);
    let (mut at, mut total) = (0, 0);
    for turn in 0..100 {
        side.connection.begin_turn(second * turn);
        at = 0;
        let step = side.connection.receive(&pings, &mut at, &mut side.decoded);
        match step.expect("few enough per second") {
            Step::OutputFull => break,
            step => assert_eq!(step, Step::NeedMore),
        }
        total += at;
    }
    assert!(at < pings.len() && total <= 2 * H2_CONTROL_BYTES);
    assert!(side.connection.output().len() <= H2_CONTROL_BYTES + 17);
    side.sent();
    let step = side.connection.receive(&pings, &mut at, &mut side.decoded);
    assert_eq!(step, Ok(Step::NeedMore), "it goes on when they were sent");
}

#[test]
fn many_heads_are_spread_over_turns() {
    let mut side = Side::server();
    let heads: Vec<u8> = (0..40).flat_map(|nth| get(2 * nth + 1)).collect();
    let (mut at, mut turns) = (0, Vec::new());
    loop {
        side.connection.begin_turn(Duration::ZERO);
        let mut count = 0;
        let step = loop {
            match side.connection.receive(&heads, &mut at, &mut side.decoded) {
                Ok(Step::Event(_)) => count += 1,
                other => break other,
            }
        };
        turns.push(count);
        if step == Ok(Step::NeedMore) {
            break;
        }
        assert_eq!(step, Ok(Step::NextTurn));
    }
    assert_eq!(
        turns,
        [
            H2_HEADS_PER_TURN,
            H2_HEADS_PER_TURN,
            40 - 2 * H2_HEADS_PER_TURN
        ]
    );
}

#[test]
fn streams_above_the_limit_are_refused_until_some_are_released() {
    let mut side = Side::new(Options {
        streams: 2,
        ..options(Role::Server)
    });
    let settings = frame(Kind::Settings, 0, 0, b"");
    side.feed(&[PREFACE, &settings].concat()).expect("settings");
    side.sent();
    let events = side.feed(&[get(1), get(3), get(5)].concat());
    assert_eq!(events.map(|events| events.len()), Ok(2));
    assert_eq!(side.sent(), ["reset 5 REFUSED_STREAM"]);
    // A reset by the client does not free the place: only the end of the work does.
    let cancel = frame(Kind::Reset, 0, 1, &[0, 0, 0, 8]);
    side.feed(&[cancel, get(7)].concat()).expect("refused");
    assert_eq!(side.sent(), ["reset 7 REFUSED_STREAM"]);
    let key = side.key(1);
    side.connection.release(key);
    let events = side.feed(&get(9));
    assert_eq!(events, Ok(vec!["request 9 GET / End".into()]));
}
