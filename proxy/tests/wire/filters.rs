//! Effects of filters on requests and responses.

use crate::support::{Reply, gateway, on_both_drivers, origin, pattern, raw, same_bytes};

on_both_drivers! {
    fn request_headers_are_set_added_and_removed(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule(
                "{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {\
                 set: [{name: X-Set, value: new}], add: [{name: X-Add, value: more}], remove: [X-Gone]}}], \
                 backendRefs: [{@origin}]}",
            )
            .start();
        let mut client = gateway.client();
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nx-set: old\r\nX-Set: older\r\nX-Add: some\r\nx-gone: 1\r\n\r\n");
        client.expects(200);
        let request = origin.only_request();
        assert_eq!(request.values("X-Set"), ["new"]);
        assert_eq!(request.values("X-Add").join(","), "some,more");
        assert!(!request.has("X-Gone"));
    }

    fn lookalikes_of_edited_headers_are_dropped(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule(
                "{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {\
                 set: [{name: X-Tenant, value: ours}], remove: [X-Gone]}}], backendRefs: [{@origin}]}",
            )
            .start();
        gateway.client()
            .sends("GET / HTTP/1.1\r\nHost: a\r\nX_Tenant: theirs\r\nx_gone: 1\r\nX_Other: 1\r\n\r\n")
            .expects(200);
        let request = origin.only_request();
        assert_eq!(request.value("X-Tenant"), Some("ours"));
        assert!(!request.has("X_Tenant") && !request.has("X_Gone") && request.has("X_Other"), "{request}");
    }

    fn response_headers_are_set_added_and_removed(driver) {
        let origin = origin().replies(raw(
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Set: old\r\nX-Add: some\r\nX-Gone: 1\r\n\r\n",
        ));
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule(
                "{filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {\
                 set: [{name: X-Set, value: new}], add: [{name: X-Add, value: more}], remove: [X-Gone]}}], \
                 backendRefs: [{@origin}]}",
            )
            .start();
        let response = gateway.client().gets("/").expects(200);
        assert_eq!(response.values("X-Set"), ["new"]);
        assert_eq!(response.values("X-Add").join(","), "some,more");
        assert!(!response.has("X-Gone"));
    }

    fn a_redirect_is_answered_by_the_gateway(driver) {
        let gateway = gateway(driver)
            .rule(
                "{matches: [{path: {value: /old}}], filters: [{type: RequestRedirect, requestRedirect: {\
                 scheme: https, hostname: new.test, statusCode: 301, \
                 path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]}",
            )
            .start();
        let mut client = gateway.client();
        let response = client.gets("/old/page?q=1").expects(301);
        assert_eq!(response.value("location"), Some("https://new.test/new/page?q=1"));
        client.gets("/old").expects(301);
    }

    fn a_redirect_has_the_configured_status(driver) {
        for status in [301, 302, 303, 307, 308] {
            let rule = format!(
                "{{filters: [{{type: RequestRedirect, requestRedirect: {{hostname: new.test, port: 80, statusCode: {status}}}}}]}}"
            );
            let gateway = gateway(driver).rule(&rule).start();
            let mut client = gateway.client();
            // A body that was received does not close the connection.
            client.sends("POST /path?q=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
            let answer = client.expects(status);
            assert_eq!(answer.value("location"), Some("http://new.test/path?q=1"));
            client.gets("/").expects(status);
        }
    }

    fn a_redirect_keeps_the_port_of_the_request(driver) {
        let gateway = gateway(driver)
            .rule("{filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /there}}}]}")
            .start();
        let response = gateway.client().gets("/here").expects(302);
        let expected = format!("http://example.test:{}/there", gateway.address().port());
        assert_eq!(response.value("location"), Some(expected.as_str()));
    }

    fn a_rewrite_changes_host_and_path(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule(
                "{matches: [{path: {value: /old}}], filters: [{type: URLRewrite, urlRewrite: {\
                 hostname: inside.test, path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}], \
                 backendRefs: [{@origin}]}",
            )
            .start();
        let mut client = gateway.client();
        client.gets("/old/page?q=1").expects(200);
        client.gets("/old").expects(200);
        let requests = origin.requests();
        assert_eq!(requests[0].target(), "/page?q=1");
        assert_eq!(requests[0].value("host"), Some("inside.test"));
        assert_eq!(requests[1].target(), "/");
    }

    fn a_mirror_gets_a_copy_with_its_body(driver) {
        let (main, copy) = (origin(), origin());
        let gateway = gateway(driver)
            .backend("main", &[main.address()])
            .backend("copy", &[copy.address()])
            .rule("{filters: [{type: RequestMirror, requestMirror: {backendRef: {@copy}}}], backendRefs: [{@main}]}")
            .start();
        let body = pattern(30_000);
        gateway.client().posts("/path?q=1", &body).expects(200);
        copy.waits_for_complete(1);
        for origin in [&main, &copy] {
            let request = origin.only_request();
            assert_eq!(request.target(), "/path?q=1");
            same_bytes(&request.body, &body);
        }
    }

    fn a_mirror_never_delays_the_request(driver) {
        let (main, stuck) = (origin(), origin().replies(Reply::at_once().stalls()));
        let gateway = gateway(driver)
            .backend("main", &[main.address()])
            .backend("stuck", &[stuck.address()])
            .rule("{filters: [{type: RequestMirror, requestMirror: {backendRef: {@stuck}}}], backendRefs: [{@main}]}")
            .start();
        let mut client = gateway.client();
        for _ in 0..5 {
            client.posts("/", pattern(500_000)).expects(200);
        }
        assert!(main.requests().iter().all(|request| request.body.len() == 500_000));
    }

    fn a_mirror_gets_its_percentage(driver) {
        let (main, copy) = (origin(), origin());
        let gateway = gateway(driver)
            .backend("main", &[main.address()])
            .backend("copy", &[copy.address()])
            .rule("{filters: [{type: RequestMirror, requestMirror: {backendRef: {@copy}, percent: 20}}], backendRefs: [{@main}]}")
            .start();
        let mut client = gateway.client();
        for _ in 0..500 {
            client.gets("/").expects(200);
        }
        copy.waits_for_requests(55);
        let copies = copy.requests().len();
        assert!(copies <= 145, "{copies} of 500 at 20 %: five standard deviations are 45");
    }

    fn cors_preflights_are_answered_by_the_gateway(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule(
                "{filters: [{type: CORS, cors: {allowOrigins: [\"https://app.test\"], allowMethods: [GET, PUT], \
                 allowHeaders: [X-One], exposeHeaders: [X-Seen], maxAge: 60, allowCredentials: true}}], \
                 backendRefs: [{@origin}]}",
            )
            .start();
        let mut client = gateway.client();
        client.sends(
            "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://app.test\r\n\
             Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-one\r\n\r\n",
        );
        let preflight = client.reads();
        assert!(matches!(preflight.status(), 200 | 204), "{preflight}");
        assert_eq!(preflight.value("access-control-allow-origin"), Some("https://app.test"));
        assert_eq!(preflight.value("access-control-allow-credentials"), Some("true"));
        assert_eq!(preflight.value("access-control-max-age"), Some("60"));
        assert!(origin.requests().is_empty(), "a preflight never reaches the origin");

        client.sends("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://app.test\r\n\r\n");
        let response = client.expects(200);
        assert_eq!(response.value("access-control-allow-origin"), Some("https://app.test"));
        let exposed = response.value("access-control-expose-headers");
        assert!(exposed.is_some_and(|names| names.eq_ignore_ascii_case("X-Seen")), "{response}");
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.test\r\n\r\n");
        assert!(!client.expects(200).has("access-control-allow-origin"));
    }

    fn forwarding_headers_contain_the_client_address(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        gateway.client().gets("/").expects(200);
        let request = origin.only_request();
        assert_eq!(request.value("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(request.value("x-forwarded-proto"), Some("http"));
    }
}
