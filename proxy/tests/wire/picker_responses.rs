//! Responses through endpoint pickers: head, body and trailers, as they arrive; and failures of the
//! picker.

use std::net::SocketAddr;
use std::time::Duration;

use super::admin_trace::{events, watches};
use super::inference::{ROUTE, pool_of, pool_with};
use super::metrics::waits_for_buffers;
use crate::support::{
    ByteCounter, CallEnd, Client, Driver, Gate, Gateway, MAX_IN_FLIGHT, MOMENT, Origin, Picker,
    PickerBehavior, Reply, ResponseBehavior, chunked, client, into_h2, ok, on_both_drivers, origin,
    out_of_h2, pattern, picker, raw, same_bytes,
};

/// Translates between HTTP/1 and the protocol spoken at an address, if it is another one.
type Bridge = fn(SocketAddr) -> SocketAddr;

/// An HTTP/1 pod whose picker handles responses like this.
fn scene(driver: Driver, reviews: ResponseBehavior, mode: &str) -> (Gateway, Origin, Picker) {
    scene_of(driver, reviews, mode, |address| address, "http")
}

fn scene_of(
    driver: Driver,
    reviews: ResponseBehavior,
    mode: &str,
    before: Bridge,
    protocol: &str,
) -> (Gateway, Origin, Picker) {
    let pod = origin();
    let member = before(pod.address());
    let picker = picker(PickerBehavior::Picks(vec![member]));
    picker.now_reviews(reviews);
    let (members, port) = (&[member][..], "appProtocol: http2");
    let gateway = pool_of(driver, (members, protocol), picker.address(), mode, port)
        .rule(ROUTE)
        .inspected()
        .start();
    (gateway, pod, picker)
}

/// The first part of a response.
fn first_part(first: &str) -> Reply {
    Reply::at_once()
        .sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        .sends(chunk(first))
}

/// A response in two parts, the second one after the gate.
fn in_parts(first: &str, gate: &Gate, second: &str) -> Reply {
    first_part(first)
        .waits_for(gate)
        .sends(chunk(second) + "0\r\n\r\n")
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn stopping(after: usize, shouting: bool, end: CallEnd) -> ResponseBehavior {
    ResponseBehavior::Stops {
        after,
        shouting,
        end,
    }
}

/// The ways in which a picker fails.
const FAILURES: [CallEnd; 4] = [
    CallEnd::Status("13"),
    CallEnd::Reset,
    CallEnd::Garbage,
    CallEnd::Spurious,
];

/// Expects the head and the first chunk of a response.
fn expect_first_part(client: &mut Client, first: &str) {
    client.reads_head();
    let read = client.reads_bytes(chunk(first).len());
    assert_eq!(String::from_utf8_lossy(&read), chunk(first));
}

on_both_drivers! {
    fn the_client_receives_the_body_that_the_picker_returns(driver) {
        let (gateway, pod, picker) = scene(driver, ResponseBehavior::Shouts, "FailClose");
        pod.next_replies([chunked(&["one ", "two"]), ok("a length"), chunked(&[])]);
        let mut client = gateway.client();
        let answer = client.gets("/").expects(200);
        assert_eq!(answer.text(), "ONE TWO");
        let served = pod.address().to_string();
        assert_eq!(answer.value("x-served-by"), Some(&*served));
        let answer = client.gets("/").expects(200);
        assert_eq!((answer.text(), answer.value("content-length")), ("A LENGTH".to_owned(), None));
        assert_eq!(client.gets("/").expects(200).text(), "");
        assert_eq!(pod.connections(), 1, "connections are reused");
        let requests = picker.requests();
        let bodies: Vec<_> = requests.iter().map(|it| String::from_utf8_lossy(&it.response.body)).collect();
        assert_eq!(bodies, ["one two", "a length", ""]);
        assert!(requests.iter().all(|it| it.response.ended && !it.response.head_ends));
    }

    fn a_long_body_is_forwarded_in_every_picker_mode(driver) {
        let body = pattern(3 << 20);
        for reviews in [ResponseBehavior::Returns, ResponseBehavior::Acknowledges, ResponseBehavior::Holds] {
            let (gateway, pod, picker) = scene(driver, reviews.clone(), "FailClose");
            pod.now_replies(ok(&body));
            let mut client = gateway.client();
            for _ in 0..2 {
                same_bytes(&client.gets("/").expects(200).body, &body);
            }
            same_bytes(&picker.requests()[0].response.body, &body);
            assert_eq!(pod.connections(), 1, "{reviews:?}");
        }
    }

    fn a_picker_that_acknowledges_each_piece_may_begin_late(driver) {
        let late = ResponseBehavior::AcknowledgesLate(Duration::from_millis(300));
        let (gateway, pod, _picker) = scene(driver, late, "FailClose");
        let body = pattern(1 << 20);
        pod.now_replies(ok(&body));
        same_bytes(&gateway.client().gets("/").expects(200).body, &body);
    }

    fn a_picker_that_has_not_answered_the_head_may_still_acknowledge_each_piece(driver) {
        // It gets more than the 256 KiB only after a second without an answer.
        let late = ResponseBehavior::AcknowledgesFrom(300_000);
        let body = pattern(1 << 20);
        for mode in ["FailClose", "FailOpen"] {
            let (gateway, pod, _picker) = scene(driver, late.clone(), mode);
            pod.now_replies(ok(&body));
            same_bytes(&gateway.client().gets("/").expects(200).body, &body);
        }
    }

    fn a_picker_that_fails_before_it_has_answered_the_head_is_bypassed(driver) {
        let body = pattern(1 << 20);
        for after in [300_000, body.len()] {
            let behavior = ResponseBehavior::IgnoresThenResets(after);
            let (gateway, pod, _picker) = scene(driver, behavior, "FailOpen");
            pod.now_replies(ok(&body));
            same_bytes(&gateway.client().gets("/").expects(200).body, &body);
        }
    }

    fn bytes_kept_for_a_picker_count_as_buffers_in_use(driver) {
        let is_kept = |bytes: f64| bytes >= f64::from(4 << 20);
        let is_freed = |bytes: f64| bytes < f64::from(1 << 20);
        let (gateway, pod, _picker) = scene(driver, ResponseBehavior::Ignores, "FailOpen");
        let body = pattern(4 << 20);
        pod.now_replies(ok(&body));
        let mut leaving = gateway.client();
        leaving.gets("/");
        waits_for_buffers(&gateway, is_kept);
        leaving.resets();
        waits_for_buffers(&gateway, is_freed);
        // The picker's time runs out.
        let mut client = gateway.client();
        client.waits_at_most(Duration::from_secs(30)).gets("/");
        waits_for_buffers(&gateway, is_kept);
        same_bytes(&client.expects(200).body, &body);
        waits_for_buffers(&gateway, is_freed);
    }

    fn a_picker_that_falls_silent_during_a_long_body_fails(driver) {
        let body = pattern(1 << 20);
        let started = ["FailOpen", "FailClose"].map(|mode| {
            let (gateway, pod, picker) = scene(driver, ResponseBehavior::FallsSilent(2), mode);
            pod.now_replies(ok(&body));
            let mut client = gateway.client();
            // It has 10 s for an answer.
            client.waits_at_most(Duration::from_secs(30)).gets("/");
            (gateway, pod, picker, client)
        });
        let [(_open, _pod, _picker, mut opened), (closed, _, _, mut cut)] = started;
        same_bytes(&opened.expects(200).body, &body);
        cut.expects_broken_response();
        closed.waits_for_access_log("reason=picker_failed");
    }

    fn a_picker_may_defer_its_response_to_the_head(driver) {
        let (gateway, pod, _picker) = scene(driver, ResponseBehavior::HoldsAll, "FailClose");
        pod.now_replies(chunked(&["one", "two"]));
        let mut client = gateway.client();
        let answer = client.gets("/").expects(200);
        assert_eq!(answer.text(), "onetwo");
        assert!(answer.has("x-served-by"));
        let body = pattern(1 << 20);
        pod.now_replies(ok(&body));
        same_bytes(&client.gets("/").expects(200).body, &body);
    }

    fn a_picker_may_end_the_body_early(driver) {
        let (gateway, pod, _picker) = scene(driver, ResponseBehavior::Shortens("short"), "FailClose");
        pod.now_replies(first_part("long").stalls());
        let mut client = gateway.client();
        assert_eq!(client.gets("/").expects(200).text(), "short");
        pod.waits_for_hangup();
        pod.now_replies(ok("long"));
        assert_eq!(client.gets("/").expects(200).text(), "short");
    }

    fn trailers_need_no_response_from_the_picker(driver) {
        let (gateway, pod, _picker) = scene(driver, ResponseBehavior::Acknowledges, "FailClose");
        pod.now_replies(raw(GRPC));
        let answer = gateway.client().gets("/").expects(200);
        assert_eq!(answer.text(), "answer");
        assert!(answer.trailers.contains(&("grpc-status".to_owned(), "5".to_owned())));
    }

    fn server_sent_events_are_not_delayed(driver) {
        for reviews in [ResponseBehavior::Returns, ResponseBehavior::Acknowledges] {
            let (gateway, pod, _picker) = scene(driver, reviews, "FailClose");
            let gate = Gate::default();
            pod.now_replies(in_parts("data: 1\n\n", &gate, "data: 2\n\n"));
            let mut client = gateway.client();
            expect_first_part(client.gets("/"), "data: 1\n\n");
            gate.open();
            assert_eq!(client.reads_bytes(19), b"9\r\ndata: 2\n\n\r\n0\r\n\r\n");
        }
    }

    fn a_slow_client_bounds_what_is_read_from_the_pod(driver) {
        let (gateway, pod, _picker) = scene(driver, ResponseBehavior::Returns, "FailClose");
        assert_buffering_is_bounded(&gateway, &pod);
    }

    fn a_slow_picker_bounds_what_is_read_from_the_pod(driver) {
        let gate = Gate::default();
        let (gateway, pod, _picker) = scene(driver, ResponseBehavior::Waits(gate.clone()), "FailClose");
        assert_buffering_is_bounded(&gateway, &pod);
        gate.open();
    }

    fn a_picker_that_fails_before_altering_the_response_is_bypassed(driver) {
        for end in FAILURES {
            let (gateway, pod, _picker) = scene(driver, stopping(2, false, end), "FailOpen");
            let gate = Gate::default();
            pod.now_replies(in_parts("one", &gate, "two"));
            let mut client = gateway.client();
            expect_first_part(client.gets("/"), "one");
            gate.open();
            assert_eq!(client.reads_bytes(13), b"3\r\ntwo\r\n0\r\n\r\n", "{end:?}");
        }
    }

    fn a_picker_that_fails_during_a_body_truncates_the_response(driver) {
        for (mode, shouting) in [("FailClose", false), ("FailClose", true), ("FailOpen", true)] {
            for end in FAILURES {
                let (gateway, pod, _picker) = scene(driver, stopping(2, shouting, end), mode);
                let gate = Gate::default();
                pod.now_replies(in_parts("one", &gate, "two"));
                let mut client = gateway.client();
                let first = if shouting { "ONE" } else { "one" };
                expect_first_part(client.gets("/"), first);
                gate.open();
                client.expects_end();
                gateway.waits_for_access_log("reason=picker_failed");
            }
        }
    }

    fn a_picker_that_fails_after_it_has_held_back_too_much_fails_the_response(driver) {
        // The head and more than 256 KiB, of which nothing was returned.
        let (gateway, pod, _picker) = scene(driver, ResponseBehavior::HoldsThenResets(6), "FailOpen");
        pod.now_replies(ok(pattern(1 << 20)));
        gateway.client().gets("/").expects_broken_response();
        let metrics = gateway.client_of("metrics").gets("/metrics").expects(200).text();
        let line = "gateway_endpoint_picker_response_failures_total{result=\"failed_closed\"} 1";
        assert!(metrics.contains(line), "{line} in {metrics}");
    }

    fn picker_failures_during_responses_are_counted_and_traced(driver) {
        let consequences = [
            ("FailOpen", false, "failed_open", "continues without it"),
            ("FailOpen", true, "failed_closed", "is cut short, or replaced by an error"),
            ("FailClose", false, "failed_closed", "is cut short, or replaced by an error"),
        ];
        for (mode, shouting, result, consequence) in consequences {
            let behavior = stopping(2, shouting, CallEnd::Status("13"));
            let (gateway, pod, _picker) = scene(driver, behavior, mode);
            let gate = Gate::default();
            pod.now_replies(in_parts("one", &gate, "two"));
            let mut watcher = watches(&gateway, "");
            let mut client = gateway.client();
            expect_first_part(client.gets("/"), if shouting { "ONE" } else { "one" });
            gate.open();
            let events = events(&mut watcher);
            assert!(events.iter().any(|event| event.to_string().contains(consequence)), "{events:?}");
            let metrics = gateway.client_of("metrics").gets("/metrics").expects(200).text();
            let line = format!("gateway_endpoint_picker_response_failures_total{{result=\"{result}\"}} 1");
            assert!(metrics.contains(&line), "{line} in {metrics}");
        }
    }

    fn a_response_continues_after_the_picker_closes_its_stream(driver) {
        for mode in ["FailClose", "FailOpen"] {
            for after in [0, 1, 2] {
                let (gateway, pod, _picker) = scene(driver, stopping(after, false, CallEnd::Status("0")), mode);
                let body = pattern(300_000);
                let (first, second) = body.split_at(100);
                let gate = Gate::default();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                pod.now_replies(Reply::at_once().sends(head).sends(first).waits_for(&gate).sends(second));
                let mut client = gateway.client();
                client.gets("/");
                gate.open();
                same_bytes(&client.expects(200).body, &body);
            }
        }
    }

    fn a_picker_that_fails_at_the_response_head_follows_the_failure_mode(driver) {
        for end in FAILURES {
            for (mode, code) in [("FailOpen", 200), ("FailClose", 503)] {
                let (gateway, pod, _picker) = scene(driver, stopping(0, false, end), mode);
                let mut client = gateway.client();
                for (method, reply) in [("GET", ok("whole")), ("HEAD", raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"))] {
                    pod.now_replies(reply);
                    client.sends(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
                    let answer = client.reads_reply_to(method);
                    assert_eq!(answer.status(), code, "{end:?}");
                    if code == 200 {
                        assert_eq!(answer.value("content-length"), Some("5"), "it is the pod's");
                    }
                }
            }
        }
    }

    fn a_picker_may_decline_the_body_or_everything(driver) {
        let (gateway, pod, picker) = scene(driver, ResponseBehavior::Declines, "FailClose");
        let body = pattern(100_000);
        pod.now_replies(ok(&body));
        let mut client = gateway.client();
        let answer = client.gets("/").expects(200);
        same_bytes(&answer.body, &body);
        assert_eq!(answer.value("content-length"), Some("100000"));
        assert!(answer.has("x-served-by"));
        picker.now_reviews(ResponseBehavior::DeclinesAll);
        let answer = client.gets("/").expects(200);
        same_bytes(&answer.body, &body);
        assert!(!answer.has("x-served-by"));
        assert_eq!(picker.requests()[1].served, None);
        assert_eq!(pod.connections(), 1);
    }

    fn a_picker_may_respond_in_place_of_the_pod(driver) {
        let responds = |at| ResponseBehavior::Responds(at, 429, "{\"error\": \"evicted\"}");
        let (gateway, pod, picker) = scene(driver, responds(0), "FailOpen");
        for reply in [ok("whole"), ok(""), ok(pattern(1 << 20))] {
            pod.now_replies(reply);
            let answer = gateway.client().gets("/").expects(429);
            assert_eq!(answer.text(), "{\"error\": \"evicted\"}");
            assert_eq!(answer.value("content-type"), Some("application/json"));
        }
        picker.now_reviews(responds(1));
        pod.now_replies(first_part("one").stalls());
        let mut client = gateway.client();
        client.gets("/").expects_broken_response();
    }

    fn a_client_disconnect_cancels_the_calls_to_pod_and_picker(driver) {
        for reviews in [ResponseBehavior::Returns, ResponseBehavior::Holds] {
            let (gateway, pod, picker) = scene(driver, reviews, "FailClose");
            pod.now_replies(first_part("one").stalls());
            let mut client = gateway.client();
            client.gets("/").reads_head();
            picker.waits_for_response();
            client.resets();
            pod.waits_for_hangup();
            gateway.waits_for_access_log("reason=client_gone");
        }
    }

    fn a_pod_disconnect_truncates_the_response(driver) {
        let (gateway, pod, picker) = scene(driver, ResponseBehavior::Returns, "FailOpen");
        for ends in [Reply::closes, Reply::resets] {
            let gate = Gate::default();
            pod.now_replies(ends(first_part("one").waits_for(&gate)));
            let mut client = gateway.client();
            expect_first_part(client.gets("/"), "one");
            gate.open();
            client.expects_end();
            gateway.waits_for_access_log("reason=response_broken");
        }
        pod.now_replies(raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n"));
        gateway.client().gets("/").expects(502);
        picker.now_reviews(ResponseBehavior::HoldsAll);
        pod.now_replies(first_part("one").closes());
        gateway.client().gets("/").expects(502);
    }

    fn response_heads_without_a_body_are_edited(driver) {
        let (gateway, pod, picker) = scene(driver, ResponseBehavior::Shouts, "FailClose");
        let mut client = gateway.client();
        let heads = [
            ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", 200),
            ("GET", "HTTP/1.1 204 No Content\r\n\r\n", 204),
            ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304),
            ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200),
        ];
        for (method, head, code) in heads {
            pod.now_replies(raw(head));
            client.sends(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
            let answer = client.reads_reply_to(method);
            assert_eq!(answer.status(), code);
            assert!(answer.has("x-served-by") && answer.body.is_empty());
            assert_eq!(answer.has("content-length"), head.contains("Content-Length"));
        }
        let requests = picker.requests();
        assert!(requests.iter().all(|it| it.response.head_ends && !it.response.ended));
        assert_eq!(pod.connections(), 1);
    }

    fn a_client_of_http_1_0_reads_until_the_end(driver) {
        let (gateway, pod, _picker) = scene(driver, ResponseBehavior::Shouts, "FailClose");
        pod.now_replies(ok("whole"));
        let mut client = gateway.client();
        let text = client.sends("GET / HTTP/1.0\r\nHost: a\r\n\r\n").reads_to_the_end();
        assert!(text.ends_with("\r\n\r\nWHOLE"), "{text}");
    }

    fn a_request_timeout_includes_the_picker(driver) {
        let pod = origin().replies(first_part("one").stalls());
        let picker = picker(PickerBehavior::Picks(vec![pod.address()]));
        let rule = "{timeouts: {request: 500ms}, backendRefs: \
             [{group: inference.networking.k8s.io, kind: InferencePool, name: models}]}";
        let port = "appProtocol: http2";
        let gateway = pool_with(driver, &[pod.address()], picker.address(), "FailOpen", port)
            .rule(rule)
            .start();
        picker.now_reviews(ResponseBehavior::Ignores);
        gateway.client().gets("/").expects(504);
        picker.now_reviews(ResponseBehavior::Returns);
        gateway.client().gets("/").expects_broken_response();
        gateway.waits_for_access_log("reason=response_timeout");
    }

    fn responses_of_every_protocol_are_forwarded_with_trailers(driver) {
        let protocols: [(Bridge, &str); 2] =
            [(|address| address, "http"), (out_of_h2, "kubernetes.io/h2c")];
        for (before, protocol) in protocols {
            let (gateway, pod, picker) =
                scene_of(driver, ResponseBehavior::Shouts, "FailClose", before, protocol);
            for into in [|address| address, into_h2] {
                let mut client = client(into(gateway.address()));
                pod.now_replies(chunked(&["one ", "two"]));
                assert_eq!(client.gets("/").expects(200).text(), "ONE TWO", "{protocol}");
                pod.now_replies(raw(GRPC));
                client.sends("POST /a/B HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n")
                    .sends("Content-Type: application/grpc\r\nContent-Length: 4\r\n\r\ncall");
                let answer = client.expects(200);
                assert_eq!(answer.text(), "ANSWER", "{protocol}");
                let mut trailers = answer.trailers.clone();
                trailers.sort();
                let expected = [("grpc-status", "5"), ("x-reviewed", "yes")];
                let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
                let found: Vec<_> = trailers.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
                assert_eq!(found, expected, "{protocol}");
                let response = &picker.requests().pop().expect("a call").response;
                assert!(!response.ended, "the trailers end it");
                assert!(response.trailers.contains(&("grpc-status".to_owned(), "5".to_owned())));
                gateway.waits_for_access_log("grpc_status=5");
            }
        }
    }
}

const GRPC: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\n\
    Transfer-Encoding: chunked\r\n\r\n6\r\nanswer\r\n0\r\ngrpc-status: 5\r\nx-secret: 1\r\n\r\n";

/// A long response is not read: the pod can send only a bounded part, and the gateway keeps little
/// of it.
fn assert_buffering_is_bounded(gateway: &Gateway, pod: &Origin) {
    const FAR_MORE: usize = 256 << 20;
    let sent = ByteCounter::default();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {FAR_MORE}\r\n\r\n");
    pod.now_replies(Reply::at_once().sends(head).pours(FAR_MORE, &sent));
    let before = gateway.anonymous_bytes();
    let mut client = gateway.client();
    client.gets("/").reads_head();
    let in_flight = sent.settled(MOMENT);
    assert!(in_flight < MAX_IN_FLIGHT, "{in_flight} bytes were taken");
    let grown = gateway.anonymous_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes of memory for one response");
}
