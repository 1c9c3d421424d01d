//! A cluster: its name, files and operations.
//!
//! `up` makes namespaces and cgroups and starts a supervisor in each place, which runs components.
//! Everything of a cluster is found by its name alone: files in its folder, processes in its cgroup,
//! network in the namespace of its name. So `down` needs no record that could be missing.

pub(crate) mod address;
pub(crate) mod cgroup;
pub(crate) mod component;
mod configuration;
mod control;
mod down;
pub(crate) mod emulator;
mod forward;
mod network;
pub(crate) mod network_namespace;
mod operate;
mod pki;
pub(crate) mod supervisor;
mod up;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::home::Home;
use crate::packages;
use crate::process;
use network_namespace::NetworkNamespace;

/// Longest name: it is part of network interface names and socket paths, which are limited.
const LONGEST_NAME: usize = 20;

/// A cluster of this machine, whether it is up or not.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    name: String,
    folder: PathBuf,
    logs: PathBuf,
}

impl Cluster {
    pub(crate) fn named(home: &Home, name: &str) -> Result<Self> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
            bail!(
                "'{name}' is not a valid cluster name: use up to {LONGEST_NAME} small letters, digits and hyphens"
            );
        }
        Ok(Self {
            name: name.to_owned(),
            folder: home.clusters().join(name),
            logs: home.logs(name),
        })
    }

    /// Name of its network namespace and cgroup.
    fn mark(&self) -> String {
        format!("e2e-{}", self.name)
    }

    /// The cgroup of processes other than pods.
    fn cgroup_of_components(&self) -> String {
        format!("{}/components", self.mark())
    }

    /// The cgroup of commands that `exec` runs.
    fn cgroup_of_commands(&self) -> String {
        format!("{}/commands", self.mark())
    }

    /// The cgroup that a node's pods are in.
    pub(crate) fn cgroup_of_pods(&self, place: NetworkNamespace) -> String {
        format!("{}/{place}", self.mark())
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.conf")
    }

    /// The folder with links to the programs it was started with.
    fn programs(&self) -> PathBuf {
        self.folder.join("bin")
    }

    pub(crate) fn folder_of(&self, place: NetworkNamespace) -> PathBuf {
        self.folder.join(place.to_string())
    }

    /// The API server's audit log of some users' requests.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.folder_of(NetworkNamespace::Node(0)).join("audit.log")
    }

    pub(crate) fn logs_folder(&self) -> &Path {
        &self.logs
    }

    /// The namespace that clients of the cluster are in.
    pub(crate) fn namespace_file(&self) -> PathBuf {
        Path::new("/run/netns").join(self.mark())
    }

    /// The places of the nodes that the cluster was started with.
    pub(crate) fn nodes(&self) -> Vec<NetworkNamespace> {
        let nodes = (0..=u8::MAX).map(NetworkNamespace::Node);
        nodes
            .take_while(|place| self.folder_of(*place).is_dir())
            .collect()
    }

    /// Whether its first node runs.
    pub(crate) fn is_up(&self) -> bool {
        control::is_there(&self.folder_of(NetworkNamespace::Node(0)))
    }

    fn check_up(&self) -> Result<()> {
        if !self.is_up() {
            bail!(
                "cluster {0} is not up: `e2e --name {0} up` starts it",
                self.name
            );
        }
        Ok(())
    }

    /// Prevents two commands from starting and removing the same cluster at once.
    fn lock(&self) -> Result<File> {
        let clusters = self.folder.parent().unwrap_or(&self.folder);
        fs::create_dir_all(clusters)
            .with_context(|| format!("cannot create {}", clusters.display()))?;
        let path = clusters.join(format!("{}.lock", self.name));
        let file =
            File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => bail!(
                "another e2e is starting or removing cluster {}: wait for it, or use another --name",
                self.name
            ),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }

    /// A command with PATH and KUBECONFIG of the cluster.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = process::command(words);
        command.env("PATH", self.search_path());
        command.env("KUBECONFIG", self.kubeconfig());
        command
    }

    /// Like [`Self::command`], in the network of the cluster's clients.
    fn client_command(&self, words: &[&str]) -> Command {
        let net = format!("--net={}", self.namespace_file().display());
        let mut all = vec!["nsenter", &net, "--"];
        all.extend(words);
        self.command(&all)
    }

    /// Like [`Self::command`], on a node, in its network and mount namespaces.
    fn node_command(&self, place: NetworkNamespace, words: &[&str]) -> Result<Command> {
        let pid = control::supervisor_pid(&self.folder_of(place))?.to_string();
        let mut all = vec!["nsenter", "-t", &pid, "-m", "-n", "-u", "-i", "-p", "--"];
        all.extend(words);
        Ok(self.command(&all))
    }

    fn search_path(&self) -> String {
        format!("{}:{}", self.programs().display(), packages::search_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_cluster_names_are_rejected() {
        let home = Home::of_user().expect("a home");
        for name in ["", "A", "a/b", "..", "a b", "a-very-long-name-of-a-cluster"] {
            assert!(Cluster::named(&home, name).is_err(), "{name:?}");
        }
        assert!(Cluster::named(&home, "pr-42").is_ok());
    }
}
