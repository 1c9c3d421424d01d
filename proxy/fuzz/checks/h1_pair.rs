//! A request and its response: what we send on is one message that means what came.

use proxy::http::h1::encode::{DownstreamResponse, Expectation, Persist, UpstreamRequest};
use proxy::http::h1::{HeadLimits, HeadScan, Progress, RequestKind, parse_request, parse_response};
use proxy::http::head::{Fields, Framing, RequestHead, ResponseHead, Version};
use proxy::http::hop_by_hop::REGENERATED;
use proxy::policy::normalise::normalise_target;
use xds::model::{EscapedSlash, PathOptions};

const LIMITS: HeadLimits = HeadLimits {
    line_bytes: 1024,
    head_bytes: 4096,
    fields: 32,
};

const OPTIONS: PathOptions = PathOptions {
    merge_slashes: false,
    escaped_slash: EscapedSlash::Keep,
};

/// Checks `data`: a request's head and, right behind it, a response's.
pub(crate) fn check(data: &[u8]) {
    let mut head = RequestHead::default();
    let progress = parse_request(data, &LIMITS, &mut HeadScan::default(), &mut head);
    let Ok(Progress::Complete { len }) = progress else {
        return;
    };
    let request_kind = if head.upgrade.is_some() {
        RequestKind::Upgrade
    } else if head.method.of(data) == b"HEAD" {
        RequestKind::Head
    } else {
        RequestKind::Other
    };
    if check_request(data, &head) {
        check_response(&data[len..], request_kind, head.version);
    }
}

fn check_request(bytes: &[u8], head: &RequestHead) -> bool {
    let mut scratch = Vec::new();
    let Ok(target) = normalise_target(head.target.of(bytes), OPTIONS, &mut scratch) else {
        return false;
    };
    let host = match head.authority.of(bytes) {
        b"" => b"origin",
        host => host,
    };
    let mut out = Vec::new();
    let request = UpstreamRequest {
        head,
        framing: head.framing,
        bytes,
        target: target.text.as_bytes(),
        host,
        expectation: Expectation::Origin,
        append: b"",
    };
    request.encode(&mut out, |_, _| false);

    // What was normalised may have grown by the slash of an empty path, no further.
    let limits = HeadLimits {
        line_bytes: LIMITS.line_bytes + 2,
        head_bytes: 8192,
        fields: 64,
    };
    let mut again = RequestHead::default();
    let progress = parse_request(&out, &limits, &mut HeadScan::default(), &mut again);
    assert_eq!(
        progress,
        Ok(Progress::Complete { len: out.len() }),
        "{}",
        out.escape_ascii()
    );
    assert_eq!(again.method.of(&out), head.method.of(bytes));
    assert_eq!(again.target.of(&out), target.text.as_bytes());
    assert_eq!(again.authority.of(&out), host);
    // A request without content may state that it has none.
    assert_eq!(
        again.framing,
        head.framing.stated_for(head.method.of(bytes))
    );
    assert_eq!(again.version, Version::Http11);
    let protocol = |head: &RequestHead, bytes: &[u8]| head.upgrade.map(|p| p.of(bytes).to_vec());
    assert_eq!(protocol(&again, &out), protocol(head, bytes));
    check_fields((&again.fields, &out), (&head.fields, bytes));
    true
}

fn check_response(bytes: &[u8], request_kind: RequestKind, client: Version) {
    let mut head = ResponseHead::default();
    let progress = parse_response(
        bytes,
        request_kind,
        &LIMITS,
        &mut HeadScan::default(),
        &mut head,
    );
    let Ok(Progress::Complete { .. }) = progress else {
        return;
    };
    let mut out = Vec::new();
    let response = DownstreamResponse {
        head: &head,
        bytes,
        client,
        persist: Persist::Keep,
        append: b"",
    };
    response.encode(&mut out, |_, _| false);

    let limits = HeadLimits {
        head_bytes: 8192,
        fields: 64,
        ..LIMITS
    };
    let mut again = ResponseHead::default();
    let progress = parse_response(
        &out,
        request_kind,
        &limits,
        &mut HeadScan::default(),
        &mut again,
    );
    assert_eq!(
        progress,
        Ok(Progress::Complete { len: out.len() }),
        "{}",
        out.escape_ascii()
    );
    assert_eq!(again.status, head.status);
    assert_eq!(again.framing, head.framing.reframed_for(client));
    assert_eq!(again.content_length, head.content_length);
    assert_eq!(again.keep_alive, again.framing != Framing::UntilClose);
    check_fields((&again.fields, &out), (&head.fields, bytes));
}

/// What was sent on is, beside our own, a part of what came, in its order.
fn check_fields(sent: (&Fields, &[u8]), came: (&Fields, &[u8])) {
    let mut came_on = came.0.iter();
    for line in sent.0.iter().filter(|line| !REGENERATED.has(line.known)) {
        let is_same = |other: &&proxy::http::head::Field| {
            other.name.of(came.1) == line.name.of(sent.1)
                && other.value.of(came.1) == line.value.of(sent.1)
        };
        assert!(
            came_on.by_ref().any(|other| is_same(&other)),
            "a field from nowhere"
        );
    }
}
