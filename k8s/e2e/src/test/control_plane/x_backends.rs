//! XBackends, of the experimental channel of Gateway API: which pods get requests, and at which port, as
//! clients see it. Served by a release of the chart with `xBackend.enabled`.

use anyhow::Result;
use hyper::StatusCode;
use serde_json::{Value, json};

use super::edge_gateway::{EdgeGateway, HOST, backend};
use super::features::{assert_session_stays_with_pod, begin_session};
use crate::test::manifests::{EchoProtocol, gateway, listener, route};
use crate::test::operator;
use crate::test::scope::Scope;

/// The port of the pods.
const PORT: u16 = 3000;
/// One that nothing listens on.
const CLOSED_PORT: u16 = 3999;

pub(in crate::test) async fn pods_are_selected_by_label_and_port(scope: &Scope) -> Result<()> {
    operator::install(scope, &["--set", "xBackend.enabled=true"]).await?;
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["gatewayClassName"] = json!(scope.namespace);
    let site = EdgeGateway::open_with(scope, edge, 3).await?;
    let mut objects = backend(scope, "other", EchoProtocol::Http, 1);
    objects.push(x_backend("other", PORT));
    let mut to_pods = route("HTTPRoute", 80, "echo");
    to_pods["spec"]["rules"][0]["backendRefs"] =
        json!([{"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "pods"}]);
    objects.push(to_pods);
    scope.apply(&objects).await?;
    site.until_answered_by("other").await?;

    // Another selector, another port, and a session.
    scope.apply(&[x_backend("echo", PORT)]).await?;
    site.until_answered_by("echo").await?;
    scope.apply(&[x_backend("echo", CLOSED_PORT)]).await?;
    site.until(HOST, "/", StatusCode::SERVICE_UNAVAILABLE)
        .await?;
    let mut sticky = x_backend("echo", PORT);
    sticky["spec"]["sessionPersistence"] = json!({"type": "Cookie", "cookie": {"name": "seat"}});
    scope.apply(&[sticky]).await?;
    let session = begin_session(&site, "set-cookie", None).await?;
    begin_session(&site, "set-cookie", Some(&session.1)).await?;
    assert_session_stays_with_pod(&site, "cookie", &session).await?;

    scope.delete("XBackend", "pods").await?;
    site.until(HOST, "/", StatusCode::INTERNAL_SERVER_ERROR)
        .await?;
    scope.delete("Gateway", "edge").await?;
    scope.helm(&["uninstall", "gateway", "--wait"], "").await?;
    let class = ["delete", "gatewayclass", &scope.namespace];
    scope.kubectl(&class, "").await.map(drop)
}

/// The pods of a Deployment, at a port.
fn x_backend(deployment: &str, port: u16) -> Value {
    json!({
        "apiVersion": "gateway.networking.x-k8s.io/v1alpha1", "kind": "XBackend", "metadata": {"name": "pods"},
        "spec": {
            "type": "EndpointSelector", "port": {"number": port},
            "endpointSelector": {"matchLabels": {"app": deployment}},
        },
    })
}
