//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::error::ErrorKind;
use clap::{ArgGroup, Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use clap_complete::engine::ArgValueCompleter;
use http::{HeaderName, HeaderValue, Method, Uri};
use translate::files::UnknownFields;
use xds::model::GatewayDuration;

use crate::complete;
use crate::idp::args::IdpArgs;
use crate::resource::Resource;
use crate::server::Server;

/// Inspect gateways in a cluster: their configuration, their state, and how they route requests.
///
/// A gateway is named as in kubectl: [TYPE/]NAME, where TYPE is gateway (the default), service,
/// deployment, daemonset or pod. Without a name, it is the only Gateway in the namespace.
#[derive(Debug, Parser)]
#[command(name = "gwctl", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}

impl Cli {
    /// Parses the process's arguments; exits with usage where they are invalid.
    pub(crate) fn from_process_args() -> Self {
        let cli = Self::parse_from(join_local(std::env::args_os()));
        if let Err(why) = cli.check() {
            Self::command()
                .error(ErrorKind::WrongNumberOfValues, why)
                .exit();
        }
        cli
    }

    /// Checks the number of sources, which clap cannot express.
    fn check(&self) -> Result<(), &'static str> {
        let source = &self.source;
        let sources = source.file.len() + usize::from(source.local.is_some());
        let needs_second_dump = match &self.command {
            Command::Config(ConfigArgs {
                part: ConfigPart::Diff { config, .. },
            }) => config.is_empty(),
            _ => false,
        };
        if needs_second_dump && sources != 2 {
            return Err(
                "the configuration to compare with is required: give --config FILE, or a second \
                 dump with --file DUMP",
            );
        }
        if !needs_second_dump && sources > 1 {
            return Err("only one source is allowed: --local, or --file once");
        }
        Ok(())
    }
}

/// Rewrites `--local HOST:PORT` to `--local=HOST:PORT`. The value is optional, so clap cannot distinguish an
/// address after `--local` from a positional Gateway name; names never contain a colon.
fn join_local(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut is_option = true;
    for argument in arguments {
        is_option &= argument != "--";
        let address = argument
            .to_str()
            .filter(|text| Server::parse(text).is_some());
        match (joined.last_mut(), address) {
            (Some(last), Some(address)) if is_option && last == "--local" => {
                last.push("=");
                last.push(address);
            }
            _ => joined.push(argument),
        }
    }
    joined
}

/// Where to read from; these options are shared by all commands.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SourceArgs {
    /// Kubeconfig of the cluster [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE", conflicts_with_all = ["local", "file"])]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current one]
    #[arg(long, global = true, conflicts_with_all = ["local", "file"], add = ArgValueCompleter::new(complete::contexts))]
    pub(crate) context: Option<String>,

    /// Pod to query [default: a ready one]
    #[arg(long, global = true, conflicts_with_all = ["local", "file"], add = ArgValueCompleter::new(complete::pods))]
    pub(crate) pod: Option<String>,

    /// Port of the admin server in the pods
    #[arg(long, global = true, value_name = "PORT", default_value_t = 15000, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) admin_port: u16,

    /// Admin server of a gateway reachable from this machine, instead of a cluster: HOST:PORT, or
    /// `unix:/PATH`
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "localhost:15000"
    )]
    pub(crate) local: Option<String>,

    /// Saved configuration dump to read instead of a running gateway; `-` reads stdin
    #[arg(long, global = true, value_name = "DUMP")]
    pub(crate) file: Vec<PathBuf>,

    /// Namespace of the Gateway [default: that of the context, or else default]
    #[arg(short, long, global = true, add = ArgValueCompleter::new(complete::namespaces))]
    pub(crate) namespace: Option<String>,

    /// Timeout for a response, or for piped input [default: 30s; for profiles 5m plus the sampling time]
    #[arg(long, global = true, value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
}

impl SourceArgs {
    /// Whether an option selects something in a cluster.
    pub(crate) fn names_cluster(&self) -> bool {
        let names = [&self.context, &self.pod, &self.namespace];
        self.kubeconfig.is_some() || names.iter().any(|it| it.is_some())
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = GatewayDuration::parse(text).map_err(|error| error.to_string())?;
    Ok(duration.0)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show whether Gateways work, and why not: conditions, listeners, proxies, routes
    Status(StatusArgs),
    /// Show the loaded configuration
    Config(ConfigArgs),
    /// Trace how a request is routed: send one, or wait for the next
    Trace(TraceArgs),
    /// Show or set the log level
    Log(LogArgs),
    /// Save a CPU or heap profile
    Profile(ProfileArgs),
    /// Show the running tasks of each thread
    Tasks(ListArgs),
    /// Show memory usage
    Memory(ListArgs),
    /// Open the web page of a gateway: forwards a local port to it until interrupted
    Page(PageArgs),
    /// Validate configuration files; needs neither a gateway nor a cluster
    Check(CheckArgs),
    /// Set up a Keycloak to test token validation with
    Idp(IdpArgs),
    /// Show the versions of gwctl and, where one is named, of the gateway
    Version(VersionArgs),
    /// Print a shell completion script
    Completion {
        /// Shell to complete for
        shell: Shell,
    },
}

/// Arguments of `gwctl config` and its subcommands.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) part: ConfigPart,
}

/// A subcommand of `gwctl config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigPart {
    /// Show binds, listeners, routes, backends and policies
    All {
        /// Gateway: [TYPE/]NAME
        #[arg(add = ArgValueCompleter::new(complete::resources))]
        resource: Option<Resource>,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: AllOutput,
    },
    /// List backends and the health of their endpoints
    Backends {
        /// Gateway: [TYPE/]NAME
        #[arg(add = ArgValueCompleter::new(complete::resources))]
        resource: Option<Resource>,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: BackendsOutput,
        /// Query every pod of the Gateway, instead of one
        #[arg(long)]
        all_pods: bool,
        /// Include backends that no route references
        #[arg(long)]
        all: bool,
    },
    /// List route rules
    Routes(ListArgs),
    /// List listeners
    Listeners(ListArgs),
    /// List policies, or the source of each setting of a rule
    Policies {
        #[command(flatten)]
        list: ListArgs,
        /// Show what is in effect at the rules of a route, and which policy it comes from:
        /// KIND/NAMESPACE/NAME[/RULE]
        #[arg(long, value_name = "ROUTE")]
        rule: Option<String>,
    },
    /// Compare the loaded configuration with files, or with a second dump
    Diff {
        /// Gateway: [TYPE/]NAME
        #[arg(add = ArgValueCompleter::new(complete::resources))]
        resource: Option<Resource>,
        /// Gateway API manifests: files or directories
        #[arg(long, num_args = 1.., value_name = "FILE")]
        config: Vec<PathBuf>,
        /// What to do with an object that has an unknown field
        #[arg(long, env = "GATEWAY_UNKNOWN_FIELDS", default_value_t, value_parser = PossibleValuesParser::new(UnknownFields::NAMES).try_map(|text| text.parse::<UnknownFields>()))]
        unknown_fields: UnknownFields,
        /// Offset added to ports below 1024, as for `gateway run --port-offset`
        #[arg(long, default_value_t = 0, requires = "config")]
        port_offset: u16,
    },
}

/// Arguments of the commands that print a list.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Gateway: [TYPE/]NAME
    #[arg(add = ArgValueCompleter::new(complete::resources))]
    pub(crate) resource: Option<Resource>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// Query every pod of the Gateway, instead of one
    #[arg(long)]
    pub(crate) all_pods: bool,
}

/// Output format of `config all`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AllOutput {
    /// Tree of binds, listeners, routes and backends
    #[default]
    Short,
    /// Summary as YAML
    Yaml,
    /// Complete dump as JSON, readable with --file
    Json,
}

/// Output format of `config backends`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendsOutput {
    /// Aligned columns
    #[default]
    Table,
    /// More columns: state and zone of each endpoint, whether it is preferred, and why
    Wide,
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// Output format of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Aligned columns
    #[default]
    Table,
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// `gwctl trace`: traces a request it sends where a URL is given, otherwise the next one to arrive.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("sent").multiple(true).requires("url")
    .args(["port", "request", "headers", "data", "cacert", "insecure"]))]
pub(crate) struct TraceArgs {
    /// Gateway: [TYPE/]NAME
    #[arg(add = ArgValueCompleter::new(complete::resources))]
    pub(crate) resource: Option<Resource>,
    /// Listener port to send the request to [default: that of the URL, or the only one]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Wait for the next request of any client; the default without a URL
    #[arg(long, conflicts_with_all = ["sent", "url"])]
    pub(crate) next: bool,
    /// Print events as JSON Lines
    #[arg(long)]
    pub(crate) raw: bool,
    /// Request method [default: GET, or POST with a body]
    #[arg(short = 'X', long)]
    pub(crate) request: Option<Method>,
    /// Request header as `Name: value`; repeatable
    #[arg(short = 'H', long = "header", value_parser = header)]
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Request body
    #[arg(short, long)]
    pub(crate) data: Option<String>,
    /// CA certificates (PEM) to verify the listener with [default: the system's trust store]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) cacert: Option<PathBuf>,
    /// Do not verify the listener's certificate
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,
    /// URL to request; its host is sent as Host and as TLS server name [default: wait as with --next]
    #[arg(last = true, value_parser = url)]
    pub(crate) url: Option<Uri>,
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("expected `Name: value`")?;
    let invalid = |what| format!("invalid header {what} in `{}`", text.escape_debug());
    let name = name.trim().parse().map_err(|_| invalid("name"))?;
    let value = value.trim().parse().map_err(|_| invalid("value"))?;
    Ok((name, value))
}

fn url(text: &str) -> Result<Uri, String> {
    let whole = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let uri: Uri = whole.parse().map_err(|error| format!("{error}"))?;
    match uri.scheme_str() {
        Some("http" | "https") => Ok(uri),
        _ => Err("expected http://HOST/PATH or https://HOST/PATH".to_owned()),
    }
}

/// Arguments of `gwctl check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Files or directories
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// What to do with an object that has an unknown field
    #[arg(long, env = "GATEWAY_UNKNOWN_FIELDS", default_value_t, value_parser = PossibleValuesParser::new(UnknownFields::NAMES).try_map(|text| text.parse::<UnknownFields>()))]
    pub(crate) unknown_fields: UnknownFields,
    /// Fail for warnings too
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Arguments of `gwctl log`.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Gateway: [TYPE/]NAME
    #[arg(value_parser = no_level, add = ArgValueCompleter::new(complete::resources))]
    pub(crate) resource: Option<Resource>,
    /// Set the filter: a level, or a list such as `info,proxy::forward=debug`
    #[arg(long)]
    pub(crate) level: Option<String>,
    /// Query every pod of the Gateway, instead of one
    #[arg(long)]
    pub(crate) all_pods: bool,
}

/// A Gateway, whose name is probably not that of a level.
fn no_level(text: &str) -> Result<Resource, String> {
    if text.contains('=') || LEVELS.contains(&text) {
        return Err(format!(
            "it is a filter, not a Gateway: set it with --level {text}"
        ));
    }
    text.parse()
}

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Arguments of `gwctl profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// What to profile
    #[arg(value_enum)]
    pub(crate) kind: ProfileKind,
    /// Gateway: [TYPE/]NAME
    #[arg(add = ArgValueCompleter::new(complete::resources))]
    pub(crate) resource: Option<Resource>,
    /// Sampling time of a CPU profile, in seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=300))]
    pub(crate) seconds: u32,
    /// Save a flame graph (SVG) instead of a pprof profile
    #[arg(long)]
    pub(crate) flamegraph: bool,
    /// Output file; `-` writes to stdout [default: gateway-KIND-TIME.pb.gz or .svg]
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileKind {
    /// CPU time
    Cpu,
    /// Live heap allocations
    Heap,
}

/// Arguments of `gwctl status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Gateway: [gateway/]NAME [default: every one in the namespace, and what in it belongs to others]
    #[arg(add = ArgValueCompleter::new(complete::resources))]
    pub(crate) resource: Option<Resource>,
    /// Gateway API manifests to evaluate instead: files or directories
    #[arg(long, num_args = 1.., value_name = "FILE", conflicts_with_all = ["local", "file", "kubeconfig", "context"])]
    pub(crate) config: Vec<PathBuf>,
    /// Fail for warnings too
    #[arg(long)]
    pub(crate) strict: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Arguments of `gwctl page`.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// Gateway: [TYPE/]NAME
    #[arg(add = ArgValueCompleter::new(complete::resources))]
    pub(crate) resource: Option<Resource>,
    /// Local port [default: a free one]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
}

/// Arguments of `gwctl version`.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Gateway: [TYPE/]NAME
    #[arg(add = ArgValueCompleter::new(complete::resources))]
    pub(crate) resource: Option<Resource>,
}

#[cfg(test)]
mod tests;
