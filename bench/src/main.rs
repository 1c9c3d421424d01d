//! `bench`: compares the gateway with its peers, over sockets alone.
//!
//! How a figure is measured: `scenario` (what) → `run` (case by case, round by round) → `turns` (a round:
//! all are started and take turns) → `measure` (one run, in slices: `peers` and `origin` started, `load`
//! applied, `cpu` read before and after, responses verified) → `record` (kept as JSON) → `report` (`stats`
//! of the rounds, tables and plots). `control_plane` measures implementations of Gateway API in a cluster
//! instead, and is separate.

mod args;
mod control_plane;
mod cpu;
mod inside;
mod load;
mod machine;
mod measure;
mod net;
mod noise;
mod origin;
mod output;
mod paths;
mod peers;
mod probe;
mod process;
mod procfs;
mod record;
mod relay;
mod report;
mod run;
mod scenario;
mod slice;
mod stats;
mod subject;
mod syscalls;
mod tls;
mod turns;

use anyhow::Result;
use clap::Parser as _;

use args::{Cli, Command, OriginArgs, Protocol};
use output::print_line;

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::ControlPlane(args) => control_plane::run(&args),
        Command::Report(args) => report::report(&args),
        Command::List(places) => run::list(&places),
        Command::Origin(args) => origin(&args),
        Command::Relay(args) => relay::run(args.driver, args.listen, args.to),
    }
}

fn origin(args: &OriginArgs) -> Result<()> {
    process::raise_open_files();
    let ready = |address| print_line(&format!("listening on {address}"));
    match args.protocol {
        Protocol::Http1 => origin::server::serve(args.listen, ready),
        Protocol::Http2 => origin::http2::serve(args.listen, ready),
    }
}
