//! A provider on which everything succeeds and nothing is kept.

use serde_json::json;

use super::message::Message;
use super::server::{Server, json as answer};

pub(crate) const ISSUER: &str = "http://idp.test:8080/realms/master";
pub(crate) const ADMIN_TOKEN: &str = "t0ken-of-admin";
pub(crate) const INITIAL_TOKEN: &str = "initial-t0ken";
pub(crate) const CLIENT_SECRET: &str = "cl1ent-secret";

pub(crate) fn provider() -> Server {
    Server::new(|request, _| answer_to(request))
}

/// What it answers to a request.
pub(crate) fn answer_to(request: &Message) -> Message {
    match (request.method(), request.target()) {
        ("POST", target) if target.ends_with("/openid-connect/token") => {
            answer(200, &json!({"access_token": ADMIN_TOKEN}).to_string())
        }
        ("POST", "/admin/realms/master/clients-initial-access") => {
            let access = json!({"id": "the-client", "token": INITIAL_TOKEN});
            answer(201, &access.to_string())
        }
        ("POST", "/realms/master/clients-registrations/default") => {
            let client = json!({"id": "internal", "secret": CLIENT_SECRET});
            answer(201, &client.to_string())
        }
        ("GET", "/admin/realms/master/users/profile") => answer(200, r#"{"attributes":[]}"#),
        ("GET", target) if target.ends_with("/openid-configuration") => {
            let keys = format!("{ISSUER}/protocol/openid-connect/certs");
            let found = json!({"issuer": ISSUER, "jwks_uri": keys});
            answer(200, &found.to_string())
        }
        ("GET", _) => answer(200, "[]"),
        _ => answer(204, ""),
    }
}
