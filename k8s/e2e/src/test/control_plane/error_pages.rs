//! Error pages: a page server in the cluster is asked for the page of an error, and goes and comes back.

use anyhow::{Result, ensure};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::edge_gateway::{EdgeGateway, HOST, backend, send};
use super::kinds::own;
use crate::test::http::request;
use crate::test::manifests::{EchoProtocol, route};
use crate::test::objects::expected_condition;
use crate::test::scope::Scope;

/// The page of the server is the request that it received.
pub(in crate::test) async fn a_page_server_has_the_pages_of_errors(scope: &Scope) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    // Without a backend, so that its requests fail.
    let mut gone = route("HTTPRoute", 80, "gone");
    gone["spec"]["rules"][0]["matches"] = json!([{"path": {"value": "/missing"}}]);
    scope.apply(&[gone, policy()]).await?;
    let unresolved = expected_condition("ResolvedRefs", "False", "BackendNotFound");
    scope
        .condition("TrafficPolicy", "pages", unresolved)
        .await?;

    scope
        .apply(&backend(scope, "pages", EchoProtocol::Http, 1))
        .await?;
    let path = "/missing?a=b";
    let asked = scope
        .until("the page of the server", async || {
            let fields = [("accept", "text/html"), ("cookie", "session=secret")];
            let answer = send(site.address, request(HOST, path, &fields)?).await?;
            let page: Option<Value> = serde_json::from_str(&answer.body).ok();
            Ok(page.filter(|_| answer.status == StatusCode::INTERNAL_SERVER_ERROR))
        })
        .await?;
    let namespace = &*scope.namespace;
    for (name, value) in [
        ("X-Code", "500"),
        ("X-Format", "text/html"),
        ("X-Original-Uri", path),
        ("X-Namespace", namespace),
        ("X-Ingress-Name", "gone-80"),
    ] {
        ensure!(asked["headers"][name][0] == value, "{name}: {asked}");
    }
    ensure!(asked["headers"]["Cookie"].is_null(), "{asked}");

    let scaled = ["scale", "deployment/pages", "--replicas=0"];
    scope.kubectl(&scaled, "").await?;
    scope
        .until("a text of the gateway", async || {
            let answer = send(site.address, request(HOST, path, &[])?).await?;
            let is_page = serde_json::from_str::<Value>(&answer.body).is_ok();
            ensure!(
                answer.status == StatusCode::INTERNAL_SERVER_ERROR,
                "{answer:?}"
            );
            Ok((!is_page).then_some(()))
        })
        .await
}

/// All errors of the route have pages of Service `pages`.
fn policy() -> Value {
    own(
        "TrafficPolicy",
        "pages",
        &json!({
            "targetRefs": [
                {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "gone-80"},
            ],
            "errorPages": [{"statuses": ["400-599"], "backendRef": {"name": "pages", "port": 80}}],
        }),
    )
}
