//! The command line's options for paths.

use std::path::PathBuf;

use clap::Args;

/// Paths of scenarios and programs.
#[derive(Debug, Clone, Args)]
pub(crate) struct PathArgs {
    /// Folder of scenario files
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))]
    pub(crate) scenarios_folder: PathBuf,
    /// Path of the gateway, built with --release
    #[arg(long, default_value = "target/release/gateway")]
    pub(crate) gateway: PathBuf,
    /// Path of an earlier build of the gateway, which runs as the peers `before-io-uring` and
    /// `before-epoll`: their ratio in the same rounds is the cost of a change
    #[arg(long)]
    pub(crate) before: Option<PathBuf>,
    /// Folder in which bench/peers/install.sh installs peers
    #[arg(long, default_value = "target/bench/peers")]
    pub(crate) peers_folder: PathBuf,
}
