//! Bodies, and when they are sent.

use http::{HeaderName, HeaderValue, StatusCode};
use xds::model::{AnswerContent, AnswerStatus, Body, Content, RespondPolicy};

use super::*;

fn content(media_type: &'static str, body: &str) -> Content {
    Content {
        media_type: HeaderValue::from_static(media_type),
        body: Body::new(body.as_bytes()),
    }
}

fn filled(media_type: &'static str, body: &str, host: &str) -> String {
    let facts = Facts {
        request_id: "id-1",
        status: StatusCode::NOT_FOUND,
        host,
    };
    let template = Template::compile(&content(media_type, body));
    let filled = template.fill(facts);
    let text = String::from_utf8(bytes_of(&filled)).expect("text");
    assert_eq!(
        (filled.len(), filled.is_empty()),
        (text.len(), text.is_empty())
    );
    text
}

/// All bytes, each of which is also found by its index.
fn bytes_of(filled: &Filled<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let part = filled.part_at(bytes.len());
        if part.is_empty() {
            break;
        }
        bytes.extend_from_slice(part);
    }
    for (at, byte) in bytes.iter().enumerate() {
        assert_eq!(filled.part_at(at).first(), Some(byte), "{at}");
    }
    bytes
}

#[test]
fn placeholders_stand_for_facts_and_other_braces_stay() {
    for (body, expected) in [
        ("{status} at {host}: {request_id}", "404 at a.test: id-1"),
        ("{status}{status}", "404404"),
        ("{ {status} }", "{ 404 }"),
        ("{{status}}", "{404}"),
        ("{Status} {other} {statu", "{Status} {other} {statu"),
        ("a { color: red }", "a { color: red }"),
        ("", ""),
        ("{", "{"),
    ] {
        assert_eq!(filled("text/plain", body, "a.test"), expected, "{body}");
    }
}

#[test]
fn facts_are_escaped_by_the_type() {
    let host = "<a&\"'\\>";
    for (media_type, expected) in [
        ("text/plain; charset=utf-8", host),
        ("text/css", host),
        ("text/html", "&lt;a&amp;&quot;&#39;\\&gt;"),
        ("TEXT/HTML;charset=utf-8", "&lt;a&amp;&quot;&#39;\\&gt;"),
        ("application/xhtml+xml", "&lt;a&amp;&quot;&#39;\\&gt;"),
        ("image/svg+xml ; a=b", "&lt;a&amp;&quot;&#39;\\&gt;"),
        ("text/xml", "&lt;a&amp;&quot;&#39;\\&gt;"),
        (
            "application/json",
            "\\u003ca\\u0026\\u0022\\u0027\\u005c\\u003e",
        ),
        (
            "application/problem+json",
            "\\u003ca\\u0026\\u0022\\u0027\\u005c\\u003e",
        ),
    ] {
        assert_eq!(filled(media_type, "{host}", host), expected, "{media_type}");
    }
}

/// A body of placeholders alone would make answers of megabytes.
#[test]
fn a_body_has_a_bounded_number_of_placeholders() {
    let body = "{host}".repeat(PLACES + 1);
    let expected = "a".repeat(PLACES) + "{host}";
    assert_eq!(filled("text/plain", &body, "a"), expected);
}

const PLACES: usize = crate::limits::PLACEHOLDERS;

#[test]
fn a_body_without_placeholders_is_sent_without_a_copy() {
    let given = content("text/html", "<h1>Back soon</h1>");
    let template = Template::compile(&given);
    let facts = Facts {
        request_id: "",
        status: StatusCode::OK,
        host: "",
    };
    assert!(!template.has_places());
    let filled = template.fill(facts);
    assert_eq!(filled.part_at(0).as_ptr(), given.body.bytes().as_ptr());
    assert_eq!(filled.part_at(0).len(), given.body.bytes().len());
}

/// A client that does not take its response would otherwise keep a copy of the body.
#[test]
fn a_body_with_placeholders_shares_the_bytes_between_them() {
    let body = format!("{{status}}{}{{request_id}}", "x".repeat(1000));
    let given = content("text/html", &body);
    let template = Template::compile(&given);
    let filled = template.fill(Facts {
        request_id: "id",
        status: StatusCode::NOT_FOUND,
        host: "a.test",
    });
    assert_eq!(filled.part_at(0), b"404");
    let between = given.body.bytes().as_ptr().wrapping_add("{status}".len());
    assert_eq!(
        (filled.part_at(3).as_ptr(), filled.part_at(3).len()),
        (between, 1000)
    );
    assert_eq!(
        (filled.part_at(1003), filled.part_at(1005)),
        (&b"id"[..], &b""[..])
    );
}

fn compiled(status: u32, except: Option<&str>) -> Respond {
    let policy = RespondPolicy {
        status: AnswerStatus::new(status).expect("a status"),
        content: AnswerContent::Given(content("text/html", "soon")),
        headers: vec![(
            HeaderName::from_static("x-reason"),
            HeaderValue::from_static("maintenance"),
        )],
        retry_after: std::num::NonZeroU32::new(300),
        except: except.map(str::to_owned),
    };
    Respond::compile("TrafficPolicy/a/b", &policy)
}

#[test]
fn an_answer_has_its_fields() {
    let respond = compiled(503, None);
    assert_eq!(
        respond.lines(),
        b"x-reason: maintenance\r\nRetry-After: 300\r\n"
    );
    let given = respond.content().expect("a content");
    assert_eq!(&*given.type_line, b"Content-Type: text/html\r\n");
    assert!(!respond.has_exception() && !respond.is_built_in());
}

/// As gRPC maps HTTP statuses, but for 500, which is of a server that knows what it does.
#[test]
fn a_status_corresponds_to_one_of_grpc() {
    for (status, expected) in [
        (200, GrpcStatus::Unimplemented),
        (204, GrpcStatus::Unimplemented),
        (302, GrpcStatus::Unimplemented),
        (400, GrpcStatus::Internal),
        (401, GrpcStatus::Unauthenticated),
        (403, GrpcStatus::PermissionDenied),
        (404, GrpcStatus::Unimplemented),
        (410, GrpcStatus::Unknown),
        (418, GrpcStatus::Unknown),
        (429, GrpcStatus::Unavailable),
        (500, GrpcStatus::Internal),
        (501, GrpcStatus::Unknown),
        (502, GrpcStatus::Unavailable),
        (503, GrpcStatus::Unavailable),
        (504, GrpcStatus::DeadlineExceeded),
        (599, GrpcStatus::Unknown),
    ] {
        assert_eq!(compiled(status, None).grpc_status(), expected, "{status}");
    }
}
