//! The largest values that a policy may set are reached: heads, fields, and streams.

use crate::support::frames::{
    END_HEADERS, END_STREAM, HEADERS, Peer, RST_STREAM, block, frame, get, request,
};
use crate::support::{
    Driver, Gate, Gateway, Message, Origin, Reply, gateway, on_both_drivers, origin, raw,
};

const HEAD_BYTES: usize = 65_535;
const LINE_BYTES: usize = 61_440;
const FIELDS: usize = 1_000;

fn start(driver: Driver, limits: &str) -> (Origin, Gateway) {
    let origin = origin();
    let gateway = gateway(driver).routes_to(&origin).limits(limits).start();
    (origin, gateway)
}

/// A head of this many bytes in all.
fn head(bytes: usize) -> String {
    let begin = "GET / HTTP/1.1\r\nHost: a\r\nX-Long: ";
    format!("{begin}{}\r\n\r\n", "x".repeat(bytes - begin.len() - 4))
}

/// A head whose request line has this many bytes, without its line end.
fn line(bytes: usize) -> String {
    let target = "x".repeat(bytes - "GET / HTTP/1.1".len());
    format!("GET /{target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// A response whose head has this many bytes.
fn response(bytes: usize) -> Reply {
    let begin = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Long: ";
    raw(format!(
        "{begin}{}\r\n\r\n",
        "x".repeat(bytes - begin.len() - 4)
    ))
}

/// Numbered field lines, from the second on.
fn lines(fields: usize) -> String {
    let lines: Vec<_> = (2..=fields).map(|at| format!("x-{at}: y\r\n")).collect();
    lines.concat()
}

fn response_with(fields: usize) -> Reply {
    let lines = lines(fields);
    raw(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{lines}\r\n"
    ))
}

fn numbered(message: &Message) -> usize {
    let names = message.fields.iter().map(|(name, _)| name.to_lowercase());
    names
        .filter(|name| {
            name.strip_prefix("x-")
                .is_some_and(|rest| rest.parse::<u16>().is_ok())
        })
        .count()
}

on_both_drivers! {
    fn a_request_head_reaches_its_maximum(driver) {
        let (origin, gateway) = start(driver, "headBytes: 65535");
        gateway.client().sends(head(HEAD_BYTES)).expects(200);
        let value = origin.only_request().value("x-long").map(str::len);
        assert_eq!(value, Some(HEAD_BYTES - "GET / HTTP/1.1\r\nHost: a\r\nX-Long: \r\n\r\n".len()));
        gateway.client().sends(head(HEAD_BYTES + 1)).expects(431);
    }

    fn a_request_line_reaches_its_maximum(driver) {
        let (origin, gateway) = start(driver, "headBytes: 65535, requestLineBytes: 61440");
        gateway.client().sends(line(LINE_BYTES)).expects(200);
        assert_eq!(origin.only_request().target().len(), LINE_BYTES - "GET  HTTP/1.1".len());
        gateway.client().sends(line(LINE_BYTES + 1)).expects(414);
    }

    fn header_fields_reach_their_maximum(driver) {
        let (origin, gateway) = start(driver, "headerFields: 1000");
        let head = |fields: usize| {
            let lines = lines(fields);
            format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
        };
        gateway.client().sends(head(FIELDS)).expects(200);
        assert_eq!(numbered(&origin.only_request()), FIELDS - 1);
        gateway.client().sends(head(FIELDS + 1)).expects(431);
    }

    fn header_fields_reach_their_maximum_in_http_2(driver) {
        let (origin, gateway) = start(driver, "headerFields: 1000");
        let lines: Vec<_> = (1..=FIELDS + 1).map(|at| format!("x-{at}")).collect();
        let head = |stream: u32, count: usize| {
            let mut fields = request("GET");
            fields.extend(lines.iter().take(count).map(|name| (name.as_str(), "y")));
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&fields))
        };
        let mut peer = Peer::client(gateway.address());
        peer.sends(head(1, FIELDS));
        assert_eq!(peer.next_of(HEADERS).status(), Some(200));
        assert_eq!(numbered(&origin.only_request()), FIELDS);
        peer.sends(head(3, FIELDS + 1));
        assert_eq!(peer.next_of(HEADERS).status(), Some(431));
    }

    fn a_response_head_reaches_its_maximum(driver) {
        let (origin, gateway) = start(driver, "responseHeadBytes: 65535");
        origin.next_replies([response(HEAD_BYTES), response(HEAD_BYTES + 1)]);
        assert!(gateway.client().gets("/").expects(200).has("x-long"));
        gateway.client().gets("/").expects(502);
    }

    fn header_fields_of_a_response_reach_their_maximum(driver) {
        let (origin, gateway) = start(driver, "responseHeaderFields: 1000");
        origin.next_replies([response_with(FIELDS), response_with(FIELDS + 1)]);
        assert_eq!(numbered(&gateway.client().gets("/").expects(200)), FIELDS - 1);
        gateway.client().gets("/").expects(502);
    }

    /// Those of requests say nothing about responses, and the other way round.
    fn requests_and_responses_have_limits_of_their_own(driver) {
        let (origin, gateway) = start(driver, "headBytes: 512, headerFields: 8");
        origin.next_replies([response(20_000), response_with(90)]);
        for _ in 0..2 {
            gateway.client().gets("/").expects(200);
        }
        let (origin, gateway) = start(driver, "responseHeadBytes: 512, responseHeaderFields: 8");
        gateway.client().sends(head(20_000)).expects(200);
        origin.next_replies([response(1_000), response_with(9)]);
        for _ in 0..2 {
            gateway.client().gets("/").expects(502);
        }
    }

    fn http_2_streams_reach_their_maximum(driver) {
        let gate = Gate::default();
        let held = Reply::at_once().waits_for(&gate).sends("HTTP/1.1 204 No\r\n\r\n");
        let origin = origin().replies(held);
        let gateway = gateway(driver).routes_to(&origin).limits("http2Streams: 250").start();
        let mut peer = Peer::client(gateway.address());
        for stream in 0..250 {
            peer.sends(get(2 * stream + 1));
        }
        origin.waits_for_requests(250);
        peer.sends(get(501));
        assert_eq!(peer.next_of(RST_STREAM).stream, 501);
        gate.open();
        for _ in 0..250 {
            assert_eq!(peer.next_of(HEADERS).status(), Some(204));
        }
    }
}
