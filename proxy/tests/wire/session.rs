//! Session persistence: a session stays with its endpoint, by cookie or by header.

use crate::support::pki::authority;
use crate::support::session::{self, COOKIE, ask};
use crate::support::{
    Message, Origin, Reply, client, gateway, into_h2, into_tls, ok, on_both_drivers, origin, tls,
};

const HEADER: &str =
    "{sessionPersistence: {sessionName: X-Who, type: Header}, backendRefs: [{@all}]}";

fn named_origins() -> Vec<Origin> {
    ["a", "b", "c"]
        .into_iter()
        .map(|name| origin().replies(ok(name)))
        .collect()
}

fn addresses(origins: &[Origin]) -> Vec<std::net::SocketAddr> {
    origins.iter().map(Origin::address).collect()
}

/// The `name=value` of the cookie that a response sets.
#[track_caller]
fn cookie(response: &Message) -> String {
    session::cookie(response).expect("a cookie is set")
}

on_both_drivers! {
    fn a_cookie_keeps_a_session_at_its_endpoint(driver) {
        let origins = named_origins();
        let gateway = gateway(driver).backend("all", &addresses(&origins)).rule(COOKIE).shards(2).start();
        let first = ask(&mut gateway.client(), "X-A: b");
        let cookie = cookie(&first);
        assert!(cookie.starts_with("who="), "{cookie}");
        for _ in 0..30 {
            let again = ask(&mut gateway.client(), &format!("Cookie: other=1; {cookie}; more=2"));
            assert_eq!(again.text(), first.text());
        }
    }

    fn a_header_keeps_a_session_at_its_endpoint(driver) {
        let origins = named_origins();
        let gateway = gateway(driver).backend("all", &addresses(&origins)).rule(HEADER).shards(2).start();
        let first = ask(&mut gateway.client(), "X-A: b");
        let token = first.value("x-who").expect("a token is given").to_owned();
        for _ in 0..30 {
            let again = ask(&mut gateway.client(), &format!("X-Who: {token}"));
            assert_eq!(again.text(), first.text());
        }
    }

    fn a_cookie_of_gateway_api_since_v1_7_has_a_name_and_a_path(driver) {
        let origins = named_origins();
        let rule = "{sessionPersistence: {cookie: {name: me, path: /shop}}, backendRefs: [{@all}]}";
        let gateway = gateway(driver).backend("all", &addresses(&origins)).rule(rule).start();
        let first = ask(&mut gateway.client(), "X-A: b");
        let set = first.value("set-cookie").expect("a cookie is set");
        assert!(set.starts_with("me=") && set.contains("; Path=/shop;"), "{set}");
        for _ in 0..30 {
            let again = ask(&mut gateway.client(), &format!("Cookie: {}", cookie(&first)));
            assert_eq!(again.text(), first.text());
        }
    }

    fn a_header_of_gateway_api_since_v1_7_has_a_name(driver) {
        let origins = named_origins();
        let rule = "{sessionPersistence: {type: Header, header: {name: X-Me}}, backendRefs: [{@all}]}";
        let gateway = gateway(driver).backend("all", &addresses(&origins)).rule(rule).start();
        let first = ask(&mut gateway.client(), "X-A: b");
        let token = first.value("x-me").expect("a token is given").to_owned();
        for _ in 0..30 {
            let again = ask(&mut gateway.client(), &format!("X-Me: {token}"));
            assert_eq!(again.text(), first.text());
        }
    }

    fn without_a_token_requests_are_balanced(driver) {
        let origins = named_origins();
        let gateway = gateway(driver).backend("all", &addresses(&origins)).rule(COOKIE).start();
        let mut client = gateway.client();
        let endpoints: std::collections::BTreeSet<String> =
            (0..60).map(|_| ask(&mut client, "X-A: b").text()).collect();
        assert_eq!(endpoints.len(), 3);
    }

    fn a_forged_token_is_ignored(driver) {
        let origins = named_origins();
        let gateway = gateway(driver).backend("all", &addresses(&origins)).rule(COOKIE).start();
        let mut client = gateway.client();
        for forged in ["who=", "who=127.0.0.1:1", "who=%%%", "who=AAAAAAAAAAAAAAAA", "who=\u{e9}"] {
            ask(&mut client, &format!("Cookie: {forged}"));
        }
    }

    fn a_session_of_a_failed_endpoint_moves_to_another(driver) {
        let origins = named_origins();
        let gateway = gateway(driver).backend("all", &addresses(&origins)).rule(COOKIE).start();
        let first = ask(&mut gateway.client(), "X-A: b");
        let cookie = cookie(&first);
        let index = ["a", "b", "c"].iter().position(|name| *name == first.text());
        origins[index.expect("one of them answered")].stop();
        let moved = ask(&mut gateway.client(), &format!("Cookie: {cookie}"));
        assert_ne!(moved.text(), first.text());
    }

    fn a_session_stays_with_an_endpoint_that_resets_a_reused_connection(driver) {
        let resets = || Reply::at_once().reads_the_body().resets();
        let named = |name: &str| origin().replies(ok(name)).replies_to("/reset", resets());
        let origins = ["a", "b", "c"].map(named);
        let gateway = gateway(driver).backend("all", &addresses(&origins)).rule(COOKIE).shards(1).start();
        let mut client = gateway.client();
        let cookie = cookie(&ask(&mut client, "X-A: b"));
        client.sends(format!("GET /reset HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n")).expects(502);
        let mut request_counts: Vec<usize> = origins.iter().map(|origin| origin.requests().len()).collect();
        request_counts.sort_unstable();
        assert_eq!(request_counts, [0, 0, 3], "on the reused connection and on a new one");
    }

    fn a_cookie_is_secure_if_the_client_uses_tls(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let gateway = gateway(driver)
            .backend("all", &[origin.address()])
            .rule(COOKIE)
            .https("web", None, &[&ca.server(&["a.test"])])
            .rule_of("web", COOKIE)
            .policy("trustedHops: 1")
            .start();
        let tls = tls(&ca, "a.test");
        let is_secure = |response: &Message| {
            let set = response.value("set-cookie").expect("a cookie is set");
            set.split("; ").any(|attribute| attribute == "Secure")
        };
        assert!(is_secure(&ask(&mut gateway.tls_client(&tls), "X-A: b")));
        assert!(!is_secure(&ask(&mut gateway.client(), "X-A: b")));
        // If a trusted hop has terminated the client's TLS, or its plain connection.
        assert!(is_secure(&ask(&mut gateway.client(), "X-Forwarded-Proto: https")));
        assert!(!is_secure(&ask(&mut gateway.tls_client(&tls), "X-Forwarded-Proto: http")));
    }

    fn a_cookie_over_http_2_is_secure_if_the_client_uses_tls(driver) {
        let (origin, ca) = (origin(), authority("ca"));
        let gateway = gateway(driver)
            .backend("all", &[origin.address()])
            .https("web", None, &[&ca.server(&["a.test"])])
            .rule_of("web", COOKIE)
            .start();
        let tls = tls(&ca, "a.test").offers(&["h2"]);
        let address = into_h2(into_tls(gateway.https_address(), &tls));
        let response = ask(&mut client(address), "X-A: b");
        let set = response.value("set-cookie").expect("a cookie is set");
        assert!(set.contains("; Secure"), "{set}");
    }

    fn each_backend_of_a_rule_keeps_its_own_sessions(driver) {
        let (one, two, three) = (named_origins(), named_origins(), origin().replies(ok("three")));
        let gateway = gateway(driver)
            .backend("one", &addresses(&one))
            .backend("two", &addresses(&two))
            .backend("three", &[three.address()])
            .rule("{backendRefs: [{@one}, {@two}, {@three}]}")
            .backend_traffic("one", "sessionPersistence: {cookie: {name: one}}")
            .backend_traffic("two", "sessionPersistence: {type: Header, header: {name: X-Two}}")
            .shards(2)
            .start();
        let until = |begun: &dyn Fn(&Message) -> Option<String>| {
            let answers = std::iter::repeat_with(|| ask(&mut gateway.client(), "X-A: b"));
            let mut begun = answers.take(1000).filter_map(|it| Some((begun(&it)?, it.text())));
            begun.next().expect("a session at this backend")
        };
        let by_cookie = until(&|it| it.has("set-cookie").then(|| format!("Cookie: {}", cookie(it))));
        let by_header = until(&|it| it.value("x-two").map(|token| format!("X-Two: {token}")));
        let none = until(&|it| (it.text() == "three").then(String::new));
        assert!(by_cookie.0.starts_with("Cookie: one="), "{}", by_cookie.0);
        assert_eq!(none.1, "three");
        for (field, text) in [by_cookie, by_header] {
            for _ in 0..30 {
                let again = ask(&mut gateway.client(), &field);
                assert_eq!(again.text(), text);
                assert!(!again.has("set-cookie") && !again.has("x-two"), "the session continues");
            }
        }
    }

    fn the_session_persistence_of_a_rule_precedes_that_of_its_backends(driver) {
        let origins = named_origins();
        let gateway = gateway(driver)
            .backend("all", &addresses(&origins))
            .rule(COOKIE)
            .backend_traffic("all", "sessionPersistence: {cookie: {name: other}}")
            .start();
        let first = ask(&mut gateway.client(), "X-A: b");
        assert_eq!(first.values("set-cookie").len(), 1);
        assert!(cookie(&first).starts_with("who="));
    }
}
