//! Images and chart of the commit before, to upgrade from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{Image, Recipe, TEST_PROFILE, build_from};
use crate::home::{self, Home};
use crate::process;

/// The tag of its images.
const TAG: &str = "e2e-previous";

/// The commit, unless the environment names another.
const COMMIT: &str = "HEAD^";
const VARIABLE: &str = "E2E_UPGRADE_FROM";

/// The release of the commit before.
#[derive(Debug, Clone)]
pub(crate) struct Previous {
    /// The folder of its chart.
    pub(crate) chart: PathBuf,
    pub(crate) gateway: String,
    pub(crate) controller: String,
    pub(crate) archives: Vec<PathBuf>,
}

impl Previous {
    /// Checks the commit out beside the clusters' files and builds its images.
    pub(crate) fn build(home: &Home) -> Result<Self> {
        let tree = home.folder().join("previous");
        check_out(&tree)?;
        let build = |program| {
            let recipe = Recipe {
                program,
                repository: &tree,
                profile: TEST_PROFILE,
                tag: TAG,
                pgo: None,
            };
            build_from(home, &recipe)
        };
        let (gateway, controller) = (build("gateway")?, build("controller")?);
        let archive = |image: &Image| image.archive.clone();
        Ok(Self {
            chart: tree.join("k8s/charts/gateway"),
            archives: [&gateway, &controller].map(archive).into(),
            gateway: gateway.reference,
            controller: controller.reference,
        })
    }
}

fn check_out(tree: &Path) -> Result<()> {
    if tree.is_dir() {
        fs::remove_dir_all(tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    }
    let commit = std::env::var(VARIABLE).unwrap_or_else(|_| COMMIT.to_owned());
    let object = format!("{commit}^{{commit}}");
    let commit = process::run(git(home::repository()).args(["rev-parse", "--verify", &object]))
        .with_context(|| {
            format!(
                "this clone has no commit {commit}: fetch it, or name another one in {VARIABLE}"
            )
        })?;
    // A clone of its own: a worktree would be registered in the user's repository.
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--shared", "--no-checkout"]);
    process::run(clone.arg(home::repository()).arg(tree))?;
    process::run(git(tree).args(["checkout", "--quiet", commit.trim()])).map(drop)
}

/// git in a checkout.
fn git(checkout: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(checkout);
    git
}
