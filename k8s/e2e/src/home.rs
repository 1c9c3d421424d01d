//! Where programs, images, clusters and logs are kept: in one folder outside the tree.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// The folder that everything is kept in.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    root: PathBuf,
}

impl Home {
    /// `$E2E_HOME`, or `gateway-e2e` in the user's cache folder.
    pub(crate) fn of_user() -> Result<Self> {
        let root = match env::var_os("E2E_HOME") {
            Some(path) => PathBuf::from(path),
            None => user_caches()?.join("gateway-e2e"),
        };
        Self::at(&root)
    }

    fn at(root: &Path) -> Result<Self> {
        // Nodes mount folders of their own here, which hide the machine's.
        for hidden in ["/run", "/var/lib", "/var/log"] {
            if root.starts_with(hidden) {
                bail!(
                    "{} is below {hidden}, which is hidden from the cluster's nodes: set E2E_HOME to another folder",
                    root.display()
                );
            }
        }
        fs::create_dir_all(root).with_context(|| {
            format!(
                "cannot create {}: set E2E_HOME to another folder",
                root.display()
            )
        })?;
        let root =
            fs::canonicalize(root).with_context(|| format!("cannot resolve {}", root.display()))?;
        Ok(Self { root })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.root
    }

    /// Built programs, a folder for each state of each Go module.
    pub(crate) fn programs(&self) -> PathBuf {
        self.root.join("programs")
    }

    /// Built images, as archives.
    pub(crate) fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    /// Cargo's target folder for images, whose flags differ from those of the tree's own.
    ///
    /// A symbolic link is resolved, so that several homes can share one folder: its path is in the
    /// compiler's flags.
    pub(crate) fn target(&self) -> PathBuf {
        let target = self.root.join("target");
        fs::canonicalize(&target).unwrap_or(target)
    }

    /// The files of running clusters.
    pub(crate) fn clusters(&self) -> PathBuf {
        self.root.join("clusters")
    }

    /// The logs of a cluster's components, which outlive it.
    pub(crate) fn logs(&self, cluster: &str) -> PathBuf {
        self.root.join("logs").join(cluster)
    }
}

fn user_caches() -> Result<PathBuf> {
    if let Some(path) = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    match env::var_os("HOME").filter(|path| !path.is_empty()) {
        Some(path) => Ok(Path::new(&path).join(".cache")),
        None => bail!(
            "neither HOME nor E2E_HOME is set: set E2E_HOME to a folder for the cluster's files"
        ),
    }
}

/// The root of this repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The folder of this crate.
pub(crate) fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
