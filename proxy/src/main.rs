//! The `gateway` binary: from what the user typed to running shards, and to the exit code.

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use clap::Parser;
use proxy::args::{Cli, Command, LogFormat, Pin, RunArgs};
use proxy::config;
use proxy::cpu::Cpus;
use proxy::descriptors;
use proxy::limits::LOG_STOP_PATIENCE;
use proxy::observe::log_writer::{LogQueue, LogWriter};
use proxy::supervisor::{DrainPlan, Event, ShardPlan, Shards, Urgency, supervise};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::info;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run(&args),
        Command::Check { .. } => return ExitCode::FAILURE,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &RunArgs) -> Result<()> {
    start_log(args.log_format)?;
    let cpus = Cpus::of_this_process();
    let shards = args.shards.unwrap_or_else(|| cpus.shards());
    let plan = ShardPlan {
        shards: NonZeroU32::from(shards),
        driver: args.driver,
        cores: cores(args.pin, &cpus, usize::from(shards.get())),
        connections: descriptors::client_connections(NonZeroU32::from(shards))?,
        session_key: args.session_key()?,
    };
    let published = Arc::new(ArcSwap::default());
    let log = LogQueue::new();
    let writer = LogWriter::spawn(Arc::clone(&log), std::io::stdout())?;
    let (shards, events, sender) = Shards::start(plan.clone(), Arc::clone(&published), log)
        .context("the shards could not be started")?;
    let sources: Vec<_> = args.config.iter().map(|p| translate::admit::Source::from_bytes(p.display().to_string(), std::fs::read(p).unwrap())).collect();
    let mut configuration = translate::admit::Configuration::default();
    for finding in configuration.reload(&sources).findings { tracing::warn!("{finding}"); }
    let translation = translate::translate(configuration.store(), &translate::Options::machine());
    let mut options = config::compile::CompileOptions::new(plan.shards);
    options.access_log.off = args.access_log == proxy::args::AccessLogDefault::Off;
    let snapshot = config::compile::Compiler::default().compile(&translation.model, &config::dns::Resolved::default(), &options);
    let binds: Vec<_> = snapshot.binds.iter().enumerate().filter_map(|(i, b)| Some((i as u32, b.as_ref()?.address))).collect();
    published.store(Arc::new(snapshot));
    for (id, address) in binds { shards.listen(id, address)?; info!(%address, "listening"); }
    let config = ();
    info!(shards = plan.shards, "ready");

    let mut signals = Signals::new([SIGTERM, SIGINT]).context("signals cannot be caught")?;
    let on_signal = signals.handle();
    let watcher = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in &mut signals {
            let urgency = if signal == SIGINT { Urgency::Prompt } else { Urgency::Graceful };
            if sender.send(Event::Stop(urgency)).is_err() {
                return;
            }
        }
    })?;
    let drain = DrainPlan { accept: args.drain_accept, deadline: args.drain_deadline };
    supervise(&shards, &events, drain);
    on_signal.close();
    drop(watcher.join());
    drop(config);
    writer.stop(LOG_STOP_PATIENCE);
    Ok(())
}

fn start_log(format: LogFormat) -> Result<()> {
    let filter = EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::INFO.into())
        .from_env()
        .context("RUST_LOG is no filter; use `info`, or `info,proxy::forward=debug`")?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}

/// The core of each shard. On a machine shared with others, the scheduler knows better than a fixed
/// core; a set of CPUs of our own is a promise that nobody else runs there.
fn cores(pin: Pin, cpus: &Cpus, shards: usize) -> Option<Vec<usize>> {
    let wanted = match pin {
        Pin::Always => true,
        Pin::Never => false,
        Pin::Auto => cpus.is_part_of_machine() && shards == cpus.set.len(),
    };
    wanted.then(|| cpus.set.iter().copied().cycle().take(shards).collect())
}
