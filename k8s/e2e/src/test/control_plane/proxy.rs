//! An xDS client that the test controls in place of a proxy.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use xds::delta::{Client, Refusal};
use xds::discovery::DeltaDiscoveryRequest;
use xds::model::{Kind, ResourceKey};
use xds_grpc::client::{ConnectError, Controller, Stream};

use super::NAMESPACE;
use crate::test::scope::Scope;

/// The audience of proxies' tokens.
pub(super) const AUDIENCE: &str = "gateway-system.io/xds";

/// Timeout of a response from the controller.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A tunnel to the controller, whose certificate is not valid for its address.
pub(super) struct ControllerTunnel {
    /// Of the controller's Service.
    pub(super) controller: SocketAddr,
    local: SocketAddr,
    folder: tempfile::TempDir,
}

/// A proxy with an open stream.
pub(super) struct Proxy {
    pub(super) client: Client,
    pub(super) stream: Stream,
}

impl ControllerTunnel {
    /// Opens it. `scope` has a Gateway `edge`, whose proxies know the controller's authorities.
    pub(super) async fn open(scope: &Scope) -> Result<Self> {
        let trusted = scope.object("ConfigMap", "edge").await?;
        let trusted = trusted.context("a ConfigMap")?;
        let trusted = trusted["data"]["ca.crt"].as_str();
        Self::trusting(scope, trusted.context("authorities")?).await
    }

    /// Opens it for proxies that trust these authorities (PEM).
    pub(super) async fn trusting(scope: &Scope, authorities: &str) -> Result<Self> {
        let services: Api<Service> = scope.within(NAMESPACE).api();
        let spec = services.get("gateway").await?.spec.context("a spec")?;
        let ip = spec.cluster_ip.context("an address")?;
        let controller = SocketAddr::new(ip.parse()?, 9978);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let local = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((mut here, _)) = listener.accept().await {
                tokio::spawn(async move {
                    if let Ok(mut there) = TcpStream::connect(controller).await {
                        // An error shows in the stream that it breaks.
                        let _ = copy_bidirectional(&mut here, &mut there).await;
                    }
                });
            }
        });
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("ca"), authorities)?;
        Ok(Self {
            controller,
            local,
            folder,
        })
    }

    /// Connects with a token as the node of this ID.
    pub(super) async fn connect(&self, token: &str, node: &str) -> Result<Proxy, ConnectError> {
        let file = |name: &str| self.folder.path().join(name);
        // Each call has a file of its own, so that calls can run concurrently.
        let path = file(&format!("token-{}", node.replace('/', "-")));
        std::fs::write(&path, token).expect("a folder of our own");
        let address = format!("https://localhost:{}", self.local.port());
        let controller = Controller::new(&address, Some(file("ca")), Some(path));
        let mut client = Client::new(node.to_owned());
        let controller = controller.expect("an address");
        let stream = controller.connect().await?;
        for request in client.connect(stream.report()) {
            stream.send(request);
        }
        Ok(Proxy { client, stream })
    }
}

impl Proxy {
    /// Receives the next response and acknowledges it. Returns the resources in it.
    pub(super) async fn batch(&mut self) -> Result<Vec<ResourceKey>> {
        loop {
            let response = timeout(TIMEOUT, self.stream.next()).await??;
            let response = response.context("the stream ended")?;
            let Some(received) = self.client.receive(response)? else {
                continue;
            };
            // Resources that do not exist or belong to another Gateway are sent as removed.
            let present = received.changes.iter().filter(|(_, it)| it.is_some());
            let keys = present.map(|(key, _)| key.clone()).collect();
            for answer in self.client.acknowledge(received, Vec::new()) {
                self.stream.send(answer);
            }
            return Ok(keys);
        }
    }

    /// Receives the next response and refuses the resources of a kind in it.
    pub(super) async fn refuse(&mut self, kind: Kind, text: &str) -> Result<()> {
        let received = loop {
            let response = timeout(TIMEOUT, self.stream.next()).await??;
            let response = response.context("the stream ended")?;
            if let Some(received) = self.client.receive(response)? {
                break received;
            }
        };
        let keys = received.changes.iter().map(|(key, _)| key);
        let refused = keys.filter(|key| key.kind == kind).map(|key| Refusal {
            key: key.clone(),
            text: text.to_owned(),
        });
        let refused: Vec<_> = refused.collect();
        ensure!(!refused.is_empty(), "there is no {kind:?} in the response");
        for answer in self.client.acknowledge(received, refused) {
            self.stream.send(answer);
        }
        Ok(())
    }

    /// Receives without acknowledging until the stream ends. Returns why it ended.
    pub(super) async fn end(mut self) -> Result<String> {
        loop {
            match timeout(TIMEOUT, self.stream.next()).await? {
                Ok(Some(_)) => {}
                Ok(None) => return Ok("it ended without an error".to_owned()),
                Err(error) => return Ok(error.to_string()),
            }
        }
    }

    pub(super) fn send(&self, request: DeltaDiscoveryRequest) {
        self.stream.send(request);
    }
}

/// The names of a Gateway's pods.
pub(super) async fn pods(scope: &Scope, gateway: &str) -> Result<Vec<String>> {
    let pods: Api<Pod> = scope.api();
    let label = format!("gateway.networking.k8s.io/gateway-name={gateway}");
    let pods = pods.list(&ListParams::default().labels(&label)).await?;
    let there = pods
        .iter()
        .filter(|it| it.metadata.deletion_timestamp.is_none());
    Ok(there.map(ResourceExt::name_any).collect())
}

/// A token of a service account, for this audience and bound to this pod.
pub(super) async fn token(
    scope: &Scope,
    account: &str,
    audience: &str,
    pod: Option<&str>,
) -> Result<String> {
    let mut words = vec!["create", "token", account, "--audience", audience];
    if let Some(pod) = pod {
        words.extend(["--bound-object-kind", "Pod", "--bound-object-name", pod]);
    }
    Ok(scope.kubectl(&words, "").await?.trim().to_owned())
}
