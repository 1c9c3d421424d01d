//! Effects of filters on requests and responses, beyond heads and paths.

use crate::support::{on_every_pair, origin};

on_every_pair! {
    fn filters_of_a_backend_apply_only_to_it(pair) {
        let (plain, marked) = (origin(), origin());
        let gateway = pair.backend(pair.gateway(), "plain", &[plain.address()]);
        let gateway = pair.backend(gateway, "marked", &[marked.address()])
            .rule(
                "{backendRefs: [{@plain}, {@marked, filters: [\
                 {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-mark, value: m}]}}, \
                 {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-back, value: b}]}}]}]}",
            )
            .start();
        let mut client = pair.client(&gateway);
        let mut backs = 0;
        while plain.requests().is_empty() || marked.requests().is_empty() {
            backs += usize::from(client.gets("/").expects(200).has("x-back"));
        }
        assert!(plain.requests().iter().all(|request| !request.has("x-mark")));
        let requests = marked.requests();
        assert!(requests.iter().all(|request| request.value("x-mark") == Some("m")));
        assert_eq!(requests.len(), backs);
    }

    fn cors_headers_are_added_to_responses(pair) {
        let origin = origin();
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule(
                "{filters: [{type: CORS, cors: {allowOrigins: ['https://app.test'], \
                 exposeHeaders: [X-Seen], allowCredentials: true}}], backendRefs: [{@origin}]}",
            )
            .start();
        let mut client = pair.client(&gateway);
        client.sends("GET / HTTP/1.1\r\nHost: a.test\r\nOrigin: https://app.test\r\n\r\n");
        let response = client.expects(200);
        assert_eq!(response.value("access-control-allow-origin"), Some("https://app.test"));
        assert_eq!(response.value("access-control-allow-credentials"), Some("true"));
        let exposed = response.value("access-control-expose-headers");
        assert!(exposed.is_some_and(|names| names.eq_ignore_ascii_case("X-Seen")), "{response}");
        client.sends("GET / HTTP/1.1\r\nHost: a.test\r\nOrigin: https://evil.test\r\n\r\n");
        assert!(!client.expects(200).has("access-control-allow-origin"));
    }

    fn a_redirect_has_the_configured_status_scheme_and_port(pair) {
        let mut gateway = pair.gateway();
        for status in STATUSES {
            gateway = gateway.rule(&format!(
                "{{matches: [{{path: {{value: /{status}}}}}], filters: [{{type: RequestRedirect, \
                 requestRedirect: {{scheme: https, hostname: new.test, port: 8443, \
                 statusCode: {status}}}}}]}}"
            ));
        }
        let gateway = gateway
            .rule(
                "{matches: [{path: {value: /here}}], filters: [{type: RequestRedirect, requestRedirect: \
                 {path: {type: ReplaceFullPath, replaceFullPath: /there}}}]}",
            )
            .start();
        let mut client = pair.client(&gateway);
        for status in STATUSES {
            // A body that was received does not close the connection.
            let response = client.posts(&format!("/{status}?q=1"), "body").expects(status);
            let expected = format!("https://new.test:8443/{status}?q=1");
            assert_eq!(response.value("location"), Some(expected.as_str()));
        }
        let response = client.gets("/here").expects(302);
        let (scheme, port) = (pair.scheme(), gateway.address().port());
        let expected = format!("{scheme}://example.test:{port}/there");
        assert_eq!(response.value("location"), Some(expected.as_str()));
    }
}

const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];
