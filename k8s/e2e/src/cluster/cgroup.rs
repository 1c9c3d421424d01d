//! The cgroups of a cluster. Every process of the cluster is in one of them, so that `down` finds
//! all of them, even after a crash.
//!
//! In version 1 each hierarchy has its own tree of the same names; in version 2 there is one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// The controllers that kubelet requires.
const CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// How long processes have to end after SIGKILL: some write back what is in memory first.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);

/// The hierarchies of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Hierarchies {
    roots: Vec<PathBuf>,
    unified: bool,
}

impl Hierarchies {
    pub(crate) fn of_machine() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")
            .context("cannot read /proc/self/mountinfo")?;
        // A later mount may hide the hierarchy.
        let is_there = |found: &Self| {
            found
                .roots
                .iter()
                .all(|root| root.join("cgroup.procs").exists())
        };
        let Some(found) = Self::parse(&mounts).filter(is_there) else {
            bail!(
                "the machine has no cgroup controllers ({}) that pods can be put under: mount cgroup2 at /sys/fs/cgroup",
                CONTROLLERS.join(", ")
            );
        };
        Ok(found)
    }

    /// From the lines of `mountinfo`: version 1 where a controller that is needed is mounted so.
    fn parse(mounts: &str) -> Option<Self> {
        let mut roots = Vec::new();
        let mut unified = None;
        let mut controllers = String::new();
        for line in mounts.lines() {
            let (place, source) = line.split_once(" - ")?;
            let path = PathBuf::from(place.split(' ').nth(4)?);
            let mut source = source.split(' ');
            match source.next()? {
                "cgroup" if !roots.contains(&path) => {
                    controllers.push(',');
                    controllers.push_str(source.next_back()?);
                    roots.push(path);
                }
                "cgroup2" => unified = Some(path),
                _ => {}
            }
        }
        let has = |name: &str| controllers.split(',').any(|controller| controller == name);
        if CONTROLLERS.into_iter().all(has) {
            // It has no controllers, but container runtimes make cgroups there as well.
            roots.extend(unified);
            return Some(Self {
                roots,
                unified: false,
            });
        }
        let root = unified.filter(|_| roots.is_empty())?;
        Some(Self {
            roots: vec![root],
            unified: true,
        })
    }

    /// Makes a cgroup and its parents, with every controller enabled.
    pub(crate) fn create(&self, path: &str) -> Result<()> {
        for root in &self.roots {
            let mut folder = root.clone();
            for part in Path::new(path) {
                if self.unified {
                    delegate(&folder)?;
                }
                folder.push(part);
                fs::create_dir_all(&folder)
                    .with_context(|| format!("cannot create cgroup {}", folder.display()))?;
                inherit_cpuset(&folder)?;
            }
        }
        Ok(())
    }

    /// Lowers the CPU weight of a cgroup to an eighth of its siblings'.
    pub(crate) fn lower_cpu_weight(&self, path: &str) -> Result<()> {
        // The defaults are 1 024 in version 1, and 100 in version 2.
        for (name, share) in [("cpu.shares", "128"), ("cpu.weight", "12")] {
            let files = self.roots.iter().map(|root| root.join(path).join(name));
            for file in files.filter(|file| file.exists()) {
                fs::write(&file, share)
                    .with_context(|| format!("cannot write {}", file.display()))?;
            }
        }
        Ok(())
    }

    /// Moves this process into a cgroup. Its children inherit that.
    pub(crate) fn enter(&self, path: &str) -> Result<()> {
        for root in &self.roots {
            let file = root.join(path).join("cgroup.procs");
            fs::write(&file, "0").with_context(|| format!("cannot enter {}", file.display()))?;
        }
        Ok(())
    }

    /// Kills all processes in a cgroup and its descendants, and removes them. No error if there is
    /// none.
    pub(crate) fn remove(&self, path: &str) -> Result<()> {
        let deadline = Instant::now() + KILL_TIMEOUT;
        // A process that was just being started may enter, or make a cgroup, after the others were killed;
        // and the kernel still cleans up after one that has exited.
        loop {
            let removed = self.try_to_remove(path);
            if removed.is_ok() || Instant::now() > deadline {
                return removed;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the processes in a cgroup and its descendants, or removes them if there are none.
    fn try_to_remove(&self, path: &str) -> Result<()> {
        let remaining = self.processes(path);
        for pid in remaining.iter().copied().filter_map(Pid::from_raw) {
            // It may have exited just now.
            let _ = kill_process(pid, Signal::KILL);
        }
        if !remaining.is_empty() {
            bail!("processes {remaining:?} of {path} do not exit, although they were killed");
        }
        let mut roots = self.roots.iter();
        roots.try_for_each(|root| remove_tree(&root.join(path)))
    }

    /// The processes in a cgroup and its descendants.
    pub(crate) fn processes(&self, path: &str) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        for root in &self.roots {
            collect_processes(&root.join(path), &mut found);
        }
        found
    }

    /// The folders of a cgroup that exist.
    pub(crate) fn folders(&self, path: &str) -> Vec<PathBuf> {
        let folders = self.roots.iter().map(|root| root.join(path));
        folders.filter(|folder| folder.exists()).collect()
    }
}

/// Version 2: a cgroup's children have only the controllers that it delegates to them.
fn delegate(folder: &Path) -> Result<()> {
    let file = folder.join("cgroup.subtree_control");
    for controller in CONTROLLERS.into_iter().chain(["io"]) {
        let written = fs::write(&file, format!("+{controller}"));
        if controller != "io" {
            written.with_context(|| {
                format!(
                    "cannot hand {controller} down in {}: e2e must not run in a cgroup of its own namespace that has processes",
                    file.display()
                )
            })?;
        }
    }
    Ok(())
}

/// Version 1: no process can enter a cgroup without CPUs and memory nodes.
fn inherit_cpuset(folder: &Path) -> Result<()> {
    for name in ["cpuset.cpus", "cpuset.mems"] {
        let file = folder.join(name);
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let above = folder.parent().map(|parent| parent.join(name));
        if let Some(above) = above.filter(|above| text.trim().is_empty() && above.exists()) {
            let inherited = fs::read_to_string(&above)
                .with_context(|| format!("cannot read {}", above.display()))?;
            fs::write(&file, inherited.trim())
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    Ok(())
}

fn collect_processes(folder: &Path, found: &mut BTreeSet<i32>) {
    if let Ok(text) = fs::read_to_string(folder.join("cgroup.procs")) {
        found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
    }
    for child in subfolders(folder) {
        collect_processes(&child, found);
    }
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let folders = entries.flatten().map(|entry| entry.path());
    folders.filter(|path| path.is_dir()).collect()
}

/// Depth first: only an empty cgroup can be removed.
fn remove_tree(folder: &Path) -> Result<()> {
    for child in subfolders(folder) {
        remove_tree(&child)?;
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove cgroup {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_1: &str = "\
31 30 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:28 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
34 31 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
35 31 0:30 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
36 31 0:31 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
37 31 0:32 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const VERSION_2: &str =
        "31 30 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn cgroup_version_1_has_a_hierarchy_per_controller() {
        let found = Hierarchies::parse(VERSION_1).expect("controllers are mounted");
        assert!(!found.unified);
        let names: Vec<_> = found
            .roots
            .iter()
            .filter_map(|root| root.file_name())
            .collect();
        assert_eq!(
            names,
            ["cpu", "cpuset", "memory", "pids", "systemd", "unified"]
        );
    }

    #[test]
    fn cgroup_version_2_has_one_hierarchy() {
        let found = Hierarchies::parse(VERSION_2).expect("cgroup2 is mounted");
        assert!(found.unified);
        assert_eq!(found.roots, [PathBuf::from("/sys/fs/cgroup")]);
    }

    #[test]
    fn missing_cgroup_controllers_are_detected() {
        let without = "31 30 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                       32 31 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
        assert!(Hierarchies::parse(without).is_none());
    }

    #[test]
    fn cgroup_version_2_enables_controllers_at_every_level() {
        let root = tempfile::tempdir().expect("a folder");
        let hierarchies = Hierarchies {
            roots: vec![root.path().to_owned()],
            unified: true,
        };
        hierarchies.create("e2e-a/node-0").expect("created");
        for level in ["", "e2e-a"] {
            let file = root.path().join(level).join("cgroup.subtree_control");
            // A plain file keeps the last line that was written to it.
            assert_eq!(fs::read_to_string(file).expect("written"), "+io");
        }
        assert!(
            !root
                .path()
                .join("e2e-a/node-0/cgroup.subtree_control")
                .exists()
        );
    }

    #[test]
    fn a_lowered_weight_is_an_eighth() {
        for (name, before, after) in [("cpu.shares", "1024", "128"), ("cpu.weight", "100", "12")] {
            let [cpu, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
            let hierarchies = Hierarchies {
                roots: vec![cpu.path().to_owned(), other.path().to_owned()],
                unified: false,
            };
            hierarchies.create("e2e-a/components").expect("created");
            let file = cpu.path().join("e2e-a/components").join(name);
            fs::write(&file, before).expect("written");
            hierarchies
                .lower_cpu_weight("e2e-a/components")
                .expect("it has");
            assert_eq!(fs::read_to_string(file).expect("written"), after);
            assert!(!other.path().join("e2e-a/components").join(name).exists());
        }
    }

    #[test]
    fn removing_a_missing_cgroup_does_nothing() {
        let root = tempfile::tempdir().expect("a folder");
        let hierarchies = Hierarchies {
            roots: vec![root.path().to_owned()],
            unified: false,
        };
        hierarchies.remove("e2e-none").expect("nothing to do");
        hierarchies.create("e2e-a/node-0").expect("created");
        hierarchies.remove("e2e-a").expect("removed");
        assert!(hierarchies.folders("e2e-a").is_empty());
    }
}
