//! Keys of the provider: new ones under load, other algorithms, and one that is disabled.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::gateway::Gateway;
use super::instance::Keycloak;
use super::step;

type Client = (String, String);

/// No token is refused while keys change: each is used as soon as it is issued.
pub(super) fn rotate_under_load(keycloak: &Keycloak, gateway: &Gateway, client: &Client) {
    step("keys change under load: no token is refused");
    let (is_over, used) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let asking = [(); 2].map(|()| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    let token = keycloak.token("user1", client);
                    assert_eq!(gateway.status("/", Some(&token)), 200, "{}", key_of(&token));
                    used.fetch_add(1, Ordering::AcqRel);
                }
            })
        });
        for rotation in 1..=ROTATIONS {
            let enough = used.load(Ordering::Acquire) + TOKENS_EACH;
            let deadline = Instant::now() + Duration::from_mins(2);
            while used.load(Ordering::Acquire) < enough && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(10));
            }
            let made = key(
                keycloak,
                "rsa-generated",
                200 + rotation,
                &json!({"keySize": ["2048"]}),
            );
            let token = keycloak.token("user1", client);
            assert_eq!(
                gateway.status("/", Some(&token)),
                200,
                "rotation {rotation}: {made}"
            );
        }
        is_over.store(true, Ordering::Release);
        for client in asking {
            client.join().expect("every token is let in");
        }
    });
    let (used, rotations) = (used.into_inner(), ROTATIONS);
    step(&format!(
        "  {used} tokens, {rotations} rotations, 0 refused"
    ));
}

/// Tokens that are signed with elliptic curves.
pub(super) fn other_algorithms(keycloak: &Keycloak, gateway: &Gateway, client: &Client) {
    step("tokens signed with P-256, P-384 and Ed25519");
    let clients = keycloak.admin(
        "GET",
        &format!("/clients?clientId={}", client.0),
        &Value::Null,
    );
    let path = format!("/clients/{}", clients[0]["id"].as_str().expect("an id"));
    for (algorithm, provider, config) in [
        (
            "ES256",
            "ecdsa-generated",
            json!({"ecdsaEllipticCurveKey": ["P-256"]}),
        ),
        (
            "ES384",
            "ecdsa-generated",
            json!({"ecdsaEllipticCurveKey": ["P-384"]}),
        ),
        (
            "EdDSA",
            "eddsa-generated",
            json!({"eddsaEllipticCurveKey": ["Ed25519"]}),
        ),
        (
            "PS256",
            "rsa-generated",
            json!({"algorithm": ["PS256"], "keySize": ["2048"]}),
        ),
        ("RS256", "", json!({})),
    ] {
        if !provider.is_empty() {
            key(keycloak, provider, 150, &config);
        }
        let wanted = json!({
            "authorizationServicesEnabled": true,
            "attributes": {"access.token.signed.response.alg": algorithm},
        });
        keycloak.admin("PUT", &path, &wanted);
        let token = keycloak.token("user1", client);
        assert_eq!(header(&token)["alg"], algorithm);
        assert_eq!(gateway.status("/", Some(&token)), 200, "{algorithm}");
    }
}

/// The bound is the shortest time that keys are good for: a minute.
pub(super) fn a_disabled_key_is_refused_within_its_bound(
    keycloak: &Keycloak,
    gateway: &Gateway,
    client: &Client,
) {
    step("a disabled key is refused within a minute");
    let name = format!("rsa-generated-{}", 200 + ROTATIONS);
    let components = keycloak.admin(
        "GET",
        "/components?type=org.keycloak.keys.KeyProvider",
        &Value::Null,
    );
    let mut components = components.as_array().expect("a list").iter();
    let mut component = components
        .find(|it| it["name"] == *name)
        .expect("the last key")
        .clone();
    let token = keycloak.token("user1", client);
    assert_eq!(gateway.status("/", Some(&token)), 200);
    component["config"]["enabled"] = json!(["false"]);
    component["config"]["active"] = json!(["false"]);
    let path = format!("/components/{}", component["id"].as_str().expect("an id"));
    keycloak.admin("PUT", &path, &component);
    let disabled = Instant::now();
    while gateway.status("/", Some(&token)) != 401 {
        assert!(disabled.elapsed() < BOUND, "it is still let in");
        thread::sleep(Duration::from_millis(200));
    }
    step(&format!(
        "  after {:.1} s",
        disabled.elapsed().as_secs_f64()
    ));
    let fresh = keycloak.token("user1", client);
    assert_eq!(gateway.status("/", Some(&fresh)), 200, "of the key before");
}

/// Makes a key of this priority.
fn key(keycloak: &Keycloak, provider: &str, priority: u32, more: &Value) -> String {
    let name = format!("{provider}-{priority}");
    let realm = keycloak.admin("GET", "", &Value::Null);
    let mut config = json!({
        "priority": [priority.to_string()],
        "enabled": ["true"],
        "active": ["true"],
    });
    for (name, value) in more.as_object().expect("settings") {
        config[name] = value.clone();
    }
    let component = json!({
        "name": name,
        "providerId": provider,
        "providerType": "org.keycloak.keys.KeyProvider",
        "parentId": realm["id"],
        "config": config,
    });
    keycloak.admin("POST", "/components", &component);
    name
}

fn header(token: &str) -> Value {
    use base64::Engine as _;
    let header = token.split('.').next().unwrap_or_default();
    let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(header);
    serde_json::from_slice(&header.expect("base64")).expect("JSON")
}

fn key_of(token: &str) -> String {
    header(token)["kid"].to_string()
}

const ROTATIONS: u32 = 3;
/// Tokens used between two rotations.
const TOKENS_EACH: usize = 8;
/// A minute, and the time to fetch on a busy machine.
const BOUND: Duration = Duration::from_secs(75);
