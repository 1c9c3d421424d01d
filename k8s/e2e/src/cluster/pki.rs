//! Certificates and kubeconfigs, all made by kubeadm, which needs no network for them.

use std::fs;

use anyhow::{Context as _, Result};

use super::Cluster;
use super::address;
use super::configuration::write;
use super::network_namespace::NetworkNamespace;
use crate::process;
use crate::programs::KUBERNETES_VERSION;

impl Cluster {
    /// Makes the credentials of the control plane and the administrator.
    pub(super) fn make_credentials(&self) -> Result<()> {
        write(&self.kubeadm_file(), &self.kubeadm_configuration())?;
        self.kubeadm(&["init", "phase", "certs", "all"])?;
        let folder = self.folder.display().to_string();
        for user in ["controller-manager", "scheduler", "super-admin"] {
            self.kubeadm(&[
                "init",
                "phase",
                "kubeconfig",
                user,
                "--kubeconfig-dir",
                &folder,
            ])?;
        }
        fs::rename(self.folder.join("super-admin.conf"), self.kubeconfig())
            .context("kubeadm made no kubeconfig for the administrator")?;
        let proxy = self.kubeadm(&["kubeconfig", "user", "--client-name", "system:kube-proxy"])?;
        write(&self.folder.join("kube-proxy.conf"), &proxy)
    }

    /// Makes the credentials of a node's kubelet.
    pub(super) fn make_node_credentials(&self, place: NetworkNamespace) -> Result<()> {
        let name = format!("system:node:{place}");
        let text = self.kubeadm(&[
            "kubeconfig",
            "user",
            "--client-name",
            &name,
            "--org",
            "system:nodes",
        ])?;
        write(&self.folder_of(place).join("kubelet.conf"), &text)
    }

    fn kubeadm(&self, words: &[&str]) -> Result<String> {
        let mut command = self.command(&["kubeadm"]);
        command.args(words).arg("--config").arg(self.kubeadm_file());
        process::run(&mut command)
    }

    fn kubeadm_file(&self) -> std::path::PathBuf {
        self.folder.join("kubeadm.yaml")
    }

    fn kubeadm_configuration(&self) -> String {
        format!(
            "\
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: {address}, bindPort: 6443}}
nodeRegistration: {{name: {node}, criSocket: 'unix:///run/containerd/containerd.sock'}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: {KUBERNETES_VERSION}
certificatesDir: '{folder}/pki'
networking: {{serviceSubnet: {services}, podSubnet: {pods}}}
",
            address = address::node(0),
            node = NetworkNamespace::Node(0),
            folder = self.folder.display(),
            services = address::SERVICES,
            pods = address::PODS,
        )
    }
}
