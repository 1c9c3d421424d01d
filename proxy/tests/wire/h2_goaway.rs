//! The GOAWAY frame: sent to clients at a drain or limit, and received from origins.

use std::time::{Duration, Instant};

use crate::support::frames::{
    ACK, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, Peer, before_frames, frame, get,
};
use crate::support::{
    Driver, Gate, Gateway, Origin, Reply, Signal, gateway, on_both_drivers, origin,
};

const NO_ERROR: u32 = 0;

on_both_drivers! {
    fn an_idle_connection_gets_a_goaway_and_is_closed(driver) {
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

    fn a_connection_is_closed_at_its_request_limit(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .routes_to(&origin)
            .limits("requestsPerConnection: 2")
            .start();
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1)).sends(get(3));
        assert_two_goaways(&mut peer, 3);
    }

    fn a_drain_sends_two_goaways_and_finishes_every_stream(driver) {
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

    fn a_drain_waits_for_a_silent_client_until_its_deadline(driver) {
        let origin = origin();
        let mut gateway = gateway(driver)
            .routes_to(&origin)
            .argument("--drain-deadline=2s")
            .start();
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        let started = Instant::now();
        gateway.signal(Signal::Int);
        assert_eq!(peer.next_of(GOAWAY).last_stream(), u32::MAX >> 1);
        next_ping(&mut peer);
        // The second GOAWAY is sent to clients that acknowledge the PING.
        while let Some(frame) = peer.next() {
            assert_ne!(frame.kind, GOAWAY);
        }
        assert!(started.elapsed() >= Duration::from_secs(2), "after {:?}", started.elapsed());
        assert!(gateway.waits_for_exit().success());
        gateway.waits_for_log("resetting the remaining connections");
    }

    fn streams_after_an_origins_goaway_are_retried_on_another_connection(driver) {
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

    fn streams_before_an_origins_goaway_are_finished(driver) {
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
}

fn start(driver: Driver, reply: Reply) -> (Origin, Gateway) {
    let origin = origin().replies(reply);
    let gateway = gateway(driver).routes_to(&origin).start();
    (origin, gateway)
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

/// A response without a body; `status` is its index in the static table.
fn answer(stream: u32, status: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &[status])
}
