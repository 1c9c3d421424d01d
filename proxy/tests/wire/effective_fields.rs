//! Authorization sees the headers that the backend gets, not those that a client forged in the name
//! of the gateway or of an authorization server.

use super::jwt::{asks, bearer, claims, policy};
use crate::support::{
    Signer, allowing, authorizer, client, gateway, ok, on_both_drivers, origin, raw,
};

/// Fields that a client must not set.
const FORGED: [&str; 7] = [
    "X-User: admin",
    "X_User: admin",
    "X-Forwarded-For: 10.0.0.1",
    "X-Forwarded-Proto: https",
    "X-Real-IP: 10.0.0.1",
    "Forwarded: for=10.0.0.1",
    "X-Request-Id: forged",
];

/// `FORGED` beside a token of alice.
fn forged_with_token(signer: &Signer) -> Vec<String> {
    let mut lines = bearer(&signer.signs("key", &claims()));
    lines.extend(FORGED.map(str::to_owned));
    lines
}

/// An ExternalAuth filter of this protocol, with its settings.
fn external_auth_filter(protocol: &str, name: &str, settings: &str) -> String {
    format!(
        "{{type: ExternalAuth, externalAuth: {{protocol: {protocol}, {}: {{{settings}}}, \
         backendRef: {{group: gateway-system.io, kind: Backend, name: {name}}}}}}}",
        protocol.to_lowercase()
    )
}

on_both_drivers! {
    fn authorization_rules_use_fields_of_the_auth_server_and_not_forged_ones(driver) {
        let granting = origin().replies(raw("HTTP/1.1 200 OK\r\nX-Role: admin\r\nContent-Length: 0\r\n\r\n"));
        let silent = origin().replies(raw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
        let app = origin().replies(ok("app"));
        let filters = |name| {
            let filter = external_auth_filter("HTTP", name, "allowedResponseHeaders: [X-Role]");
            format!("protocol: HTTP, filters: {{requests: [{filter}]}}")
        };
        let gateway = gateway(driver)
            .backend("granting", &[granting.address()])
            .backend("silent", &[silent.address()])
            .backend("app", &[app.address()])
            .listener_with("one", &filters("granting"))
            .listener_with("other", &filters("silent"))
            .rule_of("one", "{backendRefs: [{@app}]}")
            .rule_of("other", "{backendRefs: [{@app}]}")
            .policy("authorization: {allow: [{when: \"request.headers['x-role'] == 'admin'\"}]}")
            .start();
        let admin = ["X-Role: admin".to_owned()];
        let (mut granted, mut refused) = (client(gateway.address_of(1)), client(gateway.address_of(2)));
        assert_eq!(asks(&mut granted, "/", &[]).status(), 200);
        assert_eq!(asks(&mut granted, "/", &["X-Role: user".to_owned()]).status(), 200);
        assert_eq!(asks(&mut refused, "/", &admin).status(), 403);
        assert_eq!(asks(&mut refused, "/", &[]).status(), 403);
        assert_eq!(app.requests().len(), 2);
    }

    fn an_http_auth_server_gets_the_gateways_headers_and_not_forged_ones(driver) {
        let (auth, app, signer) = (origin().replies(ok("")), origin().replies(ok("app")), Signer::p256());
        let allowed_headers = "allowedHeaders: [X-User, X-Forwarded-For, X-Forwarded-Proto, X-Real-IP, Forwarded, X-Request-Id]";
        let gateway = gateway(driver)
            .backend("auth", &[auth.address()])
            .backend("app", &[app.address()])
            .rule(&format!("{{filters: [{}], backendRefs: [{{@app}}]}}", external_auth_filter("HTTP", "auth", allowed_headers)))
            .policy(&policy("Strict", &signer, ", claimsToHeaders: [{claim: sub, header: X-User}]"))
            .start();
        let lines = forged_with_token(&signer);
        assert_eq!(asks(&mut gateway.client(), "/", &lines).status(), 200);
        let (auth_request, backend_request) = (auth.only_request(), app.only_request());
        for name in ["x-user", "x_user", "x-forwarded-for", "x-forwarded-proto", "x-real-ip", "forwarded", "x-request-id"] {
            assert_eq!(auth_request.values(name), backend_request.values(name), "{name}");
        }
        assert_eq!(auth_request.values("x-user"), ["alice"]);
        assert_eq!(auth_request.values("x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(auth_request.value("authorization"), lines[0].strip_prefix("Authorization: "), "which the backend does not get");
    }

    fn a_grpc_auth_server_gets_the_gateways_headers_and_not_forged_ones(driver) {
        let auth = authorizer(Some(allowing(&[])));
        let (app, signer) = (origin().replies(ok("app")), Signer::p256());
        let gateway = gateway(driver)
            .backend("auth", &[auth.address()])
            .speaks("auth", "H2C")
            .backend("app", &[app.address()])
            .rule(&format!("{{filters: [{}], backendRefs: [{{@app}}]}}", external_auth_filter("GRPC", "auth", "")))
            .policy(&policy("Strict", &signer, ", claimsToHeaders: [{claim: sub, header: X-User}]"))
            .start();
        assert_eq!(asks(&mut gateway.client(), "/", &forged_with_token(&signer)).status(), 200);
        let (auth_request, backend_request) = (auth.requests().remove(0).headers, app.only_request());
        for name in ["x-user", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-request-id"] {
            assert_eq!(auth_request.get(name).map(String::as_str), backend_request.value(name), "{name}");
        }
        assert_eq!(auth_request.get("x-user").map(String::as_str), Some("alice"));
        for name in ["x_user", "x-real-ip", "forwarded"] {
            assert!(!auth_request.contains_key(name), "{name}");
        }
        assert!(auth_request.contains_key("authorization"));
    }

    fn a_header_from_a_claim_is_replaced_only_by_a_server_that_lists_it(driver) {
        let http = |user| origin().replies(raw(format!("HTTP/1.1 200 OK\r\nX-User: {user}\r\nX-Role: admin\r\nContent-Length: 0\r\n\r\n")));
        let (plain, listing) = (http("root"), http("listed"));
        let grpc = authorizer(Some(allowing(&[("X_User", "root"), ("X-Role", "admin")])));
        let (app, signer) = (origin(), Signer::p256());
        let plain_filter = external_auth_filter("HTTP", "plain", "");
        let listing_filter = external_auth_filter("HTTP", "listing", "allowedResponseHeaders: [X-User, X-Role]");
        let grpc_filter = external_auth_filter("GRPC", "grpc", "");
        let on_listener = |filter: &str| format!("protocol: HTTP, filters: {{requests: [{filter}]}}");
        let rule = |path: &str, filters: &str| {
            format!("{{matches: [{{path: {{value: {path}}}}}], filters: [{filters}], backendRefs: [{{@app}}]}}")
        };
        let gateway = gateway(driver)
            .backend("plain", &[plain.address()])
            .backend("listing", &[listing.address()])
            .backend("grpc", &[grpc.address()])
            .speaks("grpc", "H2C")
            .backend("app", &[app.address()])
            .rule(&rule("/plain", &plain_filter))
            .rule(&rule("/grpc", &grpc_filter))
            .rule(&rule("/listing", &format!("{listing_filter}, {plain_filter}")))
            .listener_with("one", &on_listener(&plain_filter))
            .listener_with("two", &on_listener(&grpc_filter))
            .listener_with("three", &on_listener(&listing_filter))
            .listener_with("four", &on_listener(&format!("{listing_filter}, {plain_filter}")))
            .listener_with("five", &on_listener(&format!("{listing_filter}, {grpc_filter}")))
            .listener_with("six", &on_listener(&format!("{grpc_filter}, {plain_filter}")))
            .rule_of("one", "{backendRefs: [{@app}]}")
            .rule_of("two", "{backendRefs: [{@app}]}")
            .rule_of("three", "{backendRefs: [{@app}]}")
            .rule_of("four", "{backendRefs: [{@app}]}")
            .rule_of("five", "{backendRefs: [{@app}]}")
            .rule_of("six", "{backendRefs: [{@app}]}")
            .policy(&policy("Optional", &signer, ", claimsToHeaders: [{claim: sub, header: X-User}]"))
            .start();
        let token = bearer(&signer.signs("key", &claims()));
        for (listener, path, replaced) in [
            (0, "/plain", false),
            (0, "/grpc", false),
            (0, "/listing", true),
            (1, "/", false),
            (2, "/", false),
            (3, "/", true),
            (4, "/", true),
            (5, "/", true),
            (6, "/", false),
        ] {
            for (lines, user) in [(&token[..], Some("alice")), (&[], None)] {
                let mut client = client(gateway.address_of(listener));
                assert_eq!(asks(&mut client, path, lines).status(), 200);
                let got = app.requests().pop().expect("a request");
                let user = if replaced { Some("listed") } else { user };
                let users = [got.values("x-user"), got.values("x_user")].concat();
                assert_eq!(users, user.into_iter().collect::<Vec<_>>(), "{listener} {path}");
                assert_eq!(got.values("x-role"), ["admin"], "{listener} {path}");
            }
        }
    }

    fn authorization_rules_use_the_gateways_headers_and_not_forged_ones(driver) {
        let (app, signer) = (origin().replies(ok("app")), Signer::p256());
        let gateway = gateway(driver)
            .backend("app", &[app.address()])
            .rule("{backendRefs: [{@app}]}")
            .policy(&policy("Strict", &signer, ", claimsToHeaders: [{claim: sub, header: X-User}]"))
            .policy_of(
                "HTTPRoute/route-0",
                "authorization: {allow: [{when: \"request.headers['x-user'] == 'alice' \
                 && request.headers['x-forwarded-for'] == '127.0.0.1' \
                 && request.headers['x-forwarded-proto'] == 'http' \
                 && request.headers['host'] == 'a.test' \
                 && !('x-real-ip' in request.headers) && !('forwarded' in request.headers)\"}]}",
            )
            .start();
        assert_eq!(asks(&mut gateway.client(), "/", &forged_with_token(&signer)).status(), 200);
        assert_eq!(app.only_request().values("x-user"), ["alice"]);
    }
}
