//! Limits of connections and heads apply if set by a policy of the Gateway or of a listener.

use std::time::{Duration, Instant};

use crate::support::frames::{
    ACK, Frame, GOAWAY, HEADERS, PING, Peer, SETTINGS, WINDOW_UPDATE, frame, get,
};
use crate::support::{
    Driver, Gate, Gateway, Reply, TIMEOUT, gateway, on_both_drivers, origin, status,
};

const NO_ERROR: u32 = 0;

/// Settings of RFC 9113 section 6.5.2.
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// The value of one setting in a SETTINGS frame.
fn setting(frame: &Frame, wanted: u16) -> Option<u32> {
    frame.payload.chunks_exact(6).find_map(|setting| {
        let (name, value) = setting.split_first_chunk()?;
        let value = value.try_into().ok()?;
        (u16::from_be_bytes(*name) == wanted).then(|| u32::from_be_bytes(value))
    })
}

/// Runs `check` with a gateway for each target that the limits can be named by.
fn at_both_levels(driver: Driver, limits: &str, check: impl Fn(&Gateway)) {
    for target in ["Gateway/gw", "Gateway/gw/http"] {
        let origin = origin();
        let gateway = gateway(driver)
            .routes_to(&origin)
            .policy_of(target, &format!("limits: {{{limits}}}"))
            .start();
        check(&gateway);
    }
}

on_both_drivers! {
    fn request_line_bytes(driver) {
        at_both_levels(driver, "requestLineBytes: 128", |gateway| {
            gateway.client().gets("/short").expects(200);
            gateway.client().gets(&format!("/{}", "x".repeat(128))).expects(414);
        });
    }

    fn head_bytes(driver) {
        at_both_levels(driver, "headBytes: 512", |gateway| {
            let head = |bytes| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(bytes));
            gateway.client().sends(head(100)).expects(200);
            gateway.client().sends(head(512)).expects(431);
        });
    }

    fn header_fields(driver) {
        at_both_levels(driver, "headerFields: 8", |gateway| {
            let head = |fields| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(fields));
            gateway.client().sends(head(7)).expects(200);
            gateway.client().sends(head(8)).expects(431);
        });
    }

    fn head_timeout(driver) {
        at_both_levels(driver, "headTimeout: 200ms", |gateway| {
            gateway.client().sends("GET / HTTP/1.1\r\nHost: a\r\n").expects(408);
        });
    }

    fn keep_alive_timeout(driver) {
        at_both_levels(driver, "keepAliveTimeout: 1500ms", |gateway| {
            let mut client = gateway.client();
            client.gets("/").expects(200);
            client.expects_close();
            gateway.client().expects_close();
        });
    }

    fn http_2_streams_and_windows(driver) {
        let limits = "http2Streams: 7, http2StreamWindowBytes: 1048576, \
            http2ConnectionWindowBytes: 4194304";
        at_both_levels(driver, limits, |gateway| {
            let mut peer = Peer::client(gateway.address());
            let settings = peer.next_of(SETTINGS);
            assert_eq!(setting(&settings, MAX_CONCURRENT_STREAMS), Some(7));
            assert_eq!(setting(&settings, INITIAL_WINDOW_SIZE), Some(1_048_576));
            let update = peer.next_of(WINDOW_UPDATE);
            // The initial window of every connection (RFC 9113 section 6.9.2), and the rest.
            let rest = 4_194_304_u32 - 65_535;
            assert_eq!((update.stream, update.payload), (0, rest.to_be_bytes().to_vec()));
        });
    }

    fn requests_per_connection(driver) {
        at_both_levels(driver, "requestsPerConnection: 2", |gateway| {
            let mut client = gateway.client();
            assert!(!client.gets("/").expects(200).says_close());
            assert!(client.gets("/").expects(200).says_close());
            client.expects_close();
        });
    }

    fn requests_are_not_counted_where_a_policy_says_so(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .routes_to(&origin)
            .policy_of("Gateway/gw", "limits: {requestsPerConnection: 1}")
            .policy_of("Gateway/gw/http", "limits: {requestsPerConnection: 0}")
            .start();
        let mut client = gateway.client();
        for _ in 0..3 {
            assert!(!client.gets("/").expects(200).says_close());
        }
    }

    fn connection_age(driver) {
        at_both_levels(driver, "connectionAge: 300ms", |gateway| {
            let (begun, mut client) = (Instant::now(), gateway.client());
            while !client.gets("/").expects(200).says_close() {
                assert!(begun.elapsed() < TIMEOUT, "the connection grows old");
            }
            // Some connections end a tenth earlier than others.
            assert!(begun.elapsed() >= Duration::from_millis(250), "after {:?}", begun.elapsed());
            client.expects_close();
        });
    }

    fn connection_age_of_http_2(driver) {
        let gate = Gate::default();
        let held = Reply::at_once().waits_for(&gate).sends("HTTP/1.1 204 No\r\n\r\n");
        let origin = origin().replies(status(204));
        let gateway = gateway(driver).routes_to(&origin).limits("connectionAge: 300ms").start();
        origin.next_replies([held]);
        let started = Instant::now();
        let mut peer = Peer::client(gateway.address());
        peer.sends(get(1));
        origin.waits_for_requests(1);
        let (first, last) = asks_until_goaway(&mut peer, 3);
        assert!(started.elapsed() >= Duration::from_millis(250), "after {:?}", started.elapsed());
        assert_eq!((first.last_stream(), first.code()), (u32::MAX >> 1, Some(NO_ERROR)));
        let ping = peer.next_of(PING);
        peer.sends(frame(PING, ACK, 0, &ping.payload));
        let second = peer.next_of(GOAWAY);
        assert_eq!((second.last_stream(), second.code()), (last, Some(NO_ERROR)));
        // The stream that was open all the while is finished.
        gate.open();
        while peer.next_of(HEADERS).stream != 1 {}
        while peer.next().is_some() {}
    }

    fn a_timeout_of_zero_disables_it(driver) {
        at_both_levels(driver, "keepAliveTimeout: 0s, headTimeout: 0s, connectionAge: 0s", |gateway| {
            let mut client = gateway.client();
            assert!(!client.gets("/").expects(200).says_close());
            client.sends("GET / HTTP/1.1\r\n").expects_silence().sends("Host: a\r\n\r\n").expects(200);
        });
    }
}

/// Sends requests on one stream after the other until a GOAWAY arrives. Returns it and the last
/// stream.
#[track_caller]
fn asks_until_goaway(peer: &mut Peer, first: u32) -> (Frame, u32) {
    let started = Instant::now();
    let mut stream = first;
    peer.sends(get(stream));
    loop {
        assert!(started.elapsed() < TIMEOUT, "the connection grows old");
        let frame = peer.next().expect("an answer, or a GOAWAY");
        match frame.kind {
            GOAWAY => return (frame, stream),
            HEADERS => {
                stream += 2;
                peer.sends(get(stream));
            }
            _ => {}
        }
    }
}
