//! The Debian packages that a cluster needs, and its other preconditions.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process;

/// A file or a program that shows whether a package is installed, and the package.
const NEEDED: [(&str, &str); 9] = [
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("conntrack", "conntrack"),
    ("runc", "runc"),
    ("buildah", "buildah"),
    ("unshare", "util-linux"),
    ("mount", "mount"),
    ("/usr/lib/cni/ptp", "containernetworking-plugins"),
    ("/etc/ssl/certs/ca-certificates.crt", "ca-certificates"),
];

/// Installs missing packages; if that is impossible, the error names them.
pub(crate) fn install() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let named = missing.join(" ");
    if !rustix::process::geteuid().is_root() || find("apt-get").is_none() {
        bail!("these packages are missing: {named}. Install them: sudo apt-get install {named}");
    }
    eprintln!("installing {named}");
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
        process::run(&mut command)
    };
    apt(&["update", "-q"])?;
    let mut words = vec!["install", "-qy", "--no-install-recommends"];
    words.extend(&missing);
    apt(&words).with_context(|| format!("cannot install {named}"))?;
    Ok(())
}

/// The packages that are missing.
pub(crate) fn missing() -> Vec<&'static str> {
    NEEDED
        .into_iter()
        .filter(|(sign, _)| find(sign).is_none())
        .map(|(_, package)| package)
        .collect()
}

/// The path of a program, which may be in the system's own folders.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.starts_with('/') {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    env::split_paths(&search_path())
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// PATH with the folders of the system's programs and of Go added, which a user's PATH may lack.
pub(crate) fn search_path() -> String {
    let path = env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin")
}

pub(crate) fn check_root() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("a cluster needs root, for namespaces and cgroups: run the command with sudo");
    }
    Ok(())
}

/// Free disk space that a cluster requires: below half of it, kubelet runs no pods.
const FREE_BYTES: u64 = 2 << 30;

/// Checks whether a cluster can run on this machine, as far as that is known before one is started.
pub(crate) fn check_machine(home: &Path) -> Result<()> {
    check_disk(home)?;
    let missing = missing();
    if !missing.is_empty() {
        let named = missing.join(" ");
        bail!("these packages are missing: {named}. `e2e build` installs them");
    }
    if !filesystems()?.contains(&"overlay".to_owned()) {
        bail!(
            "the kernel has no overlay file system, which containers need: try `modprobe overlay`"
        );
    }
    let mut namespaces = Command::new("unshare");
    namespaces.args(["-m", "-p", "-f", "--mount-proc", "-n", "-u", "-i", "true"]);
    process::run(&mut namespaces).context(
        "namespaces cannot be created: run a container with --privileged; under a hardened kernel, allow CLONE_NEWNS and CLONE_NEWNET",
    )?;
    Ok(())
}

fn check_disk(home: &Path) -> Result<()> {
    let disk = rustix::fs::statvfs(home).with_context(|| {
        format!(
            "cannot determine the free space on the disk of {}",
            home.display()
        )
    })?;
    let free = disk.f_bavail * disk.f_frsize;
    if free < FREE_BYTES {
        bail!(
            "no space left on the disk of {}: {} MiB are free, and a cluster needs {}; free some, or set E2E_HOME to a folder on another disk",
            home.display(),
            free >> 20,
            FREE_BYTES >> 20
        );
    }
    Ok(())
}

fn filesystems() -> Result<Vec<String>> {
    // An unloaded module is not listed; loading it is harmless.
    let _ = Command::new("modprobe").args(["-q", "overlay"]).status();
    let text = fs::read_to_string(Path::new("/proc/filesystems"))
        .context("cannot read /proc/filesystems")?;
    Ok(text
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(str::to_owned)
        .collect())
}
