use super::{HeadLimits, HeadScan, Progress, RequestError, parse_request};
use crate::http::head::{Framing, RequestHead, Version};

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 64,
    head_bytes: 512,
    fields: 8,
};

fn parse(bytes: &[u8]) -> (Result<Progress, RequestError>, RequestHead) {
    let mut head = RequestHead::default();
    let progress = parse_request(bytes, &LIMITS, &mut HeadScan::default(), &mut head);
    (progress, head)
}

/// Feeds `bytes` up to `split`, then all of them.
fn parse_split(bytes: &[u8], split: usize) -> Result<Progress, RequestError> {
    let (mut scan, mut head) = (HeadScan::default(), RequestHead::default());
    match parse_request(&bytes[..split], &LIMITS, &mut scan, &mut head) {
        Ok(Progress::Partial) => parse_request(bytes, &LIMITS, &mut scan, &mut head),
        decided => decided,
    }
}

fn parse_dripped(bytes: &[u8]) -> Result<Progress, RequestError> {
    let (mut scan, mut head) = (HeadScan::default(), RequestHead::default());
    for end in 0..bytes.len() {
        match parse_request(&bytes[..end], &LIMITS, &mut scan, &mut head) {
            Ok(Progress::Partial) => {}
            decided => return decided,
        }
    }
    parse_request(bytes, &LIMITS, &mut scan, &mut head)
}

/// Every split of the bytes gives the same verdict.
fn verdict(bytes: &[u8]) -> Result<Progress, RequestError> {
    let (whole, _) = parse(bytes);
    let status = |verdict: Result<Progress, RequestError>| verdict.map_err(RequestError::status);
    for split in 0..bytes.len() {
        let text = bytes.escape_ascii();
        assert_eq!(
            status(parse_split(bytes, split)),
            status(whole),
            "{text} at {split}"
        );
    }
    assert_eq!(
        status(parse_dripped(bytes)),
        status(whole),
        "{}",
        bytes.escape_ascii()
    );
    whole
}

fn accepts(text: &str) -> RequestHead {
    let len = text.len();
    assert_eq!(
        verdict(text.as_bytes()),
        Ok(Progress::Complete { len }),
        "{text:?}"
    );
    parse(text.as_bytes()).1
}

fn refusal(text: &str) -> (u16, &'static str) {
    let error = verdict(text.as_bytes()).expect_err(text);
    (error.status().as_u16(), error.reason())
}

#[test]
fn parses_all_parts_of_a_request() {
    let text = "POST /a?b=c HTTP/1.1\r\nHost: a.example:8080\r\nX-Y:  z \t\r\nContent-Length: 5\r\n\
                Expect: 100-Continue\r\nEmpty:\r\n\r\n";
    let head = accepts(text);
    let bytes = text.as_bytes();
    assert_eq!(head.method.of(bytes), b"POST");
    assert_eq!(head.target.of(bytes), b"/a?b=c");
    assert_eq!(head.authority.of(bytes), b"a.example:8080");
    assert_eq!(head.version, Version::Http11);
    assert_eq!(head.framing, Framing::Length(5));
    assert!(head.keep_alive && head.expect_continue && head.upgrade.is_none());
    let values: Vec<_> = head.fields.iter().map(|f| f.value.of(bytes)).collect();
    let expected = [&b"a.example:8080"[..], b"z", b"5", b"100-Continue", b""];
    assert_eq!(values, expected);
}

#[test]
fn bytes_after_a_request_head_are_left_unread() {
    let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next";
    assert_eq!(parse(text).0, Ok(Progress::Complete { len: 27 }));
    assert_eq!(parse(b"").0, Ok(Progress::Partial));
}

#[test]
fn target_and_authority_are_parsed() {
    for (line, target, authority) in [
        ("GET / HTTP/1.1", "/", "h"),
        ("GET //a HTTP/1.1", "//a", "h"),
        ("OPTIONS * HTTP/1.1", "*", "h"),
        ("GET http://b:81/p?q HTTP/1.1", "/p?q", "b:81"),
        ("GET HTTPS://b HTTP/1.1", "/", "b"),
        ("GET http://b?q=/ HTTP/1.1", "?q=/", "b"),
        ("GET http://[::1]:8/ HTTP/1.1", "/", "[::1]:8"),
    ] {
        let text = format!("{line}\r\nHost: h\r\n\r\n");
        let head = accepts(&text);
        assert_eq!(head.target.of(text.as_bytes()), target.as_bytes(), "{line}");
        assert_eq!(
            head.authority.of(text.as_bytes()),
            authority.as_bytes(),
            "{line}"
        );
    }
}

#[test]
fn rejects_malformed_request_lines() {
    for (line, expected) in [
        ("GET", (400, "malformed_line")),
        ("GET /", (400, "malformed_line")),
        ("GET  / HTTP/1.1", (400, "malformed_line")),
        ("GET / HTTP/1.1 ", (400, "line_ending")),
        ("GET /a b HTTP/1.1", (400, "malformed_line")),
        ("G(T / HTTP/1.1", (400, "malformed_line")),
        (" GET / HTTP/1.1", (400, "malformed_line")),
        ("GET / HTTP/2.0", (505, "version")),
        ("GET / HTTP/1.2", (505, "version")),
        ("GET / HTTP/0.9", (505, "version")),
        ("GET / http/1.1", (400, "malformed_line")),
        ("GET / HTTPS/1.1", (400, "malformed_line")),
        ("GET a HTTP/1.1", (400, "malformed_target")),
        ("GET * HTTP/1.1", (400, "malformed_target")),
        ("GET ftp://a/ HTTP/1.1", (400, "malformed_target")),
        ("GET http:///p HTTP/1.1", (400, "malformed_target")),
        ("GET http://u@a/ HTTP/1.1", (400, "malformed_target")),
        ("GET http://a:x/ HTTP/1.1", (400, "malformed_target")),
        ("GET a.example:80 HTTP/1.1", (400, "malformed_target")),
        ("CONNECT a:80 HTTP/1.1", (501, "method_refused")),
        ("connect / HTTP/1.1", (501, "method_refused")),
        ("TRACE / HTTP/1.1", (501, "method_refused")),
    ] {
        assert_eq!(
            refusal(&format!("{line}\r\nHost: h\r\n\r\n")),
            expected,
            "{line}"
        );
    }
    let long = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(60));
    assert_eq!(refusal(&long), (414, "line_too_long"));
    assert_eq!(refusal(&"a".repeat(80)), (414, "line_too_long"));
    assert_eq!(refusal("\u{16}\u{3}\u{1}\0"), (400, "malformed_line"));
}

#[test]
fn exactly_one_valid_host_field_is_required() {
    for fields in [
        "",
        "Host:\r\n",
        "Host: a\r\nHost: a\r\n",
        "Host: a\r\nhost: b\r\n",
        "Host: a b\r\n",
        "Host: u@a\r\n",
        "Host: a, b\r\n",
        "Host: a/b\r\n",
        "Host: a:99999\r\n",
    ] {
        for target in ["/", "http://b/"] {
            let text = format!("GET {target} HTTP/1.1\r\n{fields}\r\n");
            assert_eq!(refusal(&text), (400, "host"), "{text}");
        }
    }
    assert!(
        accepts("GET / HTTP/1.0\r\n\r\n")
            .authority
            .of(b"x")
            .is_empty()
    );
    assert_eq!(
        refusal("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"),
        (400, "host")
    );
}

#[test]
fn rejects_malformed_field_lines() {
    for (fields, expected) in [
        ("A : b\r\n", (400, "malformed_field")),
        (" A: b\r\n", (400, "malformed_field")),
        ("A: b\r\n c\r\n", (400, "malformed_field")),
        ("A: b\r\n\tc\r\n", (400, "malformed_field")),
        (": b\r\n", (400, "malformed_field")),
        ("A\r\n", (400, "malformed_field")),
        ("A b: c\r\n", (400, "malformed_field")),
        ("\u{e9}: c\r\n", (400, "malformed_field")),
        ("A: \0\r\n", (400, "malformed_field")),
        ("A: b\u{7f}\r\n", (400, "malformed_field")),
        ("A: b\rc: d\r\n", (400, "malformed_field")),
        ("A: b\nc: d\r\n", (400, "line_ending")),
        ("A: b\n", (400, "line_ending")),
        ("A:\n", (400, "line_ending")),
        ("\n", (400, "line_ending")),
        ("Connection: a b\r\n", (400, "malformed_connection")),
        (
            "A:1\r\nA:1\r\nA:1\r\nA:1\r\nA:1\r\nA:1\r\nA:1\r\nA:1\r\n",
            (431, "too_many_fields"),
        ),
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let (whole, _) = parse(text.as_bytes());
        let error = whole.expect_err(fields);
        let status = error.status().as_u16();
        assert_eq!((status, error.reason()), expected, "{fields:?}");
        assert_eq!(refusal(&text).0, expected.0, "{fields:?}");
    }
    let large = format!(
        "GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n",
        "a".repeat(600)
    );
    assert_eq!(refusal(&large), (431, "head_too_large"));
    let many = format!("Connection: {}", "a,".repeat(33));
    let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{many}\r\n\r\n");
    assert_eq!(refusal(&text), (400, "malformed_connection"));
}

#[test]
fn rejects_bare_line_feeds_and_repeated_empty_lines() {
    for text in [
        "GET / HTTP/1.1\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n\n",
        "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "\r\n\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    ] {
        assert_eq!(refusal(text).0, 400, "{text:?}");
    }
    accepts("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n");
}

#[test]
fn the_framing_of_requests_is_determined() {
    for (version, fields, expected) in [
        ("1.1", "", Ok(Framing::Empty)),
        ("1.1", "Content-Length: 0\r\n", Ok(Framing::Length(0))),
        ("1.1", "Content-Length: 7, 7\r\n", Ok(Framing::Length(7))),
        (
            "1.1",
            "Transfer-Encoding: Chunked\r\n",
            Ok(Framing::Chunked),
        ),
        (
            "1.1",
            "Content-Length: 7\r\nContent-Length: 8\r\n",
            Err(400),
        ),
        (
            "1.1",
            "Content-Length: 7\r\nTransfer-Encoding: chunked\r\n",
            Err(400),
        ),
        ("1.1", "Transfer-Encoding: gzip, chunked\r\n", Err(501)),
        ("1.1", "Transfer-Encoding: chunked, identity\r\n", Err(400)),
        (
            "1.1",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            Err(400),
        ),
        ("1.0", "Transfer-Encoding: chunked\r\n", Err(400)),
    ] {
        let text = format!("GET / HTTP/{version}\r\nHost: h\r\n{fields}\r\n");
        match expected {
            Ok(framing) => assert_eq!(accepts(&text).framing, framing, "{fields}"),
            Err(status) => assert_eq!(refusal(&text).0, status, "{fields}"),
        }
    }
}

#[test]
fn persistence_depends_on_the_version() {
    for (version, connection, expected) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: x, CLOSE\r\n", false),
        (
            "1.1",
            "Connection: close\r\nConnection: keep-alive\r\n",
            false,
        ),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ] {
        let head = accepts(&format!(
            "GET / HTTP/{version}\r\nHost: h\r\n{connection}\r\n"
        ));
        assert_eq!(head.keep_alive, expected, "{version} {connection}");
        assert_eq!(head.fields.connection_lists(), connection.contains('x'));
    }
}

#[test]
fn upgrades_to_one_tunnelled_protocol_without_a_body() {
    for (fields, expected) in [
        (
            "Connection: upgrade\r\nUpgrade: websocket\r\n",
            Some("websocket"),
        ),
        (
            "Upgrade: SPDY/3.1\r\nConnection: a, Upgrade\r\nContent-Length: 0\r\n",
            Some("SPDY/3.1"),
        ),
        ("Upgrade: websocket\r\n", None),
        ("Connection: upgrade\r\n", None),
        ("Connection: upgrade\r\nUpgrade: h2c\r\n", None),
        ("Connection: upgrade\r\nUpgrade: websocket, h2c\r\n", None),
        ("Connection: upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n", None),
        (
            "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n",
            None,
        ),
        (
            "Connection: upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n",
            None,
        ),
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let upgrade = accepts(&text).upgrade;
        let protocol = upgrade.map(|span| span.of(text.as_bytes()));
        assert_eq!(protocol, expected.map(str::as_bytes), "{fields}");
    }
    let on_10 = "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(accepts(on_10).upgrade, None);
}

#[test]
fn expects_only_100_continue() {
    for fields in [
        "Expect: x\r\n",
        "Expect: x\r\nExpect: 100-continue\r\n",
        "Expect:\r\n",
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        assert_eq!(refusal(&text), (417, "expectation"));
    }
    assert!(!accepts("GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n").expect_continue);
    assert!(!accepts("GET / HTTP/1.0\r\nExpect: x\r\nContent-Length: 4\r\n\r\n").expect_continue);
}
