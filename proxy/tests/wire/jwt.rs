//! Tokens: which requests are allowed, where tokens are read from, and what the backend receives.

use serde_json::{Value, json};

use crate::support::{
    Client, GatewayBuilder, Message, Origin, Signer, gateway, key_set, on_both_drivers, origin,
};

/// Claims that are good for ten minutes from now.
pub(crate) fn claims() -> Value {
    let since = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    let (now, issuer) = (since.as_secs(), "https://issuer.test");
    json!({"iss": issuer, "sub": "alice", "aud": ["api"], "exp": now + 600, "iat": now})
}

/// A policy of one provider, whose keys are of this signer; `more` is put into the provider.
pub(crate) fn policy(mode: &str, signer: &Signer, more: &str) -> String {
    let keys = key_set(&[signer.jwk("key")]);
    format!(
        "jwt: {{mode: {mode}, realm: shop, providers: [{{name: idp, issuer: 'https://issuer.test', \
         audiences: [api], jwks: {{inline: '{keys}'}}{more}}}]}}"
    )
}

fn gateway_to(origin: &Origin, driver: crate::support::Driver) -> GatewayBuilder {
    gateway(driver)
        .backend("origin", &[origin.address()])
        .rule("{name: rule, backendRefs: [{@origin}]}")
}

/// Sends a GET with these field lines.
pub(crate) fn asks(client: &mut Client, target: &str, lines: &[String]) -> Message {
    let mut lines = lines.join("\r\n");
    if !lines.is_empty() {
        lines.push_str("\r\n");
    }
    client.sends(format!(
        "GET {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"
    ));
    client.reads()
}

pub(crate) fn bearer(token: &str) -> Vec<String> {
    vec![format!("Authorization: Bearer {token}")]
}

#[track_caller]
pub(crate) fn expect_invalid_token(answer: &Message) {
    assert_eq!(answer.status(), 401, "{answer}");
    let challenge = answer.value("www-authenticate");
    assert_eq!(
        challenge,
        Some("Bearer realm=\"shop\", error=\"invalid_token\"")
    );
    assert_eq!(answer.text(), "a valid token is required\n");
}

/// Of a request without a token the challenge names no error (RFC 6750 section 3).
#[track_caller]
pub(crate) fn expect_token_required(answer: &Message) {
    assert_eq!(answer.status(), 401, "{answer}");
    let challenge = answer.value("www-authenticate");
    assert_eq!(challenge, Some("Bearer realm=\"shop\""));
    assert_eq!(answer.text(), "a token is needed\n");
}

on_both_drivers! {
    fn strict_accepts_only_valid_tokens(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = gateway_to(&origin, driver).policy(&policy("Strict", &signer, "")).start();
        let mut client = gateway.client();
        for _ in 0..2 {
            let token = signer.signs("key", &claims());
            assert_eq!(asks(&mut client, "/", &bearer(&token)).status(), 200);
            assert_eq!(asks(&mut client, "/", &bearer(&token)).status(), 200, "from the cache");
        }
        assert_eq!(origin.requests().len(), 4);
    }

    fn rejections_are_indistinguishable_and_reach_no_backend(driver) {
        let (origin, signer, stranger) = (origin(), Signer::p256(), Signer::p256());
        let gateway = gateway_to(&origin, driver).policy(&policy("Strict", &signer, "")).start();
        let mut client = gateway.client();
        let changed = |name: &str, value: Value| {
            let mut claims = claims();
            claims[name] = value;
            signer.signs("key", &claims)
        };
        expect_token_required(&asks(&mut client, "/", &[]));
        for token in [
            "x".to_owned(),
            stranger.signs("key", &claims()),
            signer.signs("other", &claims()),
            changed("exp", json!(1)),
            changed("exp", json!("soon")),
            changed("aud", json!("other")),
            changed("iss", json!("https://evil.test")),
            changed("x", json!("x".repeat(13_000))),
        ] {
            expect_invalid_token(&asks(&mut client, "/", &bearer(&token)));
        }
        let good = signer.signs("key", &claims());
        expect_token_required(&asks(&mut client, "/", &["Authorization: Basic dTpw".to_owned()]));
        for line in ["Bearer".to_owned(), good] {
            expect_invalid_token(&asks(&mut client, "/", &[format!("Authorization: {line}")]));
        }
        assert!(origin.requests().is_empty());
    }

    fn a_key_of_an_unknown_kind_beside_a_good_one_is_passed_over(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let foreign = [
            json!({"kty": "EC", "crv": "P-521", "kid": "a", "x": "AQ", "y": "AQ"}),
            json!({"kty": "EC", "crv": "secp256k1", "kid": "b", "x": "AQ", "y": "AQ"}),
            json!({"kty": "OKP", "crv": "Ed448", "kid": "c", "x": "AQ"}),
            json!({"kty": "AKP", "alg": "ML-DSA-65", "kid": "d", "pub": "AQ"}),
        ];
        for key in foreign {
            let keys = key_set(&[key, signer.jwk("key")]);
            let policy = format!(
                "jwt: {{realm: shop, providers: [{{name: idp, issuer: 'https://issuer.test', \
                 jwks: {{inline: '{keys}'}}}}]}}"
            );
            let gateway = gateway_to(&origin, driver).policy(&policy).start();
            let mut client = gateway.client();
            let token = signer.signs("key", &claims());
            assert_eq!(asks(&mut client, "/", &bearer(&token)).status(), 200);
            expect_invalid_token(&asks(&mut client, "/", &bearer(&signer.signs("a", &claims()))));
        }
    }

    fn a_token_without_expiry_is_accepted_only_where_the_policy_says_so(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let mut eternal = claims();
        eternal.as_object_mut().expect("claims").remove("exp");
        let eternal = bearer(&signer.signs("key", &eternal));
        let mut expired = claims();
        expired["exp"] = json!(1);
        let expired = bearer(&signer.signs("key", &expired));
        for (more, accepted) in [
            ("", false),
            (", requireExpiry: true", false),
            (", requireExpiry: false", true),
        ] {
            let gateway = gateway_to(&origin, driver).policy(&policy("Strict", &signer, more)).start();
            let mut client = gateway.client();
            for _ in 0..2 {
                let answer = asks(&mut client, "/", &eternal);
                if accepted {
                    assert_eq!(answer.status(), 200, "{more}: {answer}");
                } else {
                    expect_invalid_token(&answer);
                }
            }
            expect_invalid_token(&asks(&mut client, "/", &expired));
        }
    }

    fn the_clocks_of_issuer_and_gateway_may_differ_by_the_clock_skew(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let offset = |name: &str, seconds: i64| {
            let mut claims = claims();
            let now = claims["iat"].as_i64().expect("seconds");
            claims[name] = json!(now + seconds);
            bearer(&signer.signs("key", &claims))
        };
        for (more, tolerated, refused) in [
            ("", 30, 90),
            (", clockSkew: 0s", 0, 30),
            (", clockSkew: 4m30s", 240, 300),
        ] {
            let gateway = gateway_to(&origin, driver).policy(&policy("Strict", &signer, more)).start();
            let mut client = gateway.client();
            // A token that expires in this second is expired without a tolerance.
            let late = if tolerated == 0 { 30 } else { -tolerated };
            for lines in [offset("exp", late), offset("nbf", tolerated), offset("iat", tolerated)] {
                assert_eq!(asks(&mut client, "/", &lines).status(), 200, "{more}");
            }
            for lines in [offset("exp", -refused), offset("nbf", refused), offset("iat", refused)] {
                expect_invalid_token(&asks(&mut client, "/", &lines));
            }
        }
    }

    fn two_tokens_are_rejected(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let from = ", from: {header: {name: Authorization}, cookie: token}";
        let gateway = gateway_to(&origin, driver).policy(&policy("Optional", &signer, from)).start();
        let good = signer.signs("key", &claims());
        let (header, cookie) = (format!("Authorization: Bearer {good}"), format!("Cookie: token={good}"));
        for lines in [
            [header.clone(), header.clone()],
            [header.clone(), "Authorization: Basic dTpw".to_owned()],
            [header, cookie],
        ] {
            assert_eq!(asks(&mut gateway.client(), "/", &lines).status(), 400);
        }
        assert!(origin.requests().is_empty());
    }

    fn optional_accepts_requests_without_a_token_but_not_with_a_bad_one(driver) {
        let (origin, signer) = (origin(), Signer::ed25519());
        let more = ", claimsToHeaders: [{claim: sub, header: X-User}]";
        let gateway = gateway_to(&origin, driver).policy(&policy("Optional", &signer, more)).start();
        let mut client = gateway.client();
        assert_eq!(asks(&mut client, "/", &["X-User: root".to_owned()]).status(), 200);
        assert!(!origin.only_request().has("X-User"));
        expect_invalid_token(&asks(&mut client, "/", &bearer("x")));
        assert_eq!(asks(&mut client, "/", &bearer(&signer.signs("key", &claims()))).status(), 200);
        assert_eq!(origin.requests().len(), 2);
    }

    fn claims_reach_the_backend_and_forged_headers_do_not(driver) {
        let (origin, signer) = (origin(), Signer::rsa());
        let more = ", claimsToHeaders: [{claim: sub, header: X-User}, {claim: realm.roles, header: X-Roles}, \
                    {claim: evil, header: X-Evil}, {claim: missing, header: X-Missing}]";
        let gateway = gateway_to(&origin, driver).policy(&policy("Strict", &signer, more)).start();
        let mut claims = claims();
        claims["realm"] = json!({"roles": ["reader", "writer"]});
        claims["evil"] = json!("a\r\nX-User: root");
        let mut lines = bearer(&signer.signs("key", &claims));
        for name in ["X-User", "x-user", "X_User", "X-Roles", "X-Evil", "X-Missing"] {
            lines.push(format!("{name}: root"));
        }
        lines.push("Connection: X-User".to_owned());
        let mut client = gateway.client();
        for _ in 0..2 {
            assert_eq!(asks(&mut client, "/", &lines).status(), 200);
        }
        for request in origin.requests() {
            assert_eq!(request.values("X-User"), ["alice"]);
            assert_eq!(request.values("X-Roles"), ["reader,writer"]);
            for gone in ["X_User", "X-Evil", "X-Missing", "Authorization"] {
                assert!(!request.has(gone), "{gone} in {request}");
            }
        }
    }

    fn claim_headers_cannot_be_forged_in_trailers(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let more = ", claimsToHeaders: [{claim: sub, header: X-User}]";
        let gateway = gateway_to(&origin, driver).policy(&policy("Strict", &signer, more)).start();
        let token = signer.signs("key", &claims());
        let mut client = gateway.client();
        client.sends(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
             Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-User: root\r\n\r\n"
        ));
        client.expects(200);
        let request = origin.waits_for_complete(1).remove(0);
        assert_eq!((request.text().as_str(), request.values("X-User")), ("hi", vec!["alice"]));
        assert!(request.trailers.is_empty(), "{request}");
    }

    fn a_token_is_removed_or_kept_as_configured(driver) {
        let signer = Signer::p256();
        let token = signer.signs("key", &claims());
        let cookie = format!("Cookie: a=1; token={token}; b=2");
        for (from, target, line, stripped_target, stripped_line) in [
            ("header: {name: X-Token}", "/", format!("X-Token: {token}"), "/", None),
            ("header: {name: X-Token, prefix: 'JWT '}", "/", format!("x-token: jwt {token}"), "/", None),
            ("query: token", &format!("/?a=1&token={token}&b=2"), "X: 1".to_owned(), "/?a=1&b=2", Some("X: 1")),
            ("cookie: token", "/", cookie, "/", Some("Cookie: a=1; b=2")),
        ] {
            for keep in [false, true] {
                let origin = origin();
                let more = format!(", from: {{{from}}}, forward: {keep}");
                let gateway = gateway_to(&origin, driver).policy(&policy("Strict", &signer, &more)).start();
                let answer = asks(&mut gateway.client(), target, std::slice::from_ref(&line));
                assert_eq!(answer.status(), 200, "{from}");
                let request = origin.only_request();
                let (expected, expected_line) = if keep {
                    (target, Some(line.as_str()))
                } else {
                    (stripped_target, stripped_line)
                };
                assert_eq!(request.target(), expected, "{from}");
                let (name, _) = line.split_once(": ").expect("a field line");
                let value = expected_line.and_then(|line| line.split_once(": "));
                assert_eq!(request.value(name), value.map(|(_, value)| value), "{from}");
            }
        }
    }

    fn a_policy_applies_to_its_target(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        for target in ["Gateway/gw", "Gateway/gw/http", "HTTPRoute/route-0", "HTTPRoute/route-0/rule"] {
            let gateway = gateway_to(&origin, driver)
                .listener("open")
                .rule_of("open", "{backendRefs: [{@origin}]}")
                .policy_of(target, &policy("Strict", &signer, ""))
                .start();
            expect_token_required(&asks(&mut gateway.client(), "/", &[]));
            let token = bearer(&signer.signs("key", &claims()));
            assert_eq!(asks(&mut gateway.client(), "/", &token).status(), 200);
            let open = crate::support::client(gateway.address_of(1)).gets("/").reads();
            assert_eq!(open.status(), if target == "Gateway/gw" { 401 } else { 200 }, "{target}");
        }
    }

    fn the_access_log_has_the_subject_and_not_the_token(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = gateway_to(&origin, driver)
            .policy(&policy("Strict", &signer, ", from: {query: token}"))
            .policy_of("HTTPRoute/route-0", "accessLog: {format: json, sample: 1}")
            .start();
        let mut client = gateway.client();
        let token = signer.signs("key", &claims());
        asks(&mut client, &format!("/good?token={token}"), &[]);
        asks(&mut client, &format!("/bad?token={token}x"), &[]);
        let log = gateway.waits_for_access_log("/bad");
        let (good, bad) = log.split_once('\n').expect("two lines");
        assert!(good.contains("\"jwt_subject\":\"alice\"") && good.contains("\"path\":\"/good\""), "{good}");
        assert!(bad.contains("\"reason\":\"unauthenticated\"") && !bad.contains("alice"), "{bad}");
        assert!(!log.contains(&token[..20]), "{log}");
    }

    fn a_cors_preflight_needs_no_token(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = gateway(driver)
            .backend("origin", &[origin.address()])
            .rule(
                "{filters: [{type: CORS, cors: {allowOrigins: ['https://app.test'], allowHeaders: [Authorization]}}], \
                 backendRefs: [{@origin}]}",
            )
            .policy(&policy("Strict", &signer, ""))
            .start();
        let mut client = gateway.client();
        client.sends(
            "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: https://app.test\r\nAccess-Control-Request-Method: GET\r\n\r\n",
        );
        let preflight = client.reads();
        assert!(matches!(preflight.status(), 200 | 204), "{preflight}");
        let refused = asks(&mut client, "/", &["Origin: https://app.test".to_owned()]);
        expect_token_required(&refused);
        assert_eq!(refused.value("access-control-allow-origin"), Some("https://app.test"));
        assert!(origin.requests().is_empty());
    }

    fn a_rejected_request_keeps_its_connection_usable(driver) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = gateway_to(&origin, driver).policy(&policy("Strict", &signer, "")).start();
        let mut client = gateway.client();
        client.posts("/", "a short body");
        expect_token_required(&client.reads());
        let token = bearer(&signer.signs("key", &claims()));
        assert_eq!(asks(&mut client, "/", &token).status(), 200);
    }
}
