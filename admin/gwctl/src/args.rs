//! What the user typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgGroup, Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use http::{HeaderName, HeaderValue, Method, Uri};
use xds::model::GatewayDuration;

use crate::resource::Resource;
use crate::server::Server;

/// Shows what a gateway has loaded, and why a request went where it went.
#[derive(Debug, Parser)]
#[command(name = "gwctl", version, propagate_version = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Whom to ask.
    #[command(flatten)]
    pub(crate) from: From,
}

impl Cli {
    /// What the user typed, or the end of the process where that is no command.
    pub(crate) fn typed() -> Self {
        let cli = Self::parse_from(joined(std::env::args_os()));
        if let Err(why) = cli.check() {
            Self::command()
                .error(ErrorKind::WrongNumberOfValues, why)
                .exit();
        }
        cli
    }

    /// What clap has no word for: how many places are named.
    fn check(&self) -> Result<(), &'static str> {
        let from = &self.from;
        let places = from.file.len() + usize::from(from.local.is_some());
        let is_with_another_dump = match &self.command {
            Command::Config(ConfigArgs {
                part: ConfigPart::Diff { config, .. },
            }) => config.is_empty(),
            _ => false,
        };
        if is_with_another_dump && places != 2 {
            return Err(
                "name what would be loaded: with --config FILE, or with --file DUMP beside the \
                 first --file or --local",
            );
        }
        if !is_with_another_dump && places > 1 {
            return Err("name one place to ask: --local, or --file once");
        }
        Ok(())
    }
}

/// The arguments, `--local HOST:PORT` as `--local=HOST:PORT`. What follows `--local` may as well be
/// a name, which clap cannot tell from an address: no name has a colon.
fn joined(typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut is_option = true;
    for argument in typed {
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

/// Whom to ask.
#[derive(Debug, Clone, Args)]
pub(crate) struct From {
    /// The admin server of a gateway that can be reached from here; also `unix:/PATH`
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "localhost:15000"
    )]
    pub(crate) local: Option<String>,

    /// A saved configuration dump instead; `-` reads stdin
    #[arg(long, global = true, value_name = "DUMP")]
    pub(crate) file: Vec<PathBuf>,

    /// Namespace of the Gateway that is named [default: default]; alone, every Gateway in it
    #[arg(short, long, global = true)]
    pub(crate) namespace: Option<String>,

    /// For how long an answer, or a pipe, is waited for [default: 30s; 5m for a profile, beside its seconds]
    #[arg(long, global = true, value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = GatewayDuration::parse(text).map_err(|error| error.to_string())?;
    Ok(duration.0)
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what is loaded
    Config(ConfigArgs),
    /// Send a request, or wait for the next one, and show why it went where it went
    Trace(TraceArgs),
    /// Show or set the log level
    Log(LogArgs),
    /// Save a profile of CPU or heap
    Profile(ProfileArgs),
    /// Show what every thread is at
    Tasks(TasksArgs),
    /// Show where memory is
    Memory(MemoryArgs),
    /// Show what a gateway would make of files, without a gateway or a cluster
    Check(CheckArgs),
    /// Show the versions of this tool and of the gateway
    Version,
    /// Print a shell's completions
    Completion {
        /// The shell
        shell: Shell,
    },
}

/// `gwctl config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Which part.
    #[command(subcommand)]
    pub(crate) part: ConfigPart,
}

/// A part of the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigPart {
    /// Binds, listeners, routes, backends and policies
    All {
        /// Of this Gateway alone: [gateway/]NAME
        resource: Option<Resource>,
        /// Form
        #[arg(short, long, value_enum, default_value_t)]
        output: AllOutput,
    },
    /// The backends that traffic is sent to, and how their endpoints fare
    Backends {
        /// Of this Gateway alone: [gateway/]NAME
        resource: Option<Resource>,
        /// Form
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
        /// Also those that no route names
        #[arg(long)]
        all: bool,
    },
    /// Route rules
    Routes(ListArgs),
    /// Listeners
    Listeners(ListArgs),
    /// Policies
    Policies(ListArgs),
    /// What files, or another dump (--file a second time), would change of what is loaded
    Diff {
        /// Gateway API YAML: files or folders
        #[arg(long, num_args = 1.., value_name = "FILE")]
        config: Vec<PathBuf>,
        /// Added to ports under 1024, as the gateway was told
        #[arg(long, default_value_t = 0, requires = "config")]
        port_offset: u16,
    },
}

/// A list of one kind.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Of this Gateway alone: [gateway/]NAME
    pub(crate) resource: Option<Resource>,
    /// Form
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Form of `config all`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AllOutput {
    /// A tree of binds, listeners, routes and backends
    #[default]
    Short,
    /// A summary in YAML
    Yaml,
    /// The whole dump in JSON, as --file reads it
    Json,
}

/// Form of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Columns
    #[default]
    Table,
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// `gwctl trace`: of a request that is sent where a URL is given, or else of the next one.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("sent").multiple(true).requires("url")
    .args(["port", "request", "headers", "data", "cacert", "insecure"]))]
pub(crate) struct TraceArgs {
    /// A Gateway that must have the port: [gateway/]NAME
    pub(crate) resource: Option<Resource>,
    /// Port of the listener to send the request to
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Wait for the next request of any client instead of sending one, as without a URL
    #[arg(long, conflicts_with_all = ["sent", "url"])]
    pub(crate) next: bool,
    /// JSON Lines instead of a screen
    #[arg(long)]
    pub(crate) raw: bool,
    /// Method of the request [default: GET, or POST with a body]
    #[arg(short = 'X', long)]
    pub(crate) request: Option<Method>,
    /// Header of the request: `Name: value`
    #[arg(short = 'H', long = "header", value_parser = header)]
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Body of the request, as it stands
    #[arg(short, long)]
    pub(crate) data: Option<String>,
    /// Certificates (PEM) that vouch for the listener's [default: those that the system trusts]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) cacert: Option<PathBuf>,
    /// Take any certificate of the listener's
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,
    /// What to ask for; its host is sent as Host, and as the name in TLS [default: wait as --next]
    #[arg(last = true, requires = "port", value_parser = url)]
    pub(crate) url: Option<Uri>,
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("write it as `Name: value`")?;
    let wrong = |what| format!("`{}` is no header {what}", text.escape_debug());
    let name = name.trim().parse().map_err(|_| wrong("name"))?;
    let value = value.trim().parse().map_err(|_| wrong("value"))?;
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
        _ => Err("write it as http://HOST/PATH or https://HOST/PATH".to_owned()),
    }
}

/// `gwctl check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Files or folders
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// `gwctl log`.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// A Gateway that the proxy must have loaded: [gateway/]NAME
    pub(crate) resource: Option<Resource>,
    /// Sets it: a level, or a list such as `info,proxy::forward=debug`
    #[arg(long)]
    pub(crate) level: Option<String>,
}

/// `gwctl profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Of what
    #[arg(value_enum)]
    pub(crate) kind: ProfileKind,
    /// A Gateway that the proxy must have loaded: [gateway/]NAME
    pub(crate) resource: Option<Resource>,
    /// Seconds that a CPU profile takes
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=300))]
    pub(crate) seconds: u32,
    /// A flame graph (SVG) in place of a profile for `go tool pprof`
    #[arg(long)]
    pub(crate) flamegraph: bool,
    /// Where to; `-` is stdout [default: a name of the time]
    #[arg(short, long)]
    pub(crate) output: Option<PathBuf>,
}

/// What a profile is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileKind {
    /// CPU time
    Cpu,
    /// Allocated memory
    Heap,
}

/// `gwctl tasks`.
#[derive(Debug, Args)]
pub(crate) struct TasksArgs {
    /// A Gateway that the proxy must have loaded: [gateway/]NAME
    pub(crate) resource: Option<Resource>,
    /// Form
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// `gwctl memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// A Gateway that the proxy must have loaded: [gateway/]NAME
    pub(crate) resource: Option<Resource>,
    /// Form
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};
    use http::Method;

    use super::{Cli, Command, joined};

    fn parsed(line: &str) -> Result<Cli, String> {
        let line = joined(line.split(' ').map(Into::into));
        let cli = Cli::try_parse_from(line).map_err(|error| error.to_string())?;
        cli.check()?;
        Ok(cli)
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_trace_reads_like_curl() {
        let line =
            "gwctl trace gateway/shop -n web --local --port 80 -X PUT -H a:b -d x -- http://h/p";
        let cli = parsed(line).expect("a command");
        let Command::Trace(trace) = cli.command else {
            panic!("a trace")
        };
        assert_eq!(trace.url.expect("a URL").path(), "/p");
        assert_eq!(trace.request, Some(Method::PUT));
        assert_eq!(cli.from.local.as_deref(), Some("localhost:15000"));
        assert_eq!(cli.from.namespace.as_deref(), Some("web"));
    }

    #[test]
    fn an_address_may_follow_local_with_a_space() {
        for (line, local) in [
            ("gwctl log --local 127.0.0.1:26000", "127.0.0.1:26000"),
            ("gwctl --local [::1]:26000 log", "[::1]:26000"),
            ("gwctl log --local unix:/run/a.sock", "unix:/run/a.sock"),
            ("gwctl config all --local edge", "localhost:15000"),
            ("gwctl config all --local edge:26000 edge", "edge:26000"),
            ("gwctl trace --local --port 80 -- h:80", "localhost:15000"),
        ] {
            let cli = parsed(line).expect(line);
            assert_eq!(cli.from.local.as_deref(), Some(local), "{line}");
        }
        for line in [
            "gwctl config all --local edge:http",
            "gwctl config all --local=edge:26000 edge:26001",
        ] {
            let error = parsed(line).expect_err(line);
            assert!(error.contains("--local=HOST:PORT"), "{error}");
        }
    }

    #[test]
    fn only_what_can_be_done_is_a_command() {
        for (line, is_command) in [
            ("gwctl trace --local --port 80 -- h/p", true),
            ("gwctl trace --local --next", true),
            ("gwctl trace --local", true),
            ("gwctl trace gateway/edge --local --raw", true),
            ("gwctl trace --local -X PUT", false),
            ("gwctl trace --local http://h/p", false),
            ("gwctl trace --local --next -- h/p", false),
            ("gwctl trace --local --port 80", false),
            ("gwctl trace --local --port 0 -- h/p", false),
            ("gwctl trace --local -- h/p", false),
            ("gwctl trace --local --next --port 80", false),
            ("gwctl trace --local --port 443 -k -- https://h/p", true),
            (
                "gwctl trace --local --port 443 -k --cacert a -- https://h/p",
                false,
            ),
            ("gwctl trace --local --next -k", false),
            ("gwctl trace --local --port 80 -- ftp://h/p", false),
            ("gwctl trace --local --port 80 -- http:///p", false),
            ("gwctl trace --local --port 80 -H a -- h/p", false),
            ("gwctl config diff --file a --file b", true),
            ("gwctl config diff --local --file b", true),
            ("gwctl config diff --local --config a b", true),
            ("gwctl config diff --file a --config b", true),
            ("gwctl config diff --file a", false),
            ("gwctl config diff --local", false),
            ("gwctl config diff --file a --file b --config c", false),
            ("gwctl config all --file a --file b", false),
            ("gwctl config all --local --file a", false),
            ("gwctl config all shop --file a", true),
            ("gwctl check", false),
            ("gwctl profile cpu --seconds 301", false),
        ] {
            assert_eq!(parsed(line).is_ok(), is_command, "{line}");
        }
    }
}
