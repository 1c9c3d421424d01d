use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request};

use super::{BodyPresence, convert};
use crate::http::h1::{HeadError, HeadLimits, RequestError};
use crate::http::head::{Framing, RequestHead, Version};
use crate::http::known::KnownHeader;

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 64,
    head_bytes: 256,
    fields: 4,
};

fn parts(method: Method, uri: &str, fields: &[(&str, &str)]) -> Parts {
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = uri.parse().expect("a URI");
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
        request.headers_mut().append(name, value);
    }
    request.into_parts().0
}

fn get(fields: &[(&str, &str)]) -> Parts {
    parts(Method::GET, "http://a.test/x?y", fields)
}

fn converted(parts: &Parts, follows: BodyPresence) -> Result<(RequestHead, Vec<u8>), RequestError> {
    let (mut head, mut bytes) = (RequestHead::default(), Vec::new());
    convert(parts, follows, &LIMITS, &mut bytes, &mut head)?;
    Ok((head, bytes))
}

fn rejection(parts: &Parts) -> RequestError {
    converted(parts, BodyPresence::Body).expect_err("it is to be refused")
}

#[test]
fn a_head_is_converted_to_http_1() {
    let (head, bytes) = converted(
        &get(&[("accept", "*/*"), ("te", "trailers")]),
        BodyPresence::Nothing,
    )
    .expect("well-formed");
    assert_eq!(head.method.of(&bytes), b"GET");
    assert_eq!(head.target.of(&bytes), b"/x?y");
    assert_eq!(head.authority.of(&bytes), b"a.test");
    assert_eq!(
        (head.version, head.framing),
        (Version::Http2, Framing::Empty)
    );
    let lines = bytes.windows(13).any(|line| line == b"accept: */*\r\n");
    assert!(lines, "{}", bytes.escape_ascii());
    assert_eq!(
        head.fields.value(KnownHeader::Te, &bytes),
        Some(&b"trailers"[..])
    );
}

#[test]
fn cookie_crumbs_are_joined_into_one_field() {
    let (head, bytes) = converted(
        &get(&[
            ("cookie", "a=1"),
            ("x", "y"),
            ("cookie", "b=2"),
            ("cookie", "c"),
        ]),
        BodyPresence::Nothing,
    )
    .expect("well-formed");
    assert_eq!(
        head.fields.value(KnownHeader::Cookie, &bytes),
        Some(&b"a=1; b=2; c"[..])
    );
    assert_eq!(head.fields.len(), 2);
}

#[test]
fn every_cookie_crumb_counts_as_a_field() {
    let crumbs = [("cookie", "a"); 5];
    assert_eq!(rejection(&get(&crumbs)), HeadError::TooManyFields.into());
}

#[test]
fn a_request_body_has_its_declared_or_actual_length() {
    let framing = |fields: &[(&str, &str)], follows| {
        converted(&get(fields), follows)
            .expect("well-formed")
            .0
            .framing
    };
    assert_eq!(framing(&[], BodyPresence::Body), Framing::Chunked);
    assert_eq!(
        framing(&[("content-length", "7")], BodyPresence::Body),
        Framing::Length(7)
    );
    assert_eq!(
        framing(&[("content-length", "0")], BodyPresence::Nothing),
        Framing::Length(0)
    );
    assert_eq!(framing(&[], BodyPresence::Nothing), Framing::Empty);
}

#[test]
fn extended_connect_is_converted_to_an_upgrade() {
    let mut connect = parts(Method::CONNECT, "http://a.test/chat", &[]);
    assert_eq!(rejection(&connect), RequestError::Method);
    connect
        .extensions
        .insert(h2::ext::Protocol::from_static("websocket"));
    let (head, bytes) = converted(&connect, BodyPresence::Body).expect("a tunnel");
    assert_eq!(head.method.of(&bytes), b"GET");
    assert_eq!(
        head.upgrade.map(|upgrade| upgrade.of(&bytes)),
        Some(&b"websocket"[..])
    );
    assert_eq!(head.framing, Framing::Empty);
    connect
        .extensions
        .insert(h2::ext::Protocol::from_static("connect-udp"));
    assert_eq!(rejection(&connect), RequestError::Method);
}

#[test]
fn ambiguous_heads_are_rejected() {
    let field: RequestError = HeadError::Field.into();
    for (parts, error) in [
        (get(&[("connection", "close")]), field),
        (get(&[("transfer-encoding", "chunked")]), field),
        (get(&[("keep-alive", "1")]), field),
        (get(&[("upgrade", "x")]), field),
        (get(&[("proxy-connection", "x")]), field),
        (get(&[("te", "gzip")]), field),
        (get(&[("x", " padded")]), field),
        (get(&[("x", "padded\t")]), field),
        (get(&[("host", "b.test")]), RequestError::Host),
        (
            get(&[("host", "a.test"), ("host", "a.test")]),
            RequestError::Host,
        ),
        (
            parts(Method::GET, "http://u@a.test/", &[]),
            RequestError::Host,
        ),
        (parts(Method::GET, "/", &[]), RequestError::Host),
        (
            parts(Method::GET, "*", &[("host", "a")]),
            RequestError::Target,
        ),
        (
            parts(Method::TRACE, "http://a.test/", &[]),
            RequestError::Method,
        ),
        (
            get(&[("expect", "the-unexpected")]),
            RequestError::Expectation,
        ),
    ] {
        assert_eq!(rejection(&parts), error, "{parts:?}");
    }
    for value in ["", "x", "1,2", "+1", "99999999999999999999"] {
        assert!(matches!(
            rejection(&get(&[("content-length", value)])),
            RequestError::Head(HeadError::Framing(_))
        ));
    }
}

#[test]
fn host_may_replace_or_repeat_the_authority() {
    for parts in [
        parts(Method::GET, "/", &[("host", "a.test:80")]),
        parts(Method::GET, "http://a.test:80/", &[("host", "A.test:80")]),
    ] {
        let (head, bytes) = converted(&parts, BodyPresence::Nothing).expect("well-formed");
        assert!(head.authority.of(&bytes).eq_ignore_ascii_case(b"a.test:80"));
    }
}

#[test]
fn limits_of_head_and_request_line_are_enforced() {
    let long = "x".repeat(250);
    assert_eq!(
        rejection(&get(&[("x", &long)])),
        HeadError::HeadTooLarge.into()
    );
    let target = format!("http://a.test/{}", "x".repeat(70));
    let parts = parts(Method::GET, &target, &[]);
    assert_eq!(rejection(&parts), HeadError::LineTooLong.into());
}
