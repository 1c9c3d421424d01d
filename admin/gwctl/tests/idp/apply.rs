//! `gwctl idp setup --apply`: the policy of a set-up, in a cluster.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::api_server::ApiServer;
use crate::support::gwctl::{Run, USER_PASSWORD};
use crate::support::message::send;
use crate::support::provider::{CLIENT_SECRET, ISSUER, provider};
use crate::support::server::Server;

/// A cluster with Gateway `shop/edge`.
fn cluster() -> ApiServer {
    let cluster = ApiServer::start();
    let edge = json!({"metadata": {"namespace": "shop", "name": "edge"}, "kind": "Gateway"});
    cluster.put("gateway.networking.k8s.io/v1", "gateways", edge);
    cluster
}

fn setup(provider: &Server, cluster: &ApiServer, line: &str) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_gwctl"))
        .args([
            "idp",
            "setup",
            "--url",
            &provider.url(),
            "--admin-user",
            "admin",
        ])
        .args(line.split_whitespace())
        .env("IDP_ADMIN_PASSWORD", "adm1n-pa55word")
        .env("IDP_USER_PASSWORD", USER_PASSWORD)
        .env("KUBECONFIG", cluster.kubeconfig(&json!({})))
        .stdin(Stdio::null())
        .output()
        .expect("gwctl runs");
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// An object of ours in the namespace `shop`.
fn applied(cluster: &ApiServer, plural: &str) -> Value {
    let path =
        format!("/apis/gateway-system.io/v1alpha1/namespaces/shop/{plural}/identity-provider");
    get(cluster, &path)
}

fn get(cluster: &ApiServer, path: &str) -> Value {
    let port = cluster.address.rsplit_once(':').expect("a port").1;
    send(port.parse().expect("a number"), "GET", path, &[], "").json()
}

#[test]
fn a_policy_is_applied_beside_its_target_and_not_again() {
    let (provider, cluster) = (provider(), cluster());
    let line = "--target gateway/edge -n shop --apply \
                --keys-from keycloak.example.com:8080";
    let run = setup(&provider, &cluster, line);
    assert_eq!(run.code, Some(0), "{run:?}");
    for kind in ["Backend", "TrafficPolicy"] {
        let told = format!("applied {kind} identity-provider in namespace shop");
        assert!(run.err.contains(&told), "{run:?}");
    }
    assert!(
        run.out.contains(CLIENT_SECRET) && !run.err.contains(CLIENT_SECRET),
        "{run:?}"
    );
    let spec = &applied(&cluster, "trafficpolicies")["spec"];
    assert_eq!(spec["targetRefs"][0]["kind"], "Gateway");
    let keycloak = &spec["jwt"]["providers"][0];
    let told = (&keycloak["issuer"], &keycloak["audiences"]);
    assert_eq!(told, (&json!(ISSUER), &json!(["the-client"])));
    let remote = &keycloak["jwks"]["remote"];
    assert_eq!(remote["backendRef"]["name"], "identity-provider");
    assert_eq!(
        remote["path"],
        "/realms/master/protocol/openid-connect/certs"
    );
    let dns = json!({"name": "keycloak.example.com", "port": 8080});
    assert_eq!(applied(&cluster, "backends")["spec"]["dns"], dns);

    let again = setup(&provider, &cluster, line);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(!again.err.contains("applied"), "{again:?}");
}

#[test]
fn keys_of_a_service_in_another_namespace_are_fetched_with_a_reference_grant() {
    let (provider, cluster) = (provider(), cluster());
    let line = "--target gateway/edge -n shop --apply \
                --keys-from keycloak.idp.svc.cluster.local:8080";
    let run = setup(&provider, &cluster, line);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!run.err.contains("applied Backend"), "{run:?}");
    let message = "applied ReferenceGrant identity-provider-shop in namespace idp";
    assert!(run.err.contains(message), "{run:?}");
    let spec = &applied(&cluster, "trafficpolicies")["spec"];
    assert_eq!(
        spec["jwt"]["providers"][0]["jwks"]["remote"],
        json!({
            "backendRef": {"kind": "Service", "namespace": "idp", "name": "keycloak", "port": 8080},
            "path": "/realms/master/protocol/openid-connect/certs",
        })
    );
    let path = "/apis/gateway.networking.k8s.io/v1beta1/namespaces/idp/referencegrants/identity-provider-shop";
    assert_eq!(
        get(&cluster, path)["spec"],
        json!({
            "from": [{"group": "gateway-system.io", "kind": "TrafficPolicy", "namespace": "shop"}],
            "to": [{"group": "", "kind": "Service", "name": "keycloak"}],
        })
    );

    let again = setup(&provider, &cluster, line);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(!again.err.contains("applied"), "{again:?}");
}

#[test]
fn keys_of_a_service_in_the_same_namespace_need_no_reference_grant() {
    let (provider, cluster) = (provider(), cluster());
    let line = "--target gateway/edge -n shop --apply --keys-from keycloak.shop.svc:8080";
    let run = setup(&provider, &cluster, line);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!run.err.contains("applied ReferenceGrant"), "{run:?}");
    let spec = &applied(&cluster, "trafficpolicies")["spec"];
    assert_eq!(
        spec["jwt"]["providers"][0]["jwks"]["remote"]["backendRef"]["namespace"],
        "shop"
    );
}

#[test]
fn nothing_is_set_up_where_the_policy_has_no_target() {
    let (provider, cluster) = (provider(), cluster());
    for (line, part) in [
        (
            "--target gateway/other -n shop --apply",
            "there is no Gateway other in namespace shop",
        ),
        (
            "--target httproute/app -n shop --apply",
            "there is no HTTPRoute app",
        ),
        (
            "--target gateway/edge --apply --context nowhere",
            "cannot reach the API server",
        ),
    ] {
        let run = setup(&provider, &cluster, line);
        assert_eq!(run.code, Some(1), "{line}: {run:?}");
        assert!(run.err.contains(part), "{line}: {run:?}");
        assert!(provider.take().is_empty(), "{line}");
    }
    for line in [
        "--apply",
        "--target gateway/edge --keys-from keycloak",
        "--keys-from a:1",
    ] {
        let run = setup(&provider, &cluster, line);
        assert_eq!(run.code, Some(2), "{line}: {run:?}");
    }
}

#[test]
fn a_refusal_by_the_cluster_is_explained_and_the_secret_is_still_printed() {
    let (provider, cluster) = (provider(), cluster());
    cluster.forbid("/backends/identity-provider");
    let run = setup(&provider, &cluster, "--target gateway/edge -n shop --apply");
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(
        run.out.contains("cl1ent-secret"),
        "it is told once: {run:?}"
    );
    for part in [
        "registered the client the-client",
        "you may not",
        "Backend shop/identity-provider",
    ] {
        assert!(run.err.contains(part), "{part} is missing: {run:?}");
    }
}
