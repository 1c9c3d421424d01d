use http::StatusCode;

use super::{Switch, local_response, request, response};
use crate::http::engine::head_writer::{HeadWriter, Scheme};
use crate::http::engine::held_head::HeldHead;
use crate::http::engine::hpack::decoder::{Decoder, Scratch};
use crate::http::engine::hpack::encoder::{Encoder, Huffman};
use crate::http::engine::hpack::{DecodedField, FieldSink};
use crate::http::h1::encode::{
    DownstreamResponse, Expectation, LocalResponse, Persist, UpstreamRequest,
};
use crate::http::h1::{HeadLimits, HeadScan, RequestKind, parse_request, parse_response};
use crate::http::head::{RequestHead, ResponseHead, Version};
use crate::http::known::KnownHeader;

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 1024,
    head_bytes: 4096,
    fields: 32,
};

#[derive(Default)]
struct Lines(Vec<String>);

impl FieldSink for Lines {
    fn field(&mut self, field: DecodedField<'_>) {
        let (name, value) = (field.name.escape_ascii(), field.value.escape_ascii());
        self.0.push(format!("{name}={value}"));
    }
}

fn written(write: impl FnOnce(&mut HeadWriter<'_>)) -> Vec<String> {
    let mut encoder = Encoder::new(Huffman::Long);
    let mut block = Vec::new();
    encoder.begin(&mut block);
    write(&mut HeadWriter::new(&mut encoder, &mut block));
    let mut lines = Lines::default();
    Decoder::default()
        .decode(&block, 100_000, &mut Scratch::default(), &mut lines)
        .expect("our own");
    lines.0
}

fn sent_request(text: &str, target: &str, switch: Switch, append: &str) -> Vec<String> {
    let mut head = RequestHead::default();
    let bytes = text.as_bytes();
    parse_request(bytes, &LIMITS, &mut HeadScan::default(), &mut head).expect("a request");
    let asked = UpstreamRequest {
        head: &head,
        bytes,
        target: target.as_bytes(),
        host: b"a.test",
        framing: head.framing,
        expectation: Expectation::Ours,
        append: append.as_bytes(),
    };
    written(|writer| {
        let drop = |_: KnownHeader, name: &[u8]| name.eq_ignore_ascii_case(b"x-drop");
        request(&asked, Scheme::Https, switch, drop, writer);
    })
}

#[test]
fn a_request_of_http_1_becomes_one_of_http_2() {
    let text = "POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nX-Drop: 1\r\nX-Keep: 2\r\n\
                TE: trailers\r\nConnection: TE, X-Listed\r\nX-Listed: 3\r\nExpect: 100-continue\r\n\r\n";
    let sent = sent_request(text, "/y", Switch::Ignored, "X-Request-Id: 7\r\n");
    let expected = [
        ":method=POST",
        ":scheme=https",
        ":path=/y",
        ":authority=a.test",
        "x-keep=2",
        "content-length=5",
        "te=trailers",
        "x-request-id=7",
    ];
    assert_eq!(sent, expected);
}

#[test]
fn an_upgrade_to_websocket_becomes_an_extended_connect() {
    let text = "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Key: abc\r\nSec-WebSocket-Version: 13\r\n\r\n";
    let sent = sent_request(text, "/chat", Switch::Tunnel, "");
    assert_eq!(
        sent[..3],
        [":method=CONNECT", ":protocol=websocket", ":scheme=https"]
    );
    assert!(sent.contains(&"sec-websocket-version=13".into()));
    assert!(
        !sent
            .iter()
            .any(|line| line.starts_with("sec-websocket-key"))
    );
    let ignored = sent_request(text, "/chat", Switch::Ignored, "");
    assert_eq!(ignored[0], ":method=GET");
}

#[test]
fn bytes_that_no_path_may_have_are_escaped() {
    let text = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    for (target, path) in [
        ("/a|b{c}", ":path=/a|b{c}"),
        ("/a\"b<c>", ":path=/a%22b%3Cc%3E"),
        ("/caf\u{e9}", ":path=/caf%C3%A9"),
    ] {
        assert_eq!(sent_request(text, target, Switch::Ignored, "")[2], path);
    }
}

fn sent_response(text: &str, kind: RequestKind, append: &str) -> Vec<String> {
    let mut head = ResponseHead::default();
    let bytes = text.as_bytes();
    parse_response(bytes, kind, &LIMITS, &mut HeadScan::default(), &mut head).expect("a response");
    let given = DownstreamResponse {
        head: &head,
        bytes,
        client: Version::Http2,
        persist: Persist::Keep,
        append: append.as_bytes(),
    };
    written(|writer| response(&given, |_, _| false, writer))
}

#[test]
fn a_response_of_http_1_becomes_one_of_http_2() {
    let text = "HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\nConnection: close\r\n\
                Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n";
    let sent = sent_response(text, RequestKind::Other, "Via: x\r\n");
    let expected = [
        ":status=302",
        "location=/y",
        "set-cookie=a=1",
        "set-cookie=b=2",
        "content-length=0",
        "via=x",
    ];
    assert_eq!(sent, expected);
}

#[test]
fn a_switch_of_protocols_becomes_200() {
    let text = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Accept: abc\r\nSec-WebSocket-Protocol: chat\r\n\r\n";
    let sent = sent_response(text, RequestKind::Upgrade, "");
    assert_eq!(sent, [":status=200", "sec-websocket-protocol=chat"]);
}

#[test]
fn a_local_response_has_a_type_and_a_length() {
    let given = LocalResponse {
        status: StatusCode::SERVICE_UNAVAILABLE,
        request_kind: RequestKind::Other,
        client: Version::Http2,
        persist: Persist::Keep,
        append: b"retry-after: 1\r\n",
        length: 4,
    };
    let sent = written(|writer| local_response(&given, writer));
    let expected = [
        ":status=503",
        "content-type=text/plain; charset=utf-8",
        "content-length=4",
        "retry-after=1",
    ];
    assert_eq!(sent, expected);
    let head = LocalResponse {
        request_kind: RequestKind::Head,
        ..given
    };
    assert_eq!(written(|writer| local_response(&head, writer)), expected);
    assert!(given.sends_body() && !head.sends_body());
}

/// RFC 9110 section 8.6.
#[test]
fn a_method_that_anticipates_content_states_its_length_if_it_has_none() {
    for (method, states) in [
        ("POST", true),
        ("PUT", true),
        ("GET", false),
        ("DELETE", false),
    ] {
        let text = format!("{method} / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let lines = sent_request(&text, "/", Switch::Ignored, "");
        let length = "content-length=0".to_owned();
        assert_eq!(lines.contains(&length), states, "{method}: {lines:?}");
    }
}

/// Header compression depends on the order of heads, so that a head is encoded when it is sent.
#[test]
fn a_held_head_is_what_would_have_been_written_at_once() {
    let text = "HTTP/1.1 404 No\r\nContent-Length: 3\r\nX-A: 1\r\nx-drop: 2\r\nEmpty:\r\n\r\n";
    let bytes = text.as_bytes();
    let mut head = ResponseHead::default();
    let mut scan = HeadScan::default();
    let kind = RequestKind::Other;
    parse_response(bytes, kind, &LIMITS, &mut scan, &mut head).expect("a response");
    let given = DownstreamResponse {
        head: &head,
        bytes,
        client: Version::Http2,
        persist: Persist::Keep,
        append: b"b: 3\r\n",
    };
    let drop = |_: KnownHeader, name: &[u8]| name.eq_ignore_ascii_case(b"x-drop");
    let at_once = written(|writer| response(&given, drop, writer));
    let mut held = HeldHead::default();
    for _ in 0..2 {
        held.clear();
        response(&given, drop, &mut held);
    }
    let later = written(|writer| held.write(writer));
    assert_eq!(later, at_once);
    assert_eq!(later.len(), 5, "{later:?}");
}
