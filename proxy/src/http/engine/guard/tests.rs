use std::time::Duration;

use super::{Abuse, Answer, Guard, Peer};
use crate::limits::{
    H2_CONTINUATIONS, H2_FREE_FRAMES, H2_FREE_FRAMES_PER_STREAM, H2_LOCAL_RESETS,
    H2_PINGS_PER_SECOND, H2_RESETS_PER_SECOND, H2_SAMPLE, H2_SETTINGS_PER_FRAME,
    H2_SETTINGS_PER_SECOND,
};

const START: Duration = Duration::from_secs(7);

/// How many of the same event are accepted.
fn accepted(mut event: impl FnMut() -> Result<(), Abuse>) -> (u64, Abuse) {
    let mut count = 0;
    loop {
        match event() {
            Ok(()) => count += 1,
            Err(abuse) => return (count, abuse),
        }
        assert!(count < 100_000, "accepted without limit");
    }
}

fn guard() -> Guard {
    Guard::against(Peer::Client)
}

#[test]
fn each_kind_of_frame_has_its_limit() {
    let mut g = guard();
    let pings = accepted(|| g.ping(START));
    assert_eq!(pings, (H2_PINGS_PER_SECOND.into(), Abuse::Pings));
    let settings = accepted(|| g.settings(1, START));
    assert_eq!(settings, (H2_SETTINGS_PER_SECOND.into(), Abuse::Settings));
    let resets = accepted(|| g.reset(Answer::Begun, START));
    assert_eq!(resets, (H2_RESETS_PER_SECOND.into(), Abuse::Resets));
    let continuations = accepted(|| g.continuation());
    assert_eq!(
        continuations,
        (H2_CONTINUATIONS.into(), Abuse::Continuations)
    );
    let empty = accepted(|| g.empty_data());
    assert_eq!(empty, (H2_FREE_FRAMES, Abuse::EmptyData));
    let updates = accepted(|| g.window_update());
    assert_eq!(updates, (H2_FREE_FRAMES, Abuse::WindowUpdates));
    let priorities = accepted(|| g.priority());
    assert_eq!(priorities, (H2_FREE_FRAMES, Abuse::Priorities));
    let own = accepted(|| g.own_reset());
    assert_eq!(own, (H2_LOCAL_RESETS.into(), Abuse::OwnResets));
}

#[test]
fn a_frame_has_few_settings() {
    assert_eq!(guard().settings(H2_SETTINGS_PER_FRAME, START), Ok(()));
    let many = guard().settings(H2_SETTINGS_PER_FRAME + 1, START);
    assert_eq!(many, Err(Abuse::Settings));
}

#[test]
fn rates_start_over_after_a_second() {
    let mut guard = guard();
    for second in 0..20 {
        let now = START + Duration::from_secs(second);
        for _ in 0..H2_PINGS_PER_SECOND {
            assert_eq!(guard.ping(now), Ok(()));
        }
    }
}

#[test]
fn data_and_streams_raise_the_budget_of_window_updates() {
    let mut guard = guard();
    assert_eq!(guard.opened(), Ok(()));
    (0..1_000).for_each(|_| guard.data_sent());
    let expected = H2_FREE_FRAMES + 1_001 * H2_FREE_FRAMES_PER_STREAM;
    let updates = accepted(|| guard.window_update());
    assert_eq!(updates, (expected, Abuse::WindowUpdates));
}

#[test]
fn every_data_frame_sent_permits_one_ping() {
    let mut guard = guard();
    for _ in 0..10 * H2_PINGS_PER_SECOND {
        guard.data_sent();
        assert_eq!(guard.ping(START), Ok(()));
    }
}

/// Opens streams and resets `cut_short` of every hundred before they are answered; one second for
/// each hundred. Returns how many streams were accepted.
fn accepted_with_resets(cut_short: u32) -> u32 {
    let mut guard = guard();
    for nth in 0..4 * H2_SAMPLE {
        let now = START + Duration::from_secs(u64::from(nth / 100));
        if guard.opened().is_err() {
            return nth;
        }
        let answer = if nth % 100 < cut_short {
            Answer::Missing
        } else {
            Answer::Begun
        };
        assert_eq!(guard.reset(answer, now), Ok(()));
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
fn a_server_may_refuse_streams_and_cause_resets() {
    let mut guard = Guard::against(Peer::Server);
    for _ in 0..10 * H2_LOCAL_RESETS {
        assert_eq!(guard.opened(), Ok(()));
        assert_eq!(guard.reset(Answer::Missing, START), Ok(()));
        assert_eq!(guard.own_reset(), Ok(()));
    }
}

#[test]
fn a_client_with_many_streams_may_send_empty_data_and_cause_some_resets() {
    let mut guard = guard();
    for nth in 0..20 * H2_SAMPLE {
        assert_eq!(guard.opened(), Ok(()));
        if nth % 10 == 0 {
            assert_eq!(guard.empty_data(), Ok(()));
            assert_eq!(guard.own_reset(), Ok(()));
        }
    }
    let mut opened = 0;
    let abuse = loop {
        if let Err(abuse) = guard.opened() {
            break abuse;
        }
        opened += 1;
        assert_eq!(guard.own_reset(), Ok(()));
    };
    assert!(opened <= H2_SAMPLE, "{opened}");
    assert_eq!(abuse, Abuse::OwnResets);
}

#[test]
fn a_server_with_many_streams_may_send_empty_data() {
    let mut guard = Guard::against(Peer::Server);
    for _ in 0..20 * H2_SAMPLE {
        assert_eq!(guard.opened(), Ok(()));
        assert_eq!(guard.empty_data(), Ok(()));
    }
}
