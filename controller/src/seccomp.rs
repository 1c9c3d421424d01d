//! `install-seccomp-profile`: keeps a seccomp profile in the kubelet's folder, from a container on each node.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// Arguments of `controller install-seccomp-profile`.
#[derive(Debug, Clone, Args)]
pub struct InstallProfileArgs {
    /// The profile to install
    pub from: PathBuf,

    /// Where the kubelet looks for it: a file below its `seccomp` folder
    pub to: PathBuf,

    /// Only tell, by the exit code, whether it is installed
    #[arg(long)]
    pub check: bool,
}

/// Installs the profile, and again when it is removed or changed, until SIGTERM.
///
/// # Errors
///
/// The profile cannot be read or written; with `check`, it is not installed.
pub async fn install_profile(args: &InstallProfileArgs) -> Result<()> {
    let InstallProfileArgs { from, to, check } = args;
    if *check {
        let is_installed = is_installed(&read(from)?, to)?;
        ensure!(is_installed, "{} is not installed", to.display());
        return Ok(());
    }
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    loop {
        // Read each time: the ConfigMap that it comes from may have changed.
        install(&read(from)?, to)?;
        if timeout(INTERVAL, terminate.recv()).await.is_ok() {
            return Ok(());
        }
    }
}

fn read(from: &Path) -> Result<Vec<u8>> {
    fs::read(from).with_context(|| format!("cannot read {}", from.display()))
}

fn is_installed(profile: &[u8], to: &Path) -> Result<bool> {
    match fs::read(to) {
        Ok(installed) => Ok(installed == profile),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", to.display())),
    }
}

fn install(profile: &[u8], to: &Path) -> Result<()> {
    if is_installed(profile, to)? {
        return Ok(());
    }
    let write = || -> io::Result<()> {
        // Renamed into its place, so that no container starts with half a profile.
        let new = to.with_extension("json.new");
        fs::write(&new, profile)?;
        fs::rename(&new, to)
    };
    write().with_context(|| format!("cannot write {}", to.display()))
}

/// How often the profile is compared: one that was removed is back within a minute.
const INTERVAL: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::{InstallProfileArgs, install, install_profile};
    use std::fs;

    #[tokio::test]
    async fn a_profile_is_installed_and_put_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to.json"));
        fs::write(&from, "{}").expect("a file");
        let args = InstallProfileArgs {
            from,
            to: to.clone(),
            check: true,
        };
        let missing = install_profile(&args).await.expect_err("not yet");
        assert!(missing.to_string().ends_with("to.json is not installed"));
        for damaged in [None, Some("{")] {
            if let Some(damaged) = damaged {
                fs::write(&to, damaged).expect("a file");
                assert!(install_profile(&args).await.is_err());
            }
            install(b"{}", &to).expect("it is written");
            install_profile(&args).await.expect("it is installed");
        }
        let files = fs::read_dir(folder.path()).expect("a folder");
        assert_eq!(files.count(), 2, "nothing else is left");
    }
}
