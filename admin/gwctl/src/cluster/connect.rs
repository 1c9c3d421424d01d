//! Finds the cluster: by kubeconfig, as kubectl does, or from within a pod.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::args::SourceArgs;

/// The configuration of a client.
///
/// # Errors
/// There is no cluster, or the kubeconfig is invalid.
pub(super) async fn config(args: &SourceArgs, timeout: Duration) -> Result<Config> {
    let mut config = match kubeconfig(args.kubeconfig.as_deref())? {
        Some(kubeconfig) => from_kubeconfig(kubeconfig, args.context.clone()).await?,
        None => Config::incluster().map_err(|_| anyhow!(NO_CLUSTER))?,
    };
    config.connect_timeout = Some(timeout);
    // A command is repeated by its user.
    config.default_retry = false;
    Ok(config)
}

/// The contents of `--kubeconfig`, `KUBECONFIG` or `~/.kube/config`, in this order. None where neither is
/// given and the latter does not exist.
///
/// # Errors
/// It cannot be read.
pub(super) fn kubeconfig(path: Option<&Path>) -> Result<Option<Kubeconfig>> {
    if let Some(path) = path {
        return Kubeconfig::read_from(path).map(Some).map_err(explain);
    }
    if let Some(kubeconfig) = Kubeconfig::from_env().map_err(explain)? {
        return Ok(Some(kubeconfig));
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let path = home.map(|home| home.join(".kube").join("config"));
    match path.filter(|path| path.exists()) {
        Some(path) => Kubeconfig::read_from(path).map(Some).map_err(explain),
        None => Ok(None),
    }
}

async fn from_kubeconfig(kubeconfig: Kubeconfig, context: Option<String>) -> Result<Config> {
    let names = kubeconfig.contexts.iter().map(|it| it.name.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    let options = KubeConfigOptions {
        context,
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.map_err(|error| match error {
        KubeconfigError::LoadContext(context) => {
            anyhow!("the kubeconfig has no context {context}; it has: {names}")
        }
        KubeconfigError::CurrentContextNotSet if !names.is_empty() => {
            anyhow!("no context is selected; choose one with --context: {names}")
        }
        KubeconfigError::CurrentContextNotSet => anyhow!(NO_CLUSTER),
        error => explain(error),
    })
}

fn explain(error: KubeconfigError) -> anyhow::Error {
    match error {
        KubeconfigError::ReadConfig(error, path) => {
            anyhow!("cannot read the kubeconfig {}: {error}", path.display())
        }
        error => Err::<(), _>(error)
            .context("invalid kubeconfig")
            .expect_err("it is an error"),
    }
}

const NO_CLUSTER: &str = "no cluster: there is no kubeconfig; give one with --kubeconfig or KUBECONFIG, \
    or use --local[=HOST:PORT] for the admin server of a gateway, or --file for a saved dump";
