//! External authorization: a server in the cluster decides on requests, for a route's rule or for a
//! listener.

use anyhow::{Result, ensure};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::edge_gateway::{EdgeGateway, HOST, send};
use crate::image::AUTHORIZER;
use crate::test::http::{HttpResponse, request};
use crate::test::manifests::{gateway, listener, route};
use crate::test::objects::expected_condition;
use crate::test::scope::Scope;

/// The requests that the authorizer allows, and the user that it adds.
const GOOD: (&str, &str) = ("x-token", "good");
const USER: &str = "alice";

pub(in crate::test) async fn an_http_server_authorizes_requests(scope: &Scope) -> Result<()> {
    let response = authorized_response(scope, external_auth_filter("HTTP", 80)).await?;
    ensure!(echoed(&response, "X-User") == USER, "{}", response.body);
    Ok(())
}

pub(in crate::test) async fn an_ext_authz_server_authorizes_requests(scope: &Scope) -> Result<()> {
    let response = authorized_response(scope, external_auth_filter("GRPC", 81)).await?;
    ensure!(echoed(&response, "X-User") == USER, "{}", response.body);
    ensure!(echoed(&response, "X-Token").is_empty(), "{}", response.body);
    Ok(())
}

/// Adds the authorizer to a rule, then removes it. Returns the response to a request that passed.
async fn authorized_response(scope: &Scope, filter: Value) -> Result<HttpResponse> {
    let site = EdgeGateway::open(scope).await?;
    let open = route("HTTPRoute", 80, "echo");
    let mut guarded = open.clone();
    guarded["spec"]["rules"][0]["filters"] = json!([filter]);
    // Until the server exists, every request is denied.
    scope.apply(&[guarded]).await?;
    let unresolved = expected_condition("ResolvedRefs", "False", "BackendNotFound");
    scope.condition("HTTPRoute", "echo-80", unresolved).await?;
    site.until(HOST, "/", StatusCode::FORBIDDEN).await?;
    scope.apply(&authorizer()).await?;
    let denied = site.until(HOST, "/", StatusCode::UNAUTHORIZED).await?;
    ensure!(denied.body.contains("show a good token"), "{}", denied.body);
    let response = send(site.address, request(HOST, "/", &[GOOD])?).await?;
    ensure!(response.status == StatusCode::OK, "{response:?}");

    let scaled = ["scale", "deployment/authorizer", "--replicas=0"];
    scope.kubectl(&scaled, "").await?;
    site.until(HOST, "/", StatusCode::FORBIDDEN).await?;
    scope.apply(&[open]).await?;
    site.until(HOST, "/", StatusCode::OK).await?;
    Ok(response)
}

/// A listener's authorizer is called before a route is selected, which here matches an added field.
pub(in crate::test) async fn a_listener_authorizes_before_route_matching(
    scope: &Scope,
) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    scope.apply(&authorizer()).await?;
    let mut for_alice = route("HTTPRoute", 80, "echo");
    for_alice["spec"]["rules"][0]["matches"] =
        json!([{"headers": [{"name": "x-user", "value": USER}]}]);
    scope.apply(&[for_alice]).await?;
    site.until(HOST, "/", StatusCode::NOT_FOUND).await?;

    let mut asking = listener(80, "HTTP");
    asking["filters"] = json!({"requests": [external_auth_filter("GRPC", 81)]});
    scope.apply(&[gateway(&[asking])]).await?;
    site.until(HOST, "/", StatusCode::UNAUTHORIZED).await?;
    let response = send(site.address, request(HOST, "/", &[GOOD])?).await?;
    ensure!(response.status == StatusCode::OK, "{response:?}");
    ensure!(echoed(&response, "X-User") == USER, "{}", response.body);

    let mut lost = listener(80, "HTTP");
    let mut filter = external_auth_filter("GRPC", 81);
    filter["externalAuth"]["backendRef"]["name"] = json!("gone");
    lost["filters"] = json!({"requests": [filter]});
    scope.apply(&[gateway(&[lost])]).await?;
    let unresolved = expected_condition("ResolvedRefs", "False", "InvalidListenerFilterRef");
    scope.condition("Gateway", "edge", unresolved).await?;
    Ok(())
}

/// A filter that calls Service `authorizer`.
fn external_auth_filter(protocol: &str, port: u16) -> Value {
    let field = protocol.to_lowercase();
    json!({
        "type": "ExternalAuth",
        "externalAuth": {
            "protocol": protocol,
            "backendRef": {"name": "authorizer", "port": port},
            field: {"allowedHeaders": [GOOD.0]},
        },
    })
}

/// A Deployment of the authorizer, and a Service: HTTP on port 80, gRPC on port 81.
fn authorizer() -> [Value; 2] {
    let labels = json!({"app": "authorizer"});
    [
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "authorizer"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "containers": [{
                            "name": "authorizer", "image": AUTHORIZER,
                            "readinessProbe": {"tcpSocket": {"port": 3000}, "periodSeconds": 1},
                        }],
                    },
                },
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "authorizer"},
            "spec": {
                "selector": labels,
                "ports": [
                    {"name": "http", "port": 80, "targetPort": 3000},
                    {"name": "grpc", "port": 81, "targetPort": 3001, "appProtocol": "kubernetes.io/h2c"},
                ],
            },
        }),
    ]
}

/// A header of the request that an echo backend received.
fn echoed(answer: &HttpResponse, name: &str) -> String {
    let echoed: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    echoed["headers"][name][0]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
