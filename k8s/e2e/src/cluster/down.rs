//! Removes a cluster, in any state.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::cgroup::Hierarchies;
use super::network_namespace::NetworkNamespace;
use super::{Cluster, control};
use crate::{packages, process};

impl Cluster {
    /// Removes the cluster and all that is left of it; its logs stay.
    pub(crate) fn down(&self) -> Result<()> {
        packages::check_root()?;
        let _lock = self.lock()?;
        self.remove()
    }

    /// Tries every step, even after one has failed.
    pub(super) fn remove(&self) -> Result<()> {
        let hierarchies = Hierarchies::of_machine()?;
        let steps = [
            self.end_supervisors(),
            hierarchies.remove(&self.mark()),
            self.remove_client_network(),
            self.unmount(),
            self.remove_folder(),
        ];
        let failed: Vec<String> = steps
            .into_iter()
            .filter_map(Result::err)
            .map(|error| format!("{error:#}"))
            .collect();
        if !failed.is_empty() {
            bail!("{}", failed.join("; "));
        }
        let leftovers = self.leftovers(&hierarchies);
        if !leftovers.is_empty() {
            bail!(
                "left over from cluster {}: {}",
                self.name,
                leftovers.join(", ")
            );
        }
        Ok(())
    }

    /// Killing a node's supervisor ends the node, whatever cgroup the supervisor is in.
    fn end_supervisors(&self) -> Result<()> {
        for place in [NetworkNamespace::Client].into_iter().chain(self.nodes()) {
            let Ok(pid) = control::supervisor_pid(&self.folder_of(place)) else {
                continue;
            };
            if let Some(pid) = Pid::from_raw(pid) {
                kill_process(pid, Signal::KILL)
                    .with_context(|| format!("cannot end the supervisor of {place}"))?;
            }
        }
        Ok(())
    }

    /// Mounts are in namespaces that end with their processes. Other processes may have mounted
    /// something among the cluster's files.
    fn unmount(&self) -> Result<()> {
        for path in self.mounts() {
            let mut command = Command::new("umount");
            process::run(command.arg("--lazy").arg(&path))?;
        }
        Ok(())
    }

    fn mounts(&self) -> Vec<PathBuf> {
        let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = text.lines().filter_map(|line| line.split(' ').nth(4));
        let mut found: Vec<PathBuf> = points
            .map(PathBuf::from)
            .filter(|path| path.starts_with(&self.folder))
            .collect();
        // Later mounts hide earlier ones.
        found.reverse();
        found
    }

    fn remove_folder(&self) -> Result<()> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.folder.display()))
            }
            _ => Ok(()),
        }
    }

    /// Describes what is left of the cluster.
    fn leftovers(&self, hierarchies: &Hierarchies) -> Vec<String> {
        let mut leftovers: Vec<String> = Vec::new();
        leftovers.extend(
            hierarchies
                .processes(&self.mark())
                .iter()
                .map(|pid| format!("process {pid}")),
        );
        let folders = hierarchies.folders(&self.mark());
        leftovers.extend(
            folders
                .iter()
                .map(|path| format!("cgroup {}", path.display())),
        );
        leftovers.extend(
            self.mounts()
                .iter()
                .map(|path| format!("mount {}", path.display())),
        );
        for path in [self.namespace_file(), self.folder.clone()] {
            if path.exists() {
                leftovers.push(path.display().to_string());
            }
        }
        leftovers
    }
}
