//! The `gateway` binary: from what the user typed to running shards, and to the exit code.

use std::io::IsTerminal as _;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use clap::Parser;
use proxy::args::{Cli, Command, LogFormat, Pin, RunArgs};
use proxy::config::check::{self, Verdict};
use proxy::config::compile::CompileOptions;
use proxy::config::local::{self, BindRequest, LocalConfig};
use proxy::cpu::Cpus;
use proxy::descriptors;
use proxy::limits::LOG_STOP_PATIENCE;
use proxy::memory;
use proxy::observe::log_writer::{LogQueue, LogWriter};
use proxy::supervisor::{DrainPlan, Event, ShardPlan, Shards, Urgency, supervise};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run(&args),
        Command::Check {
            config,
            port_offset,
        } => check(config, port_offset),
    };
    match result {
        Ok(code) => code,
        // Without a subscriber (the log's own arguments were wrong) an event would be lost.
        Err(error) if tracing::dispatcher::has_been_set() => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check(config: Vec<PathBuf>, port_offset: u16) -> Result<ExitCode> {
    match check::check(config, port_offset, &mut std::io::stdout().lock())? {
        Verdict::Good => Ok(ExitCode::SUCCESS),
        Verdict::Bad => Ok(ExitCode::FAILURE),
    }
}

fn run(args: &RunArgs) -> Result<ExitCode> {
    start_log(args.log_format)?;
    if let Err(error) = memory::without_huge_pages() {
        warn!(%error, "huge pages stay on; idle connections may hold more memory");
    }
    // Before anything is served: a signal from here on is a wish for an orderly end.
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("signals cannot be caught")?;
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
    let mut compile = CompileOptions::new(plan.shards);
    args.access_log.apply_to(&mut compile.access_log);
    let local = LocalConfig {
        paths: args.config.clone(),
        port_offset: args.port_offset,
        compile,
    };
    let binding = shards.clone();
    let binder = move |wanted: Vec<BindRequest>| {
        binding.listen_on(wanted.iter().map(|bind| (bind.id, bind.address)))
    };
    let config = local::start(local, published, Box::new(binder))?;
    info!(shards = plan.shards, "ready");

    let on_signal = signals.handle();
    let watcher = std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in &mut signals {
                let urgency = if signal == SIGINT {
                    Urgency::Prompt
                } else {
                    Urgency::Graceful
                };
                if sender.send(Event::Stop(urgency)).is_err() {
                    return;
                }
            }
        })?;
    let drain = DrainPlan {
        accept: args.drain_accept.0,
        deadline: args.drain_deadline.0,
    };
    supervise(&shards, &events, drain);
    on_signal.close();
    drop(watcher.join());
    drop(config);
    if !writer.stop(LOG_STOP_PATIENCE) {
        warn!("the last lines of the access log were not taken");
    }
    Ok(ExitCode::SUCCESS)
}

fn start_log(format: LogFormat) -> Result<()> {
    let filter = EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::INFO.into())
        .from_env()
        .context("RUST_LOG is no filter; use `info`, or `info,proxy::forward=debug`")?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
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
