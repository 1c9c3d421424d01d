//! The `controller` binary: parses the command line, starts the tasks, and waits for a signal to stop.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use admin::process::{use_small_pages, uses_small_pages};
use admin::{Address, BoundSockets, LogControl, Sockets};
use anyhow::{Context as _, Result};
use clap::Parser as _;
use controller::args::{Cli, Command, RunArgs};
use controller::cluster_domain::cluster_domain;
use controller::context::Context;
use controller::deploy::{Deployer, Settings};
use controller::election::Candidate;
use controller::gateway_class::Claims;
use controller::isolation::{self, Peers};
use controller::leadership::{Election, Leadership};
use controller::metrics::Metrics;
use controller::outputs::Outputs;
use controller::queue::QueueMeasures;
use controller::seccomp::{InstallProfileArgs, install_profile};
use controller::session_keys::SessionKeyKeeper;
use controller::status::{Events, StatusMetrics, StatusWriter};
use controller::stopping::Stopping;
use controller::translation::Translation;
use controller::watch::{Extension, Kinds, Readiness, Supervisor};
use controller::{gateway_class, health, log, memory, translation, xds};
use http::HeaderValue;
use http::header::USER_AGENT;
use jiff::Timestamp;
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{info, warn};
use translate::Options;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs before everything else: the runtime allocates memory before `main`.
#[used]
#[expect(unsafe_code, reason = "a function that runs before `main`")]
#[unsafe(link_section = ".init_array.00000")]
static SMALL_PAGES: extern "C" fn() = use_small_pages;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => start(*args),
        Command::InstallSeccompProfile(args) => keep_profile(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn keep_profile(args: &InstallProfileArgs) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    runtime.block_on(install_profile(args))
}

fn start(args: RunArgs) -> Result<()> {
    let log = log::start(&args.log_level, args.log_format)?;
    translation::leave_defects_to_the_log();
    if !uses_small_pages() {
        warn!("cannot turn off huge pages; the controller may use more memory");
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let result = runtime.block_on(serve(args, log));
    runtime.shutdown_timeout(GRACE);
    result
}

async fn serve(args: RunArgs, log: LogControl) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot handle SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot handle SIGINT")?;
    let (stop, stopping) = Stopping::new();
    let (election, leadership) = Leadership::new();
    let config = Config::infer().await;
    let config = config.context("no API server: run in a cluster, or set KUBECONFIG")?;
    let context = Context {
        client: client(config.clone(), Retries::ByClient)?,
        outputs: Arc::new(outputs(&args)),
        args: Arc::new(args),
        leadership,
        stopping,
        metrics: Metrics::default(),
    };
    let class = &context.args.gateway_class;
    info!(
        class,
        version = env!("CARGO_PKG_VERSION"),
        "the controller is starting"
    );
    let mut tasks = JoinSet::new();
    let readiness = Readiness::new(watched_kinds(&context.args));
    let _servers = start_servers(&context, &readiness, log)?;
    start_readers(&context, config.clone(), &readiness, &mut tasks)?;
    let (writers, writing) = Leadership::new();
    start_writers(&context, config.clone(), &writing, &mut tasks)?;
    start_election(&context, config, election, &mut tasks)?;
    context
        .metrics
        .register_claims(Arc::clone(&context.outputs));
    tasks.spawn(gateway_class::run(context.clone(), writers));
    let address = context.args.xds_address;
    let listener = xds::listen(address).await;
    let listener = listener.with_context(|| format!("cannot listen on --xds-address {address}"))?;
    tasks.spawn(xds::run(context.clone(), listener));
    spawn_until_stopped(&context, &mut tasks, memory::return_freed());
    let (peers, outputs) = (Peers::of(&context.args), Arc::clone(&context.outputs));
    spawn_until_stopped(&context, &mut tasks, async move {
        isolation::follow(peers, readiness, &outputs).await;
    });
    let failed = tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        error = panic_of(&mut tasks) => Err(error),
        lost = context.outputs.claims.lost() => Err(lost.into()),
    };
    info!("the controller is shutting down");
    stop.stop();
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, ended).await.is_err() {
        warn!("some tasks did not end within {} s", GRACE.as_secs());
    }
    failed
}

/// The data that tasks exchange, with what the command line says.
fn outputs(args: &RunArgs) -> Outputs {
    // Of that name there is one Service.
    let installation = format!("{}/{}", args.namespace, args.service);
    let outputs = Outputs {
        claims: Claims::new(Some(installation)),
        class_advice: args
            .parameters_advice()
            .map(|advice| (args.gateway_class.clone(), advice)),
        ..Outputs::default()
    };
    if let Some((_, advice)) = &outputs.class_advice {
        warn!("{advice}");
    }
    outputs
}

/// Waits until a task panics: the others would stay ready, and serve outdated configuration.
async fn panic_of(tasks: &mut JoinSet<()>) -> anyhow::Error {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            return anyhow::Error::new(error).context("a task of the controller panicked");
        }
    }
    std::future::pending().await
}

/// The kinds of objects that are read.
fn watched_kinds(args: &RunArgs) -> Kinds {
    let extensions = [
        (args.inference_extension, Extension::Inference),
        (args.x_backend, Extension::XBackend),
    ];
    let extensions = extensions.into_iter().filter(|(is_enabled, _)| *is_enabled);
    let extensions: Vec<_> = extensions.map(|(_, extension)| extension).collect();
    Kinds::new(&extensions)
}

/// Starts the servers for probes, metrics and administration, on a thread of their own: a probe does not
/// wait for a translation.
fn start_servers(
    context: &Context,
    readiness: &Readiness,
    log: LogControl,
) -> Result<admin::Server> {
    let args = &context.args;
    let sockets = Sockets {
        admin: bind("--admin-address", &args.admin_address)?,
        metrics: bind("--metrics-address", &Address::Tcp(args.metrics_address))?,
        readiness: bind("--health-address", &Address::Tcp(args.health_address))?,
    };
    let (metrics, outputs) = (context.metrics.clone(), Arc::clone(&context.outputs));
    let handles = health::handles(readiness.clone(), outputs, metrics, log, &args.pod_name);
    admin::start_for_process(sockets, handles).context("cannot start the servers")
}

fn bind(flag: &'static str, address: &Address) -> Result<BoundSockets> {
    admin::bind(address).context(flag)
}

/// Starts the tasks that every replica runs: watches and translation.
///
/// The client of the watches does not retry: they have a backoff of their own, which is shorter, and
/// report what fails.
fn start_readers(
    context: &Context,
    config: Config,
    readiness: &Readiness,
    tasks: &mut JoinSet<()>,
) -> Result<()> {
    let Context {
        args,
        outputs,
        metrics,
        ..
    } = context;
    let options = Options {
        classes: [].into(),
        controller_name: args.controller_name.clone(),
        ..Options::cluster_of(&cluster_domain())
    };
    let outputs = Arc::clone(outputs);
    let translation =
        Translation::new(options, readiness.kinds(), outputs, metrics, Timestamp::now);
    let (sender, changes) = mpsc::channel(CHANGES);
    let selectors = args.discovery_namespace_selectors.clone();
    let client = client(config, Retries::Never)?;
    let watches = Supervisor::start(&client, selectors, &sender, readiness, metrics);
    spawn_until_stopped(context, tasks, watches.run());
    // Translating before the assigned addresses are known would remove every Gateway's address, and before the
    // session keys are, every proxy's.
    let known = [
        context.outputs.addresses_known.subscribe(),
        context.outputs.session_keys_known.subscribe(),
    ];
    let translation = translation.start(known, changes);
    let translation = translation.context("cannot start the thread of translation")?;
    spawn_until_stopped(context, tasks, translation);
    Ok(())
}

/// Starts the tasks that are active on the leader only: the status writer, and the deployer of
/// proxies. Their clients do not retry, since both pace their own writes. `writing` is the leadership of
/// classes too: it begins when it is known which of them are this installation's.
fn start_writers(
    context: &Context,
    config: Config,
    writing: &Leadership,
    tasks: &mut JoinSet<()>,
) -> Result<()> {
    let client = client(config, Retries::Never)?;
    let args = &context.args;
    let measures = QueueMeasures::new(&context.metrics);
    let metrics = StatusMetrics::new(&context.metrics);
    let (events, writing_events) = Events::new(
        client.clone(),
        &args.controller_name,
        &args.pod_name,
        metrics.clone(),
    );
    spawn_until_stopped(context, tasks, writing_events);
    let writer = StatusWriter::new(
        client.clone(),
        Arc::clone(&context.outputs),
        &args.controller_name,
        events,
        metrics,
        &measures,
    );
    let (leadership, stopping) = (writing, &context.stopping);
    tasks.spawn(writer.run(leadership.clone(), stopping.clone()));
    let outputs = Arc::clone(&context.outputs);
    let keeper = SessionKeyKeeper::new(client.clone(), &args.namespace, outputs, &context.metrics);
    let (outputs, settings) = (Arc::clone(&context.outputs), Settings::of(args));
    let deployer = Deployer::new(client, outputs, settings, &measures);
    tasks.spawn(deployer.run(leadership.clone(), stopping.clone()));
    spawn_until_stopped(context, tasks, keeper.run(leadership.clone()));
    Ok(())
}

fn start_election(
    context: &Context,
    config: Config,
    election: Election,
    tasks: &mut JoinSet<()>,
) -> Result<()> {
    let leadership = context.leadership.clone();
    context.metrics.register_leader(leadership);
    let args = &context.args;
    if args.leader_election {
        let client = client(config, Retries::Never)?;
        let candidate = Candidate::new(client, &args.namespace, &args.pod_name, election);
        tasks.spawn(candidate.run(context.stopping.clone()));
    } else {
        let mut stopping = context.stopping.clone();
        tasks.spawn(async move {
            election.set(true);
            stopping.stopped().await;
            election.set(false);
        });
    }
    Ok(())
}

/// Spawns a task that is cancelled at shutdown.
fn spawn_until_stopped(
    context: &Context,
    tasks: &mut JoinSet<()>,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let mut stopping = context.stopping.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = stopping.stopped() => {}
            () = task => {}
        }
    });
}

/// Whether a client retries requests that the API server rejected temporarily.
#[derive(Clone, Copy)]
enum Retries {
    ByClient,
    Never,
}

fn client(mut config: Config, retries: Retries) -> Result<Client> {
    // API servers derive the field manager from it for writes that name none, such as those of statuses.
    let agent = HeaderValue::from_static(concat!("gateway-controller/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    config.read_timeout = Some(READ_TIMEOUT);
    config.default_retry = matches!(retries, Retries::ByClient);
    // Otherwise a request on a connection that was idle has only the rest of the time.
    config.reset_reader_on_write = true;
    Client::try_from(config).context("the API server's configuration is invalid")
}

/// Read timeout of connections to the API server, lists included. Longer than a watch lasts.
const READ_TIMEOUT: Duration = Duration::from_secs(75);
/// Capacity of the queue of changes for translation; watches wait while it is full.
const CHANGES: usize = 4096;
/// How long tasks may take to shut down.
const GRACE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_a_task_is_an_error() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async {});
        tasks.spawn(async { panic!("a defect") });
        tasks.spawn(std::future::pending());
        let error = panic_of(&mut tasks).await;
        assert!(format!("{error:#}").contains("a defect"), "{error:#}");
    }
}
