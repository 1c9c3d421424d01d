use std::time::Duration;

use super::{Abuse, Guard, Peer};
use crate::http::h2::frame::PREFACE;
use crate::limits::{
    H2_CONTINUATIONS, H2_EMPTY_DATA, H2_FREE_FRAMES, H2_FREE_FRAMES_PER_STREAM, H2_LOCAL_RESETS,
    H2_PINGS_PER_SECOND, H2_RESETS_PER_SECOND, H2_SAMPLE, H2_SETTINGS_PER_SECOND,
};

const START: Duration = Duration::from_secs(7);

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn reset(stream: u32, code: u8) -> Vec<u8> {
    frame(3, 0, stream, &[0, 0, 0, code])
}

fn guard_after_preface() -> Guard {
    let mut guard = Guard::against(Peer::Client);
    assert_eq!(guard.received(PREFACE, START), Ok(()));
    guard
}

/// How many of the same frame are accepted.
fn accepted_frames(guard: &mut Guard, bytes: &[u8]) -> (u64, Abuse) {
    let mut count = 0;
    loop {
        match guard.received(bytes, START) {
            Ok(()) => count += 1,
            Err(abuse) => return (count, abuse),
        }
        assert!(count < 100_000, "accepted without limit");
    }
}

#[test]
fn frames_that_carry_no_data_are_rate_limited() {
    let headers = frame(1, 0, 1, b"");
    for (first, repeated, count, abuse) in [
        (
            vec![],
            frame(6, 0, 0, &[0; 8]),
            u64::from(H2_PINGS_PER_SECOND),
            Abuse::Pings,
        ),
        (
            vec![],
            frame(4, 0, 0, b""),
            u64::from(H2_SETTINGS_PER_SECOND),
            Abuse::Settings,
        ),
        (
            vec![],
            frame(3, 0, 1, &[0; 4]),
            u64::from(H2_RESETS_PER_SECOND),
            Abuse::Resets,
        ),
        (
            headers,
            frame(9, 0, 1, b"x"),
            u64::from(H2_CONTINUATIONS),
            Abuse::Continuations,
        ),
        (
            vec![],
            frame(0, 0, 1, b""),
            u64::from(H2_EMPTY_DATA),
            Abuse::EmptyData,
        ),
        (
            vec![],
            frame(0, 8, 1, b"\x02\0\0"),
            u64::from(H2_EMPTY_DATA),
            Abuse::EmptyData,
        ),
        (
            vec![],
            frame(8, 0, 0, &[0, 0, 0, 1]),
            H2_FREE_FRAMES,
            Abuse::WindowUpdates,
        ),
        (
            vec![],
            frame(2, 0, 3, &[0; 5]),
            H2_FREE_FRAMES,
            Abuse::Priorities,
        ),
    ] {
        let mut guard = guard_after_preface();
        assert_eq!(guard.received(&first, START), Ok(()));
        assert_eq!(accepted_frames(&mut guard, &repeated), (count, abuse));
    }
}

#[test]
fn rates_start_over_after_a_second() {
    let mut guard = guard_after_preface();
    let ping = frame(6, 0, 0, &[0; 8]);
    for second in 0..20 {
        let now = START + Duration::from_secs(second);
        for _ in 0..H2_PINGS_PER_SECOND {
            assert_eq!(guard.received(&ping, now), Ok(()));
        }
    }
}

#[test]
fn data_and_streams_raise_the_budget_of_window_updates() {
    let mut guard = guard_after_preface();
    let update = frame(8, 0, 0, &[0, 0, 0, 1]);
    assert_eq!(guard.received(&frame(1, 5, 1, b""), START), Ok(()));
    for _ in 0..1_000 {
        assert_eq!(guard.sent(&frame(0, 0, 1, b"x")), Ok(()));
    }
    let expected = H2_FREE_FRAMES + 1_001 * H2_FREE_FRAMES_PER_STREAM;
    assert_eq!(
        accepted_frames(&mut guard, &update),
        (expected, Abuse::WindowUpdates)
    );
}

/// Opens streams and resets `cut_short` of every hundred before they are answered; one second for
/// each hundred. Returns how many streams were accepted.
fn accepted_with_resets(cut_short: u32) -> u32 {
    let mut guard = guard_after_preface();
    for nth in 0..4 * H2_SAMPLE {
        let stream = nth * 2 + 1;
        let now = START + Duration::from_secs(u64::from(nth / 100));
        if guard.received(&frame(1, 5, stream, b""), now).is_err() {
            return nth;
        }
        if nth % 100 >= cut_short {
            assert_eq!(guard.sent(&frame(0, 1, stream, b"done")), Ok(()));
        }
        // A reset after the response wastes no work.
        assert_eq!(guard.received(&frame(3, 0, stream, &[0; 4]), now), Ok(()));
    }
    4 * H2_SAMPLE
}

#[test]
fn resets_of_more_than_half_of_the_streams_are_abuse() {
    assert_eq!(accepted_with_resets(0), 4 * H2_SAMPLE);
    assert_eq!(accepted_with_resets(49), 4 * H2_SAMPLE);
    assert!(accepted_with_resets(51) <= H2_SAMPLE);
}

#[test]
fn resets_caused_by_the_peer_are_limited_per_connection() {
    let mut guard = guard_after_preface();
    let mut count = 0;
    while guard.sent(&reset(1, 8)).is_ok() {
        count += 1;
    }
    assert_eq!(count, H2_LOCAL_RESETS);
}

#[test]
fn a_header_block_lasts_until_its_last_frame() {
    let mut guard = guard_after_preface();
    assert!(!guard.is_within_head());
    assert_eq!(guard.received(&frame(1, 0, 1, b"x"), START), Ok(()));
    assert!(guard.is_within_head());
    assert_eq!(guard.received(&frame(9, 4, 1, b"x"), START), Ok(()));
    assert!(!guard.is_within_head());
}

#[test]
fn streams_refused_by_a_server_do_not_count() {
    let mut guard = Guard::against(Peer::Server);
    assert!(!guard.has_settings());
    assert_eq!(guard.received(&frame(4, 0, 0, b""), START), Ok(()));
    assert!(guard.has_settings());
    for stream in 0..10 * H2_RESETS_PER_SECOND {
        let refused = frame(3, 0, stream * 2 + 1, &[0, 0, 0, 7]);
        assert_eq!(guard.received(&refused, START), Ok(()));
    }
}

#[test]
fn every_data_frame_sent_permits_one_ping() {
    let mut guard = guard_after_preface();
    let ping = frame(6, 0, 0, &[0; 8]);
    for _ in 0..10 * H2_PINGS_PER_SECOND {
        guard.sent(&frame(0, 0, 1, b"x")).expect("our own");
        assert_eq!(guard.received(&ping, START), Ok(()));
    }
    // However much was sent, further PINGs are not permitted by it.
    let (count, abuse) = accepted_frames(&mut guard, &ping);
    assert_eq!(
        (count, abuse),
        (u64::from(H2_PINGS_PER_SECOND), Abuse::Pings)
    );
}

#[test]
fn a_frame_lasts_until_its_last_byte() {
    let frames = [frame(0, 8, 1, &[2, 0, 0, 0]), frame(6, 0, 0, &[0; 8])].concat();
    let mut guard = guard_after_preface();
    for (number, byte) in frames.iter().enumerate() {
        assert_eq!(guard.received(&[*byte], START), Ok(()));
        let ends = [12, frames.len() - 1].contains(&number);
        assert_eq!(guard.is_within_frame(), !ends, "{number}");
    }
}

#[test]
fn a_client_with_many_streams_may_send_empty_data_and_cause_some_resets() {
    let mut guard = guard_after_preface();
    for nth in 0..20 * H2_SAMPLE {
        let stream = nth * 2 + 1;
        assert_eq!(guard.received(&frame(1, 4, stream, b""), START), Ok(()));
        if nth % 10 == 0 {
            assert_eq!(guard.received(&frame(0, 0, stream, b""), START), Ok(()));
            assert_eq!(guard.sent(&reset(stream, 1)), Ok(()));
        }
    }
    let first = 20 * H2_SAMPLE;
    let mut nth = first;
    let abuse = loop {
        let stream = nth * 2 + 1;
        if let Err(abuse) = guard.received(&frame(1, 5, stream, b""), START) {
            break abuse;
        }
        assert_eq!(guard.sent(&reset(stream, 1)), Ok(()));
        nth += 1;
    };
    assert!(nth - first <= H2_SAMPLE, "{nth}");
    assert_eq!(abuse, Abuse::OwnResets);
}

#[test]
fn a_server_with_many_streams_may_send_empty_data() {
    let mut guard = Guard::against(Peer::Server);
    assert_eq!(guard.sent(PREFACE), Ok(()));
    for nth in 0..20 * H2_SAMPLE {
        let stream = nth * 2 + 1;
        assert_eq!(guard.sent(&frame(1, 5, stream, b"")), Ok(()));
        if nth % 10 == 0 {
            assert_eq!(guard.received(&frame(0, 0, stream, b""), START), Ok(()));
        }
    }
}

#[test]
fn early_responses_are_not_resets_that_the_peer_caused() {
    let mut guard = guard_after_preface();
    for nth in 0..10 * H2_LOCAL_RESETS {
        // Written in two pieces, wherever they are divided.
        let bytes = reset(nth * 2 + 1, 0);
        let (one, other) = bytes.split_at(nth as usize % bytes.len());
        assert_eq!(guard.sent(one), Ok(()));
        assert_eq!(guard.sent(other), Ok(()));
    }
}
