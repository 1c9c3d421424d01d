//! An HTTP/2 peer that owes bytes and is silent is sent a PING, and its connection is closed
//! without an acknowledgement.
//!
//! That takes 45 seconds; deadlines skip them on request, in a binary with the feature `test-hooks`
//! and started with `GATEWAY_TEST_SKIP_PATH`.

#![cfg(feature = "test-hooks")]

use std::net::TcpListener;

use crate::support::frames::{ACK, END_HEADERS, HEADERS, PING, Peer, block, frame, get};
use crate::support::{Gateway, GatewayBuilder, Reply, gateway, on_both_drivers, origin};

const NO_ERROR: u32 = 0;

on_both_drivers! {
    fn a_waiting_client_is_kept_while_it_acknowledges_pings(driver) {
        let origin = origin().replies(Reply::at_once().stalls());
        let gateway = with_skip_route(gateway(driver).backend("origin", &[origin.address()])).start();
        let mut peer = Peer::client(gateway.address());
        peer.settles().sends(get(1));
        origin.waits_for_requests(1);
        for _ in 0..2 {
            skip_time(&gateway);
            acknowledge_ping(&mut peer);
        }
        skip_time(&gateway);
        peer.next_of(PING);
        skip_time(&gateway);
        assert_eq!(peer.expects_goaway(), NO_ERROR);
        origin.waits_for_hangup();
    }

    fn an_endpoint_that_acknowledges_pings_is_kept(driver) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let origin = gateway(driver).backend("origin", &[address]).speaks("origin", "H2C");
        let gateway = with_skip_route(origin).start();
        let mut client = gateway.client();
        client.gets("/");
        let mut peer = Peer::server(&listener);
        peer.settles();
        let stream = peer.next_of(HEADERS).stream;
        for _ in 0..2 {
            skip_time(&gateway);
            acknowledge_ping(&mut peer);
            // Without a message in between, servers of gRPC allow one PING in five minutes.
            let early_hints = block(&[(":status", "103")]);
            peer.sends(frame(HEADERS, END_HEADERS, stream, &early_hints))
                .sends(frame(PING, 0, 0, b"after it"));
            peer.next_of(PING);
            assert_eq!(client.reads_head().status(), 103);
        }
        skip_time(&gateway);
        acknowledge_ping(&mut peer);
        skip_time(&gateway);
        peer.sends(frame(PING, 0, 0, b"none yet"));
        assert_eq!(peer.next_of(PING).payload, b"none yet");
        for _ in 0..9 {
            skip_time(&gateway);
        }
        peer.next_of(PING);
        skip_time(&gateway);
        client.expects(502);
        while peer.next().is_some() {}
    }
}

/// A gateway without request timeout, and with a route that makes deadlines skip time.
fn with_skip_route(gateway: GatewayBuilder) -> GatewayBuilder {
    skipping(gateway).rule("{timeouts: {request: 0s}, backendRefs: [{@origin}]}")
}

/// A gateway with a route that makes deadlines skip time.
pub(super) fn skipping(gateway: GatewayBuilder) -> GatewayBuilder {
    gateway.environment("GATEWAY_TEST_SKIP_PATH", SKIP).rule(
        "{matches: [{path: {value: /__skip}}], filters: [{type: RequestRedirect, \
         requestRedirect: {hostname: skipped.test}}]}",
    )
}

const SKIP: &str = "/__skip";

/// Makes the gateway's deadlines skip a long time.
pub(super) fn skip_time(gateway: &Gateway) {
    // Its own deadlines are affected too, so it may get no response.
    let _ = gateway.client().gets(SKIP).reply_to("GET");
}

/// Acknowledges the PING, and waits until the gateway has processed that.
fn acknowledge_ping(peer: &mut Peer) {
    let ping = peer.next_of(PING);
    assert_eq!(ping.flags & ACK, 0);
    peer.sends(frame(PING, ACK, 0, &ping.payload))
        .sends(frame(PING, 0, 0, b"after it"));
    let noticed = peer.next_of(PING);
    assert_eq!(
        (noticed.flags & ACK, &*noticed.payload),
        (ACK, &b"after it"[..])
    );
}
