//! The command line.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::control_plane::args::ControlPlaneArgs;
use crate::origin::Kind;
use crate::paths::PathArgs;
use crate::relay::Driver;

/// Measures the gateway and other proxies side by side.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run scenarios and write a record and a report
    Run(RunArgs),
    /// Measure implementations of Gateway API in a cluster, and write a record of it and a report.
    ControlPlane(ControlPlaneArgs),
    /// Make a report of records.
    Report(ReportArgs),
    /// List scenarios and peers, and what is not installed
    List(PathArgs),
    /// Run an origin server until killed
    Origin(OriginArgs),
    /// Run a TCP relay until killed
    Relay(RelayArgs),
}

/// Arguments of `bench run`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// Scenarios, such as S1 or S9/hosts-500 [default: all]
    #[arg(long = "scenario", value_delimiter = ',')]
    pub(crate) scenarios: Vec<String>,
    /// Peers; `gateway` means both of its drivers [default: all]
    #[arg(long = "peer", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Run two rounds of one second each, without waiting for an idle machine: checks that
    /// everything works
    #[arg(long)]
    pub(crate) quick: bool,
    /// Number of rounds; each starts every peer again and runs it once. From 10 rounds on,
    /// comparisons have a confidence interval
    #[arg(long)]
    pub(crate) rounds: Option<usize>,
    /// Measured seconds per run
    #[arg(long)]
    pub(crate) seconds: Option<u64>,
    /// Length of a slice in milliseconds: in a round all peers take turns of this length until each
    /// has had its seconds. Some scenarios set their own
    #[arg(long, default_value = "250")]
    pub(crate) slice: NonZeroU64,
    /// Seconds of warm-up before the measurement
    #[arg(long)]
    pub(crate) warm_up: Option<u64>,
    /// Origin server
    #[arg(long, value_enum, default_value = "glommio")]
    pub(crate) origin: Kind,
    /// Cores of the proxy, one per worker
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    pub(crate) proxy_cores: Vec<usize>,
    /// Cores of load and origin [default: those not used by the proxy]
    #[arg(long, value_delimiter = ',')]
    pub(crate) load_cores: Vec<usize>,
    /// Folder of records and reports
    #[arg(long, default_value = "target/bench")]
    pub(crate) out: PathBuf,
    /// Paths of scenarios and programs.
    #[command(flatten)]
    pub(crate) places: PathArgs,
}

/// Arguments of `bench report`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArgs {
    /// Records, oldest first [default: the newest of the folder]
    #[arg(long, value_delimiter = ',')]
    pub(crate) from: Vec<PathBuf>,
    /// Folder of records and reports
    #[arg(long, default_value = "target/bench")]
    pub(crate) out: PathBuf,
    /// Paths of scenarios and programs.
    #[command(flatten)]
    pub(crate) places: PathArgs,
}

/// Arguments of `bench origin`.
#[derive(Debug, Clone, Args)]
pub(crate) struct OriginArgs {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Protocol of the origin
    #[arg(long, value_enum, default_value = "http1")]
    pub(crate) protocol: Protocol,
}

/// Protocol of the built-in origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// HTTP/1.1 and WebSocket, on glommio
    Http1,
    /// HTTP/2 without TLS, also for gRPC, on Tokio
    Http2,
}

/// Arguments of `bench relay`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RelayArgs {
    /// I/O driver
    #[arg(long, value_enum)]
    pub(crate) driver: Driver,
    /// Address to listen on
    #[arg(long)]
    pub(crate) listen: SocketAddr,
    /// Address to connect to
    #[arg(long)]
    pub(crate) to: SocketAddr,
}
