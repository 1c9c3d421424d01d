use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use xds::model::{AccessLog, AccessLogFilter, LogFormat};

use super::{RequestEntry, wants};
use crate::failure::FailureKind;
use crate::limits::LOG_FIELD_BYTES;

fn log(sample_per_million: u32, filter: AccessLogFilter) -> AccessLog {
    AccessLog {
        off: false,
        format: LogFormat::Text,
        sample_per_million,
        filter,
    }
}

fn short(path: &[u8]) -> RequestEntry<'_> {
    RequestEntry {
        time: UNIX_EPOCH + Duration::from_millis(1_800_000_000_007),
        gateway: "default/web",
        listener: None,
        route: None,
        backend: None,
        endpoint: None,
        client: None,
        method: b"GET",
        host: b"example.com",
        path,
        protocol: "HTTP/1.1",
        status: 404,
        grpc_status: None,
        bytes_in: 0,
        bytes_out: 12,
        duration: Duration::from_micros(1_234),
        upstream: None,
        reason: Some(FailureKind::NoListener),
        retries: 0,
        user_agent: None,
        request_id: None,
        client_certificate: None,
        jwt_subject: None,
        user: None,
    }
}

fn full() -> RequestEntry<'static> {
    RequestEntry {
        listener: Some("Gateway/default/web/http"),
        route: Some("HTTPRoute/default/r/0/Gateway/default/web/http"),
        backend: Some("Service/default/a"),
        endpoint: Some("10.0.0.1:8080"),
        client: "2001:db8::1".parse().ok(),
        status: 200,
        grpc_status: Some(14),
        bytes_in: u64::MAX,
        upstream: Some(Duration::from_secs(61)),
        reason: None,
        retries: 2,
        user_agent: Some(b"curl/8"),
        request_id: Some(b"r-1"),
        client_certificate: Some("c0ffee"),
        jwt_subject: Some("Zo\u{eb}".as_bytes()),
        user: Some(b"acme"),
        ..short(b"/a?b=c")
    }
}

fn line(record: &RequestEntry<'_>, format: LogFormat) -> String {
    let mut out = Vec::new();
    record.write(format, &mut out);
    String::from_utf8(out).expect("lines are UTF-8")
}

#[test]
fn a_text_line_is_logfmt() {
    assert_eq!(
        line(&short(b"/"), LogFormat::Text),
        "time=\"2027-01-15T08:00:00.007Z\" gateway=default/web method=GET host=example.com path=/ \
         protocol=HTTP/1.1 status=404 bytes_in=0 bytes_out=12 duration_ms=1.234 \
         reason=no_listener retries=0\n"
    );
    assert_eq!(
        line(&full(), LogFormat::Text),
        "time=\"2027-01-15T08:00:00.007Z\" gateway=default/web \
         listener=Gateway/default/web/http \
         route=HTTPRoute/default/r/0/Gateway/default/web/http backend=Service/default/a \
         endpoint=10.0.0.1:8080 client=\"2001:db8::1\" method=GET host=example.com \
         path=\"/a?b=c\" protocol=HTTP/1.1 status=200 grpc_status=14 \
         bytes_in=18446744073709551615 bytes_out=12 duration_ms=1.234 upstream_ms=61000.000 \
         retries=2 user_agent=curl/8 request_id=r-1 client_certificate=c0ffee \
         jwt_subject=\"Zo\\xc3\\xab\" user=acme\n"
    );
}

#[test]
fn a_json_line_is_an_object() {
    let line = line(&full(), LogFormat::Json);
    let json: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    for (key, expected) in [
        ("/time", serde_json::json!("2027-01-15T08:00:00.007Z")),
        ("/client", "2001:db8::1".into()),
        ("/path", "/a?b=c".into()),
        ("/status", 200.into()),
        ("/grpc_status", 14.into()),
        ("/bytes_in", u64::MAX.into()),
        ("/duration_ms", 1.234.into()),
        ("/upstream_ms", 61_000.0.into()),
        ("/jwt_subject", "Zo\u{eb}".into()),
        ("/user", "acme".into()),
    ] {
        assert_eq!(json.pointer(key), Some(&expected), "{key}");
    }
}

#[test]
fn bytes_of_peers_are_escaped() {
    for (path, text, json) in [
        (&b"a\"b\\c"[..], r#"path="a\"b\\c""#, r#""path":"a\"b\\c""#),
        (
            b"a\nb\x1b[2J",
            r#"path="a\x0ab\x1b[2J""#,
            r#""path":"a\u000ab\u001b[2J""#,
        ),
        (b"a b=c", r#"path="a b=c""#, r#""path":"a b=c""#),
        (b"", r#"path="""#, r#""path":"""#),
        (
            b"\xff\xc3\xa4\x7f",
            r#"path="\xff\xc3\xa4\x7f""#,
            "\"path\":\"\u{fffd}ä\\u007f\"",
        ),
        (
            b"\xc2\x9b31m",
            r#"path="\xc2\x9b31m""#,
            r#""path":"\u009b31m""#,
        ),
    ] {
        let record = short(path);
        let logged = line(&record, LogFormat::Text);
        assert!(logged.contains(text), "{logged}");
        let logged = line(&record, LogFormat::Json);
        assert!(logged.contains(json), "{logged}");
    }
}

#[test]
fn long_fields_are_clipped() {
    let long = vec![b'x'; LOG_FIELD_BYTES + 1];
    let line = line(&short(&long), LogFormat::Text);
    let length = line.bytes().filter(|byte| *byte == b'x').count();
    // `example.com` contains an `x` too.
    assert_eq!(length, LOG_FIELD_BYTES + 1);
}

#[test]
fn a_filter_logs_requests_that_reach_the_status_or_the_duration() {
    let mut rng = SmallRng::seed_from_u64(1);
    let second = Duration::from_secs(1);
    let filter = |status_at_least, duration_at_least| AccessLogFilter {
        status_at_least,
        duration_at_least,
    };
    for (filter, status, duration, expected) in [
        (filter(None, None), 200, Duration::ZERO, true),
        (filter(Some(500), None), 499, second, false),
        (filter(Some(500), None), 500, Duration::ZERO, true),
        (filter(None, Some(second)), 500, Duration::ZERO, false),
        (filter(None, Some(second)), 200, second, true),
        (filter(Some(500), Some(second)), 200, second, true),
        (filter(Some(500), Some(second)), 200, Duration::ZERO, false),
    ] {
        let log = log(1_000_000, filter);
        assert_eq!(
            wants(&log, status, duration, &mut rng),
            expected,
            "{filter:?} {status}"
        );
        let off = AccessLog { off: true, ..log };
        assert!(!wants(&off, status, duration, &mut rng));
    }
}

#[test]
fn the_sample_rate_is_the_share_of_logged_requests() {
    let mut rng = SmallRng::seed_from_u64(1);
    for (per_million, low, high) in [
        (0, 0, 0),
        (100_000, 900, 1_100),
        (1_000_000, 10_000, 10_000),
    ] {
        let log = log(per_million, AccessLogFilter::default());
        let logged = (0..10_000)
            .filter(|_| wants(&log, 200, Duration::ZERO, &mut rng))
            .count();
        assert!((low..=high).contains(&logged), "{per_million}: {logged}");
    }
}

proptest! {
    #[test]
    fn bytes_of_peers_cannot_break_a_log_line(path: Vec<u8>, agent: Vec<u8>) {
        let record = RequestEntry { user_agent: Some(&agent), ..short(&path) };
        let text = line(&record, LogFormat::Text);
        prop_assert!(text.trim_end_matches('\n').bytes().all(|b| (b' '..=b'~').contains(&b)));
        let json = line(&record, LogFormat::Json);
        prop_assert_eq!(json.find('\n'), Some(json.len() - 1));
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        prop_assert_eq!(value["path"].as_str(), Some(&*String::from_utf8_lossy(&path)));
        prop_assert_eq!(value["user_agent"].as_str(), Some(&*String::from_utf8_lossy(&agent)));
    }
}
