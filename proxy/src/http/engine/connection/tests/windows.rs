//! Flow control, both ways.

use super::*;
use crate::http::engine::Pressure;
use crate::limits::H2_LOCAL_RESETS;

/// A server with a request on stream 1, whose response has begun.
fn responding() -> (Side, StreamKey) {
    let mut side = Side::server();
    side.feed(&get(1)).expect("a request");
    let key = side.key(1);
    side.connection
        .respond(key, Then::More, status)
        .expect("open");
    side.sent();
    (side, key)
}

#[test]
fn data_is_sent_within_the_windows_of_stream_and_connection() {
    let (mut side, key) = responding();
    let body = vec![b'x'; 100_000];
    assert_eq!(
        side.connection.write_data(key, &body, Then::End),
        Ok(65_535)
    );
    let sent = side.sent();
    assert_eq!(
        sent,
        [
            "data 1 16384",
            "data 1 16384",
            "data 1 16384",
            "data 1 16383"
        ]
    );
    assert_eq!(side.connection.write_data(key, &body, Then::End), Ok(0));
    // Both windows are closed: either alone opens nothing.
    assert_eq!(side.feed(&window(1, 40_000)), Ok(vec![]));
    assert_eq!(side.feed(&window(0, 10)), Ok(vec!["writable 1".into()]));
    assert_eq!(
        side.connection.write_data(key, &body[..11], Then::End),
        Ok(10)
    );
    assert_eq!(side.feed(&window(0, 10)), Ok(vec!["writable 1".into()]));
    assert_eq!(side.connection.write_data(key, b"x", Then::End), Ok(1));
    assert_eq!(side.sent(), ["data 1 10", "data 1 1 end"]);
    assert!(side.connection.write_data(key, b"x", Then::End).is_err());
}

#[test]
fn the_end_needs_no_window() {
    let (mut side, key) = responding();
    side.connection
        .write_data(key, &vec![0; 65_535], Then::More)
        .expect("open");
    side.sent();
    assert_eq!(side.connection.write_data(key, b"", Then::End), Ok(0));
    assert_eq!(side.sent(), ["data 1 0 end"]);
}

#[test]
fn streams_share_the_connections_window_in_turn() {
    let mut side = Side::server();
    side.feed(&setting(4, 1 << 20)).expect("settings");
    let keys = [1, 3, 5].map(|id| {
        side.feed(&get(id)).expect("a request");
        let key = side.key(id);
        side.connection
            .respond(key, Then::More, status)
            .expect("open");
        key
    });
    let body = vec![0; 100_000];
    for key in keys {
        side.connection
            .write_data(key, &body, Then::More)
            .expect("open");
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        for event in side.feed(&window(0, 10)).expect("a window") {
            let id: u32 = event
                .trim_start_matches("writable ")
                .parse()
                .expect("an id");
            let key = side.key(id);
            if side.connection.write_data(key, &body, Then::More) == Ok(10) {
                order.push(id);
            }
        }
    }
    // The first one has sent before the others could.
    assert_eq!(order, [3, 5, 1, 3, 5, 1]);
}

#[test]
fn what_a_woken_stream_leaves_of_the_window_wakes_the_next() {
    let mut side = Side::server();
    side.feed(&setting(4, 1 << 20)).expect("settings");
    let keys = [1, 3, 5, 7].map(|id| {
        side.feed(&get(id)).expect("a request");
        let key = side.key(id);
        side.connection
            .respond(key, Then::More, status)
            .expect("open");
        side.connection
            .write_data(key, &vec![0; 65_536], Then::More)
            .expect("open");
        key
    });
    // Room for one frame: one is told.
    assert_eq!(side.feed(&window(0, 100)), Ok(vec!["writable 3".into()]));
    side.connection
        .write_data(keys[1], b"little", Then::End)
        .expect("open");
    assert_eq!(side.feed(b""), Ok(vec!["writable 5".into()]));
    side.connection.release(keys[2]);
    assert_eq!(side.feed(b""), Ok(vec!["writable 7".into()]));
}

#[test]
fn a_stream_that_was_reset_while_it_waited_is_passed_over() {
    let mut side = Side::server();
    side.feed(&setting(4, 1 << 20)).expect("settings");
    for id in [1, 3, 5] {
        side.feed(&get(id)).expect("a request");
        let key = side.key(id);
        side.connection
            .respond(key, Then::More, status)
            .expect("open");
        side.connection
            .write_data(key, &vec![0; 65_536], Then::More)
            .expect("open");
    }
    let cancel = frame(Kind::Reset, 0, 3, &[0, 0, 0, 8]);
    let events = side.feed(&[cancel, window(0, 10)].concat());
    let expected = ["reset 3: reset by the peer: CANCEL", "writable 5"];
    assert_eq!(events, Ok(expected.map(String::from).into()));
    // Also one that was told of a window, and then reset by us before its user could use it.
    let [one, five] = [1, 5].map(|id| side.key(id));
    side.connection.release(five);
    side.connection.reset(one, Code::INTERNAL_ERROR);
    assert_eq!(side.feed(b""), Ok(vec![]));
}

#[test]
fn a_smaller_initial_window_makes_windows_negative() {
    let (mut side, key) = responding();
    side.connection
        .write_data(key, &vec![0; 60_000], Then::More)
        .expect("open");
    side.feed(&[window(0, 100_000), setting(4, 1_000)].concat())
        .expect("settings");
    assert_eq!(side.connection.capacity(key), 0);
    assert_eq!(side.connection.write_data(key, b"abc", Then::More), Ok(0));
    assert_eq!(side.feed(&window(1, 59_000)), Ok(vec![]));
    assert_eq!(side.feed(&window(1, 1)), Ok(vec!["writable 1".into()]));
    assert_eq!(side.connection.capacity(key), 1);
    let events = side.feed(&setting(4, 2_000));
    assert_eq!(events, Ok(vec!["settings".into()]));
    assert_eq!(side.connection.capacity(key), 1_001);
}

#[test]
fn settings_open_the_window_of_a_waiting_stream() {
    let mut side = Side::server();
    side.feed(&[setting(4, 0), get(1)].concat())
        .expect("a request");
    let key = side.key(1);
    side.connection
        .respond(key, Then::More, status)
        .expect("open");
    assert_eq!(side.connection.write_data(key, b"abc", Then::End), Ok(0));
    let events = side.feed(&setting(4, 2));
    assert_eq!(events, Ok(vec!["settings".into(), "writable 1".into()]));
    assert_eq!(side.connection.write_data(key, b"abc", Then::End), Ok(2));
}

#[test]
fn more_data_than_the_window_is_an_error() {
    let mut side = Side::server();
    side.feed(&post(1)).expect("a request");
    let whole = data(1, 0, &[0; 16_384]);
    assert!(side.feed(&whole.repeat(4)).is_ok());
    let error = side.feed(&data(1, 0, b"x")).map_err(ConnectionError::code);
    assert_eq!(error, Err(Code::FLOW_CONTROL_ERROR));
}

#[test]
fn a_client_may_fill_the_default_window_before_it_knows_of_a_smaller_one() {
    let mut side = Side::new(Options {
        stream_window: 1_000,
        ..options(Role::Server)
    });
    let settings = frame(Kind::Settings, 0, 0, b"");
    side.feed(&[PREFACE, &settings, &post(1), &post(3)].concat())
        .expect("settings");
    side.sent();
    let early = data(1, 0, &[0; 16_000]);
    assert!(side.feed(&early).is_ok(), "it is on the way");
    let ack = frame(Kind::Settings, FrameHead::ACK, 0, b"");
    side.feed(&ack).expect("an acknowledgement");
    // Now the window is 15 000 below nothing, for the client too: it opens to the announced size.
    let key = side.key(1);
    side.connection.give_back(key, 16_000);
    assert_eq!(side.sent(), ["window 1 16000"]);
    assert!(side.feed(&data(1, 0, &[0; 1_000])).is_ok());
    // On the other stream, nothing was sent before.
    assert!(side.feed(&data(3, 0, &[0; 1_000])).is_ok());
    let error = side.feed(&data(3, 0, b"x")).map_err(ConnectionError::code);
    assert_eq!(error, Err(Code::FLOW_CONTROL_ERROR));
}

#[test]
fn windows_open_when_half_was_sent_on() {
    let mut side = Side::server();
    side.feed(&post(1)).expect("a request");
    side.feed(&data(1, 0, &[0; 16_384]).repeat(3))
        .expect("within the window");
    let key = side.key(1);
    side.connection.give_back(key, 30_000);
    assert_eq!(side.sent(), [""; 0]);
    side.connection.give_back(key, 2_768);
    assert_eq!(side.sent(), ["window 1 32768"]);
    // Not for a stream that has ended: its bytes only return to the connection.
    side.feed(&data(1, END, b"")).expect("the end");
    side.connection.give_back(key, 16_384);
    assert_eq!(side.sent(), [""; 0]);
}

#[test]
fn the_connections_window_gets_back_what_a_released_stream_held() {
    let mut side = Side::new(Options {
        connection_window: 65_535,
        ..options(Role::Server)
    });
    side.feed(&[PREFACE, &frame(Kind::Settings, 0, 0, b"")].concat())
        .expect("settings");
    for nth in 0..50 {
        let id = 2 * nth + 1;
        let bytes = [post(id), data(id, 0, &[0; 16_384])].concat();
        side.feed(&bytes).expect("within the window");
        let key = side.key(id);
        // Late bytes of a released stream return at once.
        side.connection.release(key);
        side.feed(&data(id, END, &[0; 16_384]))
            .expect("within the window");
    }
    let sent = side.sent();
    assert!(sent.iter().any(|it| it.starts_with("window 0 ")));
    assert!(!sent.iter().any(|it| it.contains("STREAM_CLOSED")));
}

#[test]
fn padding_returns_at_once() {
    let mut side = Side::server();
    side.feed(&post(1)).expect("a request");
    let padded = [&[255][..], b"x", &[0; 255]].concat();
    for _ in 0..400 {
        let events = side.feed(&data(1, FrameHead::PADDED, &padded));
        assert_eq!(events.map(|events| events.len()), Ok(1));
        let key = side.key(1);
        side.connection.give_back(key, 1);
    }
}

/// A server whose connection has this window, and whose client has sent SETTINGS.
fn server_with(connection_window: u32) -> Side {
    let mut side = Side::new(Options {
        connection_window,
        ..options(Role::Server)
    });
    side.feed(&[PREFACE, &frame(Kind::Settings, 0, 0, b"")].concat())
        .expect("settings");
    side.sent();
    side
}

#[test]
fn under_pressure_windows_stay_small_and_streams_are_refused() {
    let mut side = server_with(120_000);
    side.feed(&post(1)).expect("a request");
    side.feed(&data(1, 0, &[0; 16_000]).repeat(4))
        .expect("within the window");
    let key = side.key(1);
    side.connection.set_pressure(Pressure::Soft);
    side.connection.give_back(key, 64_000);
    assert_eq!(side.sent(), ["window 1 14848"]);
    side.connection.set_pressure(Pressure::Hard);
    side.feed(&get(3)).expect("refused");
    assert_eq!(side.sent(), ["reset 3 REFUSED_STREAM"]);
    side.connection.set_pressure(Pressure::None);
    assert_eq!(side.sent(), ["window 0 64000", "window 1 49152"]);
}

#[test]
fn under_pressure_no_connection_is_closed_for_good() {
    let mut side = server_with(120_000);
    side.connection.set_pressure(Pressure::Soft);
    side.feed(&[post(1), post(3)].concat()).expect("requests");
    side.feed(&data(1, 0, &[0; 16_000]).repeat(4))
        .expect("within the window");
    side.feed(&data(3, 0, &[0; 14_000]).repeat(4))
        .expect("within the window");
    let (one, three) = (side.key(1), side.key(3));
    side.connection.give_back(three, 56_000);
    assert_eq!(side.sent(), ["window 0 56000"]);
    side.connection.give_back(one, 64_000);
    assert_eq!(side.sent(), ["window 1 14848"]);
}

#[test]
fn streams_refused_under_pressure_are_not_the_clients_fault() {
    let mut side = Side::server();
    side.connection.set_pressure(Pressure::Hard);
    for nth in 0..2 * H2_LOCAL_RESETS {
        side.feed(&get(2 * nth + 1)).expect("no abuse");
        assert_eq!(side.sent().len(), 1);
    }
}
