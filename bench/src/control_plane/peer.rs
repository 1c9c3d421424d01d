//! An implementation: where its controller runs, and which pods are its proxies.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::record::PeerInfo;

/// How long a controller or a proxy may take to start or to end.
const TIMEOUT: Duration = Duration::from_mins(5);

/// An implementation of Gateway API in the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Its GatewayClass, which is its name here.
    pub(crate) class: String,
    /// Namespace of the controller.
    pub(crate) namespace: String,
    /// Deployment of the controller.
    pub(crate) deployment: String,
    /// The label of proxies that has the name of their Gateway.
    pub(crate) proxies: String,
    /// Where the controller listens for proxies.
    pub(crate) xds_port: u16,
}

impl Peer {
    /// One of those that `bench/peers/cluster.sh` installs.
    pub(crate) fn known(class: &str) -> Option<Self> {
        let (namespace, deployment, proxies, xds_port) = match class {
            "gateway" => (
                "gateway-system",
                "gateway",
                "gateway.networking.k8s.io/gateway-name",
                9978,
            ),
            "envoy-gateway" => (
                "envoy-gateway-system",
                "envoy-gateway",
                "gateway.envoyproxy.io/owning-gateway-name",
                18_000,
            ),
            _ => return None,
        };
        Some(Self {
            class: class.to_owned(),
            namespace: namespace.to_owned(),
            deployment: deployment.to_owned(),
            proxies: proxies.to_owned(),
            xds_port,
        })
    }

    /// The parameters of a Gateway for this many proxies.
    pub(crate) fn parameters(&self, namespace: &str, replicas: usize) -> Option<Value> {
        // So that a node of two cores has room for all of them.
        let resources = json!({"requests": {"cpu": "1m", "memory": "16Mi"}});
        let (version, kind, spec) = match self.class.as_str() {
            "gateway" => (
                "gateway-system.io/v1alpha1",
                "GatewayParameters",
                json!({"replicas": replicas, "resources": resources}),
            ),
            "envoy-gateway" => (
                "gateway.envoyproxy.io/v1alpha1",
                "EnvoyProxy",
                json!({"provider": {
                    "type": "Kubernetes",
                    "kubernetes": {"envoyDeployment": {
                        "replicas": replicas,
                        "container": {"resources": resources},
                    }},
                }}),
            ),
            _ => return None,
        };
        Some(json!({
            "apiVersion": version, "kind": kind, "spec": spec,
            "metadata": {"name": "many", "namespace": namespace},
        }))
    }

    fn deployments(&self, cluster: &Cluster) -> Api<Deployment> {
        Api::namespaced(cluster.client.clone(), &self.namespace)
    }

    /// Removes the controller's pods.
    pub(crate) async fn sleep(&self, cluster: &Cluster) -> Result<()> {
        self.scale(cluster, 0).await?;
        cluster
            .until("a controller to end", TIMEOUT, async || {
                Ok(self.controllers(cluster).await?.is_empty().then_some(()))
            })
            .await
    }

    /// Runs one pod of the controller, and waits until it is ready.
    pub(crate) async fn wake(&self, cluster: &Cluster) -> Result<()> {
        self.scale(cluster, 1).await?;
        self.ready(cluster).await
    }

    async fn scale(&self, cluster: &Cluster, replicas: i32) -> Result<()> {
        let deployments = self.deployments(cluster);
        let found = deployments.get_opt(&self.deployment).await?;
        let found = found.with_context(|| {
            let (namespace, name) = (&self.namespace, &self.deployment);
            format!("there is no Deployment {namespace}/{name}: install the implementation first")
        })?;
        if found.spec.replicas == Some(replicas) {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        deployments
            .patch(&self.deployment, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Waits until the controller is ready.
    pub(crate) async fn ready(&self, cluster: &Cluster) -> Result<()> {
        cluster
            .until("the controller to be ready", TIMEOUT, async || {
                let pods = self.controllers(cluster).await?;
                Ok((pods.len() == 1 && pods.iter().all(is_ready)).then_some(()))
            })
            .await
    }

    pub(crate) async fn controllers(&self, cluster: &Cluster) -> Result<Vec<Pod>> {
        let deployment = self.deployments(cluster).get(&self.deployment).await?;
        let labels = deployment
            .spec
            .selector
            .match_labels
            .context("a Deployment selects by labels")?;
        let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &self.namespace);
        let pods = pods
            .list(&ListParams::default().labels(&labels.join(",")))
            .await?;
        Ok(pods.items)
    }

    /// The proxies of a Gateway with this name, in any namespace.
    pub(crate) async fn proxies(&self, cluster: &Cluster, gateway: &str) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::all(cluster.client.clone());
        let label = format!("{}={gateway}", self.proxies);
        let pods = pods.list(&ListParams::default().labels(&label)).await?;
        let live = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
        Ok(pods.items.into_iter().filter(live).collect())
    }

    /// The running images, for the record.
    pub(crate) async fn describe(&self, cluster: &Cluster) -> Result<PeerInfo> {
        let pods = self.controllers(cluster).await?;
        let images = pods
            .iter()
            .filter_map(|pod| pod.spec.as_ref())
            .flat_map(|spec| &spec.containers)
            .filter_map(|container| container.image.clone());
        Ok(PeerInfo {
            name: self.class.clone(),
            images: images.collect(),
        })
    }
}

/// Whether a pod's Ready condition is true, and it is not about to end.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// The identities of pods, which name their cgroups.
pub(crate) fn uids(pods: &[Pod]) -> Vec<String> {
    pods.iter().filter_map(kube::ResourceExt::uid).collect()
}
