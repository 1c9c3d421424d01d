//! A tenant that does its worst on a shared Gateway, beside a quiet one whose clients must not
//! notice.
//!
//! Two Gateways are shared, one with each I/O driver of the proxy, and two replicas of the
//! controller serve them. `attacks` and `schema` make what the hostile tenant writes, `tenant`
//! writes it at a fixed rate, and `quiet` observes everything that must stay as it is.

mod attacks;
mod quiet;
mod random;
mod schema;
mod sockets;
mod tenant;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::ControlPlane;
use crate::process::print_line;
use crate::test::load::Load;
use crate::test::scope::Scope;
use quiet::{Changes, Quiet};
use sockets::IdleConnections;
use tenant::{Tenant, Writes};

pub(super) use tenant::conditions;

/// The length of a run, and how strictly it is judged.
struct Run {
    /// Changes of the quiet tenant without the hostile one, for comparison.
    calm: usize,
    /// Time that the hostile tenant works.
    hostile: Duration,
    /// Longest time that a change of the quiet tenant may take to serve at the 99th percentile, as
    /// a multiple of a run without the hostile tenant.
    slowdown: f64,
    /// What counts as no slower at all: the precision of so few changes on a busy machine.
    precision: Duration,
}

/// In CI, where a run is too short for a percentile to mean much, and other work takes processors away for
/// moments: what must hold is that nothing of the tenant's makes changes take seconds.
const SHORT: Run = Run {
    calm: 50,
    hostile: Duration::from_secs(40),
    slowdown: 10.0,
    precision: Duration::from_secs(5),
};

const LONG: Run = Run {
    calm: 600,
    hostile: Duration::from_mins(30),
    slowdown: 2.0,
    precision: Duration::from_millis(20),
};

/// Clients of the quiet tenant at each Gateway.
const CLIENTS: usize = 2;

/// Memory of a process with the hostile tenant's objects, as a multiple of its memory before.
const MEMORY: f64 = 2.0;

/// Memory that one Gateway's budgets allow beside that, in bytes: its compiled expressions (32 MiB)
/// and its resources.
const BUDGETS: f64 = 64e6;

pub(in crate::test) async fn a_quiet_tenant_does_not_notice_a_hostile_one(
    scope: &Scope,
) -> Result<()> {
    run(scope, &SHORT).await
}

pub(in crate::test) async fn a_quiet_tenant_does_not_notice_a_hostile_one_for_half_an_hour(
    scope: &Scope,
) -> Result<()> {
    run(scope, &LONG).await
}

async fn run(scope: &Scope, run: &Run) -> Result<()> {
    let control_plane = ControlPlane::of(scope);
    control_plane.scale(2).await?;
    let outcome = async {
        let hostile = scope.another().await?;
        let outcome = attack(scope, &hostile, &control_plane, run).await;
        hostile.close().await?;
        outcome
    };
    let outcome = outcome.await;
    control_plane.scale(1).await?;
    outcome
}

async fn attack(
    scope: &Scope,
    hostile: &Scope,
    control_plane: &ControlPlane,
    run: &Run,
) -> Result<()> {
    let quiet = Quiet::open(scope).await?;
    let calm = quiet.changes(|done| done < run.calm).await?;
    let before = quiet.observe(control_plane).await?;

    let loads: Vec<Load> = quiet
        .addresses()
        .map(|address| Load::start(address, CLIENTS))
        .collect();
    let idle = IdleConnections::open(&quiet.idle_targets(control_plane).await?);
    let tenant = Tenant::start(hostile, &scope.namespace).await?;
    let started = tokio::time::Instant::now();
    let disturbed = quiet.changes(|_| started.elapsed() < run.hostile).await;
    let writes = tenant.stop().await;
    let observed = quiet.observe(control_plane).await;
    idle.close();
    let mut answered = 0;
    let mut failed = Vec::new();
    for load in loads {
        let counts = load.stop().await;
        answered += counts.answered;
        failed.extend(counts.failed);
    }
    let (disturbed, after) = (disturbed?, observed?);
    report(&writes, &calm, &disturbed, answered)?;

    ensure!(
        failed.is_empty(),
        "{} of {answered} requests failed: {:?}",
        failed.len(),
        failed.iter().take(5).collect::<Vec<_>>()
    );
    writes.check().context("the hostile tenant did little")?;
    disturbed.check_no_slower(&calm, run.slowdown, run.precision)?;
    after.check_undisturbed(&before, MEMORY, BUDGETS)?;
    tenant::check_refusals(hostile).await
}

fn report(writes: &Writes, calm: &Changes, disturbed: &Changes, answered: usize) -> Result<()> {
    print_line(&format!(
        "{writes}; {answered} requests of the quiet tenant; its changes without it {calm}, \
         with it {disturbed}"
    ))
}
