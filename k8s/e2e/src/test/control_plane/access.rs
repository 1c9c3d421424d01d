//! Who may come in, on a cluster: which address of a client the policies see behind a load balancer, and limits
//! of clients while their policy changes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::edge_gateway::{EdgeGateway, HOST, TIMEOUT, send_get};
use super::haproxy::HaProxy;
use super::kinds::own;
use crate::test::http::{Connection, HttpResponse};
use crate::test::manifests::{gateway, listener};
use crate::test::scope::Scope;

/// With `externalTrafficPolicy: Cluster` a node translates the source of packets, and policies see its address;
/// with `Local` they see the client's.
pub(in crate::test) async fn networks_see_the_address_that_a_load_balancer_passes(
    scope: &Scope,
) -> Result<()> {
    let site = open(scope, "Local").await?;
    let client = own_address(site.address).await?;
    scope
        .apply(&[networks(&json!({"deny": [host_of(client)]}))])
        .await?;
    site.until(HOST, "/", StatusCode::FORBIDDEN).await?;
    scope.apply(&[parameters("Cluster")]).await?;
    site.until(HOST, "/", StatusCode::OK).await?;
    scope
        .apply(&[networks(&json!({"allow": [host_of(client)]}))])
        .await?;
    site.until(HOST, "/", StatusCode::FORBIDDEN).await?;
    scope.apply(&[parameters("Local")]).await?;
    site.until(HOST, "/", StatusCode::OK).await.map(drop)
}

/// HAProxy passes the addresses of its clients in a PROXY header of version 2.
pub(in crate::test) async fn networks_see_the_address_that_haproxy_passes(
    scope: &Scope,
) -> Result<()> {
    let site = open(scope, "Local").await?;
    let (denied, other) = (Ipv4Addr::new(127, 0, 0, 5), Ipv4Addr::new(127, 0, 0, 6));
    let server = format!("server gateway {} send-proxy-v2", site.address);
    let haproxy = HaProxy::start(scope, &server).await?;
    let policy = json!({
        "targetRefs": [edge()],
        "proxyProtocol": {"in": "Required"},
        "networks": {"deny": [host_of(denied.into())]},
    });
    scope
        .apply(&[own("TrafficPolicy", "access", &policy)])
        .await?;
    let expects = async |from: Ipv4Addr, status: StatusCode| {
        let what = format!("status {status} for a client at {from}");
        scope
            .until(&what, async || {
                let answer = get(haproxy.address, from).await.ok();
                Ok(answer.filter(|it| it.status == status))
            })
            .await
    };
    expects(denied, StatusCode::FORBIDDEN).await?;
    let answer = expects(other, StatusCode::OK).await?;
    let echoed: Value = serde_json::from_str(&answer.body)?;
    let said = echoed["headers"]["X-Forwarded-For"][0].as_str();
    ensure!(
        said == Some(&other.to_string()),
        "the backend was told that the client is {said:?}"
    );
    ensure!(
        send_get(site.address, HOST, "/").await.is_err(),
        "a connection without the header was served"
    );
    Ok(())
}

/// A client that has used up its requests gets no more because the policy changes.
pub(in crate::test) async fn limits_of_clients_outlive_changes_of_their_policy(
    scope: &Scope,
) -> Result<()> {
    const REQUESTS: usize = 5;
    let site = open(scope, "Local").await?;
    let limited = |headers: &str| {
        let spec = json!({
            "targetRefs": [edge()],
            "rateLimit": {
                "rules": [{"name": "each-client", "key": [{"clientAddress": {}}], "requests": REQUESTS, "per": "Day"}],
                "headers": headers,
            },
        });
        own("TrafficPolicy", "access", &spec)
    };
    scope.apply(&[limited("Disabled")]).await?;
    let refused = site.until(HOST, "/", StatusCode::TOO_MANY_REQUESTS).await?;
    let wait: u32 = refused.header("retry-after").parse()?;
    ensure!((1..=86_400).contains(&wait), "Retry-After is {wait}");
    scope.apply(&[limited("Legacy")]).await?;
    for _ in 0..3 {
        scope
            .until("the changed policy to be in effect", async || {
                let answer = send_get(site.address, HOST, "/").await?;
                ensure!(
                    answer.status == StatusCode::TOO_MANY_REQUESTS,
                    "a change of the policy gave its client more requests: {answer:?}"
                );
                let is_changed = answer.header("x-ratelimit-limit") == REQUESTS.to_string();
                Ok(is_changed.then_some(()))
            })
            .await?;
    }
    Ok(())
}

/// A Gateway whose load balancer has this policy for traffic from outside.
async fn open<'a>(scope: &'a Scope, traffic_policy: &str) -> Result<EdgeGateway<'a>> {
    scope.apply(&[parameters(traffic_policy)]).await?;
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["infrastructure"] = json!({"parametersRef": {
        "group": "gateway-system.io", "kind": "GatewayParameters", "name": "edge"}});
    EdgeGateway::open_with(scope, edge, 1).await
}

fn parameters(traffic_policy: &str) -> Value {
    let service = json!({"spec": {"externalTrafficPolicy": traffic_policy}});
    own(
        "GatewayParameters",
        "edge",
        &json!({"overlays": {"service": service}}),
    )
}

fn networks(networks: &Value) -> Value {
    let spec = json!({"targetRefs": [edge()], "networks": networks});
    own("TrafficPolicy", "access", &spec)
}

fn edge() -> Value {
    json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge"})
}

/// The network of one address.
fn host_of(address: IpAddr) -> String {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    format!("{address}/{bits}")
}

/// The address that connections of the tests come from.
async fn own_address(to: SocketAddr) -> Result<IpAddr> {
    let stream = TcpStream::connect(to).await.context("cannot connect")?;
    Ok(stream.local_addr()?.ip())
}

/// A request of a client at this address.
async fn get(server: SocketAddr, from: Ipv4Addr) -> Result<HttpResponse> {
    let exchange = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from.into(), 0))?;
        let stream = socket.connect(server).await?;
        Connection::over(Box::new(stream))
            .await?
            .get(HOST, "/")
            .await
    };
    timeout(TIMEOUT, exchange)
        .await
        .context("no answer in time")?
}
