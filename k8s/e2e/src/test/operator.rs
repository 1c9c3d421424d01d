//! An operator's first day: installs the chart, serves a route, inspects it with `gwctl`, upgrades
//! under load, rolls back and uninstalls. Also an upgrade from the commit before.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::http;
use super::load::Load;
use super::manifests::{EchoProtocol, echo, gateway, listener, route};
use super::objects::expected_condition;
use super::scope::Scope;
use crate::home;
use crate::image::previous::Previous;
use crate::process::print_line;

/// Responses between two steps of an upgrade.
const ANSWERS: usize = 200;

pub(super) async fn a_release_serves_from_install_to_uninstall(scope: &Scope) -> Result<()> {
    install(scope, &[]).await?;
    let address = serve(scope).await?;
    gwctl_finds_the_gateway(scope).await?;
    upgrade_under_load(scope, address).await?;
    uninstall(scope, address).await
}

/// Upgrades everything that the commit before deployed, and rolls back. No request fails.
pub(super) async fn a_release_is_upgraded_from_the_commit_before(scope: &Scope) -> Result<()> {
    let previous = scope.images.previous.as_ref();
    let previous = previous.context("images of the commit before were not built")?;
    let (old, new) = (Release::of(previous), Release::of_tree(scope));
    old.run(scope, "install", &[]).await?;
    let address = serve(scope).await?;
    let load = Load::start(address, 4);
    load.until_answers(ANSWERS).await?;
    // Helm then takes the defaults of the old chart, which may lack values of the new one.
    new.run(scope, "upgrade", &["--reuse-values"]).await?;
    replaced(scope, new.gateway).await?;
    load.until_answers(ANSWERS).await?;
    scope.helm(&["rollback", "gateway", "1"], "").await?;
    rolled_out(scope, "gateway").await?;
    replaced(scope, old.gateway).await?;
    load.until_answers(ANSWERS).await?;
    assert_no_failures(load).await?;
    uninstall(scope, address).await
}

/// Waits until the proxies are replaced by ones of this image.
async fn replaced(scope: &Scope, image: &str) -> Result<()> {
    let what = format!("the proxies' Deployment to have the image {image}");
    scope
        .until(&what, async || {
            let edge = scope.object("Deployment", "edge").await?;
            let edge = edge.context("the proxies' Deployment is gone")?;
            let container = &edge["spec"]["template"]["spec"]["containers"][0];
            Ok((container["image"] == image).then_some(()))
        })
        .await?;
    rolled_out(scope, "edge").await
}

/// Installs this tree's release, with more arguments for Helm.
pub(super) async fn install(scope: &Scope, more: &[&str]) -> Result<()> {
    Release::of_tree(scope).run(scope, "install", more).await
}

/// A chart and the images that it deploys.
struct Release<'a> {
    chart: PathBuf,
    gateway: &'a str,
    controller: &'a str,
}

impl<'a> Release<'a> {
    fn of_tree(scope: &'a Scope) -> Self {
        Self {
            chart: home::repository().join("k8s/charts/gateway"),
            gateway: &scope.images.gateway,
            controller: &scope.images.controller,
        }
    }

    fn of(previous: &'a Previous) -> Self {
        Self {
            chart: previous.chart.clone(),
            gateway: &previous.gateway,
            controller: &previous.controller,
        }
    }

    /// Installs it or upgrades to it, with a class of its own, which leaves the Gateways of other
    /// controllers alone.
    async fn run(&self, scope: &Scope, verb: &str, more: &[&str]) -> Result<()> {
        let namespace = &scope.namespace;
        let mut values = json!({
            "controller": {"image": image(self.controller)?},
            "proxy": {"image": image(self.gateway)?},
            "discoveryNamespaceSelectors": [
                {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            ],
        });
        let controller_name = format!("e2e.example.com/{namespace}");
        if self.has_value("gatewayClass")? {
            values["gatewayClass"] = json!({"name": namespace, "controllerName": controller_name});
        } else {
            values["controller"]["extraEnv"] =
                json!({"CONTROLLER_GATEWAY_CLASS": namespace, "CONTROLLER_NAME": controller_name});
        }
        let chart = self.chart.to_string_lossy();
        let words = [&[verb, "gateway", &*chart, "--values", "-"], more].concat();
        scope.helm(&words, &values.to_string()).await?;
        rolled_out(scope, "gateway").await
    }

    /// Whether the chart has a value at the top level, which one of an earlier commit may not have.
    fn has_value(&self, key: &str) -> Result<bool> {
        let file = self.chart.join("values.schema.json");
        let schema =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let schema: Value = serde_json::from_str(&schema)?;
        Ok(schema["properties"].get(key).is_some())
    }
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
    let works = expected_condition("Programmed", "True", "Programmed");
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
            Ok(read_body(address).await.ok())
        })
        .await?;
    Ok(address)
}

async fn read_body(address: SocketAddr) -> Result<String> {
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
        let output = scope.gwctl(&words).await?;
        ensure!(
            output.contains(expected),
            "gwctl {line} has no {expected}: {output}"
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
    assert_no_failures(load).await
}

async fn assert_no_failures(load: Load) -> Result<()> {
    let counts = load.stop().await;
    let (answered, failed) = (counts.answered, counts.failed);
    ensure!(
        failed.is_empty(),
        "{} requests failed, {answered} were answered: {failed:?}",
        failed.len()
    );
    print_line(&format!("{answered} requests, none failed"))
}

/// Without the release, proxies serve until their Gateway is deleted.
async fn uninstall(scope: &Scope, address: SocketAddr) -> Result<()> {
    scope.helm(&["uninstall", "gateway", "--wait"], "").await?;
    read_body(address)
        .await
        .context("the proxies stopped with the controller")?;
    scope.kubectl(&["delete", "gateway", "edge"], "").await?;
    let gone = ["wait", "--for=delete", "deployment/edge", "--timeout=120s"];
    scope.kubectl(&gone, "").await?;
    let class = ["delete", "gatewayclass", &scope.namespace];
    scope.kubectl(&class, "").await.map(drop)
}
