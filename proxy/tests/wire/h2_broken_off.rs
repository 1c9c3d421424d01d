//! Exchanges that the gateway breaks off while the origin of an HTTP/2 stream is silent: nothing that
//! was cut short passes as complete, and the shard goes on.

use std::net::TcpListener;

use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, Peer, RST_STREAM, WINDOW_UPDATE, before_frames, frame,
    post,
};
use crate::support::{
    Driver, Gateway, MAX_IN_FLIGHT, Signal, gateway, on_both_drivers, origin, pattern, same_bytes,
};

/// The block of a response with status 200.
const OK: &[u8] = &[0x88];

/// A gateway whose backend speaks HTTP/2 under the test's control, and that waits briefly for bodies.
fn before_a_silent_origin(driver: Driver) -> (TcpListener, Gateway) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let gateway = gateway(driver)
        .backend("origin", &[address])
        .speaks("origin", "H2C")
        .limits("bodyIdleTimeout: 300ms")
        .rule("{backendRefs: [{@origin}]}");
    (listener, gateway.start())
}

/// Takes the next request, and responds with a head and a part of a body.
fn responds_in_part(server: &mut Peer) {
    let stream = server.next_of(HEADERS).stream;
    server.sends(frame(HEADERS, END_HEADERS, stream, OK));
    server.sends(frame(DATA, 0, stream, b"part"));
}

on_both_drivers! {
    fn an_authorization_server_that_stops_after_its_head_stops_nothing_else(driver) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let auth = listener.local_addr().expect("bound");
        let app = origin();
        let filter = "{type: ExternalAuth, externalAuth: {protocol: HTTP, http: {}, backendRef: {@auth}}}";
        let gateway = gateway(driver)
            .backend("auth", &[auth])
            .speaks("auth", "H2C")
            .backend("app", &[app.address()])
            .rule("{matches: [{path: {value: /free}}], backendRefs: [{@app}]}")
            .rule(&format!("{{filters: [{filter}], timeouts: {{request: 300ms}}, backendRefs: [{{@app}}]}}"))
            .start();
        let mut client = gateway.client();
        client.gets("/");
        let mut server = Peer::server(&listener);
        responds_in_part(&mut server);
        client.expects(403);
        gateway.client().gets("/free").expects(200);
        assert_eq!(app.only_request().target(), "/free");
    }

    fn a_response_cut_short_by_a_stalled_request_is_not_ended_over_http_1(driver) {
        let (listener, gateway) = before_a_silent_origin(driver);
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
        responds_in_part(&mut Peer::server(&listener));
        assert_eq!(client.expects_broken_response().status(), 200);
    }

    fn a_response_cut_short_by_a_stalled_request_is_reset_over_http_2(driver) {
        let (listener, gateway) = before_a_silent_origin(driver);
        let mut client = Peer::client(gateway.address());
        client.sends(post(1)).sends(frame(DATA, 0, 1, b"half"));
        responds_in_part(&mut Peer::server(&listener));
        assert_eq!(client.next_of(HEADERS).flags & END_STREAM, 0);
        assert_eq!(client.next_of(DATA).payload, b"part");
        let end = loop {
            let frame = client.next().expect("the connection stays");
            if [DATA, HEADERS, RST_STREAM].contains(&frame.kind) {
                break frame;
            }
        };
        assert_eq!((end.kind, end.stream), (RST_STREAM, 1), "{end:?}");
    }

    fn a_response_before_a_reset_is_complete_although_the_request_cannot_be_sent(driver) {
        const MOST: [u8; 4] = 0x7fff_ffff_u32.to_be_bytes();
        let (listener, mut gateway) = before_frames(driver);
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
        // SETTINGS_INITIAL_WINDOW_SIZE, and the window of the connection.
        let window = [&[0, 4][..], &MOST].concat();
        let mut server = Peer::server_with_settings(&listener, &window);
        server.sends(frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes()));
        let stream = server.next_of(HEADERS).stream;
        // What the gateway sends is in progress, since nobody reads it.
        client.sends_until_full(usize::try_from(MAX_IN_FLIGHT).expect("64 bits"));
        gateway.signal(Signal::Stop);
        let body = pattern(60_000);
        server.sends(frame(HEADERS, END_HEADERS, stream, OK));
        for part in body.chunks(15_000) {
            server.sends(frame(DATA, 0, stream, part));
        }
        server.sends(frame(DATA, END_STREAM, stream, b""));
        // Unread bytes make it a reset.
        drop(server);
        gateway.signal(Signal::Continue);
        let response = client.expects(200);
        same_bytes(&response.body, &body);
    }
}
