//! Proxies with wrong credentials or that misbehave: none sees another Gateway's resources, each is
//! limited, and other proxies are not affected.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hyper::StatusCode;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use xds::discovery::{DeltaDiscoveryRequest, Status};
use xds::model::Kind;
use xds_grpc::client::{ConnectError, StreamError};

use super::ControlPlane;
use super::edge_gateway::{EdgeGateway, HOST};
use super::proxy::{AUDIENCE, ControllerTunnel, Proxy, pods, token};
use crate::test::manifests::route;
use crate::test::scope::Scope;

/// Connections that are opened and then stay idle.
const HALF_OPEN: usize = 100;

/// Time until the controller closes them, with a margin.
const HALF_OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Memory that the controller may use beyond its use before, in bytes.
const MEMORY: f64 = 200e6;

pub(in crate::test) async fn proxies_cannot_read_resources_of_another_gateway(
    scope: &Scope,
) -> Result<()> {
    let other = scope.another().await?;
    let outcome = assert_isolation(scope, &other).await;
    other.close().await?;
    outcome
}

async fn assert_isolation(scope: &Scope, other: &Scope) -> Result<()> {
    let (_site, _other_site) = (
        EdgeGateway::open(scope).await?,
        EdgeGateway::open(other).await?,
    );
    let door = ControllerTunnel::open(scope).await?;
    let pod = pods(scope, "edge").await?.pop().context("a proxy")?;
    let other_pod = pods(other, "edge").await?.pop().context("a proxy")?;
    let node = format!("{}/edge/{pod}", scope.namespace);
    let other_node = format!("{}/edge/{other_pod}", other.namespace);
    let own = token(scope, "edge", AUDIENCE, Some(&pod)).await?;
    let others = token(other, "edge", AUDIENCE, Some(&other_pod)).await?;

    let mut proxy = door.connect(&own, &node).await?;
    let keys = proxy.batch().await?;
    let kinds: BTreeSet<Kind> = keys.iter().map(|key| key.kind).collect();
    ensure!(
        kinds.contains(&Kind::Route) && kinds.contains(&Kind::Listener),
        "it is sent {keys:?}"
    );
    let foreign = keys.iter().find(|it| it.key.contains(&other.namespace));
    ensure!(
        foreign.is_none(),
        "it is sent what is another's: {foreign:?}"
    );
    // The other Gateway's resources, by name.
    let ask = DeltaDiscoveryRequest {
        type_url: Kind::Route.type_url().to_owned(),
        resource_names_subscribe: vec![format!(
            "HTTPRoute/{0}/echo-80/0/{0}/edge",
            other.namespace
        )],
        ..DeltaDiscoveryRequest::default()
    };
    proxy.send(ask);
    let responses = proxy.batch().await?;
    ensure!(
        responses
            .iter()
            .all(|it| !it.key.contains(&other.namespace)),
        "it received resources of the other Gateway: {responses:?}"
    );

    for (who, token, node) in [
        ("the other's token", &others, &node),
        ("the other's name", &own, &other_node),
    ] {
        let refused = refused(door.connect(token, node).await, "its own Gateway").await;
        refused.with_context(|| who.to_owned())?;
    }
    tokens_that_are_not_the_proxys(scope, &door, &pod).await
}

async fn tokens_that_are_not_the_proxys(
    scope: &Scope,
    door: &ControllerTunnel,
    pod: &str,
) -> Result<()> {
    let node = format!("{}/edge/{pod}", scope.namespace);
    let stranger = token(scope, "default", AUDIENCE, Some(pod)).await;
    ensure!(
        stranger.is_err(),
        "a token of an account that the pod does not have"
    );
    let for_others = token(scope, "edge", "another", Some(pod)).await?;
    refused(door.connect(&for_others, &node).await, "audience").await?;
    let unbound = token(scope, "edge", AUDIENCE, None).await?;
    refused(door.connect(&unbound, &node).await, "not bound to a pod").await?;
    let own = token(scope, "edge", AUDIENCE, Some(pod)).await?;
    let thief = format!("{}/edge/thief", scope.namespace);
    refused(door.connect(&own, &thief).await, "each pod's own token").await?;

    // A stolen token is rejected once its pod is gone, even if it was reviewed before.
    let stolen = token(scope, "edge", AUDIENCE, Some(pod)).await?;
    let objects = scope.objects("Pod")?;
    objects
        .delete(pod, &DeleteParams::default().grace_period(0))
        .await?;
    scope.wait_until_deleted("Pod", pod).await?;
    let result = door.connect(&stolen, &node).await;
    refused(result, "rejects the token").await
}

/// A mismatch that the token alone does not reveal: the stream opens, and ends before anything is
/// sent.
async fn refused(result: Result<Proxy, ConnectError>, words: &str) -> Result<()> {
    let why = match result {
        Ok(mut proxy) => match proxy.stream.next().await {
            Ok(_) => bail!("it is served"),
            Err(error) => error,
        },
        Err(ConnectError::Refused(why)) => why,
        Err(error) => bail!("it is not refused, but: {error}"),
    };
    let is_denied = matches!(
        why,
        StreamError::Unauthenticated(_) | StreamError::Forbidden(_)
    );
    ensure!(
        is_denied && why.to_string().contains(words),
        "its error is `{why}`, without `{words}`"
    );
    Ok(())
}

pub(in crate::test) async fn the_impact_of_hostile_proxies_is_bounded(scope: &Scope) -> Result<()> {
    let neighbour = scope.another().await?;
    let outcome = assert_resilience(scope, &neighbour).await;
    neighbour.close().await?;
    outcome
}

async fn assert_resilience(scope: &Scope, neighbour: &Scope) -> Result<()> {
    let (_site, neighbour) = (
        EdgeGateway::open(scope).await?,
        EdgeGateway::open(neighbour).await?,
    );
    let control_plane = ControlPlane::of(scope);
    let before = control_plane.memory().await?;
    let door = ControllerTunnel::open(scope).await?;
    let pod = pods(scope, "edge").await?.pop().context("a proxy")?;
    let node = format!("{}/edge/{pod}", scope.namespace);
    let token = token(scope, "edge", AUDIENCE, Some(&pod)).await?;

    let silent = door.connect(&token, &node).await?;
    let half_open = half_open(&door).await?;
    is_served(&neighbour, "/half-open").await?;
    for (attack, expected) in [
        (Attack::Nacks, "too many requests"),
        (Attack::Subscriptions, "too many names"),
        (Attack::Large, "decoded message length too large"),
    ] {
        let proxy = door.connect(&token, &node).await?;
        attack.run(&proxy);
        let path = format!("/{attack:?}");
        is_served(&neighbour, &path).await?;
        let why = proxy.end().await?;
        ensure!(why.contains(expected), "{attack:?} ended with `{why}`");
    }
    // It never acknowledges a response.
    let why = silent.end().await?;
    ensure!(!why.contains("without an error"), "it ended with `{why}`");
    let closed = timeout(HALF_OPEN_TIMEOUT, half_open.join_all()).await;
    ensure!(closed.is_ok(), "silent connections stay open");
    let after = control_plane.memory().await?;
    ensure!(
        after - before < MEMORY,
        "the controller takes {after} bytes, {before} before"
    );
    is_served(&neighbour, "/afterwards").await
}

/// Checks that a change of a Gateway reaches its proxy.
async fn is_served(site: &EdgeGateway<'_>, path: &str) -> Result<()> {
    let mut moved = route("HTTPRoute", 80, "echo");
    moved["metadata"]["name"] = json!("moved");
    moved["spec"]["rules"] = json!([{
        "matches": [{"path": {"value": path}}],
        "filters": [{"type": "RequestRedirect", "requestRedirect": {"hostname": "moved"}}],
    }]);
    site.scope.apply(&[moved]).await?;
    site.until(HOST, path, StatusCode::FOUND).await.map(drop)
}

/// Idle connections, before or during the TLS handshake. Each task ends when its connection is
/// closed.
async fn half_open(door: &ControllerTunnel) -> Result<JoinSet<()>> {
    let mut open = JoinSet::new();
    for number in 0..HALF_OPEN {
        let mut stream = TcpStream::connect(door.controller).await?;
        open.spawn(async move {
            if number % 2 == 0 {
                // An error means that it is closed already.
                let _ = stream.write_all(b"\x16\x03\x01").await;
            }
            let _ = stream.read(&mut [0]).await;
        });
    }
    Ok(open)
}

/// The misbehavior of a proxy.
#[derive(Debug, Clone, Copy)]
enum Attack {
    Nacks,
    Subscriptions,
    Large,
}

impl Attack {
    fn run(self, proxy: &Proxy) {
        let request = || DeltaDiscoveryRequest {
            type_url: Kind::Service.type_url().to_owned(),
            ..DeltaDiscoveryRequest::default()
        };
        match self {
            Self::Nacks => {
                for number in 0..5_000 {
                    let status = Status {
                        code: 3,
                        message: "no".repeat(500),
                        details: Vec::new(),
                    };
                    proxy.send(DeltaDiscoveryRequest {
                        response_nonce: number.to_string(),
                        error_detail: Some(status),
                        ..request()
                    });
                }
            }
            Self::Subscriptions => {
                for number in 0..300 {
                    let names = (0..1_000).map(|name| format!("Service/{number}/{name:0100}"));
                    proxy.send(DeltaDiscoveryRequest {
                        resource_names_subscribe: names.collect(),
                        ..request()
                    });
                }
            }
            Self::Large => proxy.send(DeltaDiscoveryRequest {
                resource_names_subscribe: vec!["x".repeat(64 << 20)],
                ..request()
            }),
        }
    }
}
