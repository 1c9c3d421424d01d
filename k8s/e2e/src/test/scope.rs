//! The scope of a test: a namespace of its own, with methods to create objects and to reach pods.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service, ServiceAccount};
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;

use crate::cluster::Cluster;
use crate::image::previous::Previous;
use crate::{image, process};

/// Interval at which conditions are polled.
const POLL: Duration = Duration::from_millis(100);

/// Timeout of anything in the cluster on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Reasons for a container's waiting that do not go away.
const HOPELESS: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
];

/// References of the images that tests use.
#[derive(Debug, Clone)]
pub(super) struct Images {
    pub(super) gateway: String,
    pub(super) controller: String,
    pub(super) echo: String,
    /// Of the commit before, where a test needs them.
    pub(super) previous: Option<Previous>,
}

impl Images {
    /// The images that the environment names, which are loaded already.
    pub(super) fn of_environment() -> Self {
        let named =
            |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        Self {
            gateway: named("E2E_GATEWAY_IMAGE", "localhost/gateway:e2e"),
            controller: named("E2E_CONTROLLER_IMAGE", "localhost/controller:e2e"),
            echo: named("E2E_ECHO_IMAGE", image::ECHO),
            previous: None,
        }
    }

    /// Whether the environment names the image of a program.
    pub(super) fn is_in_environment(program: &str) -> bool {
        std::env::var_os(format!("E2E_{}_IMAGE", program.to_uppercase())).is_some()
    }
}

/// Bytes to and from a pod.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A namespace of a cluster.
#[derive(Clone)]
pub(super) struct Scope {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) images: Images,
    kubeconfig: PathBuf,
    cluster: Option<Cluster>,
}

impl Scope {
    /// Makes a new namespace.
    pub(super) async fn open(
        kubeconfig: PathBuf,
        cluster: Option<Cluster>,
        images: Images,
    ) -> Result<Self> {
        let scope = Self {
            client: client(&kubeconfig).await?,
            namespace: String::new(),
            images,
            kubeconfig,
            cluster,
        };
        scope.another().await
    }

    /// A scope of one more new namespace, which has to be closed too.
    pub(super) async fn another(&self) -> Result<Self> {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"generateName": "e2e-"}}))?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let created = namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .context("cannot make a namespace in the cluster")?;
        let scope = self.within(&created.name_any());
        // Pods are rejected until the account exists.
        let accounts: Api<ServiceAccount> = scope.api();
        scope
            .until("the namespace's service account", async || {
                Ok(accounts.get_opt("default").await?)
            })
            .await?;
        Ok(scope)
    }

    /// A scope of a namespace that exists already.
    pub(super) fn within(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    /// The same scope for another runtime, to which the connections of its client belong.
    pub(super) async fn in_this_runtime(&self) -> Result<Self> {
        let client = client(&self.kubeconfig).await?;
        Ok(Self {
            client,
            ..self.clone()
        })
    }

    /// Removes the namespace in the background.
    pub(super) async fn close(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces
            .delete(&self.namespace, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// The API of a kind in the namespace.
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The e2e cluster that the test runs on; an error for another cluster.
    pub(super) fn ours(&self) -> Result<&Cluster> {
        self.cluster
            .as_ref()
            .context("the test needs a cluster of ours")
    }

    /// Runs kubectl in the namespace.
    pub(super) async fn kubectl(&self, words: &[&str], input: &str) -> Result<String> {
        self.run("kubectl", words, input).await
    }

    /// Runs Helm in the namespace.
    pub(super) async fn helm(&self, words: &[&str], input: &str) -> Result<String> {
        self.run("helm", words, input).await
    }

    /// Runs gwctl in the namespace: the one built beside this program.
    pub(super) async fn gwctl(&self, words: &[&str]) -> Result<String> {
        self.run(&gwctl()?, words, "").await
    }

    /// What `gwctl status` prints, which fails while there are errors.
    pub(super) async fn status(&self) -> Result<String> {
        let mut command = self.command(&gwctl()?);
        command.arg("status");
        let output = spawn_blocking(move || command.output()).await?;
        Ok(String::from_utf8_lossy(&output?.stdout).into_owned())
    }

    async fn run(&self, program: &str, words: &[&str], input: &str) -> Result<String> {
        let mut command = self.command(program);
        command.args(words);
        let input = input.to_owned();
        spawn_blocking(move || process::run_with_input(&mut command, &input)).await?
    }

    /// A program that talks to the cluster, in the namespace.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = match &self.cluster {
            Some(cluster) => cluster.command(&[program]),
            None => process::command(&[program]),
        };
        command.args(["--namespace", &self.namespace]);
        command.env("KUBECONFIG", &self.kubeconfig);
        command
    }

    /// Creates objects, or changes them.
    pub(super) async fn apply(&self, objects: &[Value]) -> Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.kubectl(&["apply", "-f", "-"], &list.to_string())
            .await
            .map(drop)
    }

    /// Waits until `look` returns `Some`; its errors end the wait.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        mut look: impl AsyncFnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(found) = look()
                .await
                .with_context(|| format!("waiting for {what}"))?
            {
                return Ok(found);
            }
            if Instant::now() > deadline {
                bail!("waited {} s for {what}", TIMEOUT.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until a pod is ready. Fails immediately if it cannot become ready.
    pub(super) async fn ready(&self, name: &str) -> Result<Pod> {
        let pods: Api<Pod> = self.api();
        self.until(&format!("pod {name} to be ready"), async || {
            let Some(pod) = pods.get_opt(name).await? else {
                return Ok(None);
            };
            check_hope(&pod)?;
            Ok(is_ready(&pod).then_some(pod))
        })
        .await
    }

    /// The address of a Service for clients in the cluster's network.
    pub(super) async fn service_address(&self, name: &str) -> Result<SocketAddr> {
        let services: Api<Service> = self.api();
        let spec = services
            .get(name)
            .await?
            .spec
            .context("a Service has a spec")?;
        let address = spec.cluster_ip.context("a Service has an address")?;
        let port = spec
            .ports
            .and_then(|ports| ports.first().map(|port| port.port));
        let port = u16::try_from(port.context("a Service has a port")?)?;
        Ok(SocketAddr::new(address.parse()?, port))
    }

    /// A connection to a port of a pod: direct if the pod network is reachable, or else through the
    /// API server.
    pub(super) async fn connect(&self, pod: &Pod, port: u16) -> Result<Box<dyn Stream>> {
        if self.cluster.is_some() {
            let address = SocketAddr::new(address(pod)?.parse()?, port);
            let stream = TcpStream::connect(address)
                .await
                .with_context(|| format!("cannot connect to {} at {address}", pod.name_any()))?;
            return Ok(Box::new(stream));
        }
        self.forward(pod, port).await
    }

    /// A connection to a port of a pod's loopback address.
    pub(super) async fn forward(&self, pod: &Pod, port: u16) -> Result<Box<dyn Stream>> {
        let pods: Api<Pod> = self.api();
        let mut forwarder = pods.portforward(&pod.name_any(), &[port]).await?;
        let stream = forwarder
            .take_stream(port)
            .context("a forwarded port has a stream")?;
        Ok(Box::new(stream))
    }
}

/// A client of the API server, which belongs to the runtime that it is made in.
/// The gwctl that was built beside this program.
fn gwctl() -> Result<String> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let gwctl = own.with_file_name("gwctl");
    if !gwctl.is_file() {
        bail!(
            "there is no {}: run `cargo build -p gwctl`",
            gwctl.display()
        );
    }
    Ok(gwctl.to_string_lossy().into_owned())
}

async fn client(kubeconfig: &Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("cannot read {}", kubeconfig.display()))?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// The address of a pod.
pub(super) fn address(pod: &Pod) -> Result<&str> {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.pod_ip.as_deref())
        .with_context(|| format!("pod {} has no address yet", pod.name_any()))
}

/// Whether a pod's Ready condition is true.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Fails if a container waits for something that will not happen, such as a missing image.
fn check_hope(pod: &Pod) -> Result<()> {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    for status in statuses.into_iter().flatten() {
        let waiting = status
            .state
            .as_ref()
            .and_then(|state| state.waiting.as_ref());
        let Some(reason) = waiting.and_then(|waiting| waiting.reason.as_deref()) else {
            continue;
        };
        if HOPELESS.contains(&reason) {
            let message = waiting.and_then(|waiting| waiting.message.as_deref());
            bail!(
                "container {} of pod {} with image {}: {reason}: {}; `e2e load` brings images to the nodes",
                status.name,
                pod.name_any(),
                status.image,
                message.unwrap_or_default()
            );
        }
    }
    Ok(())
}
