//! The `gateway` binary: from the command line to running shards and the exit code.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _};
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use admin::LogControl;
use admin::log::{self, FilterError};
use admin::process::{use_small_pages, uses_small_pages};
use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use clap::Parser;
use crossbeam::channel::Sender;
use proxy::args::{Cli, Command, HeapSampling, Pin, RunArgs};
use proxy::config::Published;
use proxy::config::apply::Binder;
use proxy::config::check;
use proxy::config::compile::CompileOptions;
use proxy::config::in_force::InForce;
use proxy::config::local::{self, LocalConfig, LocalHandle};
use proxy::config::xds::{self, ControllerState, XdsConfig, XdsHandle};
use proxy::inspect::{Inspected, Origin, servers};
use proxy::limits::LOG_STOP_TIMEOUT;
use proxy::machine::cpu::{self, Cpus};
use proxy::machine::descriptors;
use proxy::memory;
use proxy::memory::Allocator;
use proxy::memory::heap::{self, Sampling, SamplingAllocator};
use proxy::observe::log_writer::{LogQueue, LogWriter};
use proxy::observe::panics;
use proxy::observe::program_log::{LogFormat, ProgramLog, ProgramLogWriter};
use proxy::supervisor::{DrainPlan, Event, ShardPlan, Shards, ShutdownMode, supervise};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;
use translate::files::UnknownFields;

#[global_allocator]
static ALLOCATOR: SamplingAllocator<Allocator> = SamplingAllocator::new(Allocator);

/// Runs before everything else: the runtime allocates memory before `main`.
#[used]
#[expect(unsafe_code, reason = "a function that runs before `main`")]
#[unsafe(link_section = ".init_array.00000")]
static SMALL_PAGES: extern "C" fn() = use_small_pages;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run(&args),
        Command::Check {
            config,
            unknown_fields,
            port_offset,
            strict,
        } => check(config, (unknown_fields, port_offset), strict),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check(
    config: Vec<PathBuf>,
    (unknown_fields, port_offset): (UnknownFields, u16),
    strict: bool,
) -> Result<ExitCode> {
    let out = &mut io::stdout().lock();
    let verdict = check::check(config, unknown_fields, port_offset, out)?;
    Ok(if verdict.is_failure(strict) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn run(args: &RunArgs) -> Result<ExitCode> {
    let cpus = Cpus::of_this_process();
    // Before any other thread is started: threads inherit the affinity.
    avoid_shard_cores(args, &cpus)?;
    let (log_control, log) = start_log(args.log_format)?;
    if !uses_small_pages() {
        warn!("cannot turn off huge pages; idle connections may use more memory");
    }
    let code = match serve(args, cpus, log_control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    };
    // Waits for the last lines.
    drop(log);
    Ok(code)
}

fn serve(args: &RunArgs, cpus: Cpus, log_control: LogControl) -> Result<()> {
    let started = Instant::now();
    if args.heap_sampling == HeapSampling::Off {
        heap::set_sampling(Sampling::Off);
    }
    // Before anything is served: from here on signals shut down gracefully.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("cannot handle signals")?;
    let plan = plan(args, &cpus)?;
    let servers = servers::bind(args)?;
    let published = Arc::new(ArcSwap::default());
    let log = LogQueue::new();
    let writer = LogWriter::spawn(Arc::clone(&log), io::stdout())?;
    let (shards, events, sender) = Shards::start(plan.clone(), Arc::clone(&published), log)
        .context("cannot start the shards")?;
    let mut compile = CompileOptions::new(plan.shards);
    args.access_log.apply_to(&mut compile.access_log);
    compile.place = args.place();
    let in_force = InForce::default();
    let source = source(args, servers.ports(), compile, &in_force)?;
    let inspected = Inspected {
        shards: shards.clone(),
        in_force: in_force.clone(),
        origin: source.origin(),
        cpus,
        started,
    };
    let handles = inspected.handles(log_control, quit(&sender));
    let admin = admin::start(servers.sockets, handles, args.admin_host.clone())
        .context("cannot start the admin thread")?;
    let config = source.start(published, binder(shards.clone()))?;
    if in_force.was_recognised() {
        info!(shards = plan.shards, "ready");
    } else {
        info!(shards = plan.shards, "started, but not ready yet");
    }
    memory::unmap_code();

    let on_signal = signals.handle();
    let watcher = watch(signals, sender)?;
    let drain = DrainPlan {
        accept: args.drain_accept.0,
        deadline: args.drain_deadline.0,
    };
    supervise(&shards, &events, drain);
    on_signal.close();
    drop(watcher.join());
    drop(config);
    drop(admin);
    if !writer.stop(LOG_STOP_TIMEOUT) {
        warn!("the last lines of the access log were lost");
    }
    Ok(())
}

/// Source of the configuration.
enum Source {
    Files(LocalConfig),
    Controller(XdsConfig),
}

/// The thread that applies the configuration.
enum ConfigThread {
    Files { _thread: LocalHandle },
    Controller { _thread: XdsHandle },
}

fn source(
    args: &RunArgs,
    reserved_ports: BTreeSet<u16>,
    compile: CompileOptions,
    in_force: &InForce,
) -> Result<Source> {
    let in_force = in_force.clone();
    let session_keys = args.session_keys()?;
    let controller = args.controller.controller();
    let controller = controller.context("--xds")?;
    Ok(match controller {
        Some((controller, gateway)) => Source::Controller(XdsConfig {
            controller,
            gateway,
            proxy: args.controller.proxy(),
            cache: args.controller.xds_cache.clone(),
            compile,
            session_keys,
            in_force,
            state: ControllerState::default(),
        }),
        None => Source::Files(LocalConfig {
            paths: args.config.clone(),
            unknown_fields: args.unknown_fields,
            port_offset: args.port_offset,
            reserved_ports,
            compile,
            session_keys,
            in_force,
        }),
    })
}

impl Source {
    /// The source as shown by the admin server.
    fn origin(&self) -> Origin {
        match self {
            Self::Files(config) => Origin::Files(config.paths.clone()),
            Self::Controller(config) => Origin::Controller {
                address: config.controller.to_string(),
                state: config.state.clone(),
            },
        }
    }

    fn start(self, published: Published, binder: Binder) -> Result<ConfigThread> {
        Ok(match self {
            Self::Files(config) => ConfigThread::Files {
                _thread: local::start(config, published, binder)?,
            },
            Self::Controller(config) => ConfigThread::Controller {
                _thread: xds::start(config, published, binder)?,
            },
        })
    }
}

fn plan(args: &RunArgs, cpus: &Cpus) -> Result<ShardPlan> {
    let shards = shards(args, cpus);
    Ok(ShardPlan {
        shards: NonZeroU32::from(shards),
        driver: args.driver,
        cores: cores(args, cpus),
        descriptors: descriptors::per_shard(NonZeroU32::from(shards))?,
    })
}

/// Lets the shards listen on the configuration's binds.
fn binder(shards: Shards) -> Binder {
    Box::new(move |binds| {
        let binds = binds.iter();
        shards.listen_on(binds.map(|bind| (bind.id, bind.transport, bind.address)))
    })
}

/// The admin server's shutdown request.
fn quit(events: &Sender<Event>) -> impl Fn() + Send + Sync + 'static {
    let events = events.clone();
    move || {
        // The receiver is gone if the process is exiting already.
        let _ = events.send(Event::Stop(ShutdownMode::Graceful));
    }
}

/// Forwards signals until their handle is closed.
fn watch(mut signals: Signals, events: Sender<Event>) -> io::Result<JoinHandle<()>> {
    let run = move || {
        for signal in &mut signals {
            // Other servers reload on it; by default it would end the process and all requests.
            if signal == SIGHUP {
                info!("ignoring SIGHUP: files are watched and reloaded when they change");
                continue;
            }
            let urgency = if signal == SIGINT {
                ShutdownMode::Prompt
            } else {
                ShutdownMode::Graceful
            };
            if events.send(Event::Stop(urgency)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(run)
}

fn start_log(format: LogFormat) -> Result<(LogControl, ProgramLogWriter)> {
    let directives = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    // A proxy that has served before starts all the same.
    let (filter, invalid) = match log::parse(&directives) {
        Ok(filter) => (filter, None),
        Err(FilterError::Empty) => (EnvFilter::new("info"), None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    // Its warnings can be triggered by any client, at any rate.
    let filter = if directives.contains("h2") {
        filter
    } else {
        filter.add_directive("h2=off".parse().context("a directive of our own")?)
    };
    let current = filter.to_string();
    let log = Arc::new(ProgramLog::new(format));
    let writer = ProgramLogWriter::spawn(Arc::clone(&log), io::stderr())?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(log)
        .with_ansi(io::stderr().is_terminal());
    let control = match format {
        LogFormat::Text => {
            let builder = builder.with_filter_reloading();
            let control = LogControl::new(builder.reload_handle(), current);
            builder.init();
            control
        }
        LogFormat::Json => {
            let builder = builder.json().with_filter_reloading();
            let control = LogControl::new(builder.reload_handle(), current);
            builder.init();
            control
        }
    };
    panics::log_panics(&writer);
    if let Some(invalid) = invalid {
        error!("RUST_LOG: {invalid}; the level is info");
    }
    Ok((control, writer))
}

fn shards(args: &RunArgs, cpus: &Cpus) -> NonZeroU16 {
    args.shards.unwrap_or_else(|| cpus.shards())
}

/// The core of each shard. On a machine shared with others, the scheduler places threads better
/// than fixed cores; a restricted CPU set is a promise of exclusive cores.
fn cores(args: &RunArgs, cpus: &Cpus) -> Option<Vec<usize>> {
    let shards = usize::from(shards(args, cpus).get());
    let is_pinned = match args.pin {
        Pin::Always => true,
        Pin::Never => false,
        Pin::Auto => cpus.is_part_of_machine() && shards == cpus.set.len(),
    };
    is_pinned.then(|| cpus.set.iter().copied().cycle().take(shards).collect())
}

/// Moves this thread, and all threads it starts, off the cores that shards are pinned to, if there
/// are others. Each shard then moves to its own core.
fn avoid_shard_cores(args: &RunArgs, cpus: &Cpus) -> Result<()> {
    let Some(taken) = cores(args, cpus) else {
        return Ok(());
    };
    let others = cpus
        .set
        .iter()
        .copied()
        .filter(|core| !taken.contains(core));
    let others: Vec<usize> = others.collect();
    if others.is_empty() {
        return Ok(());
    }
    cpu::bind_thread(&others)
        .context("cannot move to the cores that no shard uses; try --pin never")
}
