//! `WebSocket` over HTTP/2: extended CONNECT (RFC 8441) on either side, Upgrade on the other or not.

use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, Peer, before_frames, block, frame, request,
};
use crate::support::{Driver, Gateway, Origin, Reply, gateway, on_both_drivers, origin, status};

on_both_drivers! {
    fn a_websocket_goes_from_http_2_to_http_1(driver) {
        let reply = Reply::at_once()
            .sends("HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            .echoes();
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

    fn a_refused_websocket_is_answered_as_such(driver) {
        let (_origin, gateway) = start(driver, status(403));
        let mut peer = Peer::client(gateway.address());
        peer.sends(websocket(1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(403));
    }

    fn a_websocket_goes_from_http_1_to_http_2(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut client = gateway.client();
        client.sends(
            "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        let mut server = Peer::server_saying(&listener, &[0, 8, 0, 0, 0, 1]);
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

    fn a_websocket_stays_in_http_2(driver) {
        let (listener, gateway) = before_frames(driver);
        let mut peer = Peer::client(gateway.address());
        peer.sends(websocket(1));
        let mut server = Peer::server_saying(&listener, &[0, 8, 0, 0, 0, 1]);
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
}

fn start(driver: Driver, reply: Reply) -> (Origin, Gateway) {
    let origin = origin().replies(reply);
    let gateway = gateway(driver).routes_to(&origin).start();
    (origin, gateway)
}

fn websocket(stream: u32) -> Vec<u8> {
    let mut fields = request("CONNECT");
    fields.push((":protocol", "websocket"));
    fields.push(("sec-websocket-version", "13"));
    frame(HEADERS, END_HEADERS, stream, &block(&fields))
}
