//! `WebSocket` over HTTP/2: extended CONNECT (RFC 8441) on either side, Upgrade on the other or not.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::metrics::waits_for_count;
use crate::support::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PING, Peer, RST_STREAM, before_frames, block,
    frame, request,
};
use crate::support::{
    Driver, Gateway, Origin, Reply, Signal, gateway, ok, on_both_drivers, origin, status,
};

const SWITCH: &str = "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// A Close frame with code 1001: as sent by servers, and by clients, which mask it.
const GOODBYE: &[u8] = b"\x88\x02\x03\xe9";
const MASKED_GOODBYE: &[u8] = b"\x88\x82\0\0\0\0\x03\xe9";

on_both_drivers! {
    fn a_websocket_is_forwarded_from_http_2_to_http_1(driver) {
        let reply = Reply::at_once().sends(SWITCH).echoes();
        let (origin, gateway) = start(driver, reply);
        let mut peer = Peer::client(gateway.address());
        peer.sends(websocket(1));
        let head = peer.next_of(HEADERS);
        assert_eq!((head.status(), head.flags & END_STREAM), (Some(200), 0));
        peer.sends(frame(DATA, 0, 1, b"ping"));
        assert_eq!(peer.next_of(DATA).payload, b"ping");
        let request = origin.only_request();
        assert_eq!((request.method(), request.value("upgrade")), ("GET", Some("websocket")));
        assert_eq!(request.value("sec-websocket-key").map(str::len), Some(24));
        peer.sends(frame(DATA, END_STREAM, 1, b""));
        let end = peer.next_of(DATA);
        assert_eq!((end.payload.len(), end.flags & END_STREAM), (0, END_STREAM));
    }

    fn sec_websocket_key_of_an_http_2_client_is_replaced(driver) {
        let (origin, gateway) = start(driver, Reply::at_once().sends(SWITCH).echoes());
        let mut peer = Peer::client(gateway.address());
        let mut fields = request("CONNECT");
        fields.push((":protocol", "websocket"));
        fields.push(("sec-websocket-version", "13"));
        fields.push(("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="));
        fields.push(("sec-websocket-key", "twice"));
        peer.sends(frame(HEADERS, END_HEADERS, 1, &block(&fields)));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        let keys = origin.only_request();
        let keys = keys.values("sec-websocket-key");
        assert_eq!(keys.len(), 1, "{keys:?}");
        assert_ne!(keys[0], "dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(keys[0].len(), 24);
    }

    fn sec_websocket_accept_of_an_http_2_server_is_replaced(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut client = gateway.client();
        client.sends(
            "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        let mut server = Peer::server_with_settings(&listener, &[0, 8, 0, 0, 0, 1]);
        let head = server.next_of(HEADERS);
        let response = block(&[(":status", "200"), ("sec-websocket-accept", "theirs")]);
        server.sends(frame(HEADERS, END_HEADERS, head.stream, &response));
        let response = client.reads_head();
        assert_eq!(response.values("sec-websocket-accept"), ["s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]);
    }

    fn a_rejected_websocket_gets_the_origins_response(driver) {
        let (_origin, gateway) = start(driver, status(403));
        let mut peer = Peer::client(gateway.address());
        peer.sends(websocket(1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(403));
    }

    /// RFC 8441 section 5: any status of success says that the tunnel is open, and what follows would be taken for frames.
    fn a_response_that_switches_nothing_opens_no_websocket(driver) {
        for (code, body) in [("200 OK", "Content-Length: 5\r\n\r\nhello"), ("204 No", "\r\n"), ("206 Part", "Content-Length: 1\r\n\r\na")] {
            let origin = origin().replies(Reply::at_once().sends(format!("HTTP/1.1 {code}\r\n{body}")));
            let gateway = gateway(driver)
                .routes_to(&origin)
                .policy("accessLog: {format: json}")
                .policy_of("Backend/origin", "ejection: {consecutiveFailures: 1, maxPercent: 100}")
                .start();
            expect_no_websocket(&gateway, &websocket(1));
            gateway.waits_for_access_log("\"reason\":\"no_websocket\"");
            // It is not the backend's fault that a client wants one there.
            gateway.client().gets("/").reads_head();
            assert_eq!(origin.requests().len(), 2, "{code}");
        }
    }

    /// The server offers no extended CONNECT, and so gets a GET.
    fn an_http_2_server_without_websockets_opens_none(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut peer = Peer::client(gateway.address());
        peer.sends(websocket(1));
        let mut server = Peer::server(&listener);
        let head = server.next_of(HEADERS);
        server.sends(frame(HEADERS, END_HEADERS, head.stream, &[0x88]));
        server.sends(frame(DATA, END_STREAM, head.stream, b"hello"));
        assert_eq!(peer.next_of(HEADERS).status(), Some(501));
    }

    fn no_answer_of_the_gateway_opens_a_websocket(driver) {
        let app = origin();
        let auth = origin().replies(status(402));
        let server = "{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {@auth}, http: {}}}";
        let gateway = gateway(driver)
            .backend("app", &[app.address()])
            .backend("auth", &[auth.address()])
            .rule("{name: ok, matches: [{path: {value: /200}}]}")
            .rule("{name: gone, matches: [{path: {value: /410}}]}")
            .rule(&format!("{{matches: [{{path: {{value: /auth}}}}], filters: [{server}], backendRefs: [{{@app}}]}}"))
            .policy_of("HTTPRoute/route-0/ok", "respond: {status: 200, body: hello}")
            .policy_of("HTTPRoute/route-0/gone", "respond: {status: 410, body: hello}")
            .policy("healthPath: /health")
            .policy("accessLog: {format: json}")
            .inspected()
            .start();
        let at = |path: &str| {
            let mut fields = request("CONNECT");
            fields[2].1 = path;
            fields.push((":protocol", "websocket"));
            fields.push(("sec-websocket-version", "13"));
            frame(HEADERS, END_HEADERS, 1, &block(&fields))
        };
        let status = |path: &str| {
            let mut peer = Peer::client(gateway.address());
            peer.sends(at(path));
            peer.next_of(HEADERS).status()
        };
        expect_no_websocket(&gateway, &at("/200"));
        gateway.waits_for_access_log("\"reason\":\"no_websocket\"");
        waits_for_count(&gateway, "gateway_respond_results_total", "result=\"answered\"", 0.0);
        expect_no_websocket(&gateway, &at("/health"));
        assert_eq!(status("/410"), Some(410));
        assert_eq!(status("/auth"), Some(402));
        assert!(app.requests().is_empty());
    }

    /// An upgrade of HTTP/1 may be ignored (RFC 9110 section 7.8).
    fn an_http_1_client_gets_a_response_that_switches_nothing(driver) {
        let (_origin, gateway) = start(driver, ok("hello"));
        let mut client = gateway.client();
        client.sends(
            "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        assert_eq!(client.expects(200).text(), "hello");
        client.gets("/").expects(200);
    }

    fn a_websocket_is_forwarded_from_http_1_to_http_2(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut client = gateway.client();
        client.sends(
            "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        let mut server = Peer::server_with_settings(&listener, &[0, 8, 0, 0, 0, 1]);
        let head = server.next_of(HEADERS);
        assert_eq!(head.flags & END_STREAM, 0, "a tunnel stays open");
        server.sends(frame(HEADERS, END_HEADERS, head.stream, &[0x88]));
        let response = client.reads_head();
        assert_eq!(response.status(), 101);
        let accept = response.value("sec-websocket-accept");
        assert_eq!(accept, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        client.sends("hello");
        assert_eq!(server.next_of(DATA).payload, b"hello");
        server.sends(frame(DATA, 0, head.stream, b"back"));
        assert_eq!(client.reads_bytes(4), b"back");
        server.sends(frame(DATA, END_STREAM, head.stream, b""));
        client.expects_close();
    }

    fn a_websocket_is_forwarded_from_http_2_to_http_2(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut peer = Peer::client(gateway.address());
        peer.sends(websocket(1));
        let mut server = Peer::server_with_settings(&listener, &[0, 8, 0, 0, 0, 1]);
        let head = server.next_of(HEADERS);
        assert_eq!(head.flags & END_STREAM, 0, "a tunnel stays open");
        server.sends(frame(HEADERS, END_HEADERS, head.stream, &[0x88]));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        peer.sends(frame(DATA, 0, 1, b"there"));
        assert_eq!(server.next_of(DATA).payload, b"there");
        server.sends(frame(DATA, 0, head.stream, b"and back"));
        assert_eq!(peer.next_of(DATA).payload, b"and back");
        peer.sends(frame(DATA, END_STREAM, 1, b""));
        assert_eq!(server.next_of(DATA).flags & END_STREAM, END_STREAM);
        server.sends(frame(DATA, END_STREAM, head.stream, b""));
        assert_eq!(peer.next_of(DATA).flags & END_STREAM, END_STREAM);
    }

    fn an_idle_websocket_ends_only_its_stream(driver) {
        let origin = origin().replies(Reply::at_once().sends(SWITCH).echoes());
        let gateway = gateway(driver).routes_to(&origin).limits("streamIdleTimeout: 300ms").start();
        let mut peer = Peer::client(gateway.address());
        peer.sends(websocket(1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        let started = Instant::now();
        assert_eq!(peer.next_of(RST_STREAM).stream, 1);
        // The default would be an hour.
        assert!(started.elapsed() < Duration::from_secs(8), "took {:?}", started.elapsed());
        origin.waits_for_hangup();
        peer.sends(websocket(3));
        assert_eq!(peer.next_of(HEADERS).stream, 3);
    }

    fn a_silent_websocket_ends_on_both_sides(driver) {
        let (listener, gateway) = gateway_to_h2_backend(driver, "streamIdleTimeout: 300ms");
        let (mut peer, mut server, stream) = open_tunnel(&gateway, &listener);
        assert_eq!(peer.next_of(RST_STREAM).stream, 1);
        assert_eq!(server.next_of(RST_STREAM).stream, stream);
    }

    fn a_drain_sends_close_frames_to_both_sides(driver) {
        let origin = origin().replies(Reply::at_once().sends(SWITCH).echoes());
        let mut gateway = gateway(driver)
            .routes_to(&origin)
            .argument("--drain-accept=0s")
            .argument("--drain-deadline=20s")
            .start();
        let mut peer = Peer::client(gateway.address());
        peer.sends(websocket(1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        let started = Instant::now();
        gateway.signal(Signal::Term);
        // Ours, or the origin's answer to the one that it got, if that was quicker: it echoes.
        let goodbye = next_data(&mut peer);
        assert!([GOODBYE, MASKED_GOODBYE].contains(&&*goodbye), "{}", goodbye.escape_ascii());
        peer.sends(frame(DATA, END_STREAM, 1, MASKED_GOODBYE));
        assert_drained(&mut gateway, peer, started);
    }

    fn a_drain_sends_close_frames_from_http_2_to_http_2(driver) {
        let (listener, mut gateway) = gateway_to_h2_backend(driver, "streamIdleTimeout: 1h");
        let (mut peer, mut server, stream) = open_tunnel(&gateway, &listener);
        let started = Instant::now();
        gateway.signal(Signal::Term);
        assert_eq!(next_data(&mut peer), GOODBYE);
        assert_eq!(next_data(&mut server), MASKED_GOODBYE);
        server.sends(frame(DATA, END_STREAM, stream, GOODBYE));
        peer.sends(frame(DATA, END_STREAM, 1, MASKED_GOODBYE));
        assert_drained(&mut gateway, peer, started);
    }
}

/// A gateway with these limits in front of an HTTP/2 backend, frame by frame.
fn gateway_to_h2_backend(driver: Driver, limits: &str) -> (TcpListener, Gateway) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let gateway = gateway(driver)
        .backend("origin", &[listener.local_addr().expect("bound")])
        .speaks("origin", "H2C")
        .rule("{backendRefs: [{@origin}]}")
        .limits(limits)
        .argument("--drain-accept=0s")
        .argument("--drain-deadline=20s");
    (listener, gateway.start())
}

/// A tunnel on stream 1 of a client, its server, and the server's stream.
fn open_tunnel(gateway: &Gateway, listener: &TcpListener) -> (Peer, Peer, u32) {
    let mut peer = Peer::client(gateway.address());
    peer.sends(websocket(1));
    let mut server = Peer::server_with_settings(listener, &[0, 8, 0, 0, 0, 1]);
    let stream = server.next_of(HEADERS).stream;
    server.sends(frame(HEADERS, END_HEADERS, stream, &[0x88]));
    assert_eq!(peer.next_of(HEADERS).status(), Some(200));
    (peer, server, stream)
}

/// The next data. PINGs are acknowledged in between: a drain waits for that.
fn next_data(peer: &mut Peer) -> Vec<u8> {
    loop {
        let frame = peer.next().expect("a Close before the end");
        match frame.kind {
            DATA => return frame.payload,
            PING if frame.flags & ACK == 0 => {
                peer.sends(self::frame(PING, ACK, 0, &frame.payload));
            }
            _ => {}
        }
    }
}

/// The client's connection ends, and the gateway well before its deadline.
#[track_caller]
fn assert_drained(gateway: &mut Gateway, mut peer: Peer, begun: Instant) {
    while let Some(frame) = peer.next() {
        if frame.kind == PING && frame.flags & ACK == 0 {
            peer.sends(self::frame(PING, ACK, 0, &frame.payload));
        }
    }
    let code = gateway.waits_for_exit().code();
    assert_eq!(code, Some(0), "{}", gateway.log());
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "took {took:?}");
}

/// The handshake is refused, and the stream ends.
#[track_caller]
fn expect_no_websocket(gateway: &Gateway, handshake: &[u8]) {
    let mut peer = Peer::client(gateway.address());
    peer.sends(handshake);
    let head = peer.next_of(HEADERS);
    assert_eq!(head.status(), Some(501));
    if head.flags & END_STREAM == 0 {
        assert_eq!(peer.next_of(DATA).flags & END_STREAM, END_STREAM);
    }
}

fn start(driver: Driver, reply: Reply) -> (Origin, Gateway) {
    let origin = origin().replies(reply);
    let gateway = gateway(driver).routes_to(&origin).start();
    (origin, gateway)
}

/// The handshake of a WebSocket for `/`.
pub(super) fn websocket(stream: u32) -> Vec<u8> {
    let mut fields = request("CONNECT");
    fields.push((":protocol", "websocket"));
    fields.push(("sec-websocket-version", "13"));
    frame(HEADERS, END_HEADERS, stream, &block(&fields))
}
