//! Creates, changes and deletes each kind of object, as a client sees it.

use anyhow::{Result, ensure};
use hyper::StatusCode;
use serde_json::json;

use super::edge_gateway::{EdgeGateway, HOST, backend, pod_of, send_get, service, until};
use crate::test::manifests::{EchoProtocol, gateway, listener, route};
use crate::test::objects::expected_condition;
use crate::test::scope::Scope;

pub(in crate::test) async fn routes_services_and_pods_can_be_changed_and_deleted(
    scope: &Scope,
) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;

    let mut narrowed = route("HTTPRoute", 80, "echo");
    narrowed["spec"]["hostnames"] = json!(["other.example.com"]);
    scope.apply(&[narrowed]).await?;
    site.until(HOST, "/", StatusCode::NOT_FOUND).await?;
    site.until("other.example.com", "/", StatusCode::OK).await?;
    scope.apply(&[route("HTTPRoute", 80, "echo")]).await?;
    site.until(HOST, "/", StatusCode::OK).await?;

    scope
        .apply(&backend(scope, "other", EchoProtocol::Http, 1))
        .await?;
    scope
        .apply(&[service("echo", "other", EchoProtocol::Http)])
        .await?;
    site.until_answered_by("other").await?;
    scope
        .apply(&[service("echo", "echo", EchoProtocol::Http)])
        .await?;
    site.until_answered_by("echo").await?;

    scope
        .kubectl(&["scale", "deployment/echo", "--replicas=0"], "")
        .await?;
    site.until(HOST, "/", StatusCode::SERVICE_UNAVAILABLE)
        .await?;
    scope
        .kubectl(&["scale", "deployment/echo", "--replicas=1"], "")
        .await?;
    site.until(HOST, "/", StatusCode::OK).await?;

    scope.delete("Service", "echo").await?;
    site.until(HOST, "/", StatusCode::INTERNAL_SERVER_ERROR)
        .await?;
    let missing = expected_condition("ResolvedRefs", "False", "BackendNotFound");
    scope.condition("HTTPRoute", "echo-80", missing).await?;
    scope
        .apply(&[service("echo", "echo", EchoProtocol::Http)])
        .await?;
    let found = expected_condition("ResolvedRefs", "True", "ResolvedRefs");
    scope.condition("HTTPRoute", "echo-80", found).await?;
    let answer = site.until(HOST, "/", StatusCode::OK).await?;
    ensure!(
        pod_of(&answer).is_some(),
        "not the backend answered: {answer:?}"
    );

    scope.delete("HTTPRoute", "echo-80").await?;
    site.until(HOST, "/", StatusCode::NOT_FOUND).await.map(drop)
}

pub(in crate::test) async fn a_gateway_can_be_changed_and_deleted(scope: &Scope) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let mut everywhere = route("HTTPRoute", 80, "echo");
    everywhere["spec"]["parentRefs"] = json!([{"name": "edge"}]);
    let edge = gateway(&[listener(80, "HTTP"), listener(8080, "HTTP")]);
    scope.apply(&[everywhere, edge]).await?;
    let mut second = site.address;
    second.set_port(8080);
    until(scope, second, (HOST, "/"), StatusCode::OK).await?;
    site.until(HOST, "/", StatusCode::OK).await?;

    scope.apply(&[gateway(&[listener(8080, "HTTP")])]).await?;
    scope
        .until("port 80 to be closed", async || {
            // Without a listener, the connection may time out.
            let answer = send_get(site.address, HOST, "/").await;
            Ok(answer.is_err().then_some(()))
        })
        .await?;
    until(scope, second, (HOST, "/"), StatusCode::OK).await?;

    scope.delete("Gateway", "edge").await?;
    for kind in ["Deployment", "Service", "ServiceAccount", "ConfigMap"] {
        scope.wait_until_deleted(kind, "edge").await?;
    }
    scope.wait_until_deleted("Service", "edge-metrics").await?;
    scope
        .until("the route to have no parent", async || {
            let route = scope.object("HTTPRoute", "echo-80").await?;
            let route = route.unwrap_or_default();
            let parents = route["status"]["parents"].as_array();
            Ok(parents.is_none_or(Vec::is_empty).then_some(()))
        })
        .await
}
