//! What a suite tests: definitions, and the controller from the plain manifests, with images of this
//! tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::{home, process};

/// How the proxies talk to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Driver {
    Auto,
    IoUring,
    Epoll,
}

/// What is installed in a cluster.
pub(super) struct Installation<'a> {
    pub(super) cluster: &'a Cluster,
    /// The folder of Gateway API's definitions.
    pub(super) definitions: PathBuf,
    /// References of images.
    pub(super) gateway: &'a str,
    pub(super) controller: &'a str,
    pub(super) driver: Driver,
    /// Whether an earlier run has installed it.
    pub(super) is_there: bool,
}

/// The class that the controller makes.
pub(super) const CLASS: &str = "gateway";

/// How long the controller has to come up on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

const NAMESPACE: &str = "gateway-system";
const PARAMETERS: &str = "conformance";

impl Installation<'_> {
    /// Installs it, over what is there.
    pub(super) fn install(&self) -> Result<()> {
        self.apply_folder(&self.definitions)?;
        self.apply_folder(&home::repository().join("k8s/crds"))?;
        let established = ["wait", "--for=condition=Established", "crd", "--all"];
        self.kubectl(&[&established[..], &[&patience()]].concat(), "")?;
        self.kubectl(&["apply", "-f", "-"], &self.manifest()?)?;
        self.kubectl(&["apply", "-f", "-"], &self.parameters().to_string())?;
        let deployment = ["deployment/controller", "-n", NAMESPACE];
        if self.is_there {
            // The references of images stay when the images change.
            self.kubectl(&[&["rollout", "restart"], &deployment[..]].concat(), "")?;
        }
        let status = ["rollout", "status", &patience()];
        self.kubectl(&[&status[..], &deployment].concat(), "")?;
        self.wait_for_class()
    }

    fn manifest(&self) -> Result<String> {
        let file = home::repository().join("k8s/install/controller.yaml");
        let mut manifest =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let refs = json!({CLASS: {"name": PARAMETERS, "namespace": NAMESPACE}});
        let arguments = format!("args: [run, '--gateway-class-parameters-refs={refs}']");
        for (from, to) in [
            ("controller:latest", self.controller),
            ("gateway:latest", self.gateway),
            ("args: [run]", &arguments),
        ] {
            ensure!(
                manifest.contains(from),
                "{} has no `{from}`",
                file.display()
            );
            manifest = manifest.replace(from, to);
        }
        Ok(manifest)
    }

    fn wait_for_class(&self) -> Result<()> {
        let class = format!("gatewayclass/{CLASS}");
        process::wait_for("the GatewayClass to name its features", PATIENCE, || {
            let path = "jsonpath={.status.supportedFeatures[*].name}";
            let features = self.kubectl(&["get", &class, "-o", path], "");
            Ok(features.ok().filter(|features| !features.is_empty()))
        })
        .map(drop)
    }

    fn parameters(&self) -> Value {
        let driver = match self.driver {
            Driver::Auto => "Auto",
            Driver::IoUring => "IoUring",
            Driver::Epoll => "Epoll",
        };
        json!({
            "apiVersion": "gateway-system.io/v1alpha1", "kind": "GatewayParameters",
            "metadata": {"name": PARAMETERS, "namespace": NAMESPACE},
            // Dozens of Gateways run at once on a node of few cores, which all of them share.
            "spec": {"driver": driver, "resources": {"requests": {"cpu": "1m", "memory": "16Mi"}}},
        })
    }

    fn apply_folder(&self, folder: &Path) -> Result<()> {
        let path = folder.to_string_lossy();
        let has_list = folder.join("kustomization.yaml").is_file();
        let flag = if has_list { "-k" } else { "-f" };
        self.kubectl(&["apply", "--server-side", flag, &path], "")
            .map(drop)
    }

    fn kubectl(&self, words: &[&str], input: &str) -> Result<String> {
        let words = [&["kubectl"], words].concat();
        process::run_with_input(&mut self.cluster.command(&words), input)
    }
}

fn patience() -> String {
    format!("--timeout={}s", PATIENCE.as_secs())
}
