use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use xds::model::AuthPathPrefix;

use super::messages::{CheckResponse, DeniedResponse, OkResponse, Status};
use super::{Denial, MissingVerdict, Subject, Verdict, grpc, http as plain};
use crate::http::h1::{HeadLimits, HeadScan, Progress, parse_request};
use crate::http::head::RequestHead;
use crate::limits::Limits;
use crate::policy::effective_fields::{EffectiveFields, PolicyView};
use crate::policy::forwarded::HeaderTrust;
use crate::policy::mutation::{HeaderValue as Value, HeaderValueOption, HttpStatus, Mutation};

const HEAD: &[u8] = b"POST /a?b=c HTTP/1.1\r\nHost: shop.test\r\nAuthorization: Bearer x\r\n\
    Cookie: k=v\r\nX-User: forged\r\nX-Team: a\r\nX-Team: b\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n";

fn head() -> RequestHead {
    parsed(HEAD)
}

fn parsed(bytes: &[u8]) -> RequestHead {
    let (mut scan, mut head) = (HeadScan::default(), RequestHead::default());
    let limits = HeadLimits::of_request(&Limits::default());
    let progress = parse_request(bytes, &limits, &mut scan, &mut head);
    assert!(matches!(progress, Ok(Progress::Complete { .. })));
    head
}

fn subject<'a>(head: &'a RequestHead, grants: &'a Mutation) -> Subject<'a> {
    Subject {
        method: b"POST",
        authority: b"shop.test",
        target: b"/a?b=c",
        fields: EffectiveFields {
            fields: &head.fields,
            bytes: HEAD,
            header_trust: HeaderTrust::Untrusted,
            principal: None,
            own: b"",
            grants: Some(grants),
            view: PolicyView::Effective,
        },
        body: b"",
    }
}

fn name(text: &'static str) -> HeaderName {
    HeaderName::from_static(text)
}

fn answer(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    let lines = lines.iter();
    let lines = lines.map(|(field, value)| (name(field), HeaderValue::from_static(value)));
    lines.collect()
}

fn edited_lines(grants: &Mutation) -> String {
    String::from_utf8(grants.lines().to_vec()).expect("text")
}

#[test]
fn an_http_server_gets_the_listed_fields_and_the_client_address() {
    let head = head();
    let (mut target, mut lines) = (Vec::new(), Vec::new());
    let grants = Mutation::default();
    let subject = subject(&head, &grants);
    plain::write_target(
        &AuthPathPrefix::parse("/check/").expect("a path"),
        &subject,
        &mut target,
    );
    assert_eq!(target, b"/check/a?b=c");
    plain::write_lines(&[name("x-team"), name("x-hop")], &subject, &mut lines);
    assert_eq!(
        String::from_utf8_lossy(&lines),
        "Authorization: Bearer x\r\nX-Team: a\r\nX-Team: b\r\n"
    );
}

#[test]
fn only_status_200_allows_a_request() {
    for status in 200..=599 {
        let code = StatusCode::from_u16(status).expect("a status");
        let verdict = plain::interpret(code, &HeaderMap::new(), Some(Vec::new()), &[]);
        match (status, verdict) {
            (200, Ok(Verdict::Allowed { .. })) | (304 | 500..=599, Err(_)) => {}
            (201..=299, Ok(Verdict::Denied(denial))) => assert_eq!(denial.status, 403),
            (300..=499, Ok(Verdict::Denied(denial))) => assert_eq!(denial.status, status),
            (_, verdict) => panic!("{status}: {verdict:?}"),
        }
    }
}

#[test]
fn listed_fields_of_clients_are_replaced_by_those_of_the_server() {
    let headers = answer(&[("x-role", "admin"), ("x-other", "1"), ("host", "evil.test")]);
    let listed = [name("x-user"), name("x-role"), name("host")];
    let verdict = plain::interpret(StatusCode::OK, &headers, Some(Vec::new()), &listed);
    let Ok(Verdict::Allowed { grants, .. }) = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(edited_lines(&grants), "x-role: admin\r\n");
    assert!(grants.drops(b"X-User") && grants.drops(b"x_user") && !grants.drops(b"host"));
}

#[test]
fn without_a_list_all_fields_but_those_of_the_response_or_the_path_are_copied() {
    let headers = answer(&[
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-client-cert", "Hash=0"),
        ("forwarded", "for=10.0.0.1"),
        ("x-real-ip", "10.0.0.1"),
        ("x-request-id", "7"),
        ("authorization", "Bearer y"),
        ("x-user", "me"),
        ("x-user", "you"),
        ("content-type", "text/plain"),
        ("content-length", "2"),
        ("date", "now"),
        ("connection", "close"),
        ("host", "evil.test"),
    ]);
    let verdict = plain::interpret(StatusCode::OK, &headers, Some(Vec::new()), &[]);
    let Ok(Verdict::Allowed { grants, .. }) = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(
        edited_lines(&grants),
        "authorization: Bearer y\r\nx-user: me\r\nx-user: you\r\n"
    );
    let listed = [name("x-forwarded-proto"), name("x-request-id")];
    let verdict = plain::interpret(StatusCode::OK, &headers, Some(Vec::new()), &listed);
    let Ok(Verdict::Allowed { grants, .. }) = verdict else {
        panic!("{verdict:?}")
    };
    let listed = "x-forwarded-proto: https\r\nx-request-id: 7\r\n";
    assert_eq!(edited_lines(&grants), listed);
}

#[test]
fn a_denial_is_forwarded_without_its_framing() {
    let headers = answer(&[
        ("location", "/login"),
        ("content-type", "text/html"),
        ("content-length", "2"),
        ("transfer-encoding", "chunked"),
    ]);
    let verdict = plain::interpret(StatusCode::FOUND, &headers, Some(b"hi".to_vec()), &[]);
    let expected = Denial {
        status: StatusCode::FOUND,
        lines: b"location: /login\r\ncontent-type: text/html\r\n".to_vec(),
        body: b"hi".to_vec(),
    };
    assert_eq!(verdict, Ok(Verdict::Denied(expected)));
    let verdict = plain::interpret(StatusCode::FOUND, &headers, None, &[]);
    let without_its_body = Denial {
        status: StatusCode::FOUND,
        lines: b"location: /login\r\n".to_vec(),
        body: Vec::new(),
    };
    assert_eq!(verdict, Ok(Verdict::Denied(without_its_body)));
}

#[test]
fn a_later_server_receives_the_fields_set_by_an_earlier_one() {
    let head = head();
    let headers = answer(&[("x-user", "me")]);
    let Ok(Verdict::Allowed { mut grants, .. }) =
        plain::interpret(StatusCode::OK, &headers, Some(Vec::new()), &[])
    else {
        panic!("it is allowed")
    };
    let mut lines = Vec::new();
    plain::write_lines(&[name("x-user")], &subject(&head, &grants), &mut lines);
    assert_eq!(
        String::from_utf8_lossy(&lines),
        "Authorization: Bearer x\r\nx-user: me\r\n"
    );
    let headers = answer(&[("x-user", "you")]);
    let Ok(Verdict::Allowed { grants: later, .. }) =
        plain::interpret(StatusCode::OK, &headers, Some(Vec::new()), &[])
    else {
        panic!("it is allowed")
    };
    grants.extend(&later);
    assert_eq!(edited_lines(&grants), "x-user: you\r\n");
}

const ARRIVAL: grpc::RequestSource = grpc::RequestSource {
    address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    scheme: "https",
    protocol: "HTTP/1.1",
    size: None,
};

#[test]
fn a_grpc_server_receives_repeated_fields_joined() {
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX-Role:\r\nX-Role: admin\r\nX-Role:\r\n\
        Cookie: a=1\r\nCookie: b=2\r\n\r\n";
    let (head, none) = (parsed(bytes), Mutation::default());
    let mut subject = subject(&head, &none);
    subject.fields.bytes = bytes;
    let check_request = grpc::check_request(&[], &subject, &ARRIVAL);
    let request = check_request.attributes.and_then(|it| it.request);
    let headers = request.and_then(|it| it.http).expect("a request").headers;
    assert_eq!(
        (&*headers["x-role"], &*headers["cookie"]),
        (",admin,", "a=1; b=2")
    );
}

#[test]
fn a_grpc_server_receives_all_fields_or_only_the_listed_ones() {
    let head = head();
    let grants = Mutation::default();
    for (listed, expected) in [
        (
            vec![],
            "authorization=Bearer x;cookie=k=v;x-team=a,b;x-user=forged",
        ),
        (vec![name("x-team")], "x-team=a,b"),
    ] {
        let check_request = grpc::check_request(&listed, &subject(&head, &grants), &ARRIVAL);
        let attributes = check_request.attributes.expect("attributes");
        let http = attributes
            .request
            .and_then(|it| it.http)
            .expect("a request");
        let headers = http
            .headers
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        assert_eq!(headers.collect::<Vec<_>>().join(";"), expected);
        assert_eq!(
            (&*http.path, &*http.host, http.size),
            ("/a?b=c", "shop.test", -1)
        );
    }
}

fn option(name: &str, value: &str, append: Option<bool>) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(Value {
            key: name.to_owned(),
            value: value.to_owned(),
            raw_value: Vec::new(),
        }),
        append,
        append_action: 0,
    }
}

#[test]
fn an_ok_response_replaces_or_appends_fields() {
    let answer = CheckResponse {
        status: Some(Status { code: 0 }),
        denied_response: None,
        ok_response: Some(OkResponse {
            headers: vec![
                option("X-User", "me", None),
                option("x-team", "c", Some(true)),
                option("host", "evil.test", None),
            ],
            headers_to_remove: vec!["cookie".to_owned()],
            ..OkResponse::default()
        }),
    };
    let (head, none) = (head(), Mutation::default());
    let Ok(Verdict::Allowed { grants, .. }) = grpc::interpret(answer, &subject(&head, &none))
    else {
        panic!("it is allowed")
    };
    assert_eq!(edited_lines(&grants), "x-user: me\r\nx-team: c\r\n");
    let drops = ["x-user", "x-team", "cookie", "host"].map(|name| grants.drops(name.as_bytes()));
    assert_eq!(drops, [true, false, true, false]);
}

#[test]
fn responses_with_unsupported_edits_are_rejected() {
    let removes_parameter = CheckResponse {
        ok_response: Some(OkResponse {
            query_parameters_to_remove: vec!["admin".to_owned()],
            ..OkResponse::default()
        }),
        ..CheckResponse::default()
    };
    let both = CheckResponse {
        denied_response: Some(DeniedResponse::default()),
        ..CheckResponse::default()
    };
    let denied = |code| CheckResponse {
        status: Some(Status { code: 7 }),
        denied_response: Some(DeniedResponse {
            status: Some(HttpStatus { code }),
            ..DeniedResponse::default()
        }),
        ok_response: None,
    };
    let (head, none) = (head(), Mutation::default());
    let subject = subject(&head, &none);
    for answer in [
        removes_parameter,
        both,
        denied(200),
        denied(99),
        denied(304),
    ] {
        let verdict = grpc::interpret(answer, &subject);
        assert!(matches!(verdict, Err(MissingVerdict(_))), "{verdict:?}");
    }
    for (code, status) in [(0, 403), (401, 401), (503, 503)] {
        let Ok(Verdict::Denied(denial)) = grpc::interpret(denied(code), &subject) else {
            panic!("{code} is a denial")
        };
        assert_eq!(denial.status, status);
    }
}
