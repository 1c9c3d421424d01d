//! An operator's first day: installs the chart, serves a route, inspects it with `gwctl`, upgrades
//! under load, rolls back and uninstalls.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::http;
use super::load::Load;
use super::manifests::{EchoProtocol, echo, gateway, listener, route};
use super::objects::says;
use super::scope::Scope;
use crate::home;

/// Responses between two steps of an upgrade.
const ANSWERS: usize = 200;

pub(super) async fn a_release_serves_from_install_to_uninstall(scope: &Scope) -> Result<()> {
    install(scope, &[]).await?;
    let address = serve(scope).await?;
    gwctl_finds_the_gateway(scope).await?;
    upgrade_under_load(scope, address).await?;
    uninstall(scope, address).await
}

/// Installs a release of its own class, which leaves the Gateways of other controllers alone, with more
/// words of Helm.
pub(super) async fn install(scope: &Scope, more: &[&str]) -> Result<()> {
    let namespace = &scope.namespace;
    let values = json!({
        "controller": {
            "image": image(&scope.images.controller)?,
            "extraEnv": {
                "CONTROLLER_NAME": format!("e2e.example.com/{namespace}"),
                "CONTROLLER_GATEWAY_CLASS": namespace,
            },
        },
        "proxy": {"image": image(&scope.images.gateway)?},
        "discoveryNamespaceSelectors": [
            {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        ],
    });
    let chart = home::repository().join("k8s/charts/gateway");
    let install = [
        "install",
        "gateway",
        &chart.to_string_lossy(),
        "--values",
        "-",
    ];
    let install = [&install[..], more].concat();
    scope.helm(&install, &values.to_string()).await?;
    rolled_out(scope, "gateway").await
}

/// An image reference as the chart's values.
fn image(reference: &str) -> Result<Value> {
    let (name, tag) = reference.rsplit_once(':').context("an image has a tag")?;
    let (registry, repository) = name.rsplit_once('/').context("an image has a registry")?;
    Ok(json!({"registry": registry, "repository": repository, "tag": tag}))
}

async fn rolled_out(scope: &Scope, deployment: &str) -> Result<()> {
    let deployment = format!("deployment/{deployment}");
    let status = ["rollout", "status", &deployment, "--timeout=120s"];
    scope.kubectl(&status, "").await.map(drop)
}

/// Creates a Gateway with a route, and waits until it serves.
async fn serve(scope: &Scope) -> Result<SocketAddr> {
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["gatewayClassName"] = scope.namespace.clone().into();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"},
        "spec": {"selector": {"app": "echo"}, "ports": [{"port": 80, "targetPort": 3000}]},
    });
    let backend = echo(&scope.images, "echo", EchoProtocol::Http);
    let objects = [edge, route("HTTPRoute", 80, "echo"), service, backend];
    scope.apply(&objects).await?;
    scope.ready("echo").await?;
    let works = says("Programmed", "True", "Programmed");
    scope.condition("Gateway", "edge", works).await?;
    let edge = scope.object("Gateway", "edge").await?;
    let ip = edge
        .as_ref()
        .and_then(|it| it["status"]["addresses"][0]["value"].as_str());
    let address = SocketAddr::new(
        ip.context("a Gateway that works has an address")?.parse()?,
        80,
    );
    scope
        .until("an answer of the route", async || {
            Ok(ask(address).await.ok())
        })
        .await?;
    Ok(address)
}

async fn ask(address: SocketAddr) -> Result<String> {
    let stream = TcpStream::connect(address).await?;
    http::get(Box::new(stream), "shop.example.com", "/").await
}

/// The documented commands, and an error.
async fn gwctl_finds_the_gateway(scope: &Scope) -> Result<()> {
    for (line, expected) in [
        ("status edge", "HTTPRoute"),
        ("config all gateway/edge -o yaml", "HTTPRoute/"),
        ("config backends gateway/edge", "Service  echo"),
        ("config all deployment/edge", "listener port-80"),
        ("config listeners service/edge", "up"),
        ("log --level debug --all-pods", "current log level is debug"),
        (
            "trace gateway/edge --port 80 -- http://shop.example.com/",
            "status    200",
        ),
        (
            "trace gateway/edge --port 80 --raw -- http://shop.example.com/",
            "\"status\":200",
        ),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let said = scope.gwctl(&words).await?;
        ensure!(
            said.contains(expected),
            "gwctl {line} has no {expected}: {said}"
        );
    }
    let Err(error) = scope.gwctl(&["log", "nobody"]).await else {
        bail!("gwctl found a Gateway that is not there");
    };
    let error = format!("{error:#}");
    ensure!(error.contains("there are: edge"), "{error}");
    Ok(())
}

/// Upgrades the controller, replaces the proxies and rolls back under load. No request fails.
async fn upgrade_under_load(scope: &Scope, address: SocketAddr) -> Result<()> {
    let load = Load::start(address, 4);
    load.until_answers(ANSWERS).await?;
    let chart = home::repository().join("k8s/charts/gateway");
    let chart = chart.to_string_lossy();
    let replicas = "controller.replicaCount=2";
    let upgrade = [
        "upgrade",
        "gateway",
        &chart,
        "--reuse-values",
        "--set",
        replicas,
    ];
    scope.helm(&upgrade, "").await?;
    rolled_out(scope, "gateway").await?;
    load.until_answers(ANSWERS).await?;

    scope
        .kubectl(&["rollout", "restart", "deployment/edge"], "")
        .await?;
    rolled_out(scope, "edge").await?;
    load.until_answers(ANSWERS).await?;

    scope.helm(&["rollback", "gateway", "1"], "").await?;
    rolled_out(scope, "gateway").await?;
    load.until_answers(ANSWERS).await?;
    let counts = load.stop().await;
    let (answered, failed) = (counts.answered, counts.failed);
    ensure!(
        failed.is_empty(),
        "of {answered} requests failed: {failed:?}"
    );
    Ok(())
}

/// Without the release, proxies serve until their Gateway is deleted.
async fn uninstall(scope: &Scope, address: SocketAddr) -> Result<()> {
    scope.helm(&["uninstall", "gateway", "--wait"], "").await?;
    ask(address)
        .await
        .context("the proxies stopped with the controller")?;
    scope.kubectl(&["delete", "gateway", "edge"], "").await?;
    let gone = ["wait", "--for=delete", "deployment/edge", "--timeout=120s"];
    scope.kubectl(&gone, "").await?;
    let class = ["delete", "gatewayclass", &scope.namespace];
    scope.kubectl(&class, "").await.map(drop)
}
