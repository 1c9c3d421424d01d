use http::{HeaderMap, HeaderValue, StatusCode};

use super::convert;
use crate::http::h1::{HeadError, HeadLimits, RequestKind, ResponseError};
use crate::http::h2::request::BodyPresence;
use crate::http::head::{Framing, ResponseHead};

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 64,
    head_bytes: 256,
    fields: 4,
};

fn converted(
    status: u16,
    length: Option<&'static str>,
    follows: BodyPresence,
    request_kind: RequestKind,
) -> Result<ResponseHead, ResponseError> {
    let (mut head, mut bytes) = (ResponseHead::default(), Vec::new());
    let mut fields = HeaderMap::new();
    if let Some(length) = length {
        fields.insert("content-length", HeaderValue::from_static(length));
    }
    let status = StatusCode::from_u16(status).expect("a status");
    convert(
        (status, &fields),
        follows,
        request_kind,
        &LIMITS,
        &mut bytes,
        &mut head,
    )?;
    Ok(head)
}

#[test]
fn a_response_body_has_its_declared_or_actual_length() {
    use BodyPresence::{Body, Nothing};
    for (status, length, follows, request_kind, framing, told) in [
        (
            200,
            Some("5"),
            Body,
            RequestKind::Other,
            Framing::Length(5),
            Some(5),
        ),
        (200, None, Body, RequestKind::Other, Framing::Chunked, None),
        (
            200,
            None,
            Nothing,
            RequestKind::Other,
            Framing::Length(0),
            None,
        ),
        (
            200,
            Some("5"),
            Nothing,
            RequestKind::Head,
            Framing::Empty,
            Some(5),
        ),
        (
            304,
            Some("5"),
            Nothing,
            RequestKind::Other,
            Framing::Empty,
            Some(5),
        ),
        (
            204,
            Some("0"),
            Nothing,
            RequestKind::Other,
            Framing::Empty,
            None,
        ),
        (103, None, Body, RequestKind::Other, Framing::Empty, None),
    ] {
        let head = converted(status, length, follows, request_kind).expect("well-formed");
        assert_eq!(
            (head.framing, head.content_length),
            (framing, told),
            "{status}"
        );
    }
}

#[test]
fn a_successful_connect_is_a_protocol_switch() {
    let head = converted(200, None, BodyPresence::Body, RequestKind::Upgrade).expect("a tunnel");
    assert_eq!((head.status, head.framing), (101, Framing::Empty));
    assert!(head.upgrade.is_some() && !head.is_interim());
    let head =
        converted(403, None, BodyPresence::Nothing, RequestKind::Upgrade).expect("an answer");
    assert_eq!((head.status, head.upgrade), (403, None));
}

#[test]
fn status_101_is_rejected_in_http_2() {
    for request_kind in [RequestKind::Other, RequestKind::Upgrade] {
        let refused = converted(101, None, BodyPresence::Body, request_kind);
        assert_eq!(refused.err(), Some(ResponseError::Upgrade));
    }
}

#[test]
fn the_number_of_response_fields_is_limited() {
    let (mut head, mut bytes) = (ResponseHead::default(), Vec::new());
    let mut fields = HeaderMap::new();
    for _ in 0..5 {
        fields.append("x", HeaderValue::from_static("y"));
    }
    let (said, follows) = ((StatusCode::OK, &fields), BodyPresence::Nothing);
    let refused = convert(
        said,
        follows,
        RequestKind::Other,
        &LIMITS,
        &mut bytes,
        &mut head,
    );
    assert_eq!(refused, Err(HeadError::TooManyFields.into()));
}
