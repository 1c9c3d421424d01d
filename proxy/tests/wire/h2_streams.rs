//! Streams and connections of HTTP/2, frame by frame: who is cancelled, refused, retried, held and
//! drained.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::metrics::count;
use crate::support::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, Peer, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, before_frames, block, frame, get, post, request,
};
use crate::support::{
    Driver, Gate, Gateway, Origin, PATIENCE, Reply, Signal, gateway, ok, on_both_drivers, origin,
    pattern, raw, status,
};

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

on_both_drivers! {
    fn streams_share_a_connection(driver) {
        let gate = Gate::default();
        let reply = Reply::at_once().waits_for(&gate).sends("HTTP/1.1 204 No\r\n\r\n");
        let (origin, gateway) = start(driver, reply);
        let mut peer = Peer::client(gateway.address());
        for nth in 0..100 {
            peer.sends(get(nth * 2 + 1));
        }
        origin.waits_for_requests(100);
        gate.open();
        let mut answered: Vec<_> = (0..100).map(|_| peer.next_of(HEADERS).stream).collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..100).map(|nth| nth * 2 + 1).collect::<Vec<_>>());
    }

    fn streams_that_come_at_once_are_all_served(driver) {
        let (_origin, gateway) = start(driver, status(204));
        let mut peer = Peer::client(gateway.address());
        peer.sends((0..100).flat_map(|nth| get(nth * 2 + 1)).collect::<Vec<_>>());
        let mut answered: Vec<_> = (0..100).map(|_| peer.next_of(HEADERS).stream).collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..100).map(|nth| nth * 2 + 1).collect::<Vec<_>>());
    }

    fn one_stream_too_many_is_refused(driver) {
        let (origin, gateway) = start(driver, Reply::at_once().stalls());
        let mut peer = Peer::client(gateway.address());
        for nth in 0..101 {
            peer.sends(get(nth * 2 + 1));
        }
        let refused = peer.next_of(RST_STREAM);
        assert_eq!((refused.stream, refused.code()), (201, Some(REFUSED_STREAM)));
        assert_eq!(origin.waits_for_requests(100).len(), 100);
    }

    fn a_response_with_fields_of_a_request_is_malformed(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut server: Option<Peer> = None;
        for field in [&[0x84][..], &[0x82], &[0x86], b"\x41\x06b.test", b"\xbe", b"\x00\x09:protocol\x01a"] {
            let mut over_h1 = gateway.client();
            over_h1.posts("/", "");
            let server = server.get_or_insert_with(|| Peer::server(&listener));
            let stream = server.next_of(HEADERS).stream;
            server.sends(frame(HEADERS, END_HEADERS | END_STREAM, stream, &[&[0x88], field].concat()));
            over_h1.expects(502);
            let mut over_h2 = Peer::client(gateway.address());
            over_h2.sends(post(1)).sends(frame(DATA, END_STREAM, 1, b""));
            let stream = server.next_of(HEADERS).stream;
            server.sends(frame(HEADERS, END_HEADERS | END_STREAM, stream, &[&[0x88], field].concat()));
            assert_eq!(over_h2.next_of(HEADERS).status(), Some(502), "{field:x?}");
            // The connection lives on.
            let mut client = gateway.client();
            client.posts("/", "");
            let stream = server.next_of(HEADERS).stream;
            server.sends(frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88]));
            client.expects(200);
        }
    }

    fn streams_that_wait_for_their_bodies_hold_no_buffers(driver) {
        let (listener, gateway) = before_frames_inspected(driver);
        let mut client = Peer::client(gateway.address());
        let streams = || (1..).step_by(2).take(100);
        client.sends(streams().flat_map(post).collect::<Vec<_>>());
        let mut server = Peer::server(&listener);
        streams().for_each(|_| drop(server.next_of(HEADERS)));
        waits_for_buffers_of_connections_alone(&gateway);
        // Nor do those that wait for more of one.
        client.sends(streams().flat_map(|stream| frame(DATA, 0, stream, b"x")).collect::<Vec<_>>());
        streams().for_each(|_| assert_eq!(server.next_of(DATA).payload, b"x"));
        waits_for_buffers_of_connections_alone(&gateway);
    }

    fn a_reset_cancels_the_work_upstream(driver) {
        let (origin, gateway) = start(driver, Reply::at_once().stalls());
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        origin.waits_for_requests(1);
        peer.sends(frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()));
        origin.waits_for_hangup();
        // The connection lives on.
        origin.now_replies(status(204));
        peer.sends(get(3));
        assert_eq!(peer.next_of(HEADERS).status(), Some(204));
    }

    fn a_reset_ends_a_response_that_is_under_way(driver) {
        let reply = Reply::at_once()
            .sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
            .stalls();
        let (origin, gateway) = start(driver, reply);
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        peer.next_of(DATA);
        peer.sends(frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()));
        origin.waits_for_hangup();
    }

    fn a_client_that_leaves_takes_its_streams_along(driver) {
        let (origin, gateway) = start(driver, Reply::at_once().stalls());
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        origin.waits_for_requests(1);
        drop(peer);
        origin.waits_for_hangup();
    }

    fn an_answer_before_the_body_ends_the_stream_without_blame(driver) {
        let reply = Reply::at_once().sends("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n").closes();
        let (_origin, gateway) = start(driver, reply);
        let mut peer = Peer::client(gateway.address());
        peer.sends(post(1)).sends(frame(DATA, 0, 1, b"more is to come"));
        let head = peer.next_of(HEADERS);
        assert_eq!((head.status(), head.flags & END_STREAM), (Some(403), END_STREAM));
        assert_eq!(peer.next_of(RST_STREAM).code(), Some(NO_ERROR));
        peer.sends(get(3));
        assert_eq!(peer.next_of(HEADERS).stream, 3);
    }

    fn a_server_that_has_answered_may_stop_the_request(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut peer = Peer::client(gateway.address());
        peer.sends(post(1)).sends(frame(DATA, 0, 1, b"more is to come"));
        let mut server = Peer::server(&listener);
        let stream = server.next_of(HEADERS).stream;
        server.sends([
            frame(HEADERS, END_HEADERS, stream, &[0x88]),
            frame(DATA, END_STREAM, stream, b"enough"),
            frame(RST_STREAM, 0, stream, &NO_ERROR.to_be_bytes()),
        ].concat());
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        let mut data = peer.next_of(DATA);
        assert_eq!(data.payload, b"enough");
        while data.flags & END_STREAM == 0 {
            data = peer.next_of(DATA);
        }
    }

    fn a_response_that_is_too_short_is_no_better_for_a_friendly_reset(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        let mut server = Peer::server(&listener);
        let stream = server.next_of(HEADERS).stream;
        let head = [&[0x88], &block(&[("content-length", "100")])[..]].concat();
        server.sends([
            frame(HEADERS, END_HEADERS, stream, &head),
            frame(DATA, 0, stream, b"short"),
            frame(RST_STREAM, 0, stream, &NO_ERROR.to_be_bytes()),
        ].concat());
        let end = loop {
            let frame = peer.next().expect("a frame of the stream");
            if frame.kind == RST_STREAM || frame.flags & END_STREAM != 0 && frame.kind != SETTINGS {
                break frame;
            }
        };
        assert_eq!(end.kind, RST_STREAM);
    }

    fn a_response_that_breaks_off_is_not_taken_for_whole(driver) {
        let reply = Reply::at_once()
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
            .closes();
        let (origin, gateway) = start(driver, reply);
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        let reset = peer.next_of(RST_STREAM);
        assert_eq!((reset.stream, reset.code()), (1, Some(INTERNAL_ERROR)));
        // Only that stream is broken.
        origin.now_replies(status(204));
        peer.sends(get(3));
        let head = peer.next_of(HEADERS);
        assert_eq!(head.flags & END_STREAM, END_STREAM);
    }

    fn a_closed_window_holds_a_response_for_so_long(driver) {
        let origin = origin().replies(ok("held back"));
        let gateway = gateway(driver)
            .routes_to(&origin)
            .limits("writeIdleTimeout: 300ms")
            .start();
        let mut peer = Peer::silent(gateway.address());
        peer.sends(crate::support::frames::PREFACE)
            .sends(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]))
            .sends(get(1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        assert_eq!(peer.next_of(RST_STREAM).stream, 1);
    }

    fn a_window_that_opens_lets_a_response_through(driver) {
        let body = pattern(200_000);
        let (_origin, gateway) = start(driver, ok(&body));
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        let mut read = Vec::new();
        while read.len() < body.len() {
            let data = peer.next_of(DATA).payload;
            let count = u32::try_from(data.len()).expect("a frame");
            read.extend(data);
            if count > 0 {
                peer.sends(frame(WINDOW_UPDATE, 0, 0, &count.to_be_bytes()));
                peer.sends(frame(WINDOW_UPDATE, 0, 1, &count.to_be_bytes()));
            }
        }
        crate::support::same_bytes(&read, &body);
    }

    fn a_body_is_taken_only_as_fast_as_the_origin_reads(driver) {
        let gate = Gate::default();
        let reply = Reply::at_once().waits_for(&gate).reads_the_body();
        let (origin, gateway) = start(driver, reply.sends("HTTP/1.1 204 No\r\n\r\n"));
        let mut peer = Peer::client(gateway.address());
        peer.settles().sends(post(1));
        // The window of a stream is 64 KiB; nothing gives it back until bytes went on.
        for _ in 0..4 {
            peer.sends(frame(DATA, 0, 1, &[0; 16 * 1024]));
        }
        origin.waits_for_requests(1);
        gate.open();
        let update = loop {
            let update = peer.next_of(WINDOW_UPDATE);
            if update.stream == 1 {
                break update;
            }
        };
        assert!(!update.payload.is_empty());
        peer.sends(frame(DATA, END_STREAM, 1, b""));
        assert_eq!(peer.next_of(HEADERS).status(), Some(204));
    }

    fn a_head_that_does_not_end_is_late(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("headTimeout: 300ms").start();
        let mut peer = Peer::client(gateway.address());
        peer.sends(frame(HEADERS, END_STREAM, 1, &block(&request("GET"))));
        assert_eq!(peer.expects_goaway(), NO_ERROR);
        let mut silent = Peer::silent(gateway.address());
        silent.sends(&crate::support::frames::PREFACE[..10]);
        while silent.next().is_some() {}
    }

    fn an_idle_connection_is_told_and_closed(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .routes_to(&origin)
            .limits("keepAliveTimeout: 1500ms")
            .start();
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        assert_eq!(peer.expects_goaway(), NO_ERROR);
    }

    fn a_parked_connection_wakes_up(driver) {
        let (_origin, gateway) = start(driver, status(204));
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(204));
        // Longer than a connection without streams keeps its buffer.
        std::thread::park_timeout(Duration::from_millis(1_500));
        peer.sends(get(3));
        assert_eq!(peer.next_of(HEADERS).stream, 3);
    }

    fn a_connection_ends_after_its_requests(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .routes_to(&origin)
            .limits("requestsPerConnection: 2")
            .start();
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1)).sends(get(3));
        assert_two_goaways(&mut peer, 3);
    }

    fn a_drain_tells_twice_and_loses_nothing(driver) {
        let gate = Gate::default();
        let reply = Reply::at_once().waits_for(&gate).sends("HTTP/1.1 204 No\r\n\r\n");
        let (origin, mut gateway) = start(driver, reply);
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        origin.waits_for_requests(1);
        gateway.signal(Signal::Int);
        let first = peer.next_of(GOAWAY);
        assert_eq!((first.last_stream(), first.code()), (u32::MAX >> 1, Some(NO_ERROR)));
        // It crosses the GOAWAY, and is served.
        peer.sends(get(3));
        origin.waits_for_requests(2);
        let ping = next_ping(&mut peer);
        peer.sends(frame(PING, ACK, 0, &ping.payload));
        let second = peer.next_of(GOAWAY);
        assert_eq!((second.last_stream(), second.code()), (3, Some(NO_ERROR)));
        gate.open();
        let mut answered = [peer.next_of(HEADERS).stream, peer.next_of(HEADERS).stream];
        answered.sort_unstable();
        assert_eq!(answered, [1, 3]);
        while peer.next().is_some() {}
        assert!(gateway.waits_for_exit().success());
    }

    fn a_drain_waits_for_a_silent_peer_until_its_deadline(driver) {
        let origin = origin();
        let mut gateway = gateway(driver)
            .routes_to(&origin)
            .argument("--drain-deadline=2s")
            .start();
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        let begun = Instant::now();
        gateway.signal(Signal::Int);
        assert_eq!(peer.next_of(GOAWAY).last_stream(), u32::MAX >> 1);
        next_ping(&mut peer);
        // The second GOAWAY is for whoever answers.
        while let Some(frame) = peer.next() {
            assert_ne!(frame.kind, GOAWAY);
        }
        assert!(begun.elapsed() >= Duration::from_secs(2), "after {:?}", begun.elapsed());
        assert!(gateway.waits_for_exit().success());
        gateway.waits_for_log("resetting the remaining connections");
    }

    fn a_refused_stream_is_sent_again(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut client = gateway.client();
        // In one piece, so that all of it is there to be sent again.
        client.sends("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx");
        let mut server = Peer::server(&listener);
        let first = server.next_of(HEADERS).stream;
        server.sends(frame(RST_STREAM, 0, first, &REFUSED_STREAM.to_be_bytes()));
        let second = server.next_of(HEADERS).stream;
        assert!(second > first);
        server.sends(answer(second, 0x89));
        client.expects(204);
    }

    fn what_a_goaway_leaves_out_is_sent_again_elsewhere(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut client = gateway.client();
        client.gets("/");
        let mut server = Peer::server(&listener);
        server.next_of(HEADERS);
        server.sends(frame(GOAWAY, 0, 0, &[0; 8]));
        let mut other = Peer::server(&listener);
        let stream = other.next_of(HEADERS).stream;
        other.sends(answer(stream, 0x89));
        client.expects(204);
    }

    fn streams_within_a_goaway_are_finished(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut client = gateway.client();
        client.gets("/");
        let mut server = Peer::server(&listener);
        let stream = server.next_of(HEADERS).stream;
        let last = [stream.to_be_bytes(), [0; 4]].concat();
        server.sends(frame(GOAWAY, 0, 0, &last)).sends(answer(stream, 0x89));
        client.expects(204);
        client.gets("/");
        let mut other = Peer::server(&listener);
        let stream = other.next_of(HEADERS).stream;
        other.sends(answer(stream, 0x89));
        client.expects(204);
    }

    fn a_second_connection_is_made_at_the_origins_limit(driver) {
        let (listener, gateway) = before_frames(driver);
        let one_stream = [0, 3, 0, 0, 0, 1];
        let (mut first, mut second) = (gateway.client(), gateway.client());
        first.gets("/first");
        let mut server = Peer::server_saying(&listener, &one_stream);
        let on_first = server.next_of(HEADERS).stream;
        second.gets("/second");
        let mut other = Peer::server_saying(&listener, &one_stream);
        let on_second = other.next_of(HEADERS).stream;
        other.sends(answer(on_second, 0x89));
        second.expects(204);
        server.sends(answer(on_first, 0x89));
        first.expects(204);
    }

    fn requests_that_wait_for_a_connection_together_are_spread(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut clients: Vec<_> = (0..3).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.gets("/");
        }
        let mut servers = Vec::new();
        for _ in 0..3 {
            // One stream a connection.
            let mut server = Peer::server_saying(&listener, &[0, 3, 0, 0, 0, 1]);
            let stream = server.next_of(HEADERS).stream;
            servers.push((server, stream));
        }
        for (server, stream) in &mut servers {
            server.sends(answer(*stream, 0x89));
        }
        for client in &mut clients {
            client.expects(204);
        }
    }

    fn an_origin_of_another_protocol_is_a_bad_gateway(driver) {
        let origin = origin().on_accept(Reply::at_once().sends("HTTP/1.1 400 Bad\r\n\r\n").closes());
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .speaks("origin", "H2C")
            .rule("{backendRefs: [{@origin}]}")
            .start();
        let response = gateway.client().gets("/").reads();
        assert!([502, 503].contains(&response.status()), "{response}");
    }

    fn a_client_that_leaves_resets_the_stream_upstream(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut client = gateway.client();
        client.gets("/");
        let mut server = Peer::server(&listener);
        let stream = server.next_of(HEADERS).stream;
        drop(client);
        let reset = server.next_of(RST_STREAM);
        assert_eq!((reset.stream, reset.code()), (stream, Some(CANCEL)));
    }

    fn a_reset_passes_through_with_its_reason(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        let mut server = Peer::server(&listener);
        let stream = server.next_of(HEADERS).stream;
        server.sends(frame(HEADERS, END_HEADERS, stream, &[0x88]));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        server.sends(frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()));
        assert_eq!(peer.next_of(RST_STREAM).code(), Some(CANCEL));
    }

    fn both_bodies_stream_at_once(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut peer = Peer::client(gateway.address());
        peer.sends(grpc_call(1));
        let mut server = Peer::server(&listener);
        let stream = server.next_of(HEADERS).stream;
        server.sends(frame(HEADERS, END_HEADERS, stream, &[0x88]));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        for word in [&b"one"[..], b"two", b"three"] {
            peer.sends(frame(DATA, 0, 1, word));
            assert_eq!(server.next_of(DATA).payload, word);
            server.sends(frame(DATA, 0, stream, word));
            assert_eq!(peer.next_of(DATA).payload, word);
        }
        peer.sends(frame(DATA, END_STREAM, 1, b""));
        assert_eq!(server.next_of(DATA).flags & END_STREAM, END_STREAM);
        let trailers = block(&[("grpc-status", "0")]);
        server.sends(frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers));
        assert_eq!(peer.next_of(HEADERS).flags & END_STREAM, END_STREAM);
    }

    fn requests_of_both_versions_share_a_listener(driver) {
        let (origin, gateway) = start(driver, raw("HTTP/1.1 204 No\r\n\r\n"));
        gateway.client().gets("/one").expects(204);
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(204));
        // A request whose method begins as the preface does.
        gateway.client().sends("PROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n").expects(204);
        gateway.client().sends("PRI / HTTP/1.1\r\nHost: a\r\n\r\n").expects(204);
        assert_eq!(origin.requests().len(), 4);
    }

    fn the_preface_may_come_byte_by_byte(driver) {
        let (_origin, gateway) = start(driver, status(204));
        let mut peer = Peer::silent(gateway.address());
        for byte in crate::support::frames::PREFACE {
            peer.sends([*byte]);
        }
        for byte in [frame(SETTINGS, 0, 0, b""), get(1)].concat() {
            peer.sends([byte]);
        }
        assert_eq!(peer.next_of(HEADERS).status(), Some(204));
    }
}

fn start(driver: Driver, reply: Reply) -> (Origin, Gateway) {
    let origin = origin().replies(reply);
    let gateway = gateway(driver).routes_to(&origin).start();
    (origin, gateway)
}

/// A response without a body; `status` is its index in the static table.
fn answer(stream: u32, status: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &[status])
}

fn grpc_call(stream: u32) -> Vec<u8> {
    let mut fields = request("POST");
    fields.push(("content-type", "application/grpc"));
    fields.push(("te", "trailers"));
    frame(HEADERS, END_HEADERS, stream, &block(&fields))
}

fn next_ping(peer: &mut Peer) -> Frame {
    loop {
        let ping = peer.next_of(PING);
        if ping.flags & ACK == 0 {
            return ping;
        }
    }
}

/// The first GOAWAY names every stream there could be; the second, once it is known to have
/// arrived, the last one that is served.
fn assert_two_goaways(peer: &mut Peer, last: u32) {
    let first = peer.next_of(GOAWAY);
    assert_eq!(
        (first.last_stream(), first.code()),
        (u32::MAX >> 1, Some(NO_ERROR))
    );
    let ping = next_ping(peer);
    peer.sends(frame(PING, ACK, 0, &ping.payload));
    let second = peer.next_of(GOAWAY);
    assert_eq!(
        (second.last_stream(), second.code()),
        (last, Some(NO_ERROR))
    );
    while peer.next().is_some() {}
}

/// As [`before_frames`], with metrics.
fn before_frames_inspected(driver: Driver) -> (TcpListener, Gateway) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let gateway = gateway(driver)
        .backend("origin", &[listener.local_addr().expect("bound")])
        .speaks("origin", "H2C")
        .rule("{backendRefs: [{@origin}]}")
        .inspected();
    (listener, gateway.start())
}

/// Waits until what is read and written of two connections is all that buffers hold.
#[track_caller]
fn waits_for_buffers_of_connections_alone(gateway: &Gateway) {
    const LARGE: f64 = 68.0 * 1024.0;
    let begun = Instant::now();
    let held = || count(gateway, "gateway_shard_buffer_bytes", "");
    while held() > 4.0 * LARGE {
        assert!(begun.elapsed() < PATIENCE, "{} bytes are held", held());
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
