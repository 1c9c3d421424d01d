//! Floods over HTTP/2: frames that cost their sender nothing end their connection with
//! `ENHANCE_YOUR_CALM`, and neither memory nor neighbours notice.

use crate::support::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PRIORITY, Peer, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, block, frame, get, post, request,
};
use crate::support::{Driver, Gateway, Origin, gateway, on_both_drivers, origin};

const ENHANCE_YOUR_CALM: u32 = 11;

on_both_drivers! {
    fn rapid_reset(driver) {
        flood(driver, "resets", |nth| {
            let stream = nth * 2 + 1;
            [get(stream), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
        });
    }

    fn resets_that_we_are_made_to_send(driver) {
        // CVE-2025-8671: a window that is too large makes us break off what was asked for.
        flood(driver, "own_resets", |nth| {
            let stream = nth * 2 + 1;
            let wide = frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]);
            [post(stream), wide].concat()
        });
    }

    fn pings(driver) {
        flood(driver, "pings", |_| frame(PING, 0, 0, &[0; 8]));
    }

    fn settings(driver) {
        flood(driver, "settings", |_| frame(SETTINGS, 0, 0, b""));
    }

    fn acknowledgements_of_nothing(driver) {
        flood(driver, "pings", |_| frame(PING, ACK, 0, &[0; 8]));
    }

    fn empty_data(driver) {
        flood(driver, "empty_data", |nth| match nth {
            0 => post(1),
            _ => frame(DATA, 0, 1, b""),
        });
    }

    fn data_of_padding_alone(driver) {
        flood(driver, "empty_data", |nth| match nth {
            0 => post(1),
            _ => frame(DATA, 8, 1, &[3, 0, 0, 0]),
        });
    }

    fn continuations(driver) {
        // CVE-2024-27316.
        flood(driver, "continuations", |nth| match nth {
            0 => frame(HEADERS, END_STREAM, 1, &block(&request("GET"))),
            _ => frame(CONTINUATION, 0, 1, &block(&[("x", "y")])),
        });
    }

    fn empty_continuations(driver) {
        flood(driver, "continuations", |nth| match nth {
            0 => frame(HEADERS, END_STREAM, 1, &block(&request("GET"))),
            _ => frame(CONTINUATION, 0, 1, b""),
        });
    }

    fn window_updates(driver) {
        flood(driver, "window_updates", |_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]));
    }

    fn priorities(driver) {
        flood(driver, "priorities", |_| frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 16]));
    }

    fn crumbs_of_a_cookie_are_counted_one_by_one(driver) {
        let (origin, gateway) = start(driver);
        let mut peer = Peer::client(gateway.address());
        let mut head = block(&request("GET"));
        for _ in 0..1_000 {
            head.extend(block(&[("cookie", "a")]));
        }
        peer.sends(frame(HEADERS, END_STREAM | END_HEADERS, 1, &head));
        assert_eq!(peer.next_of(HEADERS).status(), Some(431));
        assert!(origin.requests().is_empty());
    }

    fn a_head_that_grows_when_it_is_unpacked_is_too_large(driver) {
        // One field of 4000 bytes in the dynamic table, then 8000 references to it: 32 MB.
        let (origin, gateway) = start(driver);
        let mut peer = Peer::client(gateway.address());
        let mut head = block(&request("GET"));
        head.push(0x40);
        head.extend(&block(&[("x", &"y".repeat(4_000))])[1..]);
        head.resize(head.len() + 8_000, 0xbe);
        let before = gateway.resident_bytes();
        peer.sends(frame(HEADERS, END_STREAM | END_HEADERS, 1, &head));
        loop {
            match peer.next() {
                Some(frame) if frame.kind == HEADERS => {
                    assert_eq!(frame.status(), Some(431));
                    break;
                }
                Some(_) => {}
                None => break,
            }
        }
        assert!(gateway.resident_bytes() < before + BOUND);
        assert!(origin.requests().is_empty());
        assert_served(&gateway);
    }
}

/// More than any flood below leaves behind; a fraction of what one sends.
const BOUND: u64 = 8 * 1024 * 1024;

fn start(driver: Driver) -> (Origin, Gateway) {
    let origin = origin();
    let gateway = gateway(driver).routes_to(&origin).start();
    (origin, gateway)
}

fn assert_served(gateway: &Gateway) {
    gateway.client().gets("/").expects(200);
}

/// Sends what `nth` says until the gateway has enough of it, while a neighbour on the same shard is
/// served.
fn flood(driver: Driver, cause: &str, nth: impl Fn(u32) -> Vec<u8>) {
    let (_origin, gateway) = start(driver);
    let mut neighbour = gateway.client();
    neighbour.gets("/").expects(200);
    let before = gateway.resident_bytes();
    let mut peer = Peer::client(gateway.address());
    let bytes: Vec<u8> = (0..MOST_FRAMES).flat_map(nth).collect();
    peer.sends(&bytes);
    neighbour.gets("/").expects(200);
    assert_eq!(peer.expects_goaway(), ENHANCE_YOUR_CALM);
    gateway.waits_for_log(&format!("cause=\"{cause}\""));
    assert!(
        gateway.resident_bytes() < before + BOUND,
        "memory of a flood is kept"
    );
    neighbour.gets("/").expects(200);
}

/// More than any budget allows.
const MOST_FRAMES: u32 = 1_000;
