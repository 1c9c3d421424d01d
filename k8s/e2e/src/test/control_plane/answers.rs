//! Maintenance for all but the office, with its page in a ConfigMap, and paths that policies rewrite.

use anyhow::{Result, ensure};
use hyper::StatusCode;
use serde_json::{Value, json};

use super::edge_gateway::{EdgeGateway, HOST, pod_of, send, send_get};
use super::kinds::own;
use crate::test::http::request;
use crate::test::scope::Scope;

/// The office is known by its address, which a load balancer passes on.
pub(in crate::test) async fn maintenance_is_for_all_but_the_office(scope: &Scope) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let policy = own(
        "TrafficPolicy",
        "maintenance",
        &json!({
            "targetRefs": [
                {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge"},
            ],
            "precedence": "Overrides",
            "trustedHops": 1,
            "respond": {
                "status": 503, "retryAfter": "5m", "contentType": "text/html",
                "bodyFrom": {"name": "maintenance", "key": "page.html"},
                "except": "cidr('203.0.113.0/24').contains(client.address)",
            },
        }),
    );
    scope.apply(&[page("Back soon"), policy]).await?;
    until_page(&site, "Back soon").await?;
    let from_office = request(HOST, "/", &[("x-forwarded-for", "203.0.113.5")])?;
    let answer = send(site.address, from_office).await?;
    ensure!(pod_of(&answer).is_some(), "the office: {answer:?}");
    scope.apply(&[page("Back tomorrow")]).await?;
    until_page(&site, "Back tomorrow").await?;
    scope.delete("TrafficPolicy", "maintenance").await?;
    site.until(HOST, "/", StatusCode::OK).await.map(drop)
}

fn page(text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "maintenance"},
        "data": {"page.html": format!("{text}, {{host}}")},
    })
}

/// Waits until those who are not of the office get this page.
async fn until_page(site: &EdgeGateway<'_>, text: &str) -> Result<()> {
    let what = format!("the page `{text}`");
    let answer = site
        .scope
        .until(&what, async || {
            let answer = send_get(site.address, HOST, "/").await.ok();
            Ok(answer.filter(|it| it.body == format!("{text}, {HOST}")))
        })
        .await?;
    let retry_after = answer.header("retry-after");
    ensure!(
        answer.status == StatusCode::SERVICE_UNAVAILABLE && retry_after == "300",
        "{answer:?}"
    );
    Ok(())
}

/// Until the policy goes.
pub(in crate::test) async fn backends_get_the_paths_that_policies_rewrite(
    scope: &Scope,
) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let policy = own(
        "TrafficPolicy",
        "without-api",
        &json!({
            "targetRefs": [
                {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "echo-80"},
            ],
            "pathRewrite": {"pattern": "^/api(/|$)(.*)", "substitution": r"/\2"},
        }),
    );
    scope.apply(&[policy]).await?;
    until_path(&site, "/api/v1/items?q=1", "/v1/items?q=1").await?;
    for (path, expected) in [("/other/x", "/other/x"), ("/api//host/x", "/host/x")] {
        until_path(&site, path, expected).await?;
    }
    scope.delete("TrafficPolicy", "without-api").await?;
    until_path(&site, "/api/v1/items?q=1", "/api/v1/items?q=1").await
}

/// Waits until the backend gets this path for another one.
async fn until_path(site: &EdgeGateway<'_>, path: &str, expected: &str) -> Result<()> {
    let what = format!("{path} to reach the backend as {expected}");
    site.scope
        .until(&what, async || {
            let answer = send_get(site.address, HOST, path).await.ok();
            let echoed = answer.and_then(|it| serde_json::from_str::<Value>(&it.body).ok());
            Ok(echoed.filter(|it| it["path"] == expected).map(drop))
        })
        .await
}
