//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::cluster::component::Component;
use crate::cluster::place::Place;
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
    /// Build an image of ours as an archive that `load`, `docker load` and `kind load` take.
    Image {
        /// `gateway` or `controller`.
        program: String,
        /// The Cargo profile: `release` is what ships, `e2e` builds faster.
        #[arg(long, default_value = "release")]
        profile: String,
    },
    /// Start a cluster, and wait until its nodes are Ready.
    Up {
        #[arg(long, default_value = "1", value_parser = clap::value_parser!(u8).range(1..=9))]
        nodes: u8,
    },
    /// Run a command where the cluster can be reached, with KUBECONFIG and PATH set.
    Exec {
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Load images into every node: archives, or names of images of ours, which are built.
    Load {
        #[arg(required = true)]
        images: Vec<String>,
    },
    /// Print what a component has logged.
    Logs(LogsArgs),
    /// Stop a component, until `start`.
    Stop(StopArgs),
    /// Start a component that was stopped or has ended.
    Start(ComponentArgs),
    /// Change the network between the nodes.
    Network {
        #[command(subcommand)]
        condition: Condition,
    },
    /// Remove the cluster and everything of it but its logs; does nothing where there is none.
    Down,
    /// Run the tests, on the cluster that is up or else on one of their own.
    Test(TestArgs),
    /// Run an official conformance suite of Gateway API, on the cluster that is up or else on one of its own.
    Conformance(ConformanceArgs),
    /// Run the components of a node, or of the network between them.
    #[command(hide = true)]
    Supervise {
        place: Place,
        /// In the namespaces of the place, which are made first otherwise.
        #[arg(long)]
        inside: bool,
    },
    /// Give Services of type LoadBalancer their addresses.
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
pub(crate) struct ComponentArgs {
    pub(crate) component: Component,
    /// Of which node, where each has one.
    #[arg(long, default_value = "0")]
    pub(crate) node: u8,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pub(crate) component: ComponentArgs,
    /// Go on as more is logged.
    #[arg(short, long)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    pub(crate) component: ComponentArgs,
    /// By SIGKILL, as in a crash.
    #[arg(long)]
    pub(crate) kill: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Condition {
    /// Drop every packet between nodes; the client still reaches each.
    Cut,
    /// Deliver each packet between nodes this much later.
    Delay {
        /// For example `50ms`.
        #[arg(value_parser = parse_millis)]
        by: Duration,
    },
    /// Drop this share of the packets between nodes.
    Loss {
        /// For example `10%`.
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
    /// On the cluster that KUBECONFIG names. Load the images there first, or name them in
    /// `E2E_GATEWAY_IMAGE` and `E2E_ECHO_IMAGE`.
    #[arg(long)]
    pub(crate) existing: bool,
    /// Run the tests that take minutes each, instead of the others.
    #[arg(long)]
    pub(crate) long: bool,
    /// Name the tests and run none.
    #[arg(long)]
    pub(crate) list: bool,
    /// Leave a cluster up that was started for the tests.
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// The suite, by its release, whose definitions are installed.
    #[arg(long, value_enum, default_value = "v1.7.0")]
    pub(crate) suite: Suite,
    /// Which fields the definitions have. A cluster keeps the release and channel that it was given first.
    #[arg(long, value_enum, default_value = "experimental")]
    pub(crate) channel: Channel,
    /// Run this test alone; repeatable. No report is written.
    #[arg(long, value_name = "NAME")]
    pub(crate) run_test: Vec<String>,
    /// Test the images `localhost/gateway:e2e` and `localhost/controller:e2e` that are loaded already,
    /// rather than those of this tree.
    #[arg(long)]
    pub(crate) loaded: bool,
    /// How the proxies talk to the kernel. The rings of all proxies share one limit of locked memory
    /// (`ulimit -l`), beyond which those with `io-uring` do not start.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) driver: Driver,
    /// Where to write the suite's report; otherwise it is beside the log.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Leave a cluster up that was started for the suite.
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
