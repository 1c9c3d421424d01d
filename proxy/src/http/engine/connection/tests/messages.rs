//! What malformed and allowed messages are answered with, by section of RFC 9113.

use super::rows::answer;
use super::*;

#[test]
fn malformed_requests_reset_their_stream() {
    let with = |more: &[(&'static str, &'static str)]| [GET, more].concat();
    let without = |name: &str| {
        let kept = GET.iter().copied().filter(|(known, _)| *known != name);
        kept.collect::<Vec<_>>()
    };
    for (section, fields) in [
        ("8.2.1", with(&[("X-Upper", "y")])),
        ("8.2.1", with(&[("x y", "z")])),
        ("8.2.1", with(&[("", "z")])),
        ("8.2.1", with(&[("x", "a\rb")])),
        ("8.2.1", with(&[("x", " a")])),
        ("8.2.2", with(&[("connection", "close")])),
        ("8.2.2", with(&[("keep-alive", "5")])),
        ("8.2.2", with(&[("proxy-connection", "x")])),
        ("8.2.2", with(&[("transfer-encoding", "chunked")])),
        ("8.2.2", with(&[("upgrade", "h2c")])),
        ("8.2.2", with(&[("te", "gzip")])),
        ("8.3", with(&[(":test", "x")])),
        ("8.3", with(&[(":status", "200")])),
        ("8.3", with(&[(":method", "GET")])),
        ("8.3", with(&[("x", "y"), (":protocol", "z")])),
        ("8.3.1", without(":method")),
        ("8.3.1", without(":scheme")),
        ("8.3.1", without(":path")),
        ("8.3.1", [&without(":path")[..], &[(":path", "")]].concat()),
        (
            "8.3.1",
            [&without(":method")[..], &[(":method", "GE T")]].concat(),
        ),
        (
            "8.3.1",
            [&without(":scheme")[..], &[(":scheme", "1")]].concat(),
        ),
        (
            "8.5",
            vec![(":method", "CONNECT"), (":path", "/"), (":authority", "a")],
        ),
        ("8441 4", with(&[(":protocol", "websocket")])),
        ("8.1.1", with(&[("content-length", "1")])),
    ] {
        let mut side = Side::server();
        let all = answer(&mut side, &headers(1, END, &fields));
        assert_eq!(all, ["reset 1 PROTOCOL_ERROR"], "{section}: {fields:?}");
        // The connection goes on; what was on the way is ignored.
        let rest = [data(1, 0, b"x"), headers(1, END, &[("a", "b")]), get(3)].concat();
        assert_eq!(
            answer(&mut side, &rest),
            ["request 3 GET / End"],
            "{section}"
        );
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn malformed_bodies_reset_their_stream() {
    let sized =
        |length: &'static str| headers(1, 0, &[POST, &[("content-length", length)]].concat());
    for (section, bytes, cause) in [
        (
            "8.1",
            [post(1), headers(1, 0, &[("x", "y")])].concat(),
            "does not, or the other way",
        ),
        (
            "8.1",
            [post(1), headers(1, END, &[(":method", "GET")])].concat(),
            "pseudo-header",
        ),
        (
            "8.1",
            [post(1), headers(1, END, &[(":status", "200")])].concat(),
            "pseudo-header",
        ),
        (
            "8.2.1",
            [post(1), headers(1, END, &[("X", "y")])].concat(),
            "field name",
        ),
        (
            "8.2.2",
            [post(1), headers(1, END, &[("connection", "y")])].concat(),
            "connection-specific",
        ),
        (
            "8.1.1",
            [sized("5"), data(1, END, b"abc")].concat(),
            "Content-Length",
        ),
        (
            "8.1.1",
            [sized("2"), data(1, 0, b"abc")].concat(),
            "Content-Length",
        ),
        (
            "8.1.1",
            [sized("4"), headers(1, END, &[("x", "y")])].concat(),
            "Content-Length",
        ),
    ] {
        let mut side = Side::server();
        let all = answer(&mut side, &bytes);
        let reported = all
            .iter()
            .any(|it| it.starts_with("reset 1: malformed") && it.contains(cause));
        assert!(reported, "{section}: {all:?}");
        assert_eq!(
            all.last().map(String::as_str),
            Some("reset 1 PROTOCOL_ERROR"),
            "{section}"
        );
        let rest = [data(1, 0, b"x"), get(3)].concat();
        assert_eq!(
            answer(&mut side, &rest),
            ["request 3 GET / End"],
            "{section}"
        );
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn malformed_responses_reset_their_stream() {
    let ok: &[(&str, &str)] = &[(":status", "200")];
    let sized: &[(&str, &str)] = &[(":status", "200"), ("content-length", "2")];
    for (section, method, bytes, cause) in [
        ("8.1", "GET", data(1, 0, b"x"), "order"),
        (
            "8.1",
            "GET",
            headers(1, END, &[(":status", "103")]),
            "the other way",
        ),
        (
            "8.1",
            "GET",
            [headers(1, 0, ok), headers(1, END, ok)].concat(),
            "pseudo",
        ),
        ("8.3.2", "GET", headers(1, 0, &[("x", "y")]), "pseudo"),
        (
            "8.3.2",
            "GET",
            headers(1, 0, &[(":status", "99")]),
            "pseudo",
        ),
        (
            "8.3.2",
            "GET",
            headers(1, 0, &[(":status", "2000")]),
            "pseudo",
        ),
        (
            "8.3.2",
            "GET",
            headers(1, 0, &[(":status", "200"), (":path", "/")]),
            "pseudo",
        ),
        (
            "8.2",
            "GET",
            headers(1, 0, &[(":status", "200"), ("X", "/")]),
            "field name",
        ),
        (
            "8.2.2",
            "GET",
            headers(1, 0, &[(":status", "200"), ("upgrade", "x")]),
            "connection-specific",
        ),
        (
            "8.6",
            "GET",
            headers(1, 0, &[(":status", "101")]),
            "unsolicited",
        ),
        (
            "8.1.1",
            "GET",
            [headers(1, 0, sized), data(1, 0, b"abc")].concat(),
            "Content-Length",
        ),
        (
            "8.1.1",
            "GET",
            [headers(1, 0, sized), data(1, END, b"a")].concat(),
            "Content-Length",
        ),
        ("8.1.1", "GET", headers(1, END, sized), "Content-Length"),
        (
            "8.1.1",
            "HEAD",
            [headers(1, 0, sized), data(1, END, b"ab")].concat(),
            "Content-Length",
        ),
    ] {
        let mut side = Side::client();
        side.open(method, Then::End);
        side.sent();
        let all = answer(&mut side, &bytes);
        let reported = all
            .iter()
            .any(|it| it.starts_with("reset 1:") && it.contains(cause));
        assert!(reported, "{section}: {all:?}");
        assert_eq!(
            all.last().map(String::as_str),
            Some("reset 1 PROTOCOL_ERROR"),
            "{section}"
        );
    }
}

#[test]
fn requests_that_the_gateway_rejects_are_reported() {
    let with = |more: &[(&'static str, &'static str)]| [GET, more].concat();
    let instead = |name: &'static str, value: &'static str| {
        let changed = GET
            .iter()
            .map(|&(known, before)| (known, if known == name { value } else { before }));
        changed.collect::<Vec<_>>()
    };
    let long: &'static str = "x".repeat(33_000).leak();
    for (fields, error) in [
        (instead(":method", "TRACE"), "method refused"),
        (instead(":method", "connect"), "method refused"),
        (
            vec![(":method", "CONNECT"), (":authority", "a:1")],
            "method refused",
        ),
        (instead(":path", "x"), "invalid request target"),
        (instead(":path", "*"), "invalid request target"),
        (instead(":path", "/a b"), "invalid request target"),
        (instead(":path", long), "start line exceeds the limit"),
        (
            instead(":authority", "u@a"),
            "missing, repeated or invalid Host",
        ),
        (
            with(&[("host", "b.test")]),
            "missing, repeated or invalid Host",
        ),
        (
            with(&[("host", "a.test"), ("host", "a.test")]),
            "missing, repeated or invalid Host",
        ),
        (with(&[("expect", "x")]), "expectation not supported"),
        (with(&[("content-length", "x")]), "invalid Content-Length"),
        (
            with(&[("content-length", "1"), ("content-length", "2")]),
            "invalid Content-Length",
        ),
        (with(&[("x", long)]), "header section exceeds the limit"),
        (with(&[("x", "y"); 101]), "too many header fields"),
    ] {
        let mut side = Side::server();
        let block = block(&fields);
        let mut bytes = Vec::new();
        let mut parts = block.chunks(16_384).enumerate().peekable();
        while let Some((number, part)) = parts.next() {
            let kind = if number == 0 {
                Kind::Headers
            } else {
                Kind::Continuation
            };
            let last = if parts.peek().is_none() { HEAD } else { 0 };
            bytes.extend(frame(kind, last, 1, part));
        }
        let all = answer(&mut side, &bytes);
        assert_eq!(all, [format!("request 1 rejected: {error}")]);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_peers_may_do_is_no_error() {
    for (section, bytes, events) in [
        ("4.1", frame(Kind::Unknown(238), 0xff, 1, b"xyz"), &[][..]),
        (
            "5.1",
            [get(1), window(1, 100)].concat(),
            &["request 1 GET / End"],
        ),
        (
            "5.1",
            [get(1), frame(Kind::Priority, 0, 1, &[0; 5])].concat(),
            &["request 1 GET / End"],
        ),
        (
            "5.1.1",
            get(u32::MAX >> 1),
            &["request 2147483647 GET / End"],
        ),
        (
            "6.4",
            [
                post(1),
                frame(Kind::Reset, 0, 1, &[0, 0, 0, 8]),
                frame(Kind::Reset, 0, 1, &[0; 4]),
            ]
            .concat(),
            &[
                "request 1 POST / More",
                "reset 1: reset by the peer: CANCEL",
            ],
        ),
        (
            "6.7",
            frame(Kind::Ping, FrameHead::ACK, 0, b"12345678"),
            &[],
        ),
        ("6.7", frame(Kind::Ping, 0, 0, b"12345678"), &["pong"]),
        (
            "8.1",
            [post(1), data(1, END | FrameHead::PADDED, b"\x01ab\0")].concat(),
            &["request 1 POST / More", "data 1 ab End"],
        ),
        (
            "8.1",
            [
                post(1),
                headers(1, END, &[("x-sum", "1"), ("content-length", "9")]),
            ]
            .concat(),
            &["request 1 POST / More", r"trailers 1 x-sum: 1\r\n"],
        ),
        (
            "8.5",
            headers(
                1,
                0,
                &[
                    (":method", "CONNECT"),
                    (":scheme", "http"),
                    (":path", "/c"),
                    (":authority", "a"),
                    (":protocol", "websocket"),
                ],
            ),
            &["request 1 GET /c More"],
        ),
    ] {
        assert_eq!(answer(&mut Side::server(), &bytes), events, "{section}");
    }
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let mut side = Side::client();
    side.open("GET", Then::End);
    let bytes = [
        headers(1, 0, &[(":status", "103")]),
        headers(1, 0, &[(":status", "100")]),
        headers(1, 0, &[(":status", "200")]),
        data(1, 0, b"x"),
        headers(1, END, &[("grpc-status", "0")]),
    ];
    let expected = [
        "interim 1 103",
        "interim 1 100",
        "response 1 200 More",
        "data 1 x More",
        r"trailers 1 grpc-status: 0\r\n",
    ];
    assert_eq!(
        side.feed(&bytes.concat()),
        Ok(expected.map(String::from).into())
    );
}

#[test]
fn a_response_to_head_has_a_length_and_no_body() {
    let mut side = Side::client();
    side.open("HEAD", Then::End);
    let head = headers(1, END, &[(":status", "200"), ("content-length", "5")]);
    assert_eq!(side.feed(&head), Ok(vec!["response 1 200 End".into()]));
    assert_eq!(side.decoded.response.content_length, Some(5));
}

#[test]
fn an_extended_connect_is_answered_with_a_switch() {
    let mut side = Side::client();
    let opened = side
        .connection
        .open(RequestKind::Upgrade, Then::More, |writer| {
            write_request(writer, "CONNECT");
        });
    assert!(opened.is_some());
    let head = headers(1, 0, &[(":status", "200")]);
    assert_eq!(side.feed(&head), Ok(vec!["response 1 101 More".into()]));
    let events = side.feed(&data(1, END, b"frames"));
    assert_eq!(events, Ok(vec!["data 1 frames End".into()]));
}
