//! HTTP/2 to origins, frame by frame: retries of refused streams, resets, and connections at the
//! stream limit.

use std::io::Write as _;
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;

use super::unprocessed_calls::relays;
use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Peer, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    before_frames, block, frame, get, post, request,
};
use crate::support::{Reply, gateway, ok, on_both_drivers, origin, out_of_h2};

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

/// Payload of a SETTINGS frame: `SETTINGS_INITIAL_WINDOW_SIZE` of 0.
const TAKES_NOTHING: [u8; 6] = [0, 4, 0, 0, 0, 0];

on_both_drivers! {
    fn a_response_with_request_pseudo_fields_is_malformed(driver) {
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
            // The connection stays open.
            let mut client = gateway.client();
            client.posts("/", "");
            let stream = server.next_of(HEADERS).stream;
            server.sends(frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88]));
            client.expects(200);
        }
    }

    fn an_invalid_response_field_is_blamed_on_its_stream_alone(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut server: Option<Peer> = None;
        for field in [&b"\x40\x03x-a\x03a\nb"[..], b"\x00\x03X-a\x01b", b"\x00\x06:other\x01b"] {
            let (mut odd, mut neighbour) = (gateway.client(), gateway.client());
            odd.posts("/", "");
            let server = server.get_or_insert_with(|| Peer::server(&listener));
            let malformed = server.next_of(HEADERS).stream;
            neighbour.posts("/", "");
            let other = server.next_of(HEADERS).stream;
            let block = [&[0x88], field].concat();
            server.sends(frame(HEADERS, END_HEADERS | END_STREAM, malformed, &block));
            let response = odd.reads();
            assert_eq!(response.status(), 502, "{field:x?}: {response}");
            assert!(response.to_string().contains("malformed"), "{field:x?}: {response}");
            server.sends(answer(other, 0x89));
            neighbour.expects(204);
        }
    }

    fn response_trailers_with_pseudo_fields_are_malformed(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut server: Option<Peer> = None;
        for field in [&[0x84][..], &[0x88], b"\x00\x07:status\x03103", b"\x48\x03204", b"\xbe"] {
            let mut client = Peer::client(gateway.address());
            client.sends(get(1));
            let server = server.get_or_insert_with(|| Peer::server(&listener));
            let stream = server.next_of(HEADERS).stream;
            server.sends(frame(HEADERS, END_HEADERS, stream, &[0x88]));
            server.sends(frame(DATA, 0, stream, b"whole"));
            assert_eq!(client.next_of(DATA).payload, b"whole");
            let trailers = [field, &block(&[("x-sum", "1")])].concat();
            server.sends(frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers));
            let end = std::iter::from_fn(|| client.next()).find(|frame| frame.stream == 1).expect("an end");
            assert_eq!((end.kind, end.stream), (RST_STREAM, 1), "{field:x?}: {end:?}");
        }
        // The connection stays open; other trailers pass, and so do responses without a body.
        let server = server.as_mut().expect("connected");
        let mut client = gateway.client();
        client.gets("/");
        let stream = server.next_of(HEADERS).stream;
        server.sends(frame(HEADERS, END_HEADERS, stream, &[0x88]));
        let trailers = block(&[("x-sum", "1")]);
        server.sends(frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers));
        client.expects(200);
        client.gets("/");
        let stream = server.next_of(HEADERS).stream;
        server.sends(answer(stream, 0x89));
        client.expects(204);
    }

    fn a_server_may_stop_the_request_after_a_complete_response(driver) {
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

    fn an_early_response_is_forwarded_while_the_body_waits_for_the_window(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut client = gateway.client();
        client.gets("/");
        let mut server = Peer::server_with_settings(&listener, &TAKES_NOTHING);
        let first = server.next_of(HEADERS).stream;
        server.sends(answer(first, 0x89));
        client.expects(204);
        client.sends("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nwhole");
        let second = server.next_of(HEADERS).stream;
        server.sends(answer(second, 0x8d));
        client.expects(404);
        // It frees the stream at the server, and the client's connection stays usable.
        assert_eq!(server.next_of(RST_STREAM).stream, second);
        client.gets("/");
        let third = server.next_of(HEADERS).stream;
        server.sends(answer(third, 0x89));
        client.expects(204);
    }

    fn a_body_that_waited_for_the_window_is_sent_again_on_retry(driver) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let gateway = gateway(driver)
            .backend("origin", &[listener.local_addr().expect("bound")])
            .speaks("origin", "H2C")
            .rule("{retry: {attempts: 2, codes: [503], backoff: 10ms}, backendRefs: [{@origin}]}")
            .start();
        let mut client = gateway.client();
        client.gets("/");
        let mut server = Peer::server_with_settings(&listener, &TAKES_NOTHING);
        let first = server.next_of(HEADERS).stream;
        server.sends(answer(first, 0x89));
        client.expects(204);
        client.sends("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nwhole");
        let unavailable = block(&[(":status", "503")]);
        for taken in [0, 2] {
            let stream = server.next_of(HEADERS).stream;
            if taken > 0 {
                server.sends(frame(WINDOW_UPDATE, 0, stream, &u32::to_be_bytes(taken)));
                assert_eq!(server.next_of(DATA).payload, b"wh");
            }
            server.sends(frame(HEADERS, END_HEADERS | END_STREAM, stream, &unavailable));
        }
        let last = server.next_of(HEADERS).stream;
        server.sends(frame(WINDOW_UPDATE, 0, last, &100_u32.to_be_bytes()));
        assert_eq!(server.next_of(DATA).payload, b"whole");
        server.sends(answer(last, 0x89));
        client.expects(204);
        // Nothing is left over in the client's connection.
        client.gets("/");
        let next = server.next_of(HEADERS).stream;
        server.sends(answer(next, 0x89));
        client.expects(204);
    }

    fn a_body_waiting_for_the_window_is_sent_when_it_opens(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut client = gateway.client();
        client.gets("/");
        let mut server = Peer::server_with_settings(&listener, &TAKES_NOTHING);
        let first = server.next_of(HEADERS).stream;
        server.sends(answer(first, 0x89));
        client.expects(204);
        client.sends("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nwhole");
        let second = server.next_of(HEADERS).stream;
        let mut payload = Vec::new();
        for _ in 0..5 {
            server.sends(frame(WINDOW_UPDATE, 0, second, &1_u32.to_be_bytes()));
            payload.extend(server.next_of(DATA).payload);
        }
        assert_eq!(payload, b"whole");
        server.sends(answer(second, 0x89));
        client.expects(204);
    }

    fn late_frames_of_a_cancelled_stream_are_ignored(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut server: Option<Peer> = None;
        for nth in 0..LATE_FRAMES {
            let mut gone = gateway.client();
            gone.gets("/");
            let server = server.get_or_insert_with(|| Peer::server(&listener));
            let cancelled = server.next_of(HEADERS).stream;
            let mut neighbour = gateway.client();
            neighbour.gets("/");
            let stream = server.next_of(HEADERS).stream;
            gone.resets();
            assert_eq!(server.next_of(RST_STREAM).stream, cancelled);
            server.sends(&late_frames(cancelled)[nth]).sends(answer(stream, 0x89));
            neighbour.expects(204);
        }
    }

    fn a_malformed_end_of_a_response_does_not_affect_other_streams(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut server: Option<Peer> = None;
        let early_hints = block(&[(":status", "103")]);
        let trailers = block(&[("a", "b")]);
        for after_the_head in [&early_hints, &trailers] {
            let mut odd = gateway.client();
            odd.gets("/");
            let server = server.get_or_insert_with(|| Peer::server(&listener));
            let malformed = server.next_of(HEADERS).stream;
            let mut neighbour = gateway.client();
            neighbour.gets("/");
            let stream = server.next_of(HEADERS).stream;
            server.sends([
                frame(HEADERS, END_HEADERS, malformed, &[0x88]),
                frame(HEADERS, END_HEADERS, malformed, after_the_head),
                frame(DATA, END_STREAM, malformed, b"odd"),
                answer(stream, 0x89),
            ].concat());
            neighbour.expects(204);
            odd.expects_broken_response();
        }
    }

    fn a_short_response_ended_by_a_no_error_reset_is_reset(driver) {
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

    fn a_stream_refused_by_the_origin_is_retried(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut client = gateway.client();
        // In one piece, so that all of it can be sent again.
        client.sends("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx");
        let mut server = Peer::server(&listener);
        let first = server.next_of(HEADERS).stream;
        server.sends(frame(RST_STREAM, 0, first, &REFUSED_STREAM.to_be_bytes()));
        let second = server.next_of(HEADERS).stream;
        assert!(second > first);
        server.sends(answer(second, 0x89));
        client.expects(204);
    }

    /// RFC 9113 section 8.7, without a retry policy: every gRPC call has a body that follows its head.
    fn a_streamed_call_is_sent_again_with_its_body_if_it_was_not_processed(driver) {
        for goes_away in [false, true] {
            let (listener, gateway) = before_frames(driver);
            let mut peer = Peer::client(gateway.address());
            peer.sends(grpc_call(1)).sends(frame(DATA, 0, 1, b"first"));
            let mut server = Peer::server(&listener);
            let first = server.next_of(HEADERS).stream;
            assert_eq!(server.next_of(DATA).payload, b"first");
            let mut server = if goes_away {
                server.sends(frame(GOAWAY, 0, 0, &[0; 8]));
                Peer::server(&listener)
            } else {
                server.sends(frame(RST_STREAM, 0, first, &REFUSED_STREAM.to_be_bytes()));
                server
            };
            let second = server.next_of(HEADERS).stream;
            assert_eq!(server.next_of(DATA).payload, b"first");
            peer.sends(frame(DATA, END_STREAM, 1, b", last"));
            assert_eq!(server.next_of(DATA).payload, b", last");
            server.sends(answer(second, 0x89));
            assert_eq!(peer.next_of(HEADERS).status(), Some(204));
        }
    }

    fn a_call_that_may_have_been_processed_is_not_sent_again(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut peer = Peer::client(gateway.address());
        peer.sends(grpc_call(1)).sends(frame(DATA, END_STREAM, 1, b"all"));
        let mut server = Peer::server(&listener);
        let stream = server.next_of(HEADERS).stream;
        server.sends(frame(RST_STREAM, 0, stream, &INTERNAL_ERROR.to_be_bytes()));
        // A failure of gRPC, in the trailers.
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        peer.sends(get(3));
        assert_eq!(server.next_of(HEADERS).stream, stream + 2);
        server.sends(answer(stream + 2, 0x89));
        assert_eq!(peer.next_of(HEADERS).stream, 3);
    }

    fn a_second_connection_is_opened_at_the_origins_stream_limit(driver) {
        let (listener, gateway) = before_frames(driver);
        let one_stream = [0, 3, 0, 0, 0, 1];
        let (mut first, mut second) = (gateway.client(), gateway.client());
        first.gets("/first");
        let mut server = Peer::server_with_settings(&listener, &one_stream);
        let on_first = server.next_of(HEADERS).stream;
        second.gets("/second");
        let mut other = Peer::server_with_settings(&listener, &one_stream);
        let on_second = other.next_of(HEADERS).stream;
        other.sends(answer(on_second, 0x89));
        second.expects(204);
        server.sends(answer(on_first, 0x89));
        first.expects(204);
    }

    fn requests_waiting_for_a_connection_are_spread_over_new_ones(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut clients: Vec<_> = (0..3).map(|_| gateway.client()).collect();
        for client in &mut clients {
            client.gets("/");
        }
        let mut servers = Vec::new();
        for _ in 0..3 {
            // One stream a connection.
            let mut server = Peer::server_with_settings(&listener, &[0, 3, 0, 0, 0, 1]);
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

    fn a_request_is_retried_if_its_connection_ends_before_it_was_sent(driver) {
        let origin = origin().replies(ok("served"));
        for last_words in [vec![], [frame(SETTINGS, 0, 0, b""), frame(GOAWAY, 0, 0, &[0; 8])].concat()] {
            let (listener, gateway) = before_frames(driver);
            let mut client = gateway.client();
            client.gets("/");
            let (mut connection, _) = listener.accept().expect("a connection");
            connection.write_all(&last_words).expect("room");
            connection.shutdown(Shutdown::Write).expect("a socket of ours");
            relays(listener, out_of_h2(origin.address()), &Arc::default());
            assert_eq!(client.expects(200).text(), "served");
        }
    }

    fn an_http_1_origin_behind_h2c_is_a_bad_gateway(driver) {
        let origin = origin().on_accept(Reply::at_once().sends("HTTP/1.1 400 Bad\r\n\r\n").closes());
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .speaks("origin", "H2C")
            .rule("{backendRefs: [{@origin}]}")
            .start();
        let response = gateway.client().gets("/").reads();
        assert!([502, 503].contains(&response.status()), "{response}");
    }

    fn a_client_disconnect_resets_the_upstream_stream(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut client = gateway.client();
        client.gets("/");
        let mut server = Peer::server(&listener);
        let stream = server.next_of(HEADERS).stream;
        client.resets();
        let reset = server.next_of(RST_STREAM);
        assert_eq!((reset.stream, reset.code()), (stream, Some(CANCEL)));
    }

    fn an_origins_reset_reaches_the_client_with_its_code(driver) {
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

    fn request_and_response_bodies_stream_at_once(driver) {
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
}

/// A response without a body; `status` is its index in the static table.
fn answer(stream: u32, status: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &[status])
}

/// Frames that a server may send before it receives the cancellation of a stream.
fn late_frames(stream: u32) -> [Vec<u8>; LATE_FRAMES] {
    let (head, early_hints) = ([0x88], block(&[(":status", "103")]));
    let headers = |block: &[u8]| frame(HEADERS, END_HEADERS, stream, block);
    [
        answer(stream, 0x88),
        [headers(&head), frame(DATA, END_STREAM, stream, b"late")].concat(),
        [headers(&early_hints), answer(stream, 0x88)].concat(),
        frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()),
    ]
}

const LATE_FRAMES: usize = 4;

fn grpc_call(stream: u32) -> Vec<u8> {
    let mut fields = request("POST");
    fields.push(("content-type", "application/grpc"));
    fields.push(("te", "trailers"));
    frame(HEADERS, END_HEADERS, stream, &block(&fields))
}
