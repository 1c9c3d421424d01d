//! The controller on a cluster, installed as described in `k8s/install`, once for all tests that
//! need it.
//!
//! `site` is what most tests begin with, a Gateway that serves; `proxy` is one that a test plays.
//! The tests are grouped by subject: `life` and `kinds` (what becomes of each kind of object that
//! changes or goes), `features`, `external_auth`, `answers`, `error_pages` and `x_backends` (what users use and no
//! conformance suite tests), `live_traffic` (what clients notice of failures and changes), `sessions`
//! (what they notice of new keys),
//! `access` (who may come in), `precedence` (what tenants cannot lift of it), `tenancy` (proxies with a false identity), `hostile` (a tenant that does its worst), `permissions` (of the
//! controller), `bad_input`, `mistakes` (a catalogue), `crowds` (a thousand mistakes), `idp` (users of an identity provider); `long` are those that take minutes.

pub(super) mod access;
pub(super) mod answers;
pub(super) mod autoscaling;
pub(super) mod bad_input;
pub(super) mod crowds;
mod edge_gateway;
pub(super) mod endpoints;
pub(super) mod error_pages;
pub(super) mod external_auth;
pub(super) mod features;
mod haproxy;
pub(super) mod hostile;
pub(super) mod idp;
pub(super) mod inference;
pub(super) mod infrastructure;
pub(super) mod kinds;
pub(super) mod life;
pub(super) mod live_traffic;
pub(super) mod long;
pub(super) mod mistakes;
pub(super) mod permissions;
pub(super) mod precedence;
mod proxy;
mod random;
pub(super) mod sessions;
pub(super) mod tenancy;
pub(super) mod x_backends;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::http;
use super::scope::Scope;
use crate::{definitions, home};

pub(super) const NAMESPACE: &str = "gateway-system";

/// The Secret of the xDS server's certificate authority.
const AUTHORITY: &str = "gateway-xds-ca";

/// Modules and their folders of CRDs, which are installed.
const FOREIGN_CRDS: [(&str, &str); 2] = [
    ("sigs.k8s.io/gateway-api@v1.7.0", "config/crd/experimental"),
    (
        "sigs.k8s.io/gateway-api-inference-extension@v1.6.0",
        "config/crd/bases",
    ),
];

pub(super) struct ControlPlane {
    scope: Scope,
    /// Whether it was installed before the tests.
    was_there: bool,
}

impl ControlPlane {
    /// Installs the CRDs and the controller, and waits until it is ready.
    pub(super) async fn install(scope: &Scope, crds: &[PathBuf]) -> Result<Self> {
        let namespaces: Api<Namespace> = Api::all(scope.client.clone());
        let found = namespaces.get_opt(NAMESPACE).await?;
        let is_ending = found
            .as_ref()
            .is_some_and(|it| it.metadata.deletion_timestamp.is_some());
        if is_ending {
            // Left by the previous run.
            scope.wait_until_deleted("Namespace", NAMESPACE).await?;
        }
        let was_there = found.is_some() && !is_ending;
        let own = home::repository().join("k8s/crds");
        for folder in crds.iter().chain([&own]) {
            let words = definitions::apply(folder);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            scope.kubectl(&words, "").await?;
        }
        let folder = home::repository().join("k8s/install");
        let namespace = folder.join("namespace.yaml");
        let apply = ["apply", "-f", &namespace.to_string_lossy()];
        scope.kubectl(&apply, "").await?;
        let render = ["kustomize", &folder.to_string_lossy()];
        let manifest = scope.kubectl(&render, "").await?;
        let manifest = manifest
            .replace("localhost/controller:e2e", &scope.images.controller)
            .replace("localhost/gateway:e2e", &scope.images.gateway);
        let control_plane = Self {
            scope: scope.within(NAMESPACE),
            was_there,
        };
        control_plane
            .scope
            .kubectl(&["apply", "-f", "-"], &manifest)
            .await?;
        control_plane.rolled_out().await?;
        Ok(control_plane)
    }

    /// Removes it if the tests installed it. The CRDs stay, with the objects that others created.
    pub(super) async fn remove(&self) -> Result<()> {
        if self.was_there {
            return Ok(());
        }
        let folder = home::repository().join("k8s/install");
        let files = ["namespace.yaml", "controller.yaml"].map(|name| folder.join(name));
        let [namespace, controller] = files.each_ref().map(|it| it.to_string_lossy());
        let delete = [
            "delete",
            "--wait=false",
            "-f",
            &*controller,
            "-f",
            &*namespace,
        ];
        self.scope.kubectl(&delete, "").await.map(drop)
    }

    /// The one that is installed.
    fn of(scope: &Scope) -> Self {
        Self {
            scope: scope.within(NAMESPACE),
            was_there: true,
        }
    }

    /// Waits until its Deployment is rolled out and its pods are ready.
    async fn rolled_out(&self) -> Result<()> {
        let status = ["rollout", "status", "deployment/gateway", "--timeout=120s"];
        self.scope.kubectl(&status, "").await.map(drop)
    }

    /// Scales to this many replicas, and waits until they are ready and all others gone.
    async fn scale(&self, replicas: usize) -> Result<()> {
        let count = format!("--replicas={replicas}");
        self.scope
            .kubectl(&["scale", "deployment/gateway", &count], "")
            .await?;
        self.rolled_out().await?;
        self.scope
            .until("the other replicas to be gone", async || {
                Ok((self.pods().await?.len() == replicas).then_some(()))
            })
            .await
    }

    /// Replaces its pods by new ones, and waits until the former ones are gone.
    async fn restart(&self) -> Result<()> {
        let replicas = self.pods().await?.len();
        let words = ["rollout", "restart", "deployment/gateway"];
        self.scope.kubectl(&words, "").await?;
        self.scale(replicas).await
    }

    /// Puts another certificate authority of the xDS server into its Secret, which is returned.
    async fn set_authority(&self, certificate: &str, key: &str) -> Result<DynamicObject> {
        let mut secret = self.authority().await?;
        secret.data["data"] = Value::Null;
        secret.data["stringData"] = json!({"tls.crt": certificate, "tls.key": key});
        let secrets = self.scope.objects("Secret")?;
        let params = PostParams::default();
        Ok(secrets.replace(AUTHORITY, &params, &secret).await?)
    }

    /// The Secret of the certificate authority.
    async fn authority(&self) -> Result<DynamicObject> {
        Ok(self.scope.objects("Secret")?.get(AUTHORITY).await?)
    }

    /// Sets or removes environment variables, and waits for the rollout.
    async fn set(&self, variables: &[(&str, Option<&str>)]) -> Result<()> {
        let words = variables.iter().map(|(name, value)| match value {
            Some(value) => format!("{name}={value}"),
            None => format!("{name}-"),
        });
        let words: Vec<String> = words.collect();
        let mut all = vec!["set", "env", "deployment/gateway"];
        all.extend(words.iter().map(String::as_str));
        self.scope.kubectl(&all, "").await?;
        self.rolled_out().await
    }

    /// Pins it to a node, or to none.
    async fn pin(&self, node: Option<&str>) -> Result<()> {
        let patch = json!({"spec": {"template": {"spec": {"nodeName": node}}}}).to_string();
        let words = ["patch", "deployment/gateway", "--patch", &patch];
        self.scope.kubectl(&words, "").await?;
        self.rolled_out().await
    }

    /// The names of its pods.
    async fn pods(&self) -> Result<Vec<String>> {
        let pods: Api<Pod> = self.scope.api();
        let ours = ListParams::default().labels("app.kubernetes.io/name=controller");
        let pods = pods.list(&ours).await?;
        Ok(pods.iter().map(ResourceExt::name_any).collect())
    }

    /// The pod that holds the Lease.
    async fn leader(&self) -> Result<String> {
        let lease = self.scope.object("Lease", "gateway-controller").await?;
        let lease = lease.context("there is no Lease")?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let pod = holder.rsplit_once('_').context("nobody holds the Lease")?.0;
        Ok(pod.to_owned())
    }

    /// Resident memory of one replica in bytes.
    async fn memory(&self) -> Result<f64> {
        let pod = self.pods().await?.pop().context("a replica")?;
        let pods: Api<Pod> = self.scope.api();
        let pod = pods.get(&pod).await?;
        let admin = self.scope.forward(&pod, 15_000).await?;
        let memory = http::get(admin, "localhost", "/memory").await?;
        let memory: Value = serde_json::from_str(&memory)?;
        memory["process"]["rss"]
            .as_f64()
            .context("memory of the process")
    }

    /// Deletes a pod without a grace period, as if its node had crashed.
    async fn kill(&self, pod: &str) -> Result<()> {
        let words = ["delete", "pod", pod, "--force", "--grace-period=0"];
        self.scope.kubectl(&words, "").await.map(drop)
    }
}

/// The folders of the CRDs that the controller reads, but ours.
pub(super) fn foreign_crds() -> Result<Vec<PathBuf>> {
    let folders = FOREIGN_CRDS.iter();
    folders
        .map(|(module, folder)| definitions::of_module(module, folder))
        .collect()
}
