//! The system under test: definitions, and a release of the chart, with images of this tree.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::suite::{Channel, Suite};
use crate::cluster::Cluster;
use crate::image::TEST_PROFILE;
use crate::{definitions, home, process};

/// How the proxies talk to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Driver {
    Auto,
    IoUring,
    Epoll,
}

/// The release that is installed in a cluster.
pub(super) struct Installation<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) suite: Suite,
    pub(super) channel: Channel,
    /// Of the suite, with its definitions.
    pub(super) programs: &'a Path,
    pub(super) driver: Driver,
    /// Whether an earlier run installed it.
    pub(super) is_there: bool,
}

/// The class that the controller makes.
pub(super) const CLASS: &str = "gateway";

/// Startup timeout of the controller on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(3);

/// Of the release, after which its Deployment is called.
const RELEASE: &str = "gateway";

const NAMESPACE: &str = "gateway-system";
const PARAMETERS: &str = "conformance";

impl Installation<'_> {
    /// Installs it, or updates what is installed.
    pub(super) fn install(&self) -> Result<()> {
        for folder in self.suite.definitions(self.channel) {
            self.apply_folder(&self.programs.join(folder))?;
        }
        self.apply_folder(&home::repository().join("k8s/crds"))?;
        let established = ["wait", "--for=condition=Established", "crd", "--all"];
        self.kubectl(&[&established[..], &[&timeout_option()]].concat(), "")?;
        for object in [namespace(), self.parameters()] {
            self.kubectl(&["apply", "-f", "-"], &object.to_string())?;
        }
        self.install_release()?;
        let deployment = format!("deployment/{RELEASE}");
        let deployment = [&*deployment, "-n", NAMESPACE];
        if self.is_there {
            self.wait_for_last_run()?;
            // The images may have changed under the same references.
            self.kubectl(&[&["rollout", "restart"], &deployment[..]].concat(), "")?;
        }
        let status = ["rollout", "status", &timeout_option()];
        self.kubectl(&[&status[..], &deployment].concat(), "")?;
        self.wait_for_class()
    }

    fn install_release(&self) -> Result<()> {
        let values = json!({
            "image": {"tag": TEST_PROFILE},
            "gatewayClassParametersRefs": {CLASS: {"name": PARAMETERS, "namespace": NAMESPACE}},
            "inferenceExtension": {"enabled": self.suite == Suite::Inference},
        });
        let chart = home::repository().join("k8s/charts/gateway");
        let chart = chart.to_string_lossy();
        let upgrade = ["helm", "upgrade", "--install", RELEASE, &chart];
        let how = ["--namespace", NAMESPACE, "--values", "-"];
        let mut command = self.cluster.command(&[&upgrade[..], &how].concat());
        process::run_with_input(&mut command, &values.to_string()).map(drop)
    }

    /// Waits until the namespaces of an earlier run are gone: nothing can be created in one that is being
    /// deleted, and suites do not wait.
    fn wait_for_last_run(&self) -> Result<()> {
        let what = "the namespaces of the last run to be deleted";
        process::wait_for(what, TIMEOUT, || {
            let phases = "jsonpath={.items[*].status.phase}";
            let phases = self.kubectl(&["get", "namespaces", "-o", phases], "")?;
            Ok((!phases.contains("Terminating")).then_some(()))
        })
    }

    fn wait_for_class(&self) -> Result<()> {
        let class = format!("gatewayclass/{CLASS}");
        process::wait_for("the GatewayClass to name its features", TIMEOUT, || {
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
            // Dozens of Gateways run at once on a node with few cores.
            "spec": {"driver": driver, "resources": {"requests": {"cpu": "1m", "memory": "16Mi"}}},
        })
    }

    fn apply_folder(&self, folder: &Path) -> Result<()> {
        let words = definitions::apply(folder);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.kubectl(&words, "").map(drop)
    }

    fn kubectl(&self, words: &[&str], input: &str) -> Result<String> {
        let words = [&["kubectl"], words].concat();
        process::run_with_input(&mut self.cluster.command(&words), input)
    }
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    })
}

fn timeout_option() -> String {
    format!("--timeout={}s", TIMEOUT.as_secs())
}
