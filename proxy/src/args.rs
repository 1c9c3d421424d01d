//! The command line: what the user typed. What the program needs is made of it in `main`.

use std::io;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr as _;

use admin::Address;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use ring::hmac;
use ring::rand::SystemRandom;
use translate::admit::UnknownFields;
use xds::model::{self, GatewayDuration, ObjectName};
use xds_grpc::client::{Controller, InvalidAddress};

use crate::limits::{DRAIN_ACCEPT, DRAIN_DEADLINE, SESSION_KEY_BYTES};
use crate::machine::driver::DriverChoice;
use crate::observe::program_log::LogFormat;

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
    /// Proxy traffic as Gateway API YAML files, or a controller, say
    Run(Box<RunArgs>),
    /// Say what the proxy would make of Gateway API YAML files, and exit
    Check {
        /// Files or folders of Gateway API YAML
        #[arg(required = true)]
        config: Vec<PathBuf>,
        /// What to do with an object that has an unknown field
        #[arg(long, env = "GATEWAY_UNKNOWN_FIELDS", default_value_t, value_parser = PossibleValuesParser::new(UnknownFields::NAMES).try_map(|text| text.parse::<UnknownFields>()))]
        unknown_fields: UnknownFields,
        /// Added to every listener's port below 1024, as for `run`
        #[arg(long, env = "GATEWAY_PORT_OFFSET", default_value_t = 0)]
        port_offset: u16,
    },
}

/// Arguments of `gateway run`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").args(["config", "xds"]).required(true))]
pub struct RunArgs {
    /// File or folder of Gateway API YAML; may be given several times. Watched for changes: what an
    /// editor writes in place is read when it closes the file
    #[arg(long, env = "GATEWAY_CONFIG", value_delimiter = ',')]
    pub config: Vec<PathBuf>,

    /// The controller that says what to proxy, instead of files.
    #[command(flatten)]
    pub controller: ControllerArgs,

    /// What to do with an object that has an unknown field: refuse it, or load it without the field
    /// and log a warning (for CRDs newer than this version)
    #[arg(long, env = "GATEWAY_UNKNOWN_FIELDS", default_value_t, value_parser = PossibleValuesParser::new(UnknownFields::NAMES).try_map(|text| text.parse::<UnknownFields>()))]
    pub unknown_fields: UnknownFields,

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

    /// Samples of what allocates memory, for heap profiles; they cost the request path nothing
    #[arg(long, env = "GATEWAY_HEAP_SAMPLING", value_enum, default_value_t)]
    pub heap_sampling: HeapSampling,

    /// Added to every listener's port below 1024, for users who may not bind those
    #[arg(
        long,
        env = "GATEWAY_PORT_OFFSET",
        default_value_t = 0,
        conflicts_with = "xds"
    )]
    pub port_offset: u16,

    /// File with the secret (32 bytes or more) that seals session tokens; share it between replicas
    /// [default: a random one, so sessions end with the process]
    #[arg(long, env = "GATEWAY_SESSION_KEY_FILE")]
    pub session_key_file: Option<PathBuf>,

    /// Where the admin server listens: `IP:PORT`, `localhost:PORT`, `unix:/PATH` or `off`
    /// [default: localhost:15000, if that is free]
    #[arg(long, env = "GATEWAY_ADMIN_ADDRESS", value_parser = Address::from_str)]
    pub admin_address: Option<Address>,

    /// Host by which the admin server may be addressed, beside IP addresses and localhost; may be
    /// given several times
    #[arg(long, env = "GATEWAY_ADMIN_HOST", value_delimiter = ',')]
    pub admin_host: Vec<String>,

    /// Where metrics are served, likewise [default: port 15020 of every address, if that is free]
    #[arg(long, env = "GATEWAY_METRICS_ADDRESS", value_parser = Address::from_str)]
    pub metrics_address: Option<Address>,

    /// Where readiness is served, likewise [default: port 15021 of every address, if that is free]
    #[arg(long, env = "GATEWAY_READINESS_ADDRESS", value_parser = Address::from_str)]
    pub readiness_address: Option<Address>,

    /// After SIGTERM, keep accepting for this long, while load balancers learn of it
    #[arg(long, env = "GATEWAY_DRAIN_ACCEPT", default_value_t = GatewayDuration(DRAIN_ACCEPT), value_parser = GatewayDuration::parse)]
    pub drain_accept: GatewayDuration,

    /// After SIGTERM, reset what is left after this long
    #[arg(long, env = "GATEWAY_DRAIN_DEADLINE", default_value_t = GatewayDuration(DRAIN_DEADLINE), value_parser = GatewayDuration::parse)]
    pub drain_deadline: GatewayDuration,
}

/// Where the configuration comes from in a cluster.
#[derive(Debug, Args)]
pub struct ControllerArgs {
    /// Controller that says what to proxy, instead of files: `https://HOST:PORT` or
    /// `http://HOST:PORT`
    #[arg(
        long,
        env = "GATEWAY_XDS_ADDRESS",
        value_name = "ADDRESS",
        requires = "gateway"
    )]
    pub xds: Option<String>,

    /// File with the certificate authorities that vouch for the controller (PEM); read again for
    /// each connection
    #[arg(long, env = "GATEWAY_XDS_CA", value_name = "FILE", requires = "xds")]
    pub xds_ca: Option<PathBuf>,

    /// File with the token that the controller knows this proxy by; read again for each connection
    #[arg(long, env = "GATEWAY_XDS_TOKEN", value_name = "FILE", requires = "xds")]
    pub xds_token: Option<PathBuf>,

    /// Folder in which the last configuration is kept, so that a restarted proxy serves while the
    /// controller is away. It holds private keys: name one in memory
    #[arg(
        long,
        env = "GATEWAY_XDS_CACHE",
        value_name = "FOLDER",
        requires = "xds"
    )]
    pub xds_cache: Option<PathBuf>,

    /// Gateway that this proxy serves
    #[arg(
        long,
        env = "GATEWAY_NAME",
        value_name = "NAMESPACE/NAME",
        requires = "xds",
        value_parser = parse_gateway
    )]
    pub gateway: Option<ObjectName>,

    /// What this proxy calls itself to the controller: the name of its pod [default: the name of the
    /// host]
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,
}

fn parse_gateway(text: &str) -> Result<ObjectName, String> {
    let expected = || format!("`{text}` is not NAMESPACE/NAME of a Gateway");
    let (namespace, name) = text.split_once('/').ok_or_else(expected)?;
    ObjectName::parse(namespace, name).map_err(|_| expected())
}

impl ControllerArgs {
    /// What this proxy calls itself.
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

    /// The controller and the Gateway, where the configuration is to come from there.
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
    /// The key that seals session tokens.
    ///
    /// # Errors
    /// The file cannot be read, or holds too little to be a secret.
    #[expect(clippy::disallowed_methods, reason = "it runs before any shard does")]
    pub fn session_key(&self) -> io::Result<hmac::Key> {
        let Some(path) = &self.session_key_file else {
            return hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
                .map_err(|_| io::Error::other("the system has no random numbers"));
        };
        let named = |error: &dyn std::fmt::Display| {
            io::Error::other(format!("--session-key-file {}: {error}", path.display()))
        };
        let secret = std::fs::read(path).map_err(|error| named(&error))?;
        if secret.len() < SESSION_KEY_BYTES {
            return Err(named(
                &"it holds less than 32 bytes; make one with `openssl rand 32`",
            ));
        }
        Ok(hmac::Key::new(hmac::HMAC_SHA256, &secret))
    }
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

/// Whether allocations are sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum HeapSampling {
    /// One in 512 KiB on average
    #[default]
    On,
    /// None
    Off,
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

impl AccessLogDefault {
    /// Puts the choice into the access log that holds where no policy speaks.
    pub fn apply_to(self, log: &mut model::AccessLog) {
        log.off = self == Self::Off;
        log.format = match self {
            Self::Json => model::LogFormat::Json,
            Self::Text | Self::Off => model::LogFormat::Text,
        };
    }
}
