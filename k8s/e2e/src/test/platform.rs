//! Functions of the cluster itself, so that failures of other tests are the gateway's.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::http;
use super::manifests::{
    EchoProtocol, GatewayPod, config_map, echo, gateway, listener, on_node, route,
};
use super::scope::Scope;

/// Time until a developer sees a typo.
const SECONDS: Duration = Duration::from_secs(20);

pub(super) async fn a_missing_image_is_named_within_seconds(scope: &Scope) -> Result<()> {
    let mut pod = echo(&scope.images, "echo", EchoProtocol::Http);
    pod["spec"]["containers"][0]["image"] = json!("localhost/nowhere:1");
    scope.apply(&[pod]).await?;
    let started = Instant::now();
    let Err(error) = scope.ready("echo").await else {
        bail!("a pod without an image is ready");
    };
    let message = format!("{error:#}");
    ensure!(
        message.contains("localhost/nowhere:1"),
        "the image is not named: {message}"
    );
    ensure!(
        started.elapsed() < SECONDS,
        "it took {:?}",
        started.elapsed()
    );
    Ok(())
}

/// Cluster DNS, which the gateway uses for a backend with a host name.
pub(super) async fn names_of_services_resolve(scope: &Scope) -> Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"},
        "spec": {"selector": {"app": "echo"}, "ports": [{"port": 80, "targetPort": 3000}]},
    });
    scope
        .apply(&[service, echo(&scope.images, "echo", EchoProtocol::Http)])
        .await?;
    scope.ready("echo").await?;
    let name = format!("echo.{}.svc.cluster.local", scope.namespace);
    let backend = json!({
        "apiVersion": "gateway-system.io/v1alpha1", "kind": "Backend", "metadata": {"name": "echo"},
        "spec": {"dns": {"name": name, "port": 80}},
    });
    let mut route = route("HTTPRoute", 80, "echo");
    route["spec"]["rules"][0]["backendRefs"] =
        json!([{"group": "gateway-system.io", "kind": "Backend", "name": "echo"}]);
    let objects = [gateway(&[listener(80, "HTTP")]), route, backend];
    let pod = GatewayPod::named(&scope.images, "gateway");
    scope.apply(&[config_map(&objects), pod.object()]).await?;
    let pod = scope.ready(pod.name()).await?;
    // It is ready with its configuration; names may be resolved later.
    scope
        .until("the backend's name to resolve", async || {
            let stream = scope.connect(&pod, 80).await?;
            Ok(http::get(stream, "shop.example.com", "/").await.ok())
        })
        .await
        .map(drop)
}

pub(super) async fn load_balancer_addresses_are_reachable_until_released(
    scope: &Scope,
) -> Result<()> {
    let balancer = load_balancer("Cluster");
    scope
        .apply(&[balancer, echo(&scope.images, "echo", EchoProtocol::Http)])
        .await?;
    scope.ready("echo").await?;
    let address = load_balancer_address(scope).await?;
    scope
        .until("an answer", async || Ok(answered_by(address).await.ok()))
        .await?;
    // A released address is unreachable immediately, and can be assigned again.
    scope.kubectl(&["delete", "service", "echo"], "").await?;
    scope
        .until("the address to be free", async || {
            Ok(TcpStream::connect(address).await.is_err().then_some(()))
        })
        .await?;
    scope.apply(&[load_balancer("Cluster")]).await?;
    let reassigned = load_balancer_address(scope).await?;
    ensure!(
        reassigned == address,
        "{address} was free, and {reassigned} was given"
    );
    scope
        .until("an answer", async || Ok(answered_by(reassigned).await.ok()))
        .await
        .map(drop)
}

/// With `externalTrafficPolicy: Local`, packets go only to nodes with an endpoint, even after it
/// moves.
pub(super) async fn load_balancers_follow_local_endpoints(scope: &Scope) -> Result<()> {
    scope.apply(&[load_balancer("Local")]).await?;
    let address = load_balancer_address(scope).await?;
    ensure!(
        TcpStream::connect(address).await.is_err(),
        "no endpoint, and it connects"
    );
    for node in scope.ours()?.nodes() {
        let name = format!("echo-on-{node}");
        let mut pod = on_node(
            echo(&scope.images, &name, EchoProtocol::Http),
            &node.to_string(),
        );
        pod["metadata"]["labels"] = json!({"app": "echo"});
        scope.apply(&[pod]).await?;
        scope.ready(&name).await?;
        scope
            .until(&format!("an answer of {name}"), async || {
                let by = answered_by(address).await.ok();
                Ok(by.filter(|by| *by == name))
            })
            .await?;
        scope.kubectl(&["delete", "pod", &name], "").await?;
    }
    Ok(())
}

fn load_balancer(policy: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo"},
        "spec": {"type": "LoadBalancer", "selector": {"app": "echo"},
            "externalTrafficPolicy": policy, "ports": [{"port": 80, "targetPort": 3000}]},
    })
}

async fn load_balancer_address(scope: &Scope) -> Result<SocketAddr> {
    let services: Api<Service> = scope.api();
    scope
        .until("an address of the load balancer", async || {
            let service = serde_json::to_value(services.get("echo").await?)?;
            let ip = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
            Ok(ip.map(|ip| format!("{ip}:80").parse()).transpose()?)
        })
        .await
}

/// The pod that responds at an address.
async fn answered_by(address: SocketAddr) -> Result<String> {
    let stream =
        tokio::time::timeout(Duration::from_secs(2), TcpStream::connect(address)).await??;
    let body = http::get(Box::new(stream), "shop.example.com", "/").await?;
    let echoed: Value = serde_json::from_str(&body)?;
    echoed["pod"]
        .as_str()
        .map(str::to_owned)
        .context("the backend names its pod")
}
