//! A head that is not complete in time ends its connection, whatever happens on its streams meanwhile.

use std::net::TcpListener;

use crate::support::frames::{DATA, END_HEADERS, HEADERS, PING, Peer, frame, get};
use crate::support::pki::authority;
use crate::support::{gateway, into_tls, on_both_drivers, origin, tls};

const NO_ERROR: u32 = 0;

on_both_drivers! {
    fn a_late_head_ends_its_connection_although_another_stream_receives(driver) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let gateway = gateway(driver)
            .backend("origin", &[address])
            .speaks("origin", "H2C")
            .limits("headTimeout: 1s")
            .rule("{backendRefs: [{@origin}]}")
            .start();
        let mut client = Peer::client(gateway.address());
        client.settles().sends(get(1));
        let mut server = Peer::server(&listener);
        let stream = server.next_of(HEADERS).stream;
        server.sends(frame(HEADERS, END_HEADERS, stream, &[0x88]));
        client.next_of(HEADERS);
        let part = &get(3)[..20];
        client.sends([&frame(PING, 0, 0, b"before 3")[..], part].concat());
        client.next_of(PING);
        // It is received while the rest of the head is waited for.
        server.sends(frame(DATA, 0, stream, b"word"));
        assert_eq!(client.next_of(DATA).payload, b"word");
        assert_eq!(client.expects_goaway(), NO_ERROR);
    }

    fn a_late_head_over_tls_is_not_counted_as_cut_off_by_its_client(driver) {
        let (ca, origin) = (authority("ca"), origin());
        let gateway = gateway(driver)
            .https("https", Some("a.test"), &[&ca.server(&["a.test"])])
            .backend("origin", &[origin.address()])
            .rule_of("https", "{backendRefs: [{@origin}]}")
            .limits("headTimeout: 500ms")
            .inspected()
            .start();
        let over = tls(&ca, "a.test").offers(&["h2"]);
        let mut client = Peer::client(into_tls(gateway.https_address(), &over));
        client.settles().sends(&get(1)[..20]);
        assert_eq!(client.expects_goaway(), NO_ERROR);
        let metrics = gateway.client_of("metrics").gets("/metrics").expects(200).text();
        let is_cut_off = |line: &&str| line.starts_with("gateway_http2_errors_total") && line.contains("truncated");
        let line = metrics.lines().find(is_cut_off);
        assert!(line.is_some_and(|line| line.ends_with(" 0")), "{line:?}");
    }
}
