//! A tenant that does its worst on a shared Gateway, beside a quiet one whose clients must not
//! notice.
//!
//! Two Gateways are shared, one with each I/O driver of the proxy, and two replicas of the
//! controller serve them. `attacks` and `schema` make what the hostile tenant writes, `tenant`
//! writes it at a fixed rate, and `quiet` observes everything that must stay as it is.
//!
//! Writers and idle connections have threads of their own, so that the clients that measure wait for none of them.
//! What the API server takes for these writes, on the processors that it shares with the gateway, is not the
//! gateway's: so changes beside the hostile tenant are compared with changes beside writes of the same objects in a
//! namespace that the controller does not read (`neutral`).

mod apart;
mod attacks;
#[cfg(test)]
mod cost;
mod neutral;
mod quiet;
mod schema;
mod sockets;
mod tenant;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::time::Instant;

use super::ControlPlane;
use crate::process::print_line;
use crate::test::load::Load;
use crate::test::scope::Scope;
use quiet::{Changes, Quiet};
use sockets::IdleConnections;
use tenant::{Tenant, Writes};

pub(super) use tenant::conditions;

/// The length of a run.
struct Run {
    /// Time that writes of no effect are made, for comparison.
    neutral: Duration,
    /// Time that the hostile tenant works.
    hostile: Duration,
}

/// What counts as no slower at all: some turns of a scheduler that has more threads than processors. The kernel gives
/// each of them 3 ms or more at a time, and a change passes six processes.
const PRECISION: Duration = Duration::from_millis(40);

/// About a minute.
const SHORT: Run = Run {
    neutral: Duration::from_secs(20),
    hostile: Duration::from_secs(30),
};

const LONG: Run = Run {
    neutral: Duration::from_mins(10),
    hostile: Duration::from_mins(30),
};

/// Longest time that a change of the quiet tenant may take to serve at the 99th percentile, as a multiple of that
/// beside writes of no effect.
const SLOWDOWN: f64 = 2.0;

/// Changes of the quiet tenant in each part of a run, at least: fewer have no 99th percentile.
const CHANGES: usize = 100;

/// Clients of the quiet tenant at each Gateway, and the time between two requests of each: 100 a second in all, which
/// leave the processors to what is measured.
const CLIENTS: usize = 2;
const EACH: Duration = Duration::from_millis(40);

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
    neutral::hide(&control_plane).await?;
    let outcome = async {
        let neutral = neutral::open(scope).await?;
        let hostile = scope.another().await?;
        let outcome = attack(scope, (&neutral, &hostile), &control_plane, run).await;
        hostile.close().await?;
        neutral.close().await?;
        outcome
    };
    let outcome = outcome.await;
    neutral::show(&control_plane).await?;
    control_plane.scale(1).await?;
    outcome
}

async fn attack(
    scope: &Scope,
    (neutral, hostile): (&Scope, &Scope),
    control_plane: &ControlPlane,
    run: &Run,
) -> Result<()> {
    let quiet = Quiet::open(scope).await?;
    let loads: Vec<Load> = quiet
        .addresses()
        .map(|address| Load::paced(address, CLIENTS, EACH))
        .collect();
    let alone = quiet.changes(|done| done < CHANGES).await?;
    let (neutral_writes, neutral) = beside(neutral, scope, &quiet, run.neutral).await?;
    let neutral = neutral?;
    let before = quiet.observe(control_plane).await?;

    let idle = IdleConnections::open(quiet.idle_targets(control_plane).await?)?;
    let (writes, disturbed) = beside(hostile, scope, &quiet, run.hostile).await?;
    let observed = quiet.observe(control_plane).await;
    idle.close().await?;
    let mut answered = 0;
    let mut failed = Vec::new();
    for load in loads {
        let counts = load.stop().await;
        answered += counts.answered;
        failed.extend(counts.failed);
    }
    let (disturbed, after) = (disturbed?, observed?);
    print_line(&format!(
        "{answered} requests of the quiet tenant. Its changes alone: {alone}; beside neutral writes: {neutral}; \
         beside the hostile tenant: {disturbed}. Neutral: {neutral_writes}. Hostile: {writes}"
    ))?;

    ensure!(
        failed.is_empty(),
        "{} of {answered} requests failed: {:?}",
        failed.len(),
        failed.iter().take(5).collect::<Vec<_>>()
    );
    writes.check().context("the hostile tenant did little")?;
    neutral_writes
        .check()
        .context("there were few neutral writes")?;
    disturbed.check_no_slower(&neutral, SLOWDOWN, PRECISION)?;
    after.check_undisturbed(&before, MEMORY, BUDGETS)?;
    tenant::check_refusals(hostile).await
}

/// Changes of the quiet tenant for so long, beside a tenant that writes into this namespace.
async fn beside(
    namespace: &Scope,
    scope: &Scope,
    quiet: &Quiet<'_>,
    time: Duration,
) -> Result<(Writes, Result<Changes>)> {
    let tenant = Tenant::start(namespace, &scope.namespace).await?;
    let started = Instant::now();
    let changes = quiet.changes(|done| done < CHANGES || started.elapsed() < time);
    let changes = changes.await;
    Ok((tenant.stop().await, changes))
}
