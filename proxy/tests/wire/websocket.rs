//! WebSockets during a drain: both sides get a Close frame, between two frames (RFC 6455 section
//! 7.4.1).

use std::time::{Duration, Instant};

use crate::support::{
    Client, ConnectionEnd, Gateway, Origin, Reply, Signal, gateway, on_both_drivers, origin,
};

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\
                   Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// The response to it, as sent by a client.
const ANSWER: &[u8] = b"\x88\x82\0\0\0\0\x03\xe9";

struct Scene {
    gateway: Gateway,
    client: Client,
    _origin: Origin,
}

fn scene(driver: crate::support::Driver) -> Scene {
    // The echo of our own Close is its response to that.
    let origin = origin().replies(Reply::at_once().sends(SWITCH).echoes());
    let gateway = gateway(driver)
        .routes_to(&origin)
        .argument("--drain-accept=0s")
        .argument("--drain-deadline=20s")
        .start();
    let mut client = gateway.client();
    assert_eq!(client.sends(ASK).reads_head().status(), 101);
    Scene {
        gateway,
        client,
        _origin: origin,
    }
}

/// The sender of the Close frame that a client gets.
#[derive(Debug, PartialEq, Eq)]
enum CloseSender {
    Ours,
    /// The origin's, which responds to its own Close frame, if that was quicker.
    Origins,
}

/// Reads a Close, 1001.
#[track_caller]
fn read_close_frame(client: &mut Client) -> CloseSender {
    match client.reads_bytes(4).as_slice() {
        b"\x88\x02\x03\xe9" => CloseSender::Ours,
        // An echoed frame has the client's mask.
        b"\x88\x82\0\0" => {
            assert_eq!(client.reads_bytes(4), b"\0\0\x03\xe9");
            CloseSender::Origins
        }
        other => panic!("no Close: {other:?}"),
    }
}

on_both_drivers! {
    fn a_drain_sends_close_frames_to_both_sides(driver) {
        let mut scene = scene(driver);
        let (client, gateway) = (&mut scene.client, &mut scene.gateway);
        let message = b"\x81\x82\0\0\0\0hi";
        assert_eq!(client.sends(message).reads_bytes(message.len()), message);
        let started = Instant::now();
        gateway.signal(Signal::Term);
        let goodbye = read_close_frame(client);
        let ending = client.sends(ANSWER).expects_end();
        assert!(goodbye == CloseSender::Origins || ending == ConnectionEnd::Closed, "{ending:?}");
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
        assert!(started.elapsed() < Duration::from_secs(15), "took {:?}", started.elapsed());
    }

    fn an_idle_websocket_gets_a_close_frame_too(driver) {
        let mut scene = scene(driver);
        let (client, gateway) = (&mut scene.client, &mut scene.gateway);
        // Longer than a waiting connection keeps its buffer.
        for _ in 0..7 {
            client.expects_silence();
        }
        gateway.signal(Signal::Term);
        let goodbye = read_close_frame(client);
        let ending = client.sends(ANSWER).expects_end();
        assert!(goodbye == CloseSender::Origins || ending == ConnectionEnd::Closed, "{ending:?}");
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
    }

    fn the_close_frame_is_sent_between_frames(driver) {
        let mut scene = scene(driver);
        let (client, gateway) = (&mut scene.client, &mut scene.gateway);
        let (half, rest) = (b"\x81\x85\0\0\0\0he", b"llo");
        assert_eq!(client.sends(half).reads_bytes(half.len()), half);
        gateway.signal(Signal::Term);
        gateway.waits_until_refused_on(gateway.address());
        client.expects_silence();
        assert_eq!(client.sends(rest).reads_bytes(rest.len()), rest);
        read_close_frame(client);
        client.sends(ANSWER).expects_end();
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
    }

    fn an_unanswered_close_frame_does_not_delay_the_exit(driver) {
        let mut scene = scene(driver);
        let (client, gateway) = (&mut scene.client, &mut scene.gateway);
        let started = Instant::now();
        gateway.signal(Signal::Term);
        read_close_frame(client);
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
        assert!(started.elapsed() < Duration::from_secs(18), "took {:?}", started.elapsed());
        client.expects_end();
    }
}
