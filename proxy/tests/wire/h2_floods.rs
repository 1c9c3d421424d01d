//! Floods over HTTP/2: frames that cost their sender nothing end their connection with
//! `ENHANCE_YOUR_CALM`, and neither memory nor neighbours notice.

use crate::support::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PRIORITY, Peer, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, block, frame, get, post, request,
};
use crate::support::{Driver, Gateway, Origin, gateway, on_both_drivers, origin};

const ENHANCE_YOUR_CALM: u32 = 11;

/// Frames that cost their sender nothing.
pub(crate) struct Flood {
    pub(crate) name: &'static str,
    /// What the gateway calls it.
    cause: &'static str,
    /// The n-th piece of it.
    nth: fn(u32) -> Vec<u8>,
}

impl Flood {
    /// More of it than any budget allows.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        (0..MOST_FRAMES).flat_map(self.nth).collect()
    }
}

/// All of them.
pub(crate) const FLOODS: [&Flood; 11] = [
    &RAPID_RESET,
    &OWN_RESETS,
    &PINGS,
    &SETTINGS_FRAMES,
    &ACKNOWLEDGEMENTS,
    &EMPTY_DATA,
    &PADDING,
    &CONTINUATIONS,
    &EMPTY_CONTINUATIONS,
    &WINDOW_UPDATES,
    &PRIORITIES,
];

/// CVE-2023-44487.
const RAPID_RESET: Flood = Flood {
    name: "rapid reset",
    cause: "resets",
    nth: |nth| {
        let stream = nth * 2 + 1;
        [get(stream), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    },
};

/// CVE-2025-8671: a window that is too large makes us break off what was asked for.
const OWN_RESETS: Flood = Flood {
    name: "resets that we are made to send",
    cause: "own_resets",
    nth: |nth| {
        let stream = nth * 2 + 1;
        let wide = frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]);
        [post(stream), wide].concat()
    },
};

const PINGS: Flood = Flood {
    name: "PING",
    cause: "pings",
    nth: |_| frame(PING, 0, 0, &[0; 8]),
};

const SETTINGS_FRAMES: Flood = Flood {
    name: "SETTINGS",
    cause: "settings",
    nth: |_| frame(SETTINGS, 0, 0, b""),
};

const ACKNOWLEDGEMENTS: Flood = Flood {
    name: "acknowledged PING",
    cause: "pings",
    nth: |_| frame(PING, ACK, 0, &[0; 8]),
};

const EMPTY_DATA: Flood = Flood {
    name: "empty DATA",
    cause: "empty_data",
    nth: |nth| match nth {
        0 => post(1),
        _ => frame(DATA, 0, 1, b""),
    },
};

const PADDING: Flood = Flood {
    name: "DATA of padding",
    cause: "empty_data",
    nth: |nth| match nth {
        0 => post(1),
        _ => frame(DATA, 8, 1, &[3, 0, 0, 0]),
    },
};

/// CVE-2024-27316.
const CONTINUATIONS: Flood = Flood {
    name: "CONTINUATION",
    cause: "continuations",
    nth: |nth| match nth {
        0 => frame(HEADERS, END_STREAM, 1, &block(&request("GET"))),
        _ => frame(CONTINUATION, 0, 1, &block(&[("x", "y")])),
    },
};

const EMPTY_CONTINUATIONS: Flood = Flood {
    name: "empty CONTINUATION",
    cause: "continuations",
    nth: |nth| match nth {
        0 => frame(HEADERS, END_STREAM, 1, &block(&request("GET"))),
        _ => frame(CONTINUATION, 0, 1, b""),
    },
};

const WINDOW_UPDATES: Flood = Flood {
    name: "WINDOW_UPDATE",
    cause: "window_updates",
    nth: |_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
};

const PRIORITIES: Flood = Flood {
    name: "PRIORITY",
    cause: "priorities",
    nth: |_| frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 16]),
};

on_both_drivers! {
    fn rapid_reset(driver) {
        flood(driver, &RAPID_RESET);
    }

    fn resets_that_we_are_made_to_send(driver) {
        flood(driver, &OWN_RESETS);
    }

    fn what_ends_with_its_head_reaches_no_origin(driver) {
        for flood in [&RAPID_RESET, &OWN_RESETS] {
            let (origin, gateway) = start(driver);
            let mut peer = Peer::client(gateway.address());
            // As one segment, so that every end is known before any stream is begun.
            peer.sends((0..FEW).flat_map(flood.nth).collect::<Vec<_>>());
            peer.sends(get(FEW * 2 + 1));
            assert_eq!(peer.next_of(HEADERS).stream, FEW * 2 + 1);
            assert_eq!(origin.requests().len(), 1, "{}", flood.name);
            assert_eq!(origin.connections(), 1, "{}", flood.name);
        }
    }

    fn pings(driver) {
        flood(driver, &PINGS);
    }

    fn settings(driver) {
        flood(driver, &SETTINGS_FRAMES);
    }

    fn acknowledgements_of_nothing(driver) {
        flood(driver, &ACKNOWLEDGEMENTS);
    }

    fn empty_data(driver) {
        flood(driver, &EMPTY_DATA);
    }

    fn data_of_padding_alone(driver) {
        flood(driver, &PADDING);
    }

    fn continuations(driver) {
        flood(driver, &CONTINUATIONS);
    }

    fn empty_continuations(driver) {
        flood(driver, &EMPTY_CONTINUATIONS);
    }

    fn window_updates(driver) {
        flood(driver, &WINDOW_UPDATES);
    }

    fn priorities(driver) {
        flood(driver, &PRIORITIES);
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

/// Sends a flood until the gateway has enough of it, while a neighbour on the same shard is served.
fn flood(driver: Driver, flood: &Flood) {
    let (_origin, gateway) = start(driver);
    let mut neighbour = gateway.client();
    neighbour.gets("/").expects(200);
    let before = gateway.resident_bytes();
    let mut peer = Peer::client(gateway.address());
    peer.sends(flood.bytes());
    neighbour.gets("/").expects(200);
    assert_eq!(peer.expects_goaway(), ENHANCE_YOUR_CALM);
    gateway.waits_for_log(&format!("cause=\"{}\"", flood.cause));
    assert!(
        gateway.resident_bytes() < before + BOUND,
        "memory of a flood is kept"
    );
    neighbour.gets("/").expects(200);
}

/// Within every budget, and more heads than a turn takes in.
const FEW: u32 = 64;

/// More than any budget allows.
const MOST_FRAMES: u32 = 1_000;
