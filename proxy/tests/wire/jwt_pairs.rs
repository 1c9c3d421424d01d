//! Tokens for every pair of protocols: which requests are allowed, what the backend receives, and
//! how gRPC calls are rejected.

use serde_json::{Value, json};

use super::jwt::{asks, bearer, claims, expect_invalid_token, expect_token_required, policy};
use crate::support::{Client, Message, Signer, on_every_pair, origin};

on_every_pair! {
    fn a_valid_token_is_accepted_and_others_get_the_same_rejection(pair) {
        let (origin, signer, stranger) = (origin(), Signer::p256(), Signer::p256());
        let gateway = pair.gateway_to(&origin).policy(&policy("Strict", &signer, "")).start();
        let mut client = pair.client(&gateway);
        for _ in 0..2 {
            let token = signer.signs("key", &claims());
            assert_eq!(asks(&mut client, "/", &bearer(&token)).status(), 200);
        }
        expect_token_required(&asks(&mut client, "/", &[]));
        for token in [
            "x".to_owned(),
            stranger.signs("key", &claims()),
            signer.signs("key", &with("exp", json!(1))),
            signer.signs("key", &with("aud", json!("other"))),
            signer.signs("key", &with("iss", json!("https://evil.test"))),
        ] {
            expect_invalid_token(&asks(&mut client, "/", &bearer(&token)));
        }
        assert_eq!(origin.requests().len(), 2);
    }

    fn claims_reach_the_backend_and_the_token_does_not(pair) {
        let (origin, signer) = (origin(), Signer::ed25519());
        let more = ", claimsToHeaders: [{claim: sub, header: X-User}, {claim: missing, header: X-Missing}]";
        let gateway = pair.gateway_to(&origin).policy(&policy("Strict", &signer, more)).start();
        let mut lines = bearer(&signer.signs("key", &claims()));
        lines.extend(["X-User: root".to_owned(), "X-Missing: root".to_owned()]);
        let mut client = pair.client(&gateway);
        for _ in 0..2 {
            assert_eq!(asks(&mut client, "/", &lines).status(), 200);
        }
        for request in origin.requests() {
            assert_eq!(request.values("X-User"), ["alice"]);
            assert!(!request.has("X-Missing") && !request.has("Authorization"), "{request}");
        }
    }

    fn a_policy_applies_only_to_its_rule(pair) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()])
            .rule("{name: open, matches: [{path: {value: /open}}], backendRefs: [{@origin}]}")
            .rule("{name: closed, backendRefs: [{@origin}]}")
            .policy_of("HTTPRoute/route-0/closed", &policy("Strict", &signer, ""))
            .start();
        let mut client = pair.client(&gateway);
        assert_eq!(asks(&mut client, "/open", &[]).status(), 200);
        expect_token_required(&asks(&mut client, "/closed", &[]));
        let token = bearer(&signer.signs("key", &claims()));
        assert_eq!(asks(&mut client, "/closed", &token).status(), 200);
    }

    fn two_tokens_are_rejected(pair) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = pair.gateway_to(&origin).policy(&policy("Strict", &signer, "")).start();
        let token = bearer(&signer.signs("key", &claims())).remove(0);
        let mut client = pair.client(&gateway);
        assert_eq!(asks(&mut client, "/", &[token.clone(), token]).status(), 400);
        assert!(origin.requests().is_empty());
    }

    fn a_grpc_call_without_a_token_is_unauthenticated(pair) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = pair.gateway_to(&origin)
            .policy(&policy("Strict", &signer, ""))
            .policy_of("Gateway/gw/http", "accessLog: {sample: 1}")
            .start();
        let mut client = pair.client(&gateway);
        let expired = signer.signs("key", &with("exp", json!(1)));
        let with_a_bad_one = format!("Authorization: Bearer {expired}\r\n");
        for (line, message, challenge) in [
            ("", "a token is needed", "Bearer realm=\"shop\""),
            (&with_a_bad_one, "a valid token is required", "Bearer realm=\"shop\", error=\"invalid_token\""),
        ] {
            let refused = calls(&mut client, line);
            assert_eq!(refused.status(), 200, "{refused}");
            assert_eq!(refused.value("content-type"), Some("application/grpc"));
            assert_eq!(refused.value("grpc-status"), Some("16"));
            assert_eq!(refused.value("grpc-message"), Some(message));
            assert_eq!(refused.value("www-authenticate"), Some(challenge));
            assert!(refused.body.is_empty() && refused.trailers.is_empty(), "{refused}");
        }
        gateway.waits_for_access_log("grpc_status=16");
        let token = signer.signs("key", &claims());
        assert_eq!(calls(&mut client, &format!("Authorization: Bearer {token}\r\n")).text(), "ok");
        assert_eq!(origin.requests().len(), 1);
    }

    fn a_claim_decides_who_may_make_a_request_or_a_call(pair) {
        let (origin, signer) = (origin(), Signer::p256());
        let gateway = pair.gateway_to(&origin)
            .policy(&policy("Strict", &signer, ""))
            .policy_of(
                "HTTPRoute/route-0",
                "authorization: {allow: [{when: \"claims.group == 'admins'\"}]}",
            )
            .policy_of("Gateway/gw/http", "accessLog: {sample: 1}")
            .start();
        let mut client = pair.client(&gateway);
        let of_group = |group: &str| bearer(&signer.signs("key", &with("group", json!(group))));
        let [admin] = &of_group("admins")[..] else { panic!("one line") };
        let [user] = &of_group("users")[..] else { panic!("one line") };
        assert_eq!(asks(&mut client, "/", std::slice::from_ref(admin)).status(), 200);
        let refused = asks(&mut client, "/", std::slice::from_ref(user));
        assert_eq!((refused.status(), refused.has("www-authenticate")), (403, false), "{refused}");

        let refused = calls(&mut client, &format!("{user}\r\n"));
        assert_eq!(refused.status(), 200, "{refused}");
        assert_eq!(refused.value("content-type"), Some("application/grpc"));
        assert_eq!(refused.value("grpc-status"), Some("7"), "PERMISSION_DENIED");
        assert_eq!(refused.value("grpc-message"), Some("this request is not allowed"));
        assert!(refused.body.is_empty() && refused.trailers.is_empty(), "{refused}");
        gateway.waits_for_access_log("grpc_status=7");
        assert_eq!(calls(&mut client, &format!("{admin}\r\n")).text(), "ok");
        assert_eq!(origin.requests().len(), 2);
    }
}

/// Claims with one changed.
fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

/// A call of gRPC with further field lines.
fn calls(client: &mut Client, lines: &str) -> Message {
    client.sends(format!(
        "POST /a.Service/Method HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\n\
         TE: trailers\r\n{lines}Transfer-Encoding: chunked\r\n\r\n4\r\ncall\r\n0\r\n\r\n"
    ));
    client.reads()
}
