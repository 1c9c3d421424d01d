//! Heads: how they are cut does not matter, and what we accept `httparse` reads the same way.

use proxy::http::h1::{
    HeadLimits, HeadScan, Progress, RequestError, RequestKind, ResponseError, parse_request,
    parse_response,
};
use proxy::http::head::{Fields, RequestHead, ResponseHead};

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 1024,
    head_bytes: 4096,
    fields: 32,
};

/// Checks `data` as a request's and as a response's head.
pub(crate) fn check(data: &[u8]) {
    let request = whole_or_dripped(data, |bytes, scan| {
        let mut head = RequestHead::default();
        let progress = parse_request(bytes, &LIMITS, scan, &mut head);
        (progress.map_err(RequestError::reason), head)
    });
    if let Some((len, head)) = request {
        check_request(data, len, &head);
    }
    for request_kind in [RequestKind::Other, RequestKind::Head, RequestKind::Upgrade] {
        let response = whole_or_dripped(data, |bytes, scan| {
            let mut head = ResponseHead::default();
            let progress = parse_response(bytes, request_kind, &LIMITS, scan, &mut head);
            (progress.map_err(ResponseError::reason), head)
        });
        if let Some((len, head)) = response {
            check_response(data, len, &head);
        }
    }
}

type Attempt<H> = (Result<Progress, &'static str>, H);

/// The head, where there is one; whichever way it came.
fn whole_or_dripped<H: std::fmt::Debug>(
    data: &[u8],
    mut parse: impl FnMut(&[u8], &mut HeadScan) -> Attempt<H>,
) -> Option<(usize, H)> {
    let (whole, head) = parse(data, &mut HeadScan::default());
    let mut scan = HeadScan::default();
    let mut dripped = parse(&[], &mut scan);
    for end in 1..=data.len() {
        if dripped.0 != Ok(Progress::Partial) {
            break;
        }
        dripped = parse(&data[..end], &mut scan);
    }
    let complete = |attempt: &Result<Progress, _>| match attempt {
        Ok(Progress::Complete { len }) => Some(*len),
        _ => None,
    };
    assert_eq!(
        complete(&whole),
        complete(&dripped.0),
        "{whole:?} {:?}",
        dripped.0
    );
    let len = complete(&whole)?;
    assert_eq!(format!("{head:?}"), format!("{:?}", dripped.1));
    Some((len, head))
}

fn check_request(data: &[u8], len: usize, head: &RequestHead) {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut plain = httparse::Request::new(&mut headers);
    assert_eq!(plain.parse(data), Ok(httparse::Status::Complete(len)));
    assert_eq!(plain.method.unwrap().as_bytes(), head.method.of(data));
    assert!(
        plain
            .path
            .unwrap()
            .as_bytes()
            .ends_with(head.target.of(data))
            || head.target.of(data) == b"/"
    );
    check_fields(&data[..len], &head.fields, plain.headers);
}

fn check_response(data: &[u8], len: usize, head: &ResponseHead) {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut plain = httparse::Response::new(&mut headers);
    let mut config = httparse::ParserConfig::default();
    // RFC 9112 section 5.1: a proxy removes white space before the colon from a response.
    config.allow_spaces_after_header_name_in_responses(true);
    assert_eq!(
        config.parse_response(&mut plain, data),
        Ok(httparse::Status::Complete(len))
    );
    assert_eq!(plain.code, Some(head.status));
    check_fields(&data[..len], &head.fields, plain.headers);
}

fn check_fields(head: &[u8], ours: &Fields, plain: &[httparse::Header<'_>]) {
    assert_eq!(ours.len(), plain.len());
    for (ours, plain) in ours.iter().zip(plain) {
        assert_eq!(ours.name.of(head), plain.name.as_bytes());
        assert_eq!(ours.value.of(head), plain.value);
    }
    assert!(head.len() <= LIMITS.head_bytes && ours.len() <= LIMITS.fields);
    assert!(head.ends_with(b"\r\n\r\n"));
    // Every CR has its LF, and every LF its CR.
    let without_pairs = String::from_utf8_lossy(head).replace("\r\n", "");
    assert!(!without_pairs.contains(['\r', '\n']));
}
