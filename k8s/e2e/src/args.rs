//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::cluster::component::Component;
use crate::cluster::network_namespace::NetworkNamespace;
use crate::conformance::{Channel, Driver, Suite};

/// A Kubernetes cluster on this machine, and the tests that run on it.
#[derive(Debug, Parser)]
#[command(name = "e2e", version)]
pub(crate) struct Cli {
    /// Which cluster; clusters of different names run side by side.
    #[arg(long, global = true, default_value = "default", env = "E2E_CLUSTER")]
    pub(crate) name: String,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build the cluster's programs and images, which `up` also does where they are missing.
    Build {
        /// Build the programs of one folder of `programs` only, such as `helm`, and print where they are.
        module: Option<String>,
    },
    /// Build one of our images as an archive for `load`, `docker load` and `kind load`.
    Image {
        /// Name of the program: `gateway` or `controller`.
        program: String,
        /// The Cargo profile: `release` is what ships, `e2e` builds faster.
        #[arg(long, default_value = "release")]
        profile: String,
        /// A checkout of this repository to build from, instead of this one.
        #[arg(long)]
        from: Option<PathBuf>,
        /// A profile that an earlier build made, for profile-guided optimisation: the same sources and
        /// the same profile make the same image.
        #[arg(long, value_name = "FILE")]
        pgo: Option<PathBuf>,
        /// Make that profile first, as `bench/pgo.sh` does (some 15 minutes on two cores), and keep it as
        /// `target/pgo/gateway.profdata`.
        #[arg(long, conflicts_with = "pgo")]
        train: bool,
    },
    /// Start a cluster, and wait until its nodes are Ready.
    Up {
        #[arg(long, default_value = "1", value_parser = clap::value_parser!(u8).range(1..=9))]
        nodes: u8,
    },
    /// Run a command in the cluster's client network, with KUBECONFIG and PATH set.
    Exec {
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Load images into every node: archives, or names of images of this repository, which are
    /// built.
    Load {
        #[arg(required = true)]
        images: Vec<String>,
        /// Build images as they ship, which takes some minutes more.
        #[arg(long)]
        release: bool,
    },
    /// Forward a port of this machine to a Service of type LoadBalancer, until interrupted.
    Forward(ForwardArgs),
    /// Print the log of a component.
    Logs(LogsArgs),
    /// Stop a component until `start`.
    Stop(StopArgs),
    /// Start a component that was stopped or that has exited.
    Start(ComponentArgs),
    /// Change the network between the nodes.
    Network {
        #[command(subcommand)]
        condition: Condition,
    },
    /// Remove the cluster and all of its state except logs; does nothing if it does not exist.
    Down,
    /// Run the tests, on the running cluster or on a temporary one.
    Test(TestArgs),
    /// Run an official Gateway API conformance suite, on the running cluster or on a temporary one.
    Conformance(ConformanceArgs),
    /// Run the components of a node, or of the network between them.
    #[command(hide = true)]
    Supervise {
        place: NetworkNamespace,
        /// The namespaces exist already; without it, they are created first.
        #[arg(long)]
        inside: bool,
    },
    /// Assign addresses to Services of type LoadBalancer.
    #[command(hide = true)]
    LoadBalancer,
    /// Delay and drop packets between the nodes.
    #[command(hide = true)]
    Emulate {
        #[arg(value_parser = parse_millis)]
        delay: Duration,
        loss: u8,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ForwardArgs {
    /// `NAME` or `NAMESPACE/NAME` of a Service; may be omitted if there is only one of type LoadBalancer.
    /// `localhost` is a program that runs by `e2e exec`. Then the port, or `LOCAL:PORT`.
    #[arg(required = true, num_args = 1..=2, value_names = ["SERVICE", "PORT"])]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ComponentArgs {
    pub(crate) component: Component,
    /// The node, for a component that runs on each node.
    #[arg(long, default_value = "0")]
    pub(crate) node: u8,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pub(crate) component: ComponentArgs,
    /// Print new lines as they are written.
    #[arg(short, long)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    pub(crate) component: ComponentArgs,
    /// Send SIGKILL instead of SIGTERM, as in a crash.
    #[arg(long)]
    pub(crate) kill: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Condition {
    /// Drop every packet between nodes; clients still reach each node.
    Cut,
    /// Delay each packet between nodes.
    Delay {
        /// Delay of each packet, such as `50ms`.
        #[arg(value_parser = parse_millis)]
        by: Duration,
    },
    /// Drop this share of the packets between nodes.
    Loss {
        /// Share of the packets, such as `10%`.
        #[arg(value_parser = parse_percent)]
        share: u8,
    },
    /// Undo all of the above.
    Heal,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct TestArgs {
    /// Run the tests whose names contain this. Images that the
    /// variables `E2E_GATEWAY_IMAGE` and `E2E_CONTROLLER_IMAGE` name have to be loaded; others are built.
    #[arg(default_value = "")]
    pub(crate) filter: String,
    /// Use the cluster that KUBECONFIG names. Load the images there first, or name them in
    /// `E2E_GATEWAY_IMAGE` and `E2E_ECHO_IMAGE`.
    #[arg(long)]
    pub(crate) existing: bool,
    /// Run only the tests that take minutes each.
    #[arg(long)]
    pub(crate) long: bool,
    /// List the tests and run none.
    #[arg(long)]
    pub(crate) list: bool,
    /// Keep the temporary cluster.
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// The suite's Gateway API release, whose CRDs are installed.
    #[arg(long, value_enum, default_value = "v1.7.0")]
    pub(crate) suite: Suite,
    /// The release channel of the CRDs. A cluster keeps the release and channel that were installed
    /// first.
    #[arg(long, value_enum, default_value = "experimental")]
    pub(crate) channel: Channel,
    /// Run this test alone; repeatable. No report is written.
    #[arg(long, value_name = "NAME")]
    pub(crate) run_test: Vec<String>,
    /// Test the images `localhost/gateway:e2e` and `localhost/controller:e2e` that are loaded
    /// already, rather than building them from this tree.
    #[arg(long)]
    pub(crate) loaded: bool,
    /// The proxies' I/O driver. The rings of all proxies share one limit of locked memory (`ulimit
    /// -l`), beyond which those with `io-uring` do not start.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) driver: Driver,
    /// Where to write the suite's report; by default, beside the log.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Keep the temporary cluster.
    #[arg(long)]
    pub(crate) keep: bool,
}

fn parse_millis(text: &str) -> Result<Duration, String> {
    let digits = text.strip_suffix("ms").unwrap_or(text);
    let millis: u64 = digits
        .parse()
        .map_err(|_| format!("'{text}' is not a duration such as 50ms"))?;
    if millis > 10_000 {
        return Err(format!("'{text}' is more than 10000ms"));
    }
    Ok(Duration::from_millis(millis))
}

fn parse_percent(text: &str) -> Result<u8, String> {
    let digits = text.strip_suffix('%').unwrap_or(text);
    match digits.parse() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => Err(format!("'{text}' is not a percentage such as 10%")),
    }
}
