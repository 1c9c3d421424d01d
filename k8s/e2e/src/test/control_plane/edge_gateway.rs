//! A Gateway that serves a route to an echo backend, in the namespace of a test.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::test::http::{Connection, HttpResponse, request};
use crate::test::manifests::{EchoProtocol, echo, gateway, listener, route};
use crate::test::objects::expected_condition;
use crate::test::scope::Scope;

/// The host of requests.
pub(super) const HOST: &str = "shop.example.com";

/// Of one request: where a connection is not answered, the next one may be.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// A Gateway `edge` with an HTTP listener on port 80, a route of everything and Service `echo`.
pub(super) struct EdgeGateway<'a> {
    pub(super) scope: &'a Scope,
    pub(super) address: SocketAddr,
}

impl<'a> EdgeGateway<'a> {
    /// Creates it, and waits until it serves.
    pub(super) async fn open(scope: &'a Scope) -> Result<Self> {
        Self::open_with(scope, gateway(&[listener(80, "HTTP")]), 1).await
    }

    /// Like [`Self::open`], with another Gateway `edge` and this many backend pods.
    pub(super) async fn open_with(scope: &'a Scope, edge: Value, pods: u32) -> Result<Self> {
        let mut objects = backend(scope, "echo", EchoProtocol::Http, pods);
        objects.extend([edge, route("HTTPRoute", 80, "echo")]);
        scope.apply(&objects).await?;
        let address = address(scope, "edge", 80).await?;
        let site = Self { scope, address };
        site.until(HOST, "/", StatusCode::OK).await?;
        Ok(site)
    }

    /// Waits until a request gets this status.
    pub(super) async fn until(
        &self,
        host: &str,
        path: &str,
        status: StatusCode,
    ) -> Result<HttpResponse> {
        until(self.scope, self.address, (host, path), status).await
    }

    /// Waits until a pod of this Deployment responds.
    pub(super) async fn until_answered_by(&self, deployment: &str) -> Result<()> {
        let what = format!("an answer of {deployment}");
        self.scope
            .until(&what, async || {
                let answer = send_get(self.address, HOST, "/").await;
                let pod = answer.ok().and_then(|it| pod_of(&it));
                let is_it = pod.is_some_and(|pod| pod.starts_with(&format!("{deployment}-")));
                Ok(is_it.then_some(()))
            })
            .await
    }
}

/// Waits until a request to an address gets this status.
pub(super) async fn until(
    scope: &Scope,
    address: SocketAddr,
    (host, path): (&str, &str),
    status: StatusCode,
) -> Result<HttpResponse> {
    let mut last = String::new();
    let what = format!("http://{host}{path} at {address} to answer {status}");
    let found = scope
        .until(&what, async || {
            let answer = send_get(address, host, path).await;
            last = match &answer {
                Ok(answer) => format!("{answer:?}"),
                Err(error) => format!("{error:#}"),
            };
            Ok(answer.ok().filter(|it| it.status == status))
        })
        .await;
    found.with_context(|| format!("last came: {last}"))
}

/// One request on a connection of its own.
pub(super) async fn send_get(address: SocketAddr, host: &str, path: &str) -> Result<HttpResponse> {
    send(address, request(host, path, &[])?).await
}

/// The same, of a request with headers of its own.
pub(super) async fn send(
    address: SocketAddr,
    request: Request<Full<Bytes>>,
) -> Result<HttpResponse> {
    let exchange = async {
        let stream = TcpStream::connect(address)
            .await
            .context("cannot connect")?;
        Connection::over(Box::new(stream))
            .await?
            .send(request)
            .await
    };
    timeout(TIMEOUT, exchange)
        .await
        .context("no answer in time")?
}

/// The pod that an echo backend reports.
pub(super) fn pod_of(answer: &HttpResponse) -> Option<String> {
    let echoed: Value = serde_json::from_str(&answer.body).ok()?;
    echoed["pod"].as_str().map(str::to_owned)
}

/// Waits until a Gateway serves, and returns its address.
pub(super) async fn address(scope: &Scope, gateway: &str, port: u16) -> Result<SocketAddr> {
    let works = expected_condition("Programmed", "True", "Programmed");
    scope.condition("Gateway", gateway, works).await?;
    let object = scope.object("Gateway", gateway).await?;
    let object = object.context("the Gateway is gone")?;
    let ip = object["status"]["addresses"][0]["value"].as_str();
    let ip = ip.context("a Gateway that works has an address")?;
    Ok(SocketAddr::new(ip.parse()?, port))
}

/// A Deployment of echo pods, and a Service that routes port 80 to them.
pub(super) fn backend(scope: &Scope, name: &str, speech: EchoProtocol, pods: u32) -> Vec<Value> {
    let pod = echo(&scope.images, name, speech);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": pods, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": pod["metadata"], "spec": pod["spec"]},
        },
    });
    vec![deployment, service(name, name, speech)]
}

/// A Service that leads from port 80 to the pods of a Deployment.
pub(super) fn service(name: &str, pods: &str, speech: EchoProtocol) -> Value {
    let (port, protocol, app) = match speech {
        EchoProtocol::Http | EchoProtocol::Tcp => (3000, "TCP", None),
        EchoProtocol::Grpc => (3000, "TCP", Some("kubernetes.io/h2c")),
        EchoProtocol::Udp => (8080, "UDP", None),
    };
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {
            "selector": {"app": pods},
            "ports": [{"name": "main", "port": 80, "targetPort": port, "protocol": protocol,
                       "appProtocol": app}],
        },
    })
}
