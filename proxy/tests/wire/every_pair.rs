//! Properties that hold for every pair of protocols: bodies, trailers, filters, retries, timeouts,
//! mirrors, failures.

mod bodies;
mod failures;
mod filters;
mod flow;
mod mirrors;
mod retries;
mod timeouts;

use crate::support::{
    Gate, Message, Reply, on_every_pair, origin, pattern, raw, refused, same_bytes, status,
};

on_every_pair! {
    fn requests_without_a_body_are_forwarded_without_one(pair) {
        let origin = origin();
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.gets("/a?b=c").expects(200);
        client.sends("DELETE /x HTTP/1.1\r\nHost: a.test\r\n\r\n").expects(200);
        let requests = origin.requests();
        assert_eq!(requests[0].target(), "/a?b=c");
        assert!(requests.iter().all(|request| request.body.is_empty()));
    }

    /// RFC 9110 section 8.6: lighttpd, IIS and Traffic Server answer 411 otherwise.
    fn a_method_that_anticipates_content_states_its_length_if_it_has_none(pair) {
        let origin = origin();
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        for method in ["POST", "PUT", "PATCH", "DELETE", "GET"] {
            client.sends(format!("{method} /{method} HTTP/1.1\r\nHost: a.test\r\n\r\n")).expects(200);
        }
        let lengths: Vec<_> = origin
            .requests()
            .iter()
            .map(|it| (it.method().to_owned(), it.values("content-length").join("+")))
            .collect();
        let expected = [("POST", "0"), ("PUT", "0"), ("PATCH", "0"), ("DELETE", ""), ("GET", "")];
        assert_eq!(lengths, expected.map(|(method, length)| (method.to_owned(), length.to_owned())));
    }

    /// RFC 9110 section 14: a gateway that does not cache has no part in it.
    fn a_range_and_its_partial_response_are_forwarded(pair) {
        let origin = origin().replies(raw(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-3/10\r\nContent-Length: 2\r\n\r\ncd",
        ));
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.sends("GET / HTTP/1.1\r\nHost: a.test\r\nRange: bytes=2-3\r\nIf-Range: \"e\"\r\n\r\n");
        let response = client.expects(206);
        assert_eq!((response.value("content-range"), &*response.text()), (Some("bytes 2-3/10"), "cd"));
        let request = origin.only_request();
        assert_eq!((request.value("range"), request.value("if-range")), (Some("bytes=2-3"), Some("\"e\"")));
    }

    fn options_is_forwarded_like_any_other_method(pair) {
        let origin = origin().replies(raw("HTTP/1.1 204 No Content\r\nAllow: GET, PUT\r\n\r\n"));
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.sends("OPTIONS /page HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: 5\r\n\r\n");
        assert_eq!(client.expects(204).value("allow"), Some("GET, PUT"));
        let request = origin.only_request();
        assert_eq!((request.method(), request.target()), ("OPTIONS", "/page"));
    }

    fn a_head_request_gets_no_body(pair) {
        let reply = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        let origin = origin().replies(Reply::at_once().sends(reply));
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.sends("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let response = client.reads_reply_to("HEAD");
        assert_eq!((response.status(), response.value("content-length")), (200, Some("5")));
    }

    fn fields_are_forwarded_except_hop_by_hop_fields(pair) {
        let reply = "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nKeep-Alive: x\r\n\
                     X-Latin: caf\u{e9}\r\nContent-Length: 0\r\n\r\n";
        let reply: Vec<u8> = reply.chars().map(|c| c as u8).collect();
        let origin = origin().replies(raw(reply));
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        let response = client
            .sends("GET / HTTP/1.1\r\nHost: a.test\r\nCookie: a=1\r\nX-A: b: c\r\n")
            .sends("Proxy-Authorization: secret\r\nTE: trailers\r\n\r\n")
            .expects(200);
        assert_eq!(response.values("set-cookie"), ["a=1", "b=2"]);
        assert_eq!(response.value("x-latin"), Some("caf\u{e9}"));
        assert!(!response.has("keep-alive"));
        let request = origin.requests().remove(0);
        assert_eq!(request.value("cookie"), Some("a=1"));
        assert_eq!(request.value("x-a"), Some("b: c"));
        assert_eq!(request.value("te").map(str::to_lowercase), Some("trailers".to_owned()));
        assert_eq!(request.value("host"), Some("a.test"));
        assert!(!request.has("proxy-authorization"));
        assert!(request.has("x-request-id") && request.has("x-forwarded-for"));
    }

    fn lookalikes_of_reserved_fields_are_dropped(pair) {
        let origin = origin();
        let gateway = pair.gateway_to(&origin).start();
        let lines = "X_Forwarded_For: 6.6.6.6\r\nx_real-ip: 6.6.6.6\r\nX-Forwarded_Proto: https\r\n\
                     Content_Length: 7\r\nTransfer_Encoding: x\r\nProxy_Authorization: x\r\n\
                     X_Request_Id: x\r\nX_Own: 1\r\n";
        pair.client(&gateway)
            .sends(format!(
                "POST / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\n{lines}Transfer-Encoding: chunked\r\n\r\n\
                 2\r\nhi\r\n0\r\n{lines}\r\n"
            ))
            .expects(200);
        origin.waits_for_complete(1);
        let request = origin.only_request();
        let underscored = |fields: &[(String, String)]| -> Vec<String> {
            let names = fields.iter().map(|(name, _)| name.to_lowercase());
            names.filter(|name| name.contains('_')).collect()
        };
        assert_eq!(underscored(&request.fields), ["x_own"], "{request}");
        assert_eq!(underscored(&request.trailers), ["x_own"], "{request}");
    }

    fn a_head_just_below_the_limit_is_forwarded_both_ways(pair) {
        // 32 KiB are allowed, as each protocol counts them.
        let large = format!("X-Large: {}\r\n", "x".repeat(30_000));
        let origin = origin().replies(raw(format!(
            "HTTP/1.1 200 OK\r\n{large}Content-Length: 5\r\n\r\nhello"
        )));
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        for _ in 0..2 {
            let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{large}\r\n");
            let response = client.sends(request).expects(200);
            assert_eq!(response.value("x-large").map(str::len), Some(30_000));
            assert_eq!(response.text(), "hello");
        }
        for request in origin.requests() {
            assert_eq!(request.value("x-large").map(str::len), Some(30_000));
        }
    }

    fn filters_change_heads(pair) {
        let origin = origin().replies(raw(
            "HTTP/1.1 200 OK\r\nX-Gone: 1\r\nContent-Length: 0\r\n\r\n",
        ));
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule(
                "{filters: [\
                 {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-set, value: s}], \
                  add: [{name: x-add, value: a}], remove: [x-gone]}}, \
                 {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-back, value: b}], \
                  remove: [x-gone]}}, \
                 {type: URLRewrite, urlRewrite: {hostname: new.test, path: {type: ReplaceFullPath, \
                  replaceFullPath: /new}}}], backendRefs: [{@origin}]}",
            )
            .start();
        let mut client = pair.client(&gateway);
        let response = client
            .sends("GET /old HTTP/1.1\r\nHost: a.test\r\nX-Gone: 1\r\nX-Set: old\r\n\r\n")
            .expects(200);
        assert_eq!(response.value("x-back"), Some("b"));
        assert!(!response.has("x-gone"));
        let request = origin.requests().remove(0);
        assert_eq!((request.target(), request.value("host")), ("/new", Some("new.test")));
        assert_eq!((request.value("x-set"), request.value("x-add")), (Some("s"), Some("a")));
        assert!(!request.has("x-gone"));
    }

    fn redirects_and_preflights_are_answered_by_the_gateway(pair) {
        let origin = origin();
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule(
                "{matches: [{path: {value: /old}}], filters: [{type: RequestRedirect, \
                 requestRedirect: {hostname: b.test, statusCode: 301}}]}",
            )
            .rule(
                "{filters: [{type: CORS, cors: {allowOrigins: ['https://c.test'], \
                 allowMethods: [PUT]}}], backendRefs: [{@origin}]}",
            )
            .start();
        let mut client = pair.client(&gateway);
        let response = client.gets("/old/x").expects(301);
        let location = response.value("location").expect("a redirect");
        assert!(location.starts_with(&format!("{}://b.test", pair.scheme())) && location.ends_with("/old/x"), "{location}");
        let response = client
            .sends("OPTIONS / HTTP/1.1\r\nHost: a.test\r\nOrigin: https://c.test\r\n")
            .sends("Access-Control-Request-Method: PUT\r\n\r\n")
            .reads();
        assert!([200, 204].contains(&response.status()), "{response}");
        assert_eq!(response.value("access-control-allow-origin"), Some("https://c.test"));
        assert!(origin.requests().is_empty());
    }

    fn a_prefix_is_replaced(pair) {
        let origin = origin();
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule(
                "{matches: [{path: {value: /old}}], filters: [{type: URLRewrite, urlRewrite: {path: \
                 {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}], backendRefs: [{@origin}]}",
            )
            .start();
        pair.client(&gateway).gets("/old/x?y=z").expects(200);
        assert_eq!(origin.only_request().target(), "/new/x?y=z");
    }

    fn a_malformed_response_is_a_bad_gateway(pair) {
        let origin = origin().replies(raw("HTTP/1.1 two hundred\r\n\r\n"));
        let gateway = pair.gateway_to(&origin).start();
        pair.client(&gateway).gets("/").expects(502);
    }

    fn every_attempt_has_its_own_timeout(pair) {
        let origin = origin().replies_once(Reply::at_once().stalls());
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule(
                "{timeouts: {request: 10s, backendRequest: 300ms}, \
                 retry: {attempts: 1, backoff: 10ms, codes: [504]}, backendRefs: [{@origin}]}",
            )
            .start();
        pair.client(&gateway).gets("/").expects(200);
        assert_eq!(origin.requests().len(), 2);
    }

    fn listed_statuses_are_retried_with_the_body(pair) {
        let origin = origin().replies_once(status(503)).replies_once(status(503));
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule("{retry: {attempts: 2, codes: [503], backoff: 10ms}, backendRefs: [{@origin}]}")
            .start();
        let mut client = pair.client(&gateway);
        client.posts("/", "again and again").expects(200);
        let bodies: Vec<_> = origin.requests().iter().map(Message::text).collect();
        assert_eq!(bodies, ["again and again"; 3]);
    }

    fn a_reset_connection_is_retried_if_configured(pair) {
        let origin = origin().replies_once(Reply::at_once().reads_the_body().resets());
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule("{retry: {attempts: 1, backoff: 10ms}, backendRefs: [{@origin}]}")
            .start();
        pair.client(&gateway).gets("/").expects(200);
        assert_eq!(origin.requests().len(), 2);
    }

    fn an_origin_that_disconnects_is_a_bad_gateway(pair) {
        let origin = origin().replies(Reply::at_once().reads_the_body().resets());
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.posts("/", "x").expects(502);
        origin.now_replies(status(204));
        client.gets("/").expects(204);
    }

    fn a_silent_origin_times_out(pair) {
        let origin = origin().replies(Reply::at_once().stalls());
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule("{timeouts: {request: 300ms}, backendRefs: [{@origin}]}")
            .start();
        let mut client = pair.client(&gateway);
        client.gets("/").expects(504);
        client.posts("/", "x").expects(504);
    }

    fn mirrors_get_a_copy(pair) {
        let (origin, mirror) = (origin(), origin());
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()]);
        let gateway = pair.backend(gateway, "mirror", &[mirror.address()])
            .rule(
                "{filters: [{type: RequestMirror, requestMirror: {backendRef: {@mirror}}}], \
                 backendRefs: [{@origin}]}",
            )
            .start();
        let mut client = pair.client(&gateway);
        client.posts("/copied", pattern(20_000)).expects(200);
        let copy = mirror.waits_for_complete(1).remove(0);
        assert_eq!(copy.target(), "/copied");
        same_bytes(&copy.body, &pattern(20_000));
    }

    fn local_error_responses_describe_the_failure(pair) {
        let (_socket, nobody) = refused();
        let gateway = pair.backend_at(pair.gateway(), "nobody", &[nobody])
            .rule("{matches: [{path: {value: /x}}], backendRefs: [{@nobody}]}")
            .rule("{matches: [{path: {value: /none}}]}")
            .start();
        let mut client = pair.client(&gateway);
        let response = client.gets("/x").expects(503);
        assert_eq!(response.value("content-type"), Some("text/plain; charset=utf-8"));
        assert!(response.text().contains("connection to the upstream failed"));
        client.gets("/none").expects(500);
        client.gets("/elsewhere").expects(404);
    }

    fn interim_responses_are_forwarded(pair) {
        let reply = "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n\
                     HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let origin = origin().replies(raw(reply));
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.gets("/");
        let early = client.reads_head();
        assert_eq!((early.status(), early.value("link")), (103, Some("</a>")));
        assert_eq!(client.expects(200).text(), "ok");
    }

    /// Memory is reused: what was sent before, to another client even, is not sent again.
    fn nothing_precedes_an_interim_response(pair) {
        let early = raw("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        let origin = origin().replies(early);
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule("{matches: [{path: {value: /known}}], backendRefs: [{@origin}]}")
            .start();
        let mut other = pair.client(&gateway);
        let mut client = pair.client(&gateway);
        for _ in 0..2 {
            other.gets("/unknown").expects(404);
            client.gets("/unknown").expects(404);
            assert_eq!(client.gets("/known").reads_head().status(), 103);
            assert_eq!(client.expects(200).text(), "ok");
        }
    }

    fn a_response_is_forwarded_before_it_is_complete(pair) {
        let gate = Gate::default();
        let origin = origin().replies(
            Reply::at_once()
                .sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
                .waits_for(&gate)
                .sends("3\r\ntwo\r\n0\r\n\r\n"),
        );
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.gets("/");
        let head = client.reads_head();
        assert_eq!(head.status(), 200);
        gate.open();
        assert_eq!(client.reads_body_of(head).text(), "onetwo");
    }

    fn an_oversized_body_is_rejected(pair) {
        let origin = origin();
        let gateway = pair.gateway_to(&origin).limits("requestBodyBytes: 10").start();
        let mut client = pair.client(&gateway);
        client.posts("/", "0123456789").expects(200);
        client.posts("/", "0123456789a").expects(413);
    }

    fn a_grpc_call_ends_with_its_trailers(pair) {
        let origin = origin().replies(raw(
            "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\n\
             Transfer-Encoding: chunked\r\n\r\n5\r\nreply\r\n0\r\ngrpc-status: 3\r\n\r\n",
        ));
        let gateway = pair.gateway_to(&origin).policy("accessLog: {sample: 1}").start();
        let mut client = pair.client(&gateway);
        let response = client.sends(call("")).expects(200);
        assert_eq!(response.text(), "reply");
        let status = ("grpc-status".to_owned(), "3".to_owned());
        assert_eq!(response.trailers, [status]);
        gateway.waits_for_access_log("grpc_status=3");
        let request = origin.requests().remove(0);
        assert_eq!(request.value("te").map(str::to_lowercase), Some("trailers".to_owned()));
    }

    fn an_unrouted_grpc_call_is_unimplemented(pair) {
        let gateway = pair.gateway().policy("accessLog: {sample: 1}").start();
        let mut client = pair.client(&gateway);
        let response = client.sends(call("")).expects(200);
        assert_eq!(response.value("content-type"), Some("application/grpc"));
        assert_eq!(response.value("grpc-status"), Some("12"));
        assert!(response.value("grpc-message").is_some_and(|message| !message.is_empty()));
        assert!(response.body.is_empty());
        gateway.waits_for_access_log("grpc_status=12");
    }

    fn a_grpc_call_times_out_after_its_grpc_timeout(pair) {
        let origin = origin().replies(Reply::at_once().stalls());
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        let response = client.sends(call("grpc-timeout: 300m\r\n")).expects(200);
        assert_eq!(response.value("grpc-status"), Some("4"));
        let sent = origin.waits_for_requests(1).remove(0);
        assert_eq!(sent.value("grpc-timeout"), Some("300m"));
    }

    fn a_grpc_call_to_an_origin_that_disconnects_is_unavailable(pair) {
        let origin = origin().replies(Reply::at_once().reads_the_body().resets());
        let gateway = pair.gateway_to(&origin).start();
        let response = pair.client(&gateway).sends(call("")).expects(200);
        assert_eq!(response.value("grpc-status"), Some("14"));
    }
}

/// A call of gRPC with further fields.
fn call(fields: &str) -> String {
    format!(
        "POST /a.Service/Method HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\n\
         TE: trailers\r\n{fields}Transfer-Encoding: chunked\r\n\r\n4\r\ncall\r\n0\r\n\r\n"
    )
}
