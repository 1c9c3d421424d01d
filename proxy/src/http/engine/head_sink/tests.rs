use super::{
    Decoded, Malformed, RequestFault, RequestOutcome, RequestSink, ResponseFault, ResponseOutcome,
    ResponseSink, Then, TrailerSink,
};
use crate::http::engine::hpack::{DecodedField, FieldSink, NameKind, Validity};
use crate::http::h1::{HeadError, HeadLimits, RequestError, RequestKind};
use crate::http::head::{Framing, Version};
use crate::http::known::KnownHeader;

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 64,
    head_bytes: 256,
    fields: 4,
};

fn fill<'a>(sink: &mut impl FieldSink, fields: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (name, value) in fields {
        sink.field(DecodedField {
            name: name.as_bytes(),
            value: value.as_bytes(),
            kind: NameKind::of(name.as_bytes()),
            validity: Validity::Valid,
        });
    }
}

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/x?y"),
    (":authority", "a.test"),
];

fn request(
    pseudo: &[(&str, &str)],
    fields: &[(&str, &str)],
    then: Then,
    limits: HeadLimits,
) -> Result<Decoded, RequestFault> {
    let mut decoded = Decoded::default();
    let head = &mut decoded.request.fields;
    let mut sink = RequestSink::new(&mut decoded.bytes, head, limits);
    fill(&mut sink, pseudo.iter().chain(fields).copied());
    let mut outcome = RequestOutcome::default();
    let finished = sink.finish(then, &mut outcome);
    outcome.store(&mut decoded.request);
    finished.map(|()| decoded)
}

fn get(fields: &[(&str, &str)]) -> Decoded {
    request(&GET, fields, Then::More, LIMITS).expect("well-formed")
}

#[test]
fn a_request_is_text_and_spans_of_http_1() {
    let decoded = get(&[("accept", "*/*"), ("te", "trailers")]);
    let (head, bytes) = (&decoded.request, &decoded.bytes);
    assert_eq!(head.method.of(bytes), b"GET");
    assert_eq!(head.target.of(bytes), b"/x?y");
    assert_eq!(head.authority.of(bytes), b"a.test");
    assert_eq!(
        (head.version, head.framing),
        (Version::Http2, Framing::Chunked)
    );
    assert!(bytes.ends_with(b"accept: */*\r\nte: trailers\r\n"));
    let te = head.fields.value(KnownHeader::Te, bytes);
    assert_eq!(te, Some(&b"trailers"[..]));
}

#[test]
fn cookie_crumbs_are_joined_also_if_they_are_apart() {
    for fields in [
        &[
            ("cookie", "a=1"),
            ("cookie", "b=2"),
            ("cookie", "c"),
            ("x", "y"),
        ][..],
        &[
            ("cookie", "a=1"),
            ("x", "y"),
            ("cookie", "b=2"),
            ("cookie", "c"),
        ],
    ] {
        let decoded = get(fields);
        let (fields, bytes) = (&decoded.request.fields, &decoded.bytes);
        let cookie = fields.value(KnownHeader::Cookie, bytes);
        assert_eq!(cookie, Some(&b"a=1; b=2; c"[..]));
        assert_eq!(fields.len(), 2);
        assert_eq!(
            fields
                .iter()
                .filter(|line| line.known == KnownHeader::Cookie)
                .count(),
            1
        );
        let other = fields.iter().find(|line| line.known == KnownHeader::Other);
        assert_eq!(other.map(|line| line.value.of(bytes)), Some(&b"y"[..]));
    }
}

#[test]
fn the_limits_bound_the_text() {
    let long = "x".repeat(250);
    for (pseudo, fields, error) in [
        (GET, &[("x", &*long)][..], HeadError::HeadTooLarge),
        (GET, &[("cookie", "a"); 5], HeadError::TooManyFields),
        (GET, &[("a", "b"); 5], HeadError::TooManyFields),
        (
            GET,
            &[("cookie", "a"), ("x", "b"), ("cookie", &long[..220])],
            HeadError::HeadTooLarge,
        ),
        (
            [GET[0], GET[1], (":path", &long), GET[3]],
            &[],
            HeadError::LineTooLong,
        ),
        (
            [(":method", &long), GET[1], GET[2], GET[3]],
            &[],
            HeadError::LineTooLong,
        ),
    ] {
        let found = request(&pseudo, fields, Then::End, LIMITS);
        let expected = RequestFault::Rejected(error.into());
        assert_eq!(found.err(), Some(expected), "{fields:?}");
    }
}

#[test]
fn a_rejected_head_keeps_what_is_logged() {
    let mut decoded = Decoded::default();
    let fields = &mut decoded.request.fields;
    let mut sink = RequestSink::new(&mut decoded.bytes, fields, LIMITS);
    fill(&mut sink, GET.into_iter().chain([("expect", "x")]));
    let mut outcome = RequestOutcome::default();
    let finished = sink.finish(Then::End, &mut outcome);
    assert_eq!(
        finished,
        Err(RequestFault::Rejected(RequestError::Expectation))
    );
    outcome.store(&mut decoded.request);
    assert_eq!(decoded.request.target.of(&decoded.bytes), b"/x?y");
    assert_eq!(decoded.request.authority.of(&decoded.bytes), b"a.test");
}

#[test]
fn an_expectation_needs_a_body() {
    let expects = |then| {
        let found = request(&GET, &[("expect", "100-continue")], then, LIMITS);
        found.expect("well-formed").request.expect_continue
    };
    assert!(expects(Then::More) && !expects(Then::End));
}

#[test]
fn a_fragment_stays_in_the_target_and_fails_when_it_is_normalised() {
    let pseudo = [GET[0], GET[1], (":path", "/a#b"), GET[3]];
    let decoded = request(&pseudo, &[], Then::End, LIMITS).expect("well-formed");
    assert_eq!(decoded.request.target.of(&decoded.bytes), b"/a#b");
}

fn response(
    fields: &[(&str, &str)],
    then: Then,
    kind: RequestKind,
) -> Result<Decoded, ResponseFault> {
    let mut decoded = Decoded::default();
    let head = &mut decoded.response.fields;
    let mut sink = ResponseSink::new(&mut decoded.bytes, head, LIMITS);
    fill(&mut sink, fields.iter().copied());
    let mut outcome = ResponseOutcome::default();
    let finished = sink.finish(then, kind, &mut outcome);
    outcome.store(&mut decoded.response);
    finished.map(|()| decoded)
}

#[test]
fn a_response_is_framed_by_status_request_and_end() {
    let framing = |fields: &[(&str, &str)], then, kind| {
        let found = response(fields, then, kind).expect("well-formed");
        (found.response.framing, found.response.content_length)
    };
    let ok = (":status", "200");
    let sized = ("content-length", "7");
    let other = RequestKind::Other;
    assert_eq!(framing(&[ok], Then::More, other), (Framing::Chunked, None));
    assert_eq!(framing(&[ok], Then::End, other), (Framing::Length(0), None));
    assert_eq!(
        framing(&[ok, sized], Then::More, other),
        (Framing::Length(7), Some(7))
    );
    assert_eq!(
        framing(&[ok, sized], Then::End, RequestKind::Head),
        (Framing::Empty, Some(7))
    );
    assert_eq!(
        framing(&[(":status", "204"), sized], Then::End, other),
        (Framing::Empty, None)
    );
    assert_eq!(
        framing(&[(":status", "304"), sized], Then::End, other),
        (Framing::Empty, Some(7))
    );
    let decoded = response(&[ok], Then::More, RequestKind::Upgrade).expect("a tunnel");
    assert_eq!(decoded.response.status, 101);
    assert_eq!(
        decoded.response.reason.of(&decoded.bytes),
        b"Switching Protocols"
    );
}

#[test]
fn trailers_are_lines_without_what_may_not_be_forwarded() {
    let mut bytes = b"before".to_vec();
    let mut sink = TrailerSink::new(&mut bytes);
    fill(
        &mut sink,
        [("grpc-status", "0"), ("content-length", "7"), ("x-sum", "")],
    );
    assert_eq!(sink.finish(), Ok(()));
    assert_eq!(bytes, b"grpc-status: 0\r\nx-sum: \r\n");
    let mut sink = TrailerSink::new(&mut bytes);
    fill(&mut sink, [("a", "b"); 65]);
    assert_eq!(sink.finish(), Err(Malformed::TrailersTooLarge));
    let long = "x".repeat(9_000);
    let mut sink = TrailerSink::new(&mut bytes);
    fill(&mut sink, [("a", &*long)]);
    assert_eq!(sink.finish(), Err(Malformed::TrailersTooLarge));
}

/// RFC 3986 section 6.2.3: an empty port is the same as none.
#[test]
fn an_empty_port_is_left_out() {
    for (authority, fields) in [(Some("a.test:"), &[][..]), (None, &[("host", "a.test:")])] {
        let mut pseudo = GET[..3].to_vec();
        pseudo.extend(authority.map(|authority| (":authority", authority)));
        let decoded = request(&pseudo, fields, Then::End, LIMITS).expect("well-formed");
        assert_eq!(decoded.request.authority.of(&decoded.bytes), b"a.test");
    }
}
