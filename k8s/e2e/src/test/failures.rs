//! Failures around the data plane: of the network between nodes, and of the control plane.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;

use super::gateway_pod::serve;
use super::http;
use super::load::Load;
use super::manifests::{EchoProtocol, GatewayPod, config_map, echo, http_to, on_node};
use super::protocols::{exchange, udp_across_nodes};
use super::scope::{Scope, address};
use crate::args::{ComponentArgs, Condition, StopArgs};
use crate::cluster::component::Component;

/// Datagrams that are sent under packet loss.
const DATAGRAMS: usize = 60;

pub(super) async fn a_cut_between_nodes_fails_requests_until_it_heals(scope: &Scope) -> Result<()> {
    let pod = serve_across_nodes(scope).await?;
    let cluster = scope.ours()?;
    cluster.set_network(&Condition::Cut)?;
    let cut = get_from_client(scope, &pod).await;
    cluster.set_network(&Condition::Heal)?;
    ensure!(
        cut.is_err(),
        "a request got through, although the network is cut"
    );
    scope
        .until("an answer", async || {
            Ok(get_from_client(scope, &pod).await.ok())
        })
        .await
        .map(drop)
}

pub(super) async fn packets_between_nodes_can_be_delayed(scope: &Scope) -> Result<()> {
    let pod = serve_across_nodes(scope).await?;
    let cluster = scope.ours()?;
    let by = Duration::from_millis(150);
    cluster.set_network(&Condition::Delay { by })?;
    let started = Instant::now();
    let delayed = get_from_client(scope, &pod).await;
    let took = started.elapsed();
    cluster.set_network(&Condition::Heal)?;
    delayed?;
    // At least one round trip.
    ensure!(
        took >= 2 * by,
        "it took {took:?}, with {by:?} more each way"
    );
    Ok(())
}

pub(super) async fn packets_between_nodes_can_be_dropped(scope: &Scope) -> Result<()> {
    let socket = udp_across_nodes(scope).await?;
    scope
        .until("an answer over UDP", async || {
            Ok(exchange(&socket, "first").await?.then_some(()))
        })
        .await?;
    let cluster = scope.ours()?;
    cluster.set_network(&Condition::Loss { share: 30 })?;
    let mut received = 0;
    for number in 0..DATAGRAMS {
        received += usize::from(exchange(&socket, &format!("number {number}")).await?);
    }
    cluster.set_network(&Condition::Heal)?;
    // About a quarter come back, as both directions lose half; chance alone does not leave this
    // range.
    ensure!(
        (10..50).contains(&received),
        "{received} of {DATAGRAMS} came back"
    );
    Ok(())
}

pub(super) async fn traffic_continues_without_the_api_server(scope: &Scope) -> Result<()> {
    let pod = serve(scope, &GatewayPod::named(&scope.images, "gateway")).await?;
    let cluster = scope.ours()?;
    let apiserver = || ComponentArgs {
        component: Component::Apiserver,
        node: 0,
    };
    let load = Load::start(format!("{}:80", address(&pod)?).parse()?, 4);
    load.until_answers(100).await?;
    cluster.stop(&StopArgs {
        component: apiserver(),
        kill: false,
    })?;
    let away = scope
        .kubectl(&["get", "pods", "--request-timeout=2s"], "")
        .await;
    let served = load.until_answers(1000).await;
    cluster.start(&apiserver())?;
    let counts = load.stop().await;
    ensure!(
        away.is_err(),
        "the API server answered, although it was stopped"
    );
    served?;
    ensure!(
        counts.failed.is_empty(),
        "of {} requests: {:?}",
        counts.answered,
        counts.failed
    );
    scope.kubectl(&["get", "pods"], "").await.map(drop)
}

/// A gateway on the first node and a backend on the second.
async fn serve_across_nodes(scope: &Scope) -> Result<Pod> {
    if scope.ours()?.nodes().len() < 2 {
        bail!("this test needs two nodes: `e2e up --nodes 2`");
    }
    let backend = on_node(echo(&scope.images, "echo", EchoProtocol::Http), "node-1");
    scope.apply(&[backend]).await?;
    let backend = scope.ready("echo").await?;
    let gateway = GatewayPod::named(&scope.images, "gateway");
    let objects = http_to(&backend)?;
    scope
        .apply(&[config_map(&objects), on_node(gateway.object(), "node-0")])
        .await?;
    let pod = scope.ready("gateway").await?;
    get_from_client(scope, &pod).await?;
    Ok(pod)
}

/// One request on a new connection from the client to the gateway.
async fn get_from_client(scope: &Scope, pod: &Pod) -> Result<String> {
    http::get(scope.connect(pod, 80).await?, "shop.example.com", "/").await
}
