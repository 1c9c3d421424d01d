//! What goes wrong between `gwctl idp` and a provider, and what the user is told.

use std::process::{Command, Stdio};

use crate::support::gwctl::{Run, idp};
use crate::support::message::Message;
use crate::support::server::{Server, json, response};

const PASSWORD: &str = "adm1n-pa55word";
const TOKEN: &str = r#"{"access_token":"t0ken-of-admin","expires_in":60}"#;

fn is_token(request: &Message) -> bool {
    request.target().ends_with("/protocol/openid-connect/token")
}

/// What a provider without anything of ours answers.
fn empty(request: &Message) -> Message {
    match request.target() {
        _ if is_token(request) => json(200, TOKEN),
        "/admin/realms/master/users/profile" => json(200, r#"{"attributes":[]}"#),
        _ => json(200, "[]"),
    }
}

#[track_caller]
fn fails(run: &Run, parts: &[&str]) {
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    for part in parts {
        assert!(run.err.contains(part), "`{part}` is missing: {}", run.err);
    }
    for secret in [PASSWORD, "t0ken-of-admin"] {
        assert!(!run.err.contains(secret), "{}", run.err);
    }
}

#[test]
fn a_stale_token_is_fetched_again_and_the_call_repeated_once() {
    let server = Server::new(|request, before| match before {
        // The token, then the first call with it.
        1 => json(401, r#"{"error":"HTTP 401 Unauthorized"}"#),
        _ => empty(request),
    });
    let run = idp(&server.url(), PASSWORD, "cleanup");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.out.contains("nothing to remove"), "{run:?}");
    let calls = server.take();
    let starts: Vec<_> = calls.iter().take(4).map(|it| it.request.target()).collect();
    let (token, clients) = (
        "/realms/master/protocol/openid-connect/token",
        "/admin/realms/master/clients",
    );
    assert_eq!(starts, [token, clients, token, clients]);
    let form = &calls[0].request;
    assert_eq!(
        form.header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
    assert_eq!(
        form.body,
        format!("client_id=admin-cli&username=admin&password={PASSWORD}&grant_type=password")
    );
}

#[test]
fn a_token_that_is_refused_again_is_not_fetched_for_ever() {
    let server = Server::new(|request, _| {
        if is_token(request) {
            json(200, TOKEN)
        } else {
            json(401, r#"{"error":"HTTP 401 Unauthorized"}"#)
        }
    });
    let run = idp(&server.url(), PASSWORD, "cleanup");
    fails(
        &run,
        &[
            "cannot list the clients",
            "401",
            "A new token was refused too",
        ],
    );
    assert_eq!(server.take().len(), 4);
}

#[test]
fn a_wrong_client_or_password_is_not_a_stale_token() {
    for (status, body, part) in [
        (
            400,
            r#"{"error":"invalid_grant","error_description":"Invalid user credentials"}"#,
            "the password",
        ),
        (401, r#"{"error":"invalid_client"}"#, "--admin-client"),
        (
            403,
            r#"{"error":"invalid_request","error_description":"HTTPS required"}"#,
            "Require SSL",
        ),
        (404, r#"{"error":"Realm does not exist"}"#, "base"),
    ] {
        let server = Server::new(move |_, _| json(status, body));
        let run = idp(&server.url(), PASSWORD, "status");
        let parts = [part, &status.to_string()];
        if status == 403 || status == 404 {
            // Of the discovery, which comes first there.
            fails(&run, &parts);
        } else {
            fails(&idp(&server.url(), PASSWORD, "cleanup"), &parts);
        }
        assert!(server.take().len() <= 2, "no loop");
    }
}

#[test]
fn output_that_is_not_a_token_is_explained() {
    for (kind, body, part) in [
        (
            "text/html",
            "<html>Sign in to this network</html>",
            "<html>Sign in",
        ),
        (
            "application/json",
            r#"{"token":"eyJ-secret"}"#,
            "application/json",
        ),
        ("", "", "an empty body"),
    ] {
        let server = Server::new(move |_, _| response(200, kind, body));
        let run = idp(&server.url(), PASSWORD, "cleanup");
        fails(
            &run,
            &["cannot be parsed", "change the network", "curl -i", part],
        );
        assert!(!run.err.contains("eyJ"), "{}", run.err);
    }
}

#[test]
fn a_used_initial_access_token_is_not_retried_with_another_admin_token() {
    let server = Server::new(|request, _| match (request.method(), request.target()) {
        ("POST", "/admin/realms/master/clients-initial-access") => {
            json(200, r#"{"id":"the-id","token":"initial-t0ken"}"#)
        }
        ("POST", "/realms/master/clients-registrations/default") => json(
            401,
            r#"{"error":"invalid_token","error_description":"No remaining count"}"#,
        ),
        _ => empty(request),
    });
    let run = idp(&server.url(), PASSWORD, "setup");
    fails(
        &run,
        &[
            "cannot register a client",
            "No remaining count",
            "run the command again",
        ],
    );
    let calls = server.take();
    let registered = calls.last().expect("calls");
    assert_eq!(
        registered.request.header("authorization"),
        Some("bearer initial-t0ken")
    );
    assert_eq!(registered.request.body, r#"{"clientId":"the-id"}"#);
    assert_eq!(
        calls.iter().filter(|call| is_token(&call.request)).count(),
        1
    );
}

#[test]
fn an_unreachable_provider_and_a_missing_password_are_reported() {
    let run = idp("http://127.0.0.1:1", PASSWORD, "status");
    fails(&run, &["cannot connect", "is it running?"]);
    let output = Command::new(env!("CARGO_BIN_EXE_gwctl"))
        .args([
            "idp",
            "status",
            "--url",
            "http://127.0.0.1:1",
            "--admin-user",
            "admin",
        ])
        .env_remove("IDP_ADMIN_PASSWORD")
        .stdin(Stdio::null())
        .output()
        .expect("gwctl runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("--admin-password-file FILE"), "{err}");
    let usage = idp("localhost", PASSWORD, "status");
    assert_eq!(usage.code, Some(2), "{usage:?}");
}
