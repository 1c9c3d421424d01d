use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::super::cluster::{Cluster, web};
use super::super::keys::tests::{Signer, claims};
use super::*;

fn authorizer(cluster: &Arc<Cluster>) -> Authorizer {
    Authorizer::new(cluster.client(), Cluster::outputs())
}

fn identity() -> ProxyIdentity {
    ProxyIdentity {
        gateway: web(),
        pod: Some("web-1".into()),
        zone: None,
    }
}

#[tokio::test]
async fn a_token_review_is_cached() {
    let cluster = Cluster::new();
    let authorizer = authorizer(&cluster);
    let token = cluster.signer.token(&web(), "web-1");
    assert_eq!(authorizer.authorize(&token).await, Ok(identity()));
    assert_eq!(authorizer.authorize(&token).await, Ok(identity()));
    assert_eq!(cluster.reviews(), 1);
    let other = cluster.signer.token(&web(), "web-2");
    authorizer.authorize(&other).await.expect("reviewed too");
    assert_eq!(cluster.reviews(), 2, "another token is another question");
    for it in locked(&authorizer.reviewed).values_mut() {
        assert!(it.until <= Instant::now() + ACCEPTED);
        it.until = Instant::now();
    }
    *locked(&cluster.user) = Value::Null;
    let denied = authorizer.authorize(&token).await;
    assert!(
        matches!(denied, Err(AuthorizeError::Unauthenticated(_))),
        "{denied:?}"
    );
}

#[tokio::test]
async fn a_proxy_is_told_the_zone_of_its_node() {
    let cluster = Cluster::new();
    let node = json!({"metadata": {
        "name": "one", "labels": {"topology.kubernetes.io/zone": "zone-a"}}});
    cluster.store("/api/v1/nodes/one", node);
    let mut user = locked(&cluster.user).clone();
    user["extra"]["authentication.kubernetes.io/node-name"] = json!(["one"]);
    *locked(&cluster.user) = user;
    let authorizer = authorizer(&cluster);
    let token = cluster.signer.token(&web(), "web-1");
    let identified = authorizer.authorize(&token).await.expect("reviewed");
    assert_eq!(identified.zone.as_deref(), Some("zone-a"));
}

#[tokio::test]
async fn a_token_of_another_service_account_is_denied() {
    let cluster = Cluster::new();
    let authorizer = authorizer(&cluster);
    let token = cluster.signer.token(&web(), "web-1");
    for user in [
        json!({"username": "system:serviceaccount:a:default",
            "extra": {"authentication.kubernetes.io/pod-name": ["web-1"]}}),
        json!({"username": "system:serviceaccount:b:web",
            "extra": {"authentication.kubernetes.io/pod-name": ["web-1"]}}),
        json!({"username": "alice",
            "extra": {"authentication.kubernetes.io/pod-name": ["web-1"]}}),
        json!({"username": "system:serviceaccount:a:web"}),
    ] {
        *locked(&cluster.user) = user.clone();
        locked(&authorizer.reviewed).clear();
        let denied = authorizer.authorize(&token).await;
        assert!(
            matches!(denied, Err(AuthorizeError::Forbidden(_))),
            "{user}: {denied:?}"
        );
    }
}

#[tokio::test]
async fn tokens_for_other_audiences_are_not_reviewed() {
    let cluster = Cluster::new();
    let authorizer = authorizer(&cluster);
    let mut claims = claims(&web(), "web-1");
    claims["aud"] = json!(["https://kubernetes.default.svc"]);
    let header = json!({"alg": "ES256", "kid": "1"});
    let others = cluster.signer.sign(&header, &claims);
    for token in ["", "a.b.c", "garbage", others.as_str()] {
        let denied = authorizer.authorize(token).await;
        assert!(
            matches!(denied, Err(AuthorizeError::Unauthenticated(_))),
            "{denied:?}"
        );
    }
    assert_eq!(cluster.reviews(), 0);
}

#[tokio::test]
async fn cached_keys_verify_tokens_while_the_api_server_is_unavailable() {
    let cluster = Cluster::new();
    let authorizer = authorizer(&cluster);
    let token = cluster.signer.token(&web(), "web-1");
    cluster.is_away.store(true, Ordering::Relaxed);
    let denied = authorizer.authorize(&token).await;
    assert!(
        matches!(denied, Err(AuthorizeError::Unknown(_))),
        "no keys yet: {denied:?}"
    );

    cluster.is_away.store(false, Ordering::Relaxed);
    let keys = Keys::fetch(&authorizer.client).await.expect("keys");
    *locked(&authorizer.keys) = Some(keys);
    cluster.is_away.store(true, Ordering::Relaxed);
    assert_eq!(authorizer.authorize(&token).await, Ok(identity()));

    let forged = Signer::new().token(&web(), "web-1");
    let denied = authorizer.authorize(&forged).await;
    assert!(
        matches!(denied, Err(AuthorizeError::Unauthenticated(_))),
        "{denied:?}"
    );
    let stranger = cluster.signer.token(&ObjectName::new("a", "default"), "x");
    let denied = authorizer.authorize(&stranger).await;
    assert!(
        matches!(denied, Err(AuthorizeError::Forbidden(_))),
        "{denied:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_connects_while_the_cluster_is_read_is_served_once_it_has_been() {
    let cluster = Cluster::new();
    let mut authorizer = authorizer(&cluster);
    let outputs = Arc::<Outputs>::default();
    authorizer.outputs = Arc::clone(&outputs);
    let token = cluster.signer.token(&web(), "web-1");
    let started = tokio::time::Instant::now();
    let read = async {
        tokio::time::sleep(READING / 2).await;
        let known = Cluster::outputs();
        outputs.gateways.set(&web(), known.gateways.get(&web()));
        let owner = known.gateways.get(&web()).map(|it| it.uid.to_string());
        outputs.accounts.set(&web(), owner);
        outputs.infrastructure.set(&web(), Some(Arc::default()));
        outputs.gateways_known.send_replace(true);
    };
    let (identified, ()) = tokio::join!(authorizer.authorize(&token), read);
    assert_eq!(identified, Ok(identity()));
    assert_eq!(started.elapsed(), READING / 2);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_is_told_to_try_again_while_reading_the_cluster_takes_long() {
    let cluster = Cluster::new();
    let mut authorizer = authorizer(&cluster);
    authorizer.outputs = Arc::default();
    let token = cluster.signer.token(&web(), "web-1");
    let started = tokio::time::Instant::now();
    let denied = authorizer.authorize(&token).await;
    assert!(
        matches!(denied, Err(AuthorizeError::Unknown(_))),
        "{denied:?}"
    );
    assert_eq!(started.elapsed(), READING);
    let limits = xds_grpc::server::Limits::default();
    assert!(REVIEW + READING < limits.authorization);
}
