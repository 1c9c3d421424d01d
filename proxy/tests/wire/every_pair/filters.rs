//! Effects of filters on requests and responses, beyond heads and paths.

use crate::support::{Signer, key_set, on_every_pair, origin, raw, refused};

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

    fn response_headers_are_edited_in_redirects_and_errors_of_the_gateway(pair) {
        let (_socket, nobody) = refused();
        let edits = "{type: ResponseHeaderModifier, responseHeaderModifier: {\
            set: [{name: Strict-Transport-Security, value: max-age=1}, {name: Location, value: /elsewhere}, \
            {name: Retry-After, value: '99'}], add: [{name: X-Add, value: one}], \
            remove: [WWW-Authenticate]}}";
        let needs_token = format!(
            "jwt: {{providers: [{{name: p, issuer: 'https://i.test', jwks: {{inline: '{}'}}}}]}}",
            key_set(&[Signer::ed25519().jwk("key")]),
        );
        let gateway = pair.backend_at(pair.gateway(), "down", &[nobody])
            .rule(&format!(
                "{{matches: [{{path: {{value: /old}}}}], filters: [{edits}, {{type: RequestRedirect, \
                 requestRedirect: {{hostname: new.test, statusCode: 301}}}}]}}"
            ))
            .rule(&format!(
                "{{matches: [{{path: {{value: /down}}}}], filters: [{edits}], backendRefs: [{{@down}}]}}"
            ))
            .rule(&format!(
                "{{matches: [{{path: {{value: /backend}}}}], backendRefs: [{{@down, filters: [{edits}]}}]}}"
            ))
            .rule(&format!(
                "{{name: guarded, matches: [{{path: {{value: /token}}}}], filters: [{edits}], \
                 backendRefs: [{{@down}}]}}"
            ))
            .policy_of("HTTPRoute/route-0/guarded", &needs_token)
            .start();
        let mut client = pair.client(&gateway);
        for (path, status) in [("/old", 301), ("/down", 503), ("/backend", 503), ("/token", 401)] {
            let response = client.gets(path).expects(status);
            assert_eq!(response.values("strict-transport-security"), ["max-age=1"], "{response}");
            assert_eq!(response.values("x-add"), ["one"], "{response}");
            assert_eq!(response.values("date").len(), 1, "{response}");
            match status {
                // What gives a response its meaning stays.
                301 => {
                    let location = response.values("location").join(" ");
                    assert!(location.contains("://new.test"), "{location}");
                    assert!(!location.contains("elsewhere"), "{location}");
                }
                401 => assert_eq!(response.values("www-authenticate").len(), 1, "{response}"),
                _ => {}
            }
        }
        // No rule was selected.
        assert!(!client.gets("/none").expects(404).has("strict-transport-security"));
    }

    fn response_headers_are_not_added_to_preflights_and_interim_responses(pair) {
        let origin = origin().replies(raw(
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-Gone: 1\r\n\r\n\
             HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Gone: 1\r\n\r\n",
        ));
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule(
                "{filters: [{type: CORS, cors: {allowOrigins: ['https://app.test']}}, \
                 {type: ResponseHeaderModifier, responseHeaderModifier: {\
                 set: [{name: X-Set, value: one}], remove: [X-Gone]}}], backendRefs: [{@origin}]}",
            )
            .start();
        let mut client = pair.client(&gateway);
        client.sends(
            "OPTIONS / HTTP/1.1\r\nHost: a.test\r\nOrigin: https://app.test\r\n\
             Access-Control-Request-Method: PUT\r\n\r\n",
        );
        let preflight = client.expects(200);
        assert!(preflight.has("access-control-allow-origin") && !preflight.has("x-set"), "{preflight}");
        let hints = client.gets("/").reads_head();
        assert_eq!(hints.status(), 103);
        // What a filter removes does not leave the gateway in any response.
        assert!(hints.has("link") && !hints.has("x-set") && !hints.has("x-gone"), "{hints}");
        let response = client.expects(200);
        assert!(response.has("x-set") && !response.has("x-gone"), "{response}");
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
