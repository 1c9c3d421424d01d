//! The `controller` binary: from what the user typed to running parts, and to the exit code.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use controller::args::{Cli, Command, RunArgs};
use controller::context::Context;
use controller::leadership::Leadership;
use controller::log;
use controller::metrics::Metrics;
use controller::outputs::Outputs;
use controller::stopping::Stopping;
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Command::Run(args) = Cli::parse().command;
    match start(*args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: RunArgs) -> Result<()> {
    log::start(&args.log_level, args.log_format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.enable_all().build();
    runtime.context("no threads")?.block_on(serve(args))
}

async fn serve(args: RunArgs) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    let client = Client::try_default().await;
    let (stop, stopping) = Stopping::new();
    let (_election, leadership) = Leadership::new();
    let context = Context {
        client: client.context("no API server: run in a cluster, or set KUBECONFIG")?,
        args: Arc::new(args),
        outputs: Arc::new(Outputs::default()),
        leadership,
        stopping,
        metrics: Metrics::default(),
    };
    info!(
        class = context.args.gateway_class,
        "the controller is starting"
    );
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    info!("the controller is shutting down");
    stop.stop();
    Ok(())
}
