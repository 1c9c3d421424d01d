//! The whole way with the real Keycloak: it is set up, a gateway validates its tokens, keys change
//! under load, and everything is removed. One test, since a start takes minutes.

mod calls;
mod gateway;
mod instance;
mod keys;

use serde_json::{Value, json};

use self::gateway::Gateway;
use self::instance::Keycloak;
use crate::support::gwctl::{Run, USER_PASSWORD};

#[test]
#[ignore = "starts Keycloak, which needs Java, Maven and minutes"]
fn tokens_of_a_real_provider() {
    let mut keycloak = Keycloak::start();
    let before = keycloak.inventory();
    let secret = set_up_twice(&keycloak);
    let mut gateway = Gateway::start(&manifests(&keycloak));
    let mut runs = vec![keycloak.idp("status")];
    assert_eq!(runs[0].code, Some(0), "{:?}", runs[0]);
    runs.extend(groups_decide(&keycloak, &gateway));
    kinds_of_tokens_are_told_apart(&keycloak, &gateway, &secret);
    let trace = gateway.traced("/admins", &keycloak.token("user1", &secret));
    assert!(trace.contains("allowed_by_no_rule"), "{trace}");
    keycloak.has_no_secret(&trace, &secret);
    keys::rotate_under_load(&keycloak, &gateway, &secret);
    keys::other_algorithms(&keycloak, &gateway, &secret);
    keys::a_disabled_key_is_refused_within_its_bound(&keycloak, &gateway, &secret);
    let last = keycloak.token("user2", &secret);
    runs.push(clean_up(&keycloak, &before));
    keycloak.stop();
    step("the provider is down: the last good keys stay in use");
    assert_eq!(gateway.status("/", Some(&last)), 200);
    for run in &runs {
        keycloak.has_no_secret(&run.err, &secret);
    }
    keycloak.has_no_secret(&gateway.everything_it_tells(), &secret);
}

/// Tells of progress: the test takes minutes.
fn step(text: &str) {
    eprintln!("- {text}");
}

/// Sets up twice, and returns the client's id and secret.
fn set_up_twice(keycloak: &Keycloak) -> (String, String) {
    step("set-up: each call as the API has it");
    keycloak.recorder.take();
    let first = keycloak.idp("setup --testing -o json");
    let told = first.json();
    calls::are_those_of_the_table(&keycloak.recorder.take(), &told);
    assert_eq!(told["changed"], json!(true));
    assert_eq!(
        told["issuer"],
        json!(format!("{}/realms/master", keycloak.url()))
    );
    assert_eq!(
        told["jwksPath"],
        "/realms/master/protocol/openid-connect/certs"
    );
    assert!(first.err.contains("anyone who reaches"), "{}", first.err);
    let text = |name: &str| told[name].as_str().expect(name).to_owned();
    let client = (text("clientId"), text("clientSecret"));
    keycloak.has_no_secret(&first.err, &client);

    step("set-up again: nothing changes");
    let second = keycloak.idp("setup --testing -o json");
    let again = second.json();
    assert_eq!(
        (&again["changed"], &again["clientSecret"]),
        (&json!(false), &Value::Null)
    );
    for name in ["issuer", "jwksPath", "clientId"] {
        assert_eq!(again[name], told[name]);
    }
    for call in keycloak.recorder.take() {
        let request = call.request;
        let signs_in = request.target().ends_with("/openid-connect/token");
        assert!(signs_in || request.method() == "GET", "{}", request.start);
    }
    // The console lists it under the very id.
    let clients = keycloak.admin("GET", "/clients", &Value::Null);
    let mut ids = clients
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["clientId"]);
    assert!(ids.any(|id| *id == told["clientId"]));
    client
}

/// The manifests that `setup` prints for the gateway of [`Gateway`].
fn manifests(keycloak: &Keycloak) -> String {
    let run = keycloak.idp("setup --target gateway/edge");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.err.contains("nothing to change"), "{}", run.err);
    run.out
}

fn groups_decide(keycloak: &Keycloak, gateway: &Gateway) -> Vec<Run> {
    step("both users are let in and kept out by their group");
    assert_eq!(gateway.status("/", None), 401);
    let mut runs = Vec::new();
    for (user, group, admins) in [("user1", "users", 403), ("user2", "admins", 200)] {
        let run = keycloak.idp(&format!("token --user {user}"));
        assert_eq!(run.code, Some(0), "{run:?}");
        let token = run.out.trim();
        assert_eq!(gateway.status("/", Some(token)), 200, "{user}");
        assert_eq!(gateway.group_seen(), group);
        assert_eq!(gateway.status("/admins", Some(token)), admins, "{user}");
        let decoded = keycloak.idp(&format!("token --user {user} --decode"));
        let claims = &decoded.json()["claims"];
        assert_eq!(
            (&claims["group"], &claims["typ"]),
            (&json!(group), &json!("Bearer"))
        );
        runs.push(run);
    }
    runs
}

fn kinds_of_tokens_are_told_apart(
    keycloak: &Keycloak,
    gateway: &Gateway,
    client: &(String, String),
) {
    step("id tokens and tokens of other clients are not access tokens of this one");
    let granted = keycloak.grant("user1", client, "&scope=openid");
    let id_token = granted["id_token"].as_str().expect("an id token");
    assert_eq!(
        gateway.status("/", Some(id_token)),
        200,
        "its audience is the client"
    );
    assert_eq!(gateway.status("/access-tokens", Some(id_token)), 403);
    let access = granted["access_token"].as_str().expect("an access token");
    assert_eq!(gateway.status("/access-tokens", Some(access)), 200);
    // For nobody.
    let of_admin = keycloak.admin_token();
    assert_eq!(gateway.status("/", Some(&of_admin)), 401);
    let form =
        format!("client_id=admin-cli&username=user1&password={USER_PASSWORD}&grant_type=password");
    let of_other = keycloak.grant_with(&form);
    let of_other = of_other["access_token"].as_str().expect("an access token");
    assert_eq!(gateway.status("/", Some(of_other)), 401);
    let broken = format!("{}x", &access[..access.len() - 1]);
    assert_eq!(gateway.status("/", Some(&broken)), 401);
}

fn clean_up(keycloak: &Keycloak, before: &Value) -> Run {
    step("clean-up leaves nothing");
    let run = keycloak.idp("cleanup");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(&keycloak.inventory(), before);
    let again = keycloak.idp("cleanup");
    assert!(again.out.contains("nothing to remove"), "{again:?}");
    let status = keycloak.idp("status");
    assert_eq!(status.code, Some(1), "{status:?}");
    run
}
