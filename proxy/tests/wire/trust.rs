//! Which forwarding headers are trusted: none, those of the last hops, or those of some networks.

use crate::support::{Driver, Message, gateway, on_both_drivers, origin};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7\r\n\
    X-Forwarded-Proto: https\r\nX-Request-Id: theirs\r\n\r\n";

/// A request with forwarding headers, as the origin receives it.
fn forwarded_request(driver: Driver, target: &str, policy: &str) -> Message {
    let origin = origin();
    let gateway = gateway(driver)
        .routes_to(&origin)
        .policy_of(target, policy)
        .policy("accessLog: {format: json}")
        .start();
    gateway.client().sends(REQUEST).expects(200);
    let request = origin.only_request();
    let client = match request.value("x-forwarded-proto") {
        Some("https") => "203.0.113.7",
        _ => "127.0.0.1",
    };
    gateway.waits_for_access_log(&format!("\"client\":\"{client}\""));
    request
}

on_both_drivers! {
    fn forwarding_headers_of_trusted_hops_are_used(driver) {
        for target in ["Gateway/gw", "Gateway/gw/http"] {
            for policy in ["trustedHops: 1", "trustedSources: [127.0.0.0/8]"] {
                let request = forwarded_request(driver, target, policy);
                assert_eq!(request.value("x-forwarded-for"), Some("203.0.113.7, 127.0.0.1"));
                assert_eq!(request.value("x-forwarded-proto"), Some("https"));
                assert_eq!(request.value("x-request-id"), Some("theirs"));
            }
        }
    }

    fn forwarding_headers_of_other_peers_are_replaced(driver) {
        for policy in ["trustedSources: [10.0.0.0/8]", "limits: {}"] {
            let request = forwarded_request(driver, "Gateway/gw", policy);
            assert_eq!(request.value("x-forwarded-for"), Some("127.0.0.1"));
            assert_eq!(request.value("x-forwarded-proto"), Some("http"));
            assert_ne!(request.value("x-request-id"), Some("theirs"));
        }
    }

    /// A hop that terminates TLS in front of a listener without it.
    fn the_scheme_of_a_trusted_hop_is_that_of_the_request(driver) {
        let origin = origin();
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule("{matches: [{path: {value: /old}}], filters: [{type: RequestRedirect, requestRedirect: \
                   {path: {type: ReplaceFullPath, replaceFullPath: /new}}}]}")
            .rule("{sessionPersistence: {sessionName: s, type: Cookie}, backendRefs: [{@origin}]}")
            .policy("trustedHops: 1")
            .start();
        let port = gateway.address().port();
        for (lines, scheme, location) in [
            ("X-Forwarded-Proto: https", "https", "https://a.test/new".to_owned()),
            ("X-Forwarded-Proto: HTTPS, http", "https", "https://a.test/new".to_owned()),
            ("X-Forwarded-Proto: https\r\nX-Forwarded-Port: 8443", "https", "https://a.test:8443/new".to_owned()),
            ("X-Forwarded-Proto: http", "http", "http://a.test/new".to_owned()),
            ("X-Forwarded-Proto: nonsense", "http", "http://a.test/new".to_owned()),
            ("X-Other: 1", "http", format!("http://a.test:{port}/new")),
        ] {
            let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n\r\n");
            let mut client = gateway.client();
            let redirect = client.sends(request("/old")).expects(302);
            assert_eq!(redirect.value("location"), Some(&*location), "{lines}");
            let response = client.sends(request("/")).expects(200);
            let cookie = response.value("set-cookie").expect("a session");
            assert_eq!(cookie.contains("Secure"), scheme == "https", "{lines}: {cookie}");
            let forwarded = origin.requests().pop().expect("a request");
            assert_eq!(forwarded.values("x-forwarded-proto"), [scheme], "{lines}");
        }
    }

    fn an_untrusted_client_does_not_choose_a_scheme(driver) {
        let gateway = gateway(driver)
            .rule("{filters: [{type: RequestRedirect, requestRedirect: {path: \
                   {type: ReplaceFullPath, replaceFullPath: /new}}}]}")
            .start();
        let response = gateway.client()
            .sends("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 1\r\n\r\n")
            .expects(302);
        let expected = format!("http://a.test:{}/new", gateway.address().port());
        assert_eq!(response.value("location"), Some(&*expected));
    }

    /// Rules that match forwarding headers are for proxies in front of the gateway.
    fn an_untrusted_client_does_not_choose_a_rule_by_forwarding_headers(driver) {
        for (policy, trusted) in [("limits: {}", false), ("trustedHops: 1", true)] {
            let (inside, outside) = (origin(), origin());
            let names = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Ssl", "Forwarded", "X-Real-IP"];
            let matches = names.map(|name| format!("{{headers: [{{name: {name}, value: v}}]}}")).join(", ");
            let gateway = gateway(driver)
                .backend("inside", &[inside.address()])
                .backend("outside", &[outside.address()])
                .rule(&format!("{{matches: [{matches}], backendRefs: [{{@inside}}]}}"))
                .rule("{backendRefs: [{@outside}]}")
                .policy(policy)
                .start();
            let mut client = gateway.client();
            for name in names {
                client.sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: v\r\n\r\n")).expects(200);
            }
            let (chosen, others) = if trusted { (&inside, &outside) } else { (&outside, &inside) };
            assert_eq!((chosen.requests().len(), others.requests().len()), (names.len(), 0), "{policy}");
        }
    }
}
