use http::{HeaderMap, Method, StatusCode, Version as HttpVersion};

use super::{Switch, local_response, request, response};
use crate::http::h1::encode::{
    DownstreamResponse, Expectation, LocalResponse, Persist, UpstreamRequest,
};
use crate::http::h1::{HeadLimits, HeadScan, RequestKind, parse_request, parse_response};
use crate::http::head::{RequestHead, ResponseHead, Version};

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 1024,
    head_bytes: 4096,
    fields: 20,
};

/// Converts an HTTP/1 request, which is forwarded to `target`.
fn convert_request(head: &str, switch: Switch, target: &str) -> Option<http::Request<()>> {
    let (mut parsed, mut scan) = (RequestHead::default(), HeadScan::default());
    parse_request(head.as_bytes(), &LIMITS, &mut scan, &mut parsed).expect("well-formed");
    let outgoing = UpstreamRequest {
        head: &parsed,
        framing: parsed.framing,
        bytes: head.as_bytes(),
        target: target.as_bytes(),
        host: b"b.test",
        expectation: Expectation::Ours,
        append: b"x-request-id: 7\r\n",
    };
    let scheme = http::uri::Scheme::HTTP;
    request(&outgoing, &scheme, switch, |_, name| {
        name.eq_ignore_ascii_case(b"x-gone")
    })
}

fn text(fields: &HeaderMap) -> Vec<String> {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        format!("{name}: {}", value.as_bytes().escape_ascii())
    };
    fields.iter().map(line).collect()
}

#[test]
fn hop_by_hop_fields_are_not_converted() {
    let head = "POST /x HTTP/1.1\r\nHost: a.test\r\nConnection: x-hop, keep-alive\r\nX-Hop: 1\r\n\
                X-Gone: 1\r\nAccept: */*\r\nTE: gzip, trailers\r\nContent-Length: 5\r\n\
                Expect: 100-continue\r\nUpgrade: h2c\r\n\r\n";
    let converted = convert_request(head, Switch::Ignored, "/to?q").expect("possible");
    assert_eq!(converted.method(), Method::POST);
    assert_eq!(converted.uri(), "http://b.test/to?q");
    assert_eq!(
        text(converted.headers()),
        [
            "accept: */*",
            "content-length: 5",
            "te: trailers",
            "x-request-id: 7"
        ]
    );
}

#[test]
fn characters_not_allowed_in_uris_are_escaped() {
    let converted = convert_request(
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        Switch::Ignored,
        "/a<b>`c%20|",
    );
    assert_eq!(
        converted.expect("possible").uri().path(),
        "/a%3Cb%3E%60c%20%7C"
    );
}

#[test]
fn a_websocket_upgrade_becomes_an_extended_connect() {
    let head = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Key: k\r\nSec-WebSocket-Version: 13\r\n\r\n";
    let converted = convert_request(head, Switch::Tunnel, "/chat").expect("possible");
    assert_eq!(
        (converted.method(), converted.version()),
        (&Method::CONNECT, HttpVersion::HTTP_2)
    );
    let protocol = converted.extensions().get::<h2::ext::Protocol>();
    assert_eq!(protocol.map(h2::ext::Protocol::as_str), Some("websocket"));
    let expected = ["sec-websocket-version: 13", "x-request-id: 7"];
    assert_eq!(text(converted.headers()), expected);
    let converted = convert_request(head, Switch::Ignored, "/chat").expect("possible");
    assert_eq!(converted.method(), Method::GET);
}

#[test]
fn a_response_keeps_its_length_and_loses_connection_fields() {
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\nSet-Cookie: a\r\n\
                Set-Cookie: b\r\nX-Gone: 1\r\n\r\n";
    let (mut parsed, mut scan) = (ResponseHead::default(), HeadScan::default());
    parse_response(
        head.as_bytes(),
        RequestKind::Other,
        &LIMITS,
        &mut scan,
        &mut parsed,
    )
    .expect("well-formed");
    let outgoing = DownstreamResponse {
        head: &parsed,
        bytes: head.as_bytes(),
        client: Version::Http2,
        persist: Persist::Close,
        append: b"x-more: 1\r\n",
    };
    let converted = response(&outgoing, |_, name| name == b"X-Gone");
    assert_eq!(converted.status(), StatusCode::OK);
    assert_eq!(
        text(converted.headers()),
        [
            "set-cookie: a",
            "set-cookie: b",
            "content-length: 5",
            "x-more: 1"
        ]
    );
}

#[test]
fn a_local_response_has_a_body_unless_the_method_is_head() {
    let mut outgoing = LocalResponse {
        status: StatusCode::NOT_FOUND,
        request_kind: RequestKind::Other,
        client: Version::Http2,
        persist: Persist::Keep,
        append: b"",
        body: b"no",
    };
    let (made, body) = local_response(&outgoing);
    assert_eq!(body, b"no");
    let expected = [
        "content-type: text/plain; charset=utf-8",
        "content-length: 2",
    ];
    assert_eq!(text(made.headers()), expected);
    outgoing.request_kind = RequestKind::Head;
    let (made, body) = local_response(&outgoing);
    assert_eq!((made.headers().len(), body), (2, &b""[..]));
    outgoing.body = b"";
    assert!(local_response(&outgoing).0.headers().is_empty());
}
