//! Folders of definitions of kinds, and how kubectl takes them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{packages, process};

/// The kubectl arguments that apply a folder. A list in it names what belongs to it.
pub(crate) fn apply(folder: &Path) -> Vec<String> {
    let has_list = folder.join("kustomization.yaml").is_file();
    let flag = if has_list { "-k" } else { "-f" };
    let folder = folder.display().to_string();
    ["apply", "--server-side", flag, &folder]
        .map(str::to_owned)
        .to_vec()
}

/// A folder of a Go module, in Go's cache. The module may have to be fetched, for which there has to be
/// a network.
pub(crate) fn of_module(module: &str, folder: &str) -> Result<PathBuf> {
    let mut go = Command::new("go");
    go.args(["mod", "download", "-json", module])
        .env("PATH", packages::search_path())
        .env("GOFLAGS", "-mod=mod")
        // A module names the version of Go that it needs, which is fetched.
        .env("GOTOOLCHAIN", "auto")
        .current_dir(Path::new("/"));
    let output: Value = serde_json::from_str(&process::run(&mut go)?)
        .with_context(|| format!("Go does not tell where {module} is"))?;
    let root = output["Dir"].as_str().context("a module has a folder")?;
    Ok(Path::new(root).join(folder))
}
