//! The command line: what the user typed. What the program needs is made of it in `main`.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use xds::model::GatewayDuration;

use crate::driver::DriverChoice;

/// A Kubernetes gateway: a thread-per-core proxy configured by Gateway API resources.
#[derive(Debug, Parser)]
#[command(name = "gateway", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Proxy traffic as Gateway API YAML files say
    Run(RunArgs),
    /// Say what the proxy would make of Gateway API YAML files, and exit
    Check {
        /// Files or folders of Gateway API YAML
        #[arg(required = true)]
        config: Vec<PathBuf>,
    },
}

/// Arguments of `gateway run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// File or folder of Gateway API YAML; may be given several times. Watched for changes
    #[arg(long, env = "GATEWAY_CONFIG", required = true, value_delimiter = ',')]
    pub config: Vec<PathBuf>,

    /// Request threads [default: the CPUs this process may use, within its cgroup's quota]
    #[arg(long, env = "GATEWAY_SHARDS")]
    pub shards: Option<NonZeroU16>,

    /// How shards talk to the kernel
    #[arg(long, env = "GATEWAY_DRIVER", value_enum, default_value_t)]
    pub driver: DriverChoice,

    /// Whether each shard is bound to a core of its own
    #[arg(long, env = "GATEWAY_PIN", value_enum, default_value_t)]
    pub pin: Pin,

    /// Form of the program's own log, on stderr; which of it, RUST_LOG says [default filter: info]
    #[arg(long, env = "GATEWAY_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// Access log on stdout where no TrafficPolicy says otherwise
    #[arg(long, env = "GATEWAY_ACCESS_LOG", value_enum, default_value_t)]
    pub access_log: AccessLogDefault,

    /// Added to every listener's port below 1024, for users who may not bind those
    #[arg(long, env = "GATEWAY_PORT_OFFSET", default_value_t = 0)]
    pub port_offset: u16,

    /// After SIGTERM, keep accepting for this long, while load balancers learn of it
    #[arg(long, env = "GATEWAY_DRAIN_ACCEPT", default_value = "5s", value_parser = duration)]
    pub drain_accept: Duration,

    /// After SIGTERM, reset what is left after this long
    #[arg(long, env = "GATEWAY_DRAIN_DEADLINE", default_value = "30s", value_parser = duration)]
    pub drain_deadline: Duration,
}

/// Whether shards are bound to cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Pin {
    /// Where there are as many shards as CPUs in a set smaller than the machine
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Form of the program's own log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines to read
    #[default]
    Text,
    /// Lines of JSON
    Json,
}

/// The access log where no policy speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum AccessLogDefault {
    /// Lines to read
    #[default]
    Text,
    /// Lines of JSON
    Json,
    /// None
    Off,
}

fn duration(text: &str) -> Result<Duration, String> {
    GatewayDuration::parse(text).map(|duration| duration.0).map_err(|error| error.to_string())
}
