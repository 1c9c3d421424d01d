//! A thousand mistakes, and more than a Gateway has room for: others do not notice.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::edge_gateway::{EdgeGateway, HOST};
use super::hostile::conditions;
use crate::process::print_line;
use crate::test::manifests::{gateway, listener, route};
use crate::test::objects::expected_condition;
use crate::test::scope::Scope;

/// How many objects are wrong.
const MISTAKES: usize = 1_000;

/// Objects that are created at the same time.
const CONCURRENT: usize = 16;

/// Longest time until another Gateway is deployed while they are there, or ten times as long as before they
/// were: on a busy machine, the API server is what takes so long.
const DEPLOYED: Duration = Duration::from_secs(2);
const SLOWDOWN: u32 = 10;

/// Largest status of an object in bytes, with some room for what the API server adds.
const STATUS: usize = 80 << 10;

/// Routes with as many rules as a route may have, at a Gateway with as many listeners as that may have: it has room
/// for 512.
const ROUTES: usize = 640;
const RULES: usize = 16;
const LISTENERS: u16 = 64;

/// The API server answers a field that a Deployment does not have with an error of its own.
pub(in crate::test) async fn a_thousand_misspelt_gateways_delay_no_other(
    scope: &Scope,
) -> Result<()> {
    let misspelt = json!({
        "apiVersion": "gateway-system.io/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"name": "misspelt"},
        "spec": {"overlays": {"deployment": {"spec": {"tepmlate": {"spec": {}}}}}},
    });
    scope.apply(&[misspelt]).await?;
    delays_no_gateway(scope, "Gateway", |number| {
        let mut made = named(&format!("misspelt-{number}"));
        made["spec"]["infrastructure"] = json!({"parametersRef": {
            "group": "gateway-system.io", "kind": "GatewayParameters", "name": "misspelt"}});
        made
    })
    .await?;
    let failed = expected_condition("DeploymentFailed", "True", "DeploymentFailed");
    let message = scope.condition("Gateway", "misspelt-0", failed).await?;
    ensure!(message.contains("tepmlate"), "it says `{message}`");
    Ok(())
}

pub(in crate::test) async fn a_thousand_invalid_policies_delay_no_gateway(
    scope: &Scope,
) -> Result<()> {
    delays_no_gateway(scope, "TrafficPolicy", |number| {
        json!({
            "apiVersion": "gateway-system.io/v1alpha1", "kind": "TrafficPolicy",
            "metadata": {"name": format!("invalid-{number}")},
            "spec": {
                "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute",
                                "name": format!("missing-{number}")}],
                "jwt": {"providers": [{
                    "name": "idp", "issuer": "https://issuer.example", "jwks": {"inline": "none"},
                }]},
            },
        })
    })
    .await
}

/// Creates wrong objects, and measures how long another namespace waits for the Deployment of a Gateway
/// before and while they are there.
async fn delays_no_gateway(scope: &Scope, kind: &str, make: impl Fn(usize) -> Value) -> Result<()> {
    let other = scope.another().await?;
    let outcome = async {
        let calm = deployed(&other, "calm").await?;
        let wrong = (0..MISTAKES).map(&make).collect();
        let create_all = create(scope, kind, wrong);
        let meanwhile = async {
            let mut slowest = Duration::ZERO;
            for number in 0..3 {
                slowest = slowest.max(deployed(&other, &format!("beside-{number}")).await?);
            }
            Ok::<_, anyhow::Error>(slowest)
        };
        let ((), beside) = tokio::try_join!(create_all, meanwhile)?;
        let after = deployed(&other, "after").await?;
        print_line(&format!(
            "{MISTAKES} wrong objects of kind {kind}: a Gateway is deployed after {calm:?}, {beside:?} at most while \
             they are created, and {after:?} then"
        ))?;
        let allowed = DEPLOYED.max(calm * SLOWDOWN);
        let slowest = beside.max(after);
        ensure!(
            slowest <= allowed,
            "another Gateway was deployed after {slowest:?}"
        );
        Ok(())
    };
    let outcome = outcome.await;
    other.close().await?;
    outcome
}

/// Creates objects of a kind, some at the same time. In a `LocalSet`.
async fn create(scope: &Scope, kind: &str, objects: Vec<Value>) -> Result<()> {
    let api = scope.objects(kind)?;
    let mut created: JoinSet<Result<()>> = JoinSet::new();
    for object in objects {
        if created.len() >= CONCURRENT
            && let Some(done) = created.join_next().await
        {
            done??;
        }
        let (api, object) = (api.clone(), serde_json::from_value(object)?);
        created.spawn_local(async move {
            api.create(&PostParams::default(), &object).await?;
            Ok(())
        });
    }
    while let Some(done) = created.join_next().await {
        done??;
    }
    Ok(())
}

/// Creates a Gateway, and returns how long its Deployment takes to exist.
async fn deployed(scope: &Scope, name: &str) -> Result<Duration> {
    let object = serde_json::from_value(named(name))?;
    let gateways = scope.objects("Gateway")?;
    gateways.create(&PostParams::default(), &object).await?;
    let created = Instant::now();
    let what = format!("the Deployment of {name}");
    scope
        .until(&what, async || scope.object("Deployment", name).await)
        .await?;
    Ok(created.elapsed())
}

/// A Gateway of this name with one HTTP listener.
fn named(name: &str) -> Value {
    let mut made = gateway(&[listener(80, "HTTP")]);
    made["metadata"]["name"] = json!(name);
    made
}

/// Proxies that hold too much could not reconnect.
pub(in crate::test) async fn a_full_gateway_says_so_and_its_proxies_reconnect(
    scope: &Scope,
) -> Result<()> {
    let listeners: Vec<Value> = (0..LISTENERS)
        .map(|number| listener(if number == 0 { 80 } else { 8_000 + number }, "HTTP"))
        .collect();
    let site = EdgeGateway::open_with(scope, gateway(&listeners), 1).await?;
    let large = (0..ROUTES).map(large_route).collect();
    create(scope, "HTTPRoute", large).await?;
    let full = expected_condition("Accepted", "False", "GatewayFull");
    let last = format!("large-{}", ROUTES - 1);
    let message = scope.condition("HTTPRoute", &last, full).await?;
    ensure!(message.contains("has no room"), "it says `{message}`");
    let mut refused = 0;
    let routes = scope.objects("HTTPRoute")?;
    for object in routes.list(&ListParams::default()).await? {
        let status = &object.data["status"];
        let size = status.to_string().len();
        ensure!(size <= STATUS, "a status has {size} bytes");
        refused += usize::from(conditions(status).any(|it| it["reason"] == "GatewayFull"));
    }
    print_line(&format!("{refused} of {ROUTES} routes are refused"))?;
    ensure!(
        (100..200).contains(&refused),
        "{refused} routes are refused"
    );
    // A new proxy, which begins with everything.
    scope
        .kubectl(&["rollout", "restart", "deployment/edge"], "")
        .await?;
    scope
        .kubectl(
            &["rollout", "status", "deployment/edge", "--timeout=120s"],
            "",
        )
        .await
        .context("its proxies do not reconnect")?;
    site.until(HOST, "/", StatusCode::OK).await.map(drop)
}

fn large_route(number: usize) -> Value {
    let mut made = route("HTTPRoute", 80, "echo");
    made["metadata"]["name"] = json!(format!("large-{number}"));
    made["spec"]["hostnames"] = json!([format!("h{number}.example.com")]);
    made["spec"]["parentRefs"] = json!([{"name": "edge"}]);
    let rules = (0..RULES).map(|rule| {
        json!({
            "matches": [{"path": {"value": format!("/{rule}")}}],
            "backendRefs": [{"name": "echo", "port": 80}],
        })
    });
    made["spec"]["rules"] = json!(rules.collect::<Vec<_>>());
    made
}
