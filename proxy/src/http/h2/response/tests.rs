use http::{HeaderMap, HeaderValue, StatusCode};

use super::take_in;
use crate::http::h1::{Asked, HeadError, HeadLimits, ResponseError};
use crate::http::h2::request::Follows;
use crate::http::head::{Framing, ResponseHead};

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 64,
    head_bytes: 256,
    fields: 4,
};

fn taken(
    status: u16,
    length: Option<&'static str>,
    follows: Follows,
    asked: Asked,
) -> Result<ResponseHead, ResponseError> {
    let (mut head, mut bytes) = (ResponseHead::default(), Vec::new());
    let mut fields = HeaderMap::new();
    if let Some(length) = length {
        fields.insert("content-length", HeaderValue::from_static(length));
    }
    let status = StatusCode::from_u16(status).expect("a status");
    take_in(
        (status, &fields),
        follows,
        asked,
        &LIMITS,
        &mut bytes,
        &mut head,
    )?;
    Ok(head)
}

#[test]
fn a_body_is_as_long_as_it_says_or_as_it_is() {
    use Follows::{Body, Nothing};
    for (status, length, follows, asked, framing, told) in [
        (
            200,
            Some("5"),
            Body,
            Asked::Other,
            Framing::Length(5),
            Some(5),
        ),
        (200, None, Body, Asked::Other, Framing::Chunked, None),
        (200, None, Nothing, Asked::Other, Framing::Length(0), None),
        (
            200,
            Some("5"),
            Nothing,
            Asked::Head,
            Framing::Empty,
            Some(5),
        ),
        (
            304,
            Some("5"),
            Nothing,
            Asked::Other,
            Framing::Empty,
            Some(5),
        ),
        (204, Some("0"), Nothing, Asked::Other, Framing::Empty, None),
        (103, None, Body, Asked::Other, Framing::Empty, None),
    ] {
        let head = taken(status, length, follows, asked).expect("well-formed");
        assert_eq!(
            (head.framing, head.content_length),
            (framing, told),
            "{status}"
        );
    }
}

#[test]
fn a_tunnel_that_stands_is_a_switch() {
    let head = taken(200, None, Follows::Body, Asked::Upgrade).expect("a tunnel");
    assert_eq!((head.status, head.framing), (101, Framing::Empty));
    assert!(head.upgrade.is_some() && !head.is_interim());
    let head = taken(403, None, Follows::Nothing, Asked::Upgrade).expect("an answer");
    assert_eq!((head.status, head.upgrade), (403, None));
}

#[test]
fn http_2_has_no_switch_of_its_own() {
    for asked in [Asked::Other, Asked::Upgrade] {
        let refused = taken(101, None, Follows::Body, asked);
        assert_eq!(refused.err(), Some(ResponseError::Upgrade));
    }
}

#[test]
fn fields_are_bounded() {
    let (mut head, mut bytes) = (ResponseHead::default(), Vec::new());
    let mut fields = HeaderMap::new();
    for _ in 0..5 {
        fields.append("x", HeaderValue::from_static("y"));
    }
    let (said, follows) = ((StatusCode::OK, &fields), Follows::Nothing);
    let refused = take_in(said, follows, Asked::Other, &LIMITS, &mut bytes, &mut head);
    assert_eq!(refused, Err(HeadError::TooManyFields.into()));
}
