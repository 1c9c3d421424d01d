//! The command line.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::control_plane::ControlPlaneArgs;
use crate::origin::Kind;
use crate::relay::Driver;

/// Measures the gateway beside its peers.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure, and write a record of it and a report.
    Run(RunArgs),
    /// Measure implementations of Gateway API in a cluster, and write a record of it and a report.
    ControlPlane(ControlPlaneArgs),
    /// Make a report of records.
    Report(ReportArgs),
    /// List scenarios and peers, and what is missing.
    List(Places),
    /// Serve as an origin, until killed.
    Origin(OriginArgs),
    /// Relay TCP, until killed.
    Relay(RelayArgs),
}

/// Where things are.
#[derive(Debug, Clone, Args)]
pub(crate) struct Places {
    /// Folder of scenario files.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"))]
    pub(crate) scenarios_folder: PathBuf,
    /// Our gateway, as released.
    #[arg(long, default_value = "target/release/gateway")]
    pub(crate) gateway: PathBuf,
    /// An earlier build of it, which runs as the peers `before-io-uring` and `before-epoll`: what a
    /// change costs is their ratio in the same rounds.
    #[arg(long)]
    pub(crate) before: Option<PathBuf>,
    /// Where bench/peers/install.sh puts peers.
    #[arg(long, default_value = "target/bench/peers")]
    pub(crate) peers_folder: PathBuf,
}

/// `bench run`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// Scenarios, such as S1 or S9/hosts-500; all unless given.
    #[arg(long = "scenario", value_delimiter = ',')]
    pub(crate) scenarios: Vec<String>,
    /// Peers; `gateway` means it on both drivers. All unless given.
    #[arg(long = "peer", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Two rounds of a second for each, not waiting for a quiet machine: to see that it works.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds; each starts every peer afresh and runs it once. From 10 on, comparisons carry an
    /// interval.
    #[arg(long)]
    pub(crate) rounds: Option<usize>,
    /// Measured seconds of each run.
    #[arg(long)]
    pub(crate) seconds: Option<u64>,
    /// Milliseconds of a slice: in a round all peers stand ready and take turns this long, until each
    /// has had its seconds. Some scenarios have slices of their own.
    #[arg(long, default_value = "250")]
    pub(crate) slice: NonZeroU64,
    /// Seconds of load before those.
    #[arg(long)]
    pub(crate) warm_up: Option<u64>,
    /// Who answers.
    #[arg(long, value_enum, default_value = "glommio")]
    pub(crate) origin: Kind,
    /// Cores of the proxy, one per worker.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    pub(crate) proxy_cores: Vec<usize>,
    /// Cores of load and origin; those the proxy leaves, unless given.
    #[arg(long, value_delimiter = ',')]
    pub(crate) load_cores: Vec<usize>,
    /// Folder of records and reports.
    #[arg(long, default_value = "target/bench")]
    pub(crate) out: PathBuf,
    /// Where things are.
    #[command(flatten)]
    pub(crate) places: Places,
}

/// `bench report`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArgs {
    /// Records, the oldest first; the newest of the folder unless given.
    #[arg(long, value_delimiter = ',')]
    pub(crate) from: Vec<PathBuf>,
    /// Folder of records and reports.
    #[arg(long, default_value = "target/bench")]
    pub(crate) out: PathBuf,
    /// Where things are.
    #[command(flatten)]
    pub(crate) places: Places,
}

/// `bench origin`.
#[derive(Debug, Clone, Args)]
pub(crate) struct OriginArgs {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// What to speak.
    #[arg(long, value_enum, default_value = "http1")]
    pub(crate) protocol: Protocol,
}

/// What our origin speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// HTTP/1.1 and WebSocket, on glommio.
    Http1,
    /// gRPC over HTTP/2 in the clear, on Tokio.
    Grpc,
}

/// `bench relay`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RelayArgs {
    /// How to talk to the kernel.
    #[arg(long, value_enum)]
    pub(crate) driver: Driver,
    /// Where to listen.
    #[arg(long)]
    pub(crate) listen: SocketAddr,
    /// Where to connect.
    #[arg(long)]
    pub(crate) to: SocketAddr,
}
