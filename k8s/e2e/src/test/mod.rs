//! The tests that run on a cluster: ours, or any that KUBECONFIG names.
//!
//! A test is an async function that is given a namespace of its own. One that fails is told with what
//! the cluster has to say of it: events, states of pods, last lines of what is not ready.

mod charts;
mod diagnosis;
mod failures;
mod gateway_pod;
mod http;
mod load;
mod manifests;
mod platform;
mod protocols;
mod scope;
mod tls;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use tokio::task::LocalSet;

use crate::args::TestArgs;
use crate::cluster::Cluster;
use crate::home::Home;
use crate::process::say;
use crate::{image, packages};
use scope::{Images, Scope};

/// How long a test may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// How many nodes a cluster has that is started for the tests.
const NODES: u8 = 2;

/// What a test has to have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// A cluster.
    Any,
    /// A cluster of ours: its nodes' files, its network, its components.
    Ours,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

struct Test {
    name: &'static str,
    needs: Needs,
    run: for<'a> fn(&'a Scope) -> Running<'a>,
}

macro_rules! tests {
    ($($needs:ident $file:ident :: $name:ident,)*) => {
        &[$(Test {
            name: concat!(stringify!($file), "::", stringify!($name)),
            needs: Needs::$needs,
            run: |scope| Box::pin($file::$name(scope)),
        }),*]
    };
}

const TESTS: &[Test] = tests! {
    Any platform::a_missing_image_is_named_within_seconds,
    Any platform::names_of_services_resolve,
    Ours platform::load_balancers_have_addresses_that_answer,
    Ours platform::load_balancers_follow_local_endpoints,
    Any charts::the_api_server_takes_our_definitions,
    Any charts::a_release_is_installed_upgraded_rolled_back_and_uninstalled,
    Any gateway_pod::uses_io_uring_without_a_seccomp_profile,
    Any gateway_pod::falls_back_to_epoll_under_runtime_default,
    Ours gateway_pod::uses_io_uring_under_our_seccomp_profile,
    Any gateway_pod::serves_tls_on_port_443,
    Ours gateway_pod::sigterm_under_load_loses_no_request,
    Any gateway_pod::shards_follow_the_cpu_quota,
    Ours gateway_pod::a_shard_is_bound_to_an_exclusive_cpu,
    Ours gateway_pod::many_clients_fit_into_its_memory_limit,
    Any protocols::http2_in_the_clear_reaches_a_backend,
    Any protocols::grpc_reaches_a_backend,
    Any protocols::websocket_reaches_a_backend,
    Any protocols::tcp_reaches_a_backend,
    Ours protocols::udp_reaches_a_backend,
    Ours failures::a_cut_between_nodes_fails_requests_until_it_heals,
    Ours failures::packets_between_nodes_come_later,
    Ours failures::packets_between_nodes_are_lost,
    Ours failures::traffic_goes_on_without_the_api_server,
};

/// Runs the tests whose names contain the filter.
pub(crate) fn run(home: &Home, name: &str, args: &TestArgs) -> Result<ExitCode> {
    let chosen: Vec<&Test> = TESTS
        .iter()
        .filter(|test| test.name.contains(&args.filter))
        .collect();
    if chosen.is_empty() {
        bail!(
            "no test's name contains '{}': `e2e test --list` names all",
            args.filter
        );
    }
    if args.list {
        for test in chosen {
            say(test.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let all_passed = if args.existing {
        run_on_existing(&chosen)?
    } else {
        run_on_ours(home, name, args, &chosen)?
    };
    Ok(if all_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run_on_existing(chosen: &[&Test]) -> Result<bool> {
    let kubeconfig = std::env::var_os("KUBECONFIG")
        .context("--existing needs a cluster: set KUBECONFIG to its kubeconfig")?;
    run_all(
        chosen,
        &PathBuf::from(kubeconfig),
        None,
        &Images::of_environment(),
    )
}

/// On the cluster of this name if it is up, or else on one that is started for the tests.
fn run_on_ours(home: &Home, name: &str, args: &TestArgs, chosen: &[&Test]) -> Result<bool> {
    packages::check_root()?;
    let cluster = Cluster::named(home, name)?;
    let gateway = image::build(home, "gateway", image::TEST_PROFILE)?;
    let started = !cluster.is_up();
    if started {
        cluster.up(home, NODES)?;
    }
    let passed = cluster
        .load_archives(std::slice::from_ref(&gateway.archive))
        .and_then(|()| cluster.enter_client_network())
        .and_then(|()| {
            let images = Images {
                gateway: gateway.reference.clone(),
                echo: image::ECHO.to_owned(),
            };
            run_all(chosen, &cluster.kubeconfig(), Some(&cluster), &images)
        });
    if started && !args.keep {
        cluster.down()?;
    }
    passed
}

fn run_all(
    chosen: &[&Test],
    kubeconfig: &Path,
    cluster: Option<&Cluster>,
    images: &Images,
) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut failed = Vec::new();
    let (mut passed, mut skipped) = (0, 0);
    for test in chosen {
        if test.needs == Needs::Ours && cluster.is_none() {
            skipped += 1;
            say(&format!(
                "test {} ... skipped: it needs nodes that e2e started",
                test.name
            ))?;
            continue;
        }
        let began = Instant::now();
        // Clients of a test are tasks that share its state.
        let result = LocalSet::new().block_on(&runtime, async {
            let scope =
                Scope::open(kubeconfig.to_owned(), cluster.cloned(), images.clone()).await?;
            run_one(test, &scope).await
        });
        let took = began.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                passed += 1;
                say(&format!("test {} ... ok ({took:.1} s)", test.name))?;
            }
            Err(report) => {
                failed.push(test.name);
                say(&format!(
                    "test {} ... FAILED ({took:.1} s)\n{report:#}",
                    test.name
                ))?;
            }
        }
    }
    for name in &failed {
        say(&format!("failed: {name}"))?;
    }
    say(&format!(
        "cluster tests: {passed} passed, {} failed, {skipped} skipped",
        failed.len()
    ))?;
    Ok(failed.is_empty())
}

/// Runs one test in its namespace. A failure comes with what the cluster says.
async fn run_one(test: &Test, scope: &Scope) -> Result<()> {
    let result = match tokio::time::timeout(PATIENCE, (test.run)(scope)).await {
        Ok(result) => result,
        Err(_) => Err(anyhow::anyhow!(
            "it took longer than {} s",
            PATIENCE.as_secs()
        )),
    };
    let result = match result {
        Ok(()) => Ok(()),
        Err(error) => Err(anyhow::anyhow!(
            "{error:#}\n{}",
            diagnosis::of_scope(scope).await
        )),
    };
    // What it left behind is none of the next test's business, and goes while that runs.
    result.and(scope.close().await)
}
