//! Streams of HTTP/2 clients, frame by frame: cancellation, refusal, flow control and time-outs.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::metrics::count;
use crate::support::frames::{
    DATA, END_STREAM, HEADERS, PREFACE, Peer, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame,
    get, post, request,
};
use crate::support::{
    Driver, Gate, Gateway, Origin, Reply, TIMEOUT, gateway, ok, on_both_drivers, origin, pattern,
    raw, same_bytes, status,
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

    fn streams_that_arrive_in_one_write_are_all_served(driver) {
        let (_origin, gateway) = start(driver, status(204));
        let mut peer = Peer::client(gateway.address());
        peer.sends((0..100).flat_map(|nth| get(nth * 2 + 1)).collect::<Vec<_>>());
        let mut answered: Vec<_> = (0..100).map(|_| peer.next_of(HEADERS).stream).collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..100).map(|nth| nth * 2 + 1).collect::<Vec<_>>());
    }

    fn a_stream_over_the_limit_is_refused(driver) {
        let (origin, gateway) = start(driver, Reply::at_once().stalls());
        let mut peer = Peer::client(gateway.address());
        for nth in 0..101 {
            peer.sends(get(nth * 2 + 1));
        }
        let refused = peer.next_of(RST_STREAM);
        assert_eq!((refused.stream, refused.code()), (201, Some(REFUSED_STREAM)));
        assert_eq!(origin.waits_for_requests(100).len(), 100);
    }

    fn streams_waiting_for_their_bodies_hold_no_buffers(driver) {
        let (listener, gateway) = before_frames_inspected(driver);
        let mut client = Peer::client(gateway.address());
        let streams = || (1..).step_by(2).take(100);
        client.sends(streams().flat_map(post).collect::<Vec<_>>());
        let mut server = Peer::server(&listener);
        streams().for_each(|_| drop(server.next_of(HEADERS)));
        wait_until_streams_hold_no_buffers(&gateway);
        // Nor do those that wait for more of one.
        client.sends(streams().flat_map(|stream| frame(DATA, 0, stream, b"x")).collect::<Vec<_>>());
        streams().for_each(|_| assert_eq!(server.next_of(DATA).payload, b"x"));
        wait_until_streams_hold_no_buffers(&gateway);
    }

    fn a_client_reset_cancels_the_upstream_request(driver) {
        let (origin, gateway) = start(driver, Reply::at_once().stalls());
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        origin.waits_for_requests(1);
        peer.sends(frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()));
        origin.waits_for_hangup();
        // The connection stays open.
        origin.now_replies(status(204));
        peer.sends(get(3));
        assert_eq!(peer.next_of(HEADERS).status(), Some(204));
    }

    fn a_client_reset_ends_a_response_in_progress(driver) {
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

    fn a_client_disconnect_cancels_its_streams(driver) {
        let (origin, gateway) = start(driver, Reply::at_once().stalls());
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        origin.waits_for_requests(1);
        drop(peer);
        origin.waits_for_hangup();
    }

    fn a_response_before_the_body_ends_resets_the_stream_without_error(driver) {
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

    fn a_truncated_response_is_reset(driver) {
        let reply = Reply::at_once()
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
            .closes();
        let (origin, gateway) = start(driver, reply);
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        let reset = peer.next_of(RST_STREAM);
        assert_eq!((reset.stream, reset.code()), (1, Some(INTERNAL_ERROR)));
        // Only that stream is affected.
        origin.now_replies(status(204));
        peer.sends(get(3));
        let head = peer.next_of(HEADERS);
        assert_eq!(head.flags & END_STREAM, END_STREAM);
    }

    fn a_response_is_reset_when_the_client_window_stays_closed(driver) {
        let origin = origin().replies(ok("held back"));
        let gateway = gateway(driver)
            .routes_to(&origin)
            .limits("writeIdleTimeout: 300ms")
            .start();
        let mut peer = Peer::silent(gateway.address());
        peer.sends(PREFACE)
            .sends(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]))
            .sends(get(1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        assert_eq!(peer.next_of(RST_STREAM).stream, 1);
    }

    fn a_response_continues_when_the_client_window_opens(driver) {
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
        same_bytes(&read, &body);
    }

    fn a_request_body_is_read_only_as_fast_as_the_origin_reads(driver) {
        let gate = Gate::default();
        let reply = Reply::at_once().waits_for(&gate).reads_the_body();
        let (origin, gateway) = start(driver, reply.sends("HTTP/1.1 204 No\r\n\r\n"));
        let mut peer = Peer::client(gateway.address());
        peer.settles().sends(post(1));
        // The window of a stream is 64 KiB; it is replenished only when bytes are forwarded.
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

    fn an_unfinished_head_times_out(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).limits("headTimeout: 300ms").start();
        let mut peer = Peer::client(gateway.address());
        peer.sends(frame(HEADERS, END_STREAM, 1, &block(&request("GET"))));
        assert_eq!(peer.expects_goaway(), NO_ERROR);
        let mut silent = Peer::silent(gateway.address());
        silent.sends(&PREFACE[..10]);
        while silent.next().is_some() {}
    }

    fn a_parked_connection_serves_the_next_request(driver) {
        let (_origin, gateway) = start(driver, status(204));
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(204));
        // Longer than a connection without streams keeps its buffer.
        std::thread::park_timeout(Duration::from_millis(1_500));
        peer.sends(get(3));
        assert_eq!(peer.next_of(HEADERS).stream, 3);
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

    fn the_preface_may_arrive_byte_by_byte(driver) {
        let (_origin, gateway) = start(driver, status(204));
        let mut peer = Peer::silent(gateway.address());
        for byte in PREFACE {
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

/// Waits until buffers hold only the read and write buffers of two connections.
#[track_caller]
fn wait_until_streams_hold_no_buffers(gateway: &Gateway) {
    const LARGE: f64 = 68.0 * 1024.0;
    let started = Instant::now();
    let held = || count(gateway, "gateway_shard_buffer_bytes", "");
    while held() > 4.0 * LARGE {
        assert!(started.elapsed() < TIMEOUT, "{} bytes are held", held());
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
