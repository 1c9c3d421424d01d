//! Exchanges that the gateway breaks off while the origin of an HTTP/2 stream is silent: nothing that
//! was cut short passes as complete, and the shard goes on.

use std::net::TcpListener;

use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, Peer, RST_STREAM, frame, post,
};
use crate::support::{Driver, Gateway, gateway, on_both_drivers, origin};

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
}
