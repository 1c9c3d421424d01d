//! How connections end, and how streams do.

use super::*;
use crate::limits::H2_RESET_MEMORY;

fn go_away(last: u32, code: Code) -> Vec<u8> {
    let payload = [last.to_be_bytes(), code.0.to_be_bytes()].concat();
    frame(Kind::GoAway, 0, 0, &payload)
}

#[test]
fn a_drain_serves_what_is_on_the_way() {
    let mut side = Side::server();
    side.feed(&get(1)).expect("a request");
    side.connection.shut_down();
    side.connection.shut_down();
    assert_eq!(side.sent(), ["goaway 2147483647 NO_ERROR", "ping"]);
    // Sent before the client has read it.
    let events = side.feed(&get(3));
    assert_eq!(events, Ok(vec!["request 3 GET / End".into()]));
    let ack = frame(
        Kind::Ping,
        FrameHead::ACK,
        0,
        &super::super::control::DRAIN_PING,
    );
    side.feed(&ack).expect("an acknowledgement");
    assert_eq!(side.sent(), ["goaway 3 NO_ERROR"]);
    // Later ones are ignored, and their fields still reach the table.
    let events = side.feed(&[post(5), data(5, END, b"x")].concat());
    assert_eq!(events, Ok(vec![]));
    assert_eq!(side.sent(), [""; 0]);
    for id in [1, 3] {
        assert!(!side.connection.is_finished());
        let key = side.key(id);
        let sent = side.connection.respond(key, Then::End, status);
        assert_eq!(sent, Ok(()));
        side.connection.release(key);
    }
    assert!(side.connection.is_finished());
    assert_eq!(side.sent(), ["headers 1 end", "headers 3 end"]);
}

#[test]
fn requests_that_were_not_sent_are_dropped_and_the_goaway_behind_them_is_not() {
    let mut side = Side::client();
    let key = side.open("GET", Then::End);
    side.connection.fail(Code::ENHANCE_YOUR_CALM);
    assert!(side.connection.is_unsent(key));
    side.connection.drop_unsent();
    assert_eq!(side.sent(), ["goaway 0 ENHANCE_YOUR_CALM"]);
}

#[test]
fn streams_above_the_last_of_a_goaway_are_unprocessed() {
    let mut side = Side::client();
    let keys: Vec<_> = (0..3).map(|_| side.open("GET", Then::End)).collect();
    let events = side.feed(&go_away(1, Code::NO_ERROR));
    let expected = [
        "goaway 1 NO_ERROR",
        "reset 3: not processed by the peer",
        "reset 5: not processed by the peer",
    ];
    assert_eq!(events, Ok(expected.map(String::from).into()));
    assert!(side.connection.is_leaving() && !side.connection.has_room());
    // A server that answers them all the same harms no other stream, before and after they are released.
    let late = headers(3, END, &[(":status", "200")]);
    assert_eq!(side.feed(&late), Ok(vec![]));
    keys.iter()
        .skip(1)
        .for_each(|key| side.connection.release(*key));
    let late = headers(5, END, &[(":status", "200")]);
    assert_eq!(side.feed(&late), Ok(vec![]));
    // The first one continues. A second GOAWAY cannot raise the last stream.
    let head = headers(1, END, &[(":status", "200")]);
    let events = side.feed(&[go_away(9, Code::NO_ERROR), head].concat());
    let expected = ["goaway 1 NO_ERROR", "response 1 200 End"];
    assert_eq!(events, Ok(expected.map(String::from).into()));
}

#[test]
fn the_search_for_unprocessed_streams_goes_on_where_it_was() {
    let mut side = Side::client();
    for _ in 0..3 {
        side.open("GET", Then::End);
    }
    let bytes = go_away(1, Code::NO_ERROR);
    let mut at = 0;
    for above in [Some(1), Some(3), Some(5), None] {
        let step = side.connection.receive(&bytes, &mut at, &mut side.decoded);
        assert!(step.is_ok());
        assert_eq!(side.connection.unprocessed_above, above);
    }
}

#[test]
fn a_refused_stream_is_unprocessed() {
    let mut side = Side::client();
    side.open("GET", Then::End);
    let refused = frame(Kind::Reset, 0, 1, &[0, 0, 0, 7]);
    let events = side.feed(&refused);
    assert_eq!(
        events,
        Ok(vec!["reset 1: not processed by the peer".into()])
    );
}

#[test]
fn the_peers_limit_of_streams_is_kept() {
    let mut side = Side::client();
    side.feed(&setting(3, 2)).expect("settings");
    let one = side.open("GET", Then::End);
    side.open("GET", Then::End);
    assert!(!side.connection.has_room());
    let head = headers(1, END, &[(":status", "200")]);
    side.feed(&head).expect("a response");
    side.connection.release(one);
    assert!(side.connection.has_room());
}

#[test]
fn a_release_resets_what_has_not_ended() {
    let mut side = Side::server();
    side.feed(&[post(1), post(3), get(5)].concat())
        .expect("requests");
    let [one, three, five] = [1, 3, 5].map(|id| side.key(id));
    // Answered before the body has arrived.
    side.connection
        .respond(one, Then::End, status)
        .expect("open");
    side.connection.release(one);
    side.connection.release(three);
    side.connection
        .respond(five, Then::End, status)
        .expect("open");
    side.connection.release(five);
    side.connection.release(five);
    let expected = [
        "headers 1 end",
        "reset 1 NO_ERROR",
        "reset 3 CANCEL",
        "headers 5 end",
    ];
    assert_eq!(side.sent(), expected);
    assert!(side.connection.respond(five, Then::End, status).is_err());
}

#[test]
fn nothing_is_sent_on_a_stream_that_was_reset() {
    let mut side = Side::server();
    side.feed(&[get(1), frame(Kind::Reset, 0, 1, &[0, 0, 0, 8])].concat())
        .expect("a reset");
    let key = side.key(1);
    assert!(side.connection.respond(key, Then::More, status).is_err());
    side.connection.reset(key, Code::INTERNAL_ERROR);
    side.connection.release(key);
    assert_eq!(side.sent(), [""; 0]);
}

#[test]
fn nothing_happens_after_a_failure() {
    let mut side = Side::server();
    side.feed(&get(1)).expect("a request");
    let key = side.key(1);
    side.connection.fail(Code::INTERNAL_ERROR);
    side.connection.fail(Code::NO_ERROR);
    assert!(side.connection.respond(key, Then::End, status).is_err());
    side.connection.release(key);
    side.connection.ping();
    side.connection.shut_down();
    assert_eq!(side.sent(), ["goaway 1 INTERNAL_ERROR"]);
    assert_eq!(side.feed(&get(3)), Ok(vec![]));
}

#[test]
fn a_ping_is_answered() {
    let mut server = Side::server();
    let mut client = Side::client();
    client.connection.ping();
    let bytes = std::mem::take(client.connection.output());
    server.feed(&bytes).expect("a PING");
    let bytes = std::mem::take(server.connection.output());
    assert_eq!(client.feed(&bytes), Ok(vec!["pong".into()]));
}

#[test]
fn a_long_head_takes_several_frames() {
    let mut client = Side::new(options(Role::Client));
    client
        .feed(&frame(Kind::Settings, 0, 0, b""))
        .expect("settings");
    client.sent();
    let long = "y".repeat(20_000);
    let opened = client
        .connection
        .open(RequestKind::Other, Then::End, |writer| {
            write_request(writer, "GET");
            writer.field(KnownHeader::Other, b"x-long", long.as_bytes());
        });
    assert!(opened.is_some());
    let bytes = std::mem::take(client.connection.output());
    assert_eq!(frames(&bytes), ["headers 1 end", "Continuation"]);
    let mut server = Side::server();
    let events = server.feed(&bytes);
    assert_eq!(events, Ok(vec!["request 1 GET / End".into()]));
    assert!(server.decoded.bytes.len() > 20_000);
}

#[test]
fn an_idle_connection_is_small() {
    assert!(
        size_of::<Connection>() <= 712,
        "{}",
        size_of::<Connection>()
    );
    let (mut client, mut server) = (Side::client(), Side::server());
    let key = client.open("GET", Then::End);
    let bytes = std::mem::take(client.connection.output());
    server.feed(&bytes).expect("a request");
    let own = server.key(1);
    server
        .connection
        .respond(own, Then::End, status)
        .expect("open");
    server.connection.release(own);
    let bytes = std::mem::take(server.connection.output());
    client.feed(&bytes).expect("a response");
    client.connection.release(key);
    for side in [&mut client, &mut server] {
        side.connection.release_memory();
        assert_eq!(side.connection.output().capacity(), 0);
    }
    // It works on: the next block says that the table was emptied.
    client.open("GET", Then::End);
    let bytes = std::mem::take(client.connection.output());
    let events = server.feed(&bytes);
    assert_eq!(events, Ok(vec!["request 3 GET / End".into()]));
}

#[test]
fn late_answers_to_any_number_of_cancelled_requests_are_ignored() {
    let mut side = Side::client();
    let count = 4 * u32::try_from(H2_RESET_MEMORY).expect("few");
    for _ in 0..count {
        let key = side.open("GET", Then::End);
        side.connection.release(key);
    }
    side.sent();
    for nth in 0..count {
        let id = 2 * nth + 1;
        let late = [
            headers(id, 0, &[(":status", "200")]),
            data(id, 0, b"late"),
            headers(id, END, &[("x-late", "1")]),
        ];
        assert_eq!(side.feed(&late.concat()), Ok(vec![]), "{id}");
    }
    assert_eq!(side.sent(), [""; 0]);
    // A stream that was never opened is still an error.
    let error = side.feed(&headers(2 * count + 1, END, &[(":status", "200")]));
    assert_eq!(
        error.map_err(ConnectionError::code),
        Err(Code::PROTOCOL_ERROR)
    );
}
