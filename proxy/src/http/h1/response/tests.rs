use super::{HeadLimits, HeadScan, Progress, RequestKind, ResponseError, parse_response};
use crate::http::head::{Framing, ResponseHead};

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 64,
    head_bytes: 512,
    fields: 8,
};

fn parse(text: &str, request_kind: RequestKind) -> (Result<Progress, ResponseError>, ResponseHead) {
    let mut head = ResponseHead::default();
    let bytes = text.as_bytes();
    let result = parse_response(
        bytes,
        request_kind,
        &LIMITS,
        &mut HeadScan::default(),
        &mut head,
    );
    let mut scan = HeadScan::default();
    let mut dripped = Ok(Progress::Partial);
    for end in 0..=bytes.len() {
        dripped = parse_response(&bytes[..end], request_kind, &LIMITS, &mut scan, &mut head);
        if dripped != Ok(Progress::Partial) {
            break;
        }
    }
    assert_eq!(dripped.is_err(), result.is_err(), "{text:?}");
    assert_eq!(dripped.ok(), result.ok(), "{text:?}");
    (result, head)
}

fn accepts(text: &str, request_kind: RequestKind) -> ResponseHead {
    let (progress, head) = parse(text, request_kind);
    assert_eq!(
        progress,
        Ok(Progress::Complete { len: text.len() }),
        "{text:?}"
    );
    head
}

#[test]
fn the_framing_of_responses_is_determined() {
    use Framing::{Chunked, Empty, Length, UntilClose};
    use RequestKind::{Head, Other};
    for (line, fields, request_kind, framing, length) in [
        ("200 OK", "Content-Length: 5\r\n", Other, Length(5), Some(5)),
        ("200 OK", "Content-Length: 5\r\n", Head, Empty, Some(5)),
        (
            "200 OK",
            "Transfer-Encoding: chunked\r\n",
            Other,
            Chunked,
            None,
        ),
        (
            "200 OK",
            "Transfer-Encoding: chunked\r\n",
            Head,
            Empty,
            None,
        ),
        ("200 OK", "", Other, UntilClose, None),
        (
            "304 Not Modified",
            "Content-Length: 5\r\n",
            Other,
            Empty,
            Some(5),
        ),
        (
            "204 No Content",
            "Content-Length: 5\r\n",
            Other,
            Empty,
            None,
        ),
        ("103 Early Hints", "Link: a\r\n", Other, Empty, None),
    ] {
        let head = accepts(&format!("HTTP/1.1 {line}\r\n{fields}\r\n"), request_kind);
        assert_eq!(
            (head.framing, head.content_length),
            (framing, length),
            "{line} {fields}"
        );
        assert_eq!(head.keep_alive, framing != UntilClose);
        assert_eq!(head.is_interim(), line.starts_with('1'));
    }
}

#[test]
fn status_lines() {
    for (line, status, reason) in [
        ("HTTP/1.1 200 OK", 200, &b"OK"[..]),
        ("HTTP/1.0 404 Not Found", 404, b"Not Found"),
        ("HTTP/1.1 200 ", 200, b""),
        ("HTTP/1.1 200", 200, b""),
        ("HTTP/1.1 799 caf\u{e9}", 799, "caf\u{e9}".as_bytes()),
    ] {
        let text = format!("{line}\r\n\r\n");
        let head = accepts(&text, RequestKind::Other);
        assert_eq!(
            (head.status, head.reason.of(text.as_bytes())),
            (status, reason),
            "{line}"
        );
    }
}

#[test]
fn rejects_forbidden_responses() {
    for (text, reason) in [
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", "malformed_line"),
        ("HTTP/2.0 200 OK\r\n\r\n", "version"),
        ("HTTP/1.1 099 x\r\n\r\n", "status"),
        ("HTTP/1.1 20 x\r\n\r\n", "malformed_line"),
        ("HTTP/1.1 200 OK\n\r\n", "line_ending"),
        ("HTTP/1.1 200 OK\r\n\n", "line_ending"),
        ("HTTP/1.1 200 OK\r\nA: b\n\r\n", "line_ending"),
        ("HTTP/1.1 200 OK\r\n : b\r\n\r\n", "malformed_field"),
        ("HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", "malformed_field"),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "malformed_field"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "length_and_transfer_encoding",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "content_length",
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "transfer_encoding_on_http10",
        ),
        (
            "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
            "upgrade_not_asked_for",
        ),
    ] {
        let (progress, _) = parse(text, RequestKind::Other);
        assert_eq!(
            progress.map_err(ResponseError::reason),
            Err(reason),
            "{text:?}"
        );
    }
}

/// RFC 9112 section 5.1.
#[test]
fn white_space_before_a_colon_is_no_part_of_the_name() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length \t : 2\r\n\r\n";
    let head = accepts(text, RequestKind::Other);
    assert_eq!(head.framing, Framing::Length(2));
    let names: Vec<_> = head
        .fields
        .iter()
        .map(|it| it.name.of(text.as_bytes()))
        .collect();
    assert_eq!(names, [b"Content-Length"]);
}

#[test]
fn switches_only_to_the_requested_protocol() {
    let text = "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let head = accepts(text, RequestKind::Upgrade);
    let protocol = head.upgrade.map(|span| span.of(text.as_bytes()));
    assert_eq!(protocol, Some(&b"websocket"[..]));
    assert!(!head.is_interim());
    for fields in ["", "Connection: upgrade\r\n", "Upgrade: websocket\r\n"] {
        let (progress, _) = parse(
            &format!("HTTP/1.1 101 S\r\n{fields}\r\n"),
            RequestKind::Upgrade,
        );
        assert_eq!(progress, Err(ResponseError::Upgrade), "{fields}");
    }
}
