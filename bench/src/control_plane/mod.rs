//! `bench control-plane`: how fast an implementation of Gateway API follows changes of a cluster's objects,
//! and at what cost. An implementation is named by its GatewayClass.
//!
//! How a figure is measured: `peer` (whose controller and proxies) → `serving_gateway` (a Gateway
//! of its class, Services that lead to `backend`) → `cases` (write objects through `cluster`, send
//! requests with `prober` and `traffic`) → `meter` (the cost in that time: `usage`, `writes`) →
//! `record` (kept as JSON) → `report`.

pub(crate) mod args;
mod backend;
mod cases;
mod churn;
mod cluster;
mod context;
mod fleet;
mod http;
mod meter;
mod objects;
mod peer;
mod prober;
mod record;
mod report;
mod serving_gateway;
mod sizes;
mod traffic;
mod usage;
mod writes;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use tokio::task::LocalSet;

use crate::output::{create_folder, print_line};
use crate::{machine, process};
use args::{Case, ControlPlaneArgs};
use backend::Backend;
use cluster::Cluster;
use context::Context;
use peer::Peer;
use record::{ControlPlaneRecord, Run};

/// Runs the cases of `bench control-plane` and records their results.
pub(crate) fn run(args: &ControlPlaneArgs) -> Result<()> {
    if !args.from.is_empty() {
        return report::report(&args.from, &args.out);
    }
    process::raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Watches are tasks that share the state of a case.
    LocalSet::new().block_on(&runtime, measure(args))
}

async fn measure(args: &ControlPlaneArgs) -> Result<()> {
    let cluster = Cluster::connect().await?;
    cluster.remove_leftovers().await?;
    let peers = args.peers()?;
    let backend = Backend::start(args.endpoints_range)?;
    // Clients and endpoints stand for other machines: their latency must not include waiting for this
    // machine's processors. Threads that start later inherit it.
    process::shorten_slices(std::process::id())?;
    create_folder(&args.out)?;
    let mut record = ControlPlaneRecord {
        started: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        machine: machine::describe(),
        sizes: args.sizes(),
        quick: args.quick,
        peers: Vec::new(),
        runs: Vec::new(),
    };
    let name = format!("control-plane-{}.json", record.started);
    let path = args.out.join(name);
    for case in args.cases() {
        for peer in &peers {
            only(&cluster, &peers, peer).await?;
            if !record.peers.iter().any(|known| known.name == peer.class) {
                record.peers.push(peer.describe(&cluster).await?);
            }
            let context = Context {
                cluster: &cluster,
                peer,
                backend: &backend,
                sizes: &record.sizes,
            };
            print_line(&format!("\n== {case} {}", peer.class));
            let runs = run_case(&context, case).await;
            runs.iter().for_each(Run::print);
            record.runs.extend(runs);
            record.save(&path)?;
        }
    }
    for peer in &peers {
        peer.wake(&cluster).await?;
    }
    finish(args, &record, path)
}

/// Scales all other controllers to zero, which would otherwise react to the benchmark's objects.
async fn only(cluster: &Cluster, peers: &[Peer], chosen: &Peer) -> Result<()> {
    for other in peers.iter().filter(|peer| peer.class != chosen.class) {
        other.sleep(cluster).await?;
    }
    chosen.wake(cluster).await
}

async fn run_case(context: &Context<'_>, case: Case) -> Vec<Run> {
    let mut done = Vec::new();
    let result = cases::run(context, case, &mut done).await;
    let run = |(name, result)| Run {
        case: name,
        peer: context.peer.class.clone(),
        result,
    };
    let mut runs: Vec<Run> = done
        .into_iter()
        .map(|(name, measured)| run((name, Ok(measured))))
        .collect();
    if let Err(error) = result {
        runs.push(run((case.to_string(), Err(format!("{error:#}")))));
    }
    // Remove what a failed case left behind.
    if let Err(error) = context.cluster.remove_leftovers().await {
        print_line(&format!("!! {error:#}"));
    }
    runs
}

fn finish(args: &ControlPlaneArgs, record: &ControlPlaneRecord, path: PathBuf) -> Result<()> {
    print_line(&format!("\nrecord: {}", path.display()));
    report::report(&[path], &args.out)?;
    let failed = record.runs.iter().filter(|run| run.result.is_err()).count();
    ensure!(
        failed == 0,
        "{failed} cases failed: their reasons are above, and in the report"
    );
    Ok(())
}
