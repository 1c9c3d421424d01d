//! Command-line arguments. `main` turns them into the program's settings.

use std::io;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr as _;

use admin::Address;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use translate::files::UnknownFields;
use xds::model::{self, GatewayDuration, ObjectName};
use xds_grpc::client::{Controller, InvalidAddress};

use crate::config::Place;
use crate::config::session_keys::OwnSessionKeys;
use crate::limits::{DRAIN_ACCEPT, DRAIN_DEADLINE};
use crate::machine::driver::DriverChoice;
use crate::observe::program_log::LogFormat;

/// A Kubernetes gateway: a thread-per-core proxy configured by Gateway API resources.
#[derive(Debug, Parser)]
#[command(name = "gateway", version, arg_required_else_help = true)]
pub struct Cli {
    /// What the program does.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands of `gateway`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the proxy, configured by Gateway API YAML files or by a controller
    Run(Box<RunArgs>),
    /// Validate Gateway API YAML files, print the resulting status, and exit
    Check {
        /// Files or folders of Gateway API YAML
        #[arg(required = true)]
        config: Vec<PathBuf>,
        /// How to handle an object with an unknown field
        #[arg(long, env = "GATEWAY_UNKNOWN_FIELDS", default_value_t, value_parser = PossibleValuesParser::new(UnknownFields::NAMES).try_map(|text| text.parse::<UnknownFields>()))]
        unknown_fields: UnknownFields,
        /// Offset for listener ports below 1024, as for `run`
        #[arg(long, env = "GATEWAY_PORT_OFFSET", default_value_t = 0)]
        port_offset: u16,
        /// Fail for warnings too
        #[arg(long)]
        strict: bool,
    },
}

/// Arguments of `gateway run`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").args(["config", "xds"]).required(true))]
pub struct RunArgs {
    /// File or folder of Gateway API YAML; repeatable. Changes are applied when a file is closed
    /// after writing, or replaced
    #[arg(long, env = "GATEWAY_CONFIG", value_delimiter = ',')]
    pub config: Vec<PathBuf>,

    /// The controller to take the configuration from, instead of files.
    #[command(flatten)]
    pub controller: ControllerArgs,

    /// How to handle an object with an unknown field: refuse it, or load it without the field and
    /// log a warning (for CRDs newer than this version)
    #[arg(long, env = "GATEWAY_UNKNOWN_FIELDS", default_value_t, value_parser = PossibleValuesParser::new(UnknownFields::NAMES).try_map(|text| text.parse::<UnknownFields>()))]
    pub unknown_fields: UnknownFields,

    /// Number of worker threads (shards) [default: the CPUs available to the process, within its
    /// cgroup's quota]
    #[arg(long, env = "GATEWAY_SHARDS", value_parser = parse_shards)]
    pub shards: Option<NonZeroU16>,

    /// I/O driver of the shards
    #[arg(long, env = "GATEWAY_DRIVER", value_enum, default_value_t)]
    pub driver: DriverChoice,

    /// When to pin each shard to a core of its own
    #[arg(long, env = "GATEWAY_PIN", value_enum, default_value_t)]
    pub pin: Pin,

    /// Format of the program's log on stderr. RUST_LOG sets its level [default: info]
    #[arg(long, env = "GATEWAY_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// Format of the access log on stdout, unless a TrafficPolicy sets another
    #[arg(long, env = "GATEWAY_ACCESS_LOG", value_enum, default_value_t)]
    pub access_log: AccessLogDefault,

    /// Sampling of memory allocations for heap profiles
    #[arg(long, env = "GATEWAY_HEAP_SAMPLING", value_enum, default_value_t)]
    pub heap_sampling: HeapSampling,

    /// Offset for listener ports below 1024, for users who may not bind privileged ports
    #[arg(
        long,
        env = "GATEWAY_PORT_OFFSET",
        default_value_t = 0,
        conflicts_with = "xds"
    )]
    pub port_offset: u16,

    /// File with a session key, 32 bytes in base64, from which what authenticates session tokens is derived;
    /// replicas must share it. Repeatable: the first signs, all are accepted. Changes are applied
    /// [default: the controller's, or else a random key, so that sessions end with the process]
    #[arg(long, env = "GATEWAY_SESSION_KEY_FILE", value_delimiter = ',')]
    pub session_key_file: Vec<PathBuf>,

    /// Zone in which this proxy runs, for Services and Backends whose endpoints of the same zone are preferred
    /// [default: the controller's answer; none with files]
    #[arg(long, env = "GATEWAY_ZONE", value_name = "NAME")]
    pub zone: Option<String>,

    /// Node on which this proxy runs, as `--zone`
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node: Option<String>,

    /// Address of the admin server: `IP:PORT`, `localhost:PORT`, `unix:/PATH` or `off`
    /// [default: localhost:15000, if free]
    #[arg(long, env = "GATEWAY_ADMIN_ADDRESS", value_parser = Address::from_str)]
    pub admin_address: Option<Address>,

    /// Additional host name that the admin server accepts in Host, beside IP addresses and
    /// localhost; repeatable
    #[arg(long, env = "GATEWAY_ADMIN_HOST", value_delimiter = ',')]
    pub admin_host: Vec<String>,

    /// Address of the metrics server, as for the admin server [default: port 15020 on all addresses,
    /// if free]
    #[arg(long, env = "GATEWAY_METRICS_ADDRESS", value_parser = Address::from_str)]
    pub metrics_address: Option<Address>,

    /// Address of the readiness server, as for the admin server [default: port 15021 on all
    /// addresses, if free]
    #[arg(long, env = "GATEWAY_READINESS_ADDRESS", value_parser = Address::from_str)]
    pub readiness_address: Option<Address>,

    /// After SIGTERM, how long to keep accepting connections while load balancers remove this proxy
    #[arg(long, env = "GATEWAY_DRAIN_ACCEPT", default_value_t = GatewayDuration(DRAIN_ACCEPT), value_parser = GatewayDuration::parse)]
    pub drain_accept: GatewayDuration,

    /// After SIGTERM, when to reset the remaining connections
    #[arg(long, env = "GATEWAY_DRAIN_DEADLINE", default_value_t = GatewayDuration(DRAIN_DEADLINE), value_parser = GatewayDuration::parse)]
    pub drain_deadline: GatewayDuration,
}

/// Where the configuration comes from in a cluster.
#[derive(Debug, Args)]
pub struct ControllerArgs {
    /// Controller to take the configuration from, instead of files: `https://HOST:PORT` or
    /// `http://HOST:PORT`
    #[arg(
        long,
        env = "GATEWAY_XDS_ADDRESS",
        value_name = "ADDRESS",
        requires = "gateway"
    )]
    pub xds: Option<String>,

    /// File with the CA certificates to verify the controller with (PEM); read again for each
    /// connection
    #[arg(
        long,
        env = "GATEWAY_XDS_CA",
        value_name = "FILE",
        requires = "xds",
        conflicts_with = "config"
    )]
    pub xds_ca: Option<PathBuf>,

    /// File with the token to authenticate to the controller with; read again for each connection
    #[arg(
        long,
        env = "GATEWAY_XDS_TOKEN",
        value_name = "FILE",
        requires = "xds",
        conflicts_with = "config"
    )]
    pub xds_token: Option<PathBuf>,

    /// Folder that stores the last configuration, so that a restarted proxy serves while the
    /// controller is unavailable. It contains private keys: use a folder in memory (tmpfs)
    #[arg(
        long,
        env = "GATEWAY_XDS_CACHE",
        value_name = "FOLDER",
        requires = "xds",
        conflicts_with = "config"
    )]
    pub xds_cache: Option<PathBuf>,

    /// Gateway that this proxy serves
    #[arg(
        long,
        env = "GATEWAY_NAME",
        value_name = "NAMESPACE/NAME",
        requires = "xds",
        conflicts_with = "config",
        value_parser = parse_gateway
    )]
    pub gateway: Option<ObjectName>,

    /// Name by which this proxy identifies itself to the controller [default: the host name]
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,
}

fn parse_shards(text: &str) -> Result<NonZeroU16, String> {
    let shards = text.parse();
    shards.map_err(|_| {
        format!(
            "use a number from 1 to {}, or leave it out for one a CPU",
            u16::MAX
        )
    })
}

fn parse_gateway(text: &str) -> Result<ObjectName, String> {
    let expected = || format!("`{text}` is not NAMESPACE/NAME of a Gateway");
    let (namespace, name) = text.split_once('/').ok_or_else(expected)?;
    ObjectName::parse(namespace, name).map_err(|_| expected())
}

impl ControllerArgs {
    /// The name by which this proxy identifies itself.
    #[must_use]
    pub fn proxy(&self) -> String {
        let host = || {
            rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned()
        };
        self.pod_name.clone().unwrap_or_else(host)
    }

    /// The controller and the Gateway, if the configuration comes from a controller.
    ///
    /// # Errors
    /// The address is not one of a controller.
    pub fn controller(&self) -> Result<Option<(Controller, ObjectName)>, InvalidAddress> {
        let (Some(address), Some(gateway)) = (&self.xds, &self.gateway) else {
            return Ok(None);
        };
        let controller = Controller::new(address, self.xds_ca.clone(), self.xds_token.clone())?;
        Ok(Some((controller, gateway.clone())))
    }
}

impl RunArgs {
    /// Where this proxy runs. Without a value, a variable of the environment is no name.
    #[must_use]
    pub fn place(&self) -> Place {
        let name = |text: &Option<String>| {
            let text = text.as_deref().map(str::trim);
            text.filter(|text| !text.is_empty()).map(Into::into)
        };
        Place {
            node: name(&self.node),
            zone: name(&self.zone),
        }
    }

    /// The session keys of this process.
    ///
    /// # Errors
    /// A file cannot be read or contains no key.
    pub fn session_keys(&self) -> io::Result<OwnSessionKeys> {
        OwnSessionKeys::read(&self.session_key_file)
    }
}

/// When shards are pinned to cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Pin {
    /// If there are as many shards as CPUs, and the process may use only some of the machine's CPUs
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Whether allocations are sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum HeapSampling {
    /// One sample per 512 KiB on average
    #[default]
    On,
    /// Disabled
    Off,
}

/// The access log without a policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum AccessLogDefault {
    /// Plain text
    #[default]
    Text,
    /// JSON Lines
    Json,
    /// Disabled
    Off,
}

impl AccessLogDefault {
    /// Applies the choice to the default access log.
    pub fn apply_to(self, log: &mut model::AccessLog) {
        log.off = self == Self::Off;
        log.format = match self {
            Self::Json => model::LogFormat::Json,
            Self::Text | Self::Off => model::LogFormat::Text,
        };
    }
}
