use http::StatusCode;

use super::{
    DownstreamResponse, Expectation, LocalResponse, Persist, RequestKind, UpstreamRequest,
    chunk_head, last_chunk,
};
use crate::http::h1::{HeadLimits, HeadScan, parse_request, parse_response};
use crate::http::head::{RequestHead, ResponseHead, Version};
use crate::http::known::KnownHeader;

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 8192,
    head_bytes: 32_768,
    fields: 100,
};

fn forward(text: &str, expectation: Expectation, drop: &[KnownHeader]) -> String {
    let mut head = RequestHead::default();
    let bytes = text.as_bytes();
    parse_request(bytes, &LIMITS, &mut HeadScan::default(), &mut head).expect("a valid request");
    let request = UpstreamRequest {
        head: &head,
        framing: head.framing,
        bytes,
        target: b"/t",
        host: b"up",
        expectation,
        append: b"X-Added: 1\r\n",
    };
    let mut out = Vec::new();
    request.encode(&mut out, |known, name| {
        drop.contains(&known) || name == b"X-Drop"
    });
    String::from_utf8(out).expect("text")
}

#[test]
fn a_forwarded_request_keeps_its_fields_and_is_reframed() {
    let text = "POST /a HTTP/1.1\r\nHost: h\r\nA: 1\r\nX-Drop: 1\r\nB:2\r\nC: 3\r\n\
                X-Forwarded-For: 1.2.3.4\r\nContent-Length: 04, 4\r\nD: \r\nE: 5\r\n\r\n";
    let expected = "POST /t HTTP/1.1\r\nHost: up\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: \r\nE: 5\r\n\
                    Content-Length: 4\r\nX-Added: 1\r\n\r\n";
    assert_eq!(
        forward(text, Expectation::Origin, &[KnownHeader::XForwardedFor]),
        expected
    );
}

#[test]
fn hop_by_hop_fields_are_not_forwarded() {
    let text = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close, X-Mine, host, content-length, \
                x-forwarded-for, X-Forwarded-User, authorization\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n\
                Proxy-Connection: a\r\nProxy-Authorization: a\r\nProxy: evil\r\nProxy-Any: a\r\nTE: gzip\r\n\
                Trailer: a\r\nUpgrade: websocket\r\nX-Forwarded-For: b\r\nX-Forwarded-User: c\r\n\
                Authorization: d\r\n\r\n";
    let expected = "GET /t HTTP/1.1\r\nHost: up\r\nX-Forwarded-For: b\r\nX-Forwarded-User: c\r\n\
                    Authorization: d\r\nX-Added: 1\r\n\r\n";
    assert_eq!(forward(text, Expectation::Origin, &[]), expected);
}

#[test]
fn te_trailers_and_upgrade_are_regenerated() {
    let text = "GET / HTTP/1.1\r\nHost: h\r\nTE: deflate, trailers\r\nConnection: TE, Upgrade\r\n\
                Upgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n";
    let expected = "GET /t HTTP/1.1\r\nHost: up\r\nSec-WebSocket-Key: k\r\nTE: trailers\r\n\
                    Connection: TE\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Added: 1\r\n\r\n";
    assert_eq!(forward(text, Expectation::Origin, &[]), expected);
}

#[test]
fn an_expectation_is_handled_by_either_origin_or_gateway() {
    let text =
        "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(forward(text, Expectation::Origin, &[]).contains("Expect: 100-continue\r\n"));
    let ours = "PUT /t HTTP/1.1\r\nHost: up\r\nTransfer-Encoding: chunked\r\nX-Added: 1\r\n\r\n";
    assert_eq!(forward(text, Expectation::Ours, &[]), ours);
    let ignored = "PUT / HTTP/1.0\r\nHost: h\r\nExpect: x\r\nContent-Length: 1\r\n\r\n";
    assert!(!forward(ignored, Expectation::Origin, &[]).contains("Expect"));
}

fn back(text: &str, request_kind: RequestKind, client: Version, persist: Persist) -> String {
    let mut head = ResponseHead::default();
    let bytes = text.as_bytes();
    parse_response(
        bytes,
        request_kind,
        &LIMITS,
        &mut HeadScan::default(),
        &mut head,
    )
    .expect("valid");
    let response = DownstreamResponse {
        head: &head,
        bytes,
        client,
        persist,
        append: b"",
    };
    let mut out = Vec::new();
    response.encode(&mut out, |_, name| name.eq_ignore_ascii_case(b"server"));
    String::from_utf8(out).expect("text")
}

#[test]
fn responses_are_framed_for_the_client() {
    use Persist::{Close, Keep};
    use Version::{Http10, Http11};
    for (fields, client, persist, expected) in [
        (
            "Content-Length: 5\r\n",
            Http11,
            Keep,
            "Content-Length: 5\r\n",
        ),
        (
            "Content-Length: 5\r\n",
            Http11,
            Close,
            "Content-Length: 5\r\nConnection: close\r\n",
        ),
        (
            "Content-Length: 5\r\n",
            Http10,
            Keep,
            "Content-Length: 5\r\nConnection: keep-alive\r\n",
        ),
        (
            "Transfer-Encoding: chunked\r\n",
            Http11,
            Keep,
            "Transfer-Encoding: chunked\r\n",
        ),
        (
            "Transfer-Encoding: chunked\r\n",
            Http10,
            Keep,
            "Connection: close\r\n",
        ),
        (
            "Connection: close\r\n",
            Http11,
            Keep,
            "Transfer-Encoding: chunked\r\n",
        ),
        ("", Http10, Keep, "Connection: close\r\n"),
    ] {
        let text = format!("HTTP/1.1 200 OK\r\nServer: x\r\nA: b\r\n{fields}\r\n");
        let expected = format!("HTTP/1.1 200 OK\r\nA: b\r\n{expected}\r\n");
        assert_eq!(
            back(&text, RequestKind::Other, client, persist),
            expected,
            "{fields} {client:?}"
        );
    }
}

#[test]
fn responses_without_a_body_keep_their_content_length() {
    let keep = |line: &str, request_kind| {
        let text = format!("HTTP/1.1 {line}\r\nContent-Length: 5\r\n\r\n");
        back(&text, request_kind, Version::Http11, Persist::Keep)
    };
    let with = |line: &str| format!("HTTP/1.1 {line}\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(keep("200 OK", RequestKind::Head), with("200 OK"));
    assert_eq!(
        keep("304 Not Modified", RequestKind::Other),
        with("304 Not Modified")
    );
    assert_eq!(
        keep("204 No Content", RequestKind::Other),
        "HTTP/1.1 204 No Content\r\n\r\n"
    );
}

#[test]
fn interim_responses_have_no_connection_header() {
    let text = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n";
    assert_eq!(
        back(text, RequestKind::Other, Version::Http11, Persist::Close),
        text
    );
    let text = "HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(
        back(text, RequestKind::Upgrade, Version::Http11, Persist::Keep),
        text
    );
}

#[test]
fn local_responses_are_encoded() {
    let answer = LocalResponse {
        status: StatusCode::BAD_REQUEST,
        request_kind: RequestKind::Other,
        client: Version::Http11,
        persist: Persist::Close,
        append: b"A: b\r\n",
        length: 3,
    };
    let text = |answer: LocalResponse<'_>| {
        let mut out = Vec::new();
        answer.encode_head(&mut out);
        String::from_utf8(out).expect("text")
    };
    let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
                Content-Length: 3\r\nConnection: close\r\nA: b\r\n\r\n";
    assert_eq!(text(answer), head);
    assert!(answer.sends_body());
    let to_head = LocalResponse {
        request_kind: RequestKind::Head,
        ..answer
    };
    assert_eq!(text(to_head), head);
    assert!(!to_head.sends_body());
    let empty = LocalResponse {
        status: StatusCode::NO_CONTENT,
        persist: Persist::Keep,
        append: b"",
        ..answer
    };
    assert_eq!(text(empty), "HTTP/1.1 204 No Content\r\n\r\n");
    assert!(!empty.sends_body());
}

#[test]
fn chunk_framing() {
    for (length, expected) in [
        (1, "1\r\n"),
        (15, "f\r\n"),
        (16, "10\r\n"),
        (65536, "10000\r\n"),
        (usize::MAX, "ffffffffffffffff\r\n"),
    ] {
        let mut out = Vec::new();
        chunk_head(&mut out, length);
        assert_eq!(out, expected.as_bytes());
    }
    let mut out = Vec::new();
    last_chunk(&mut out, b"a: b\r\n");
    assert_eq!(out, b"0\r\na: b\r\n\r\n");
}
