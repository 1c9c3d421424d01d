//! wrk: the load for flat-out HTTP/1.
//!
//! It checks statuses itself and counts bytes; together with the origin's count of requests and
//! the probes before and after a run that is what makes a wrong answer show.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::latency::{Basis, Latency, QUANTILES};
use super::{Aim, Outcome};
use crate::scenario::Case;
use crate::stats::count64;

/// Runs wrk, which inherits the cores of the calling thread.
pub(super) fn run(aim: Aim<'_>, duration: Duration) -> Result<Outcome> {
    let script = aim.folder.join("wrk.lua");
    std::fs::write(&script, include_str!("wrk.lua"))?;
    let Aim { case, address, .. } = aim;
    let scheme = if case.encrypted() { "https" } else { "http" };
    let mut command = Command::new("wrk");
    command.args([
        "-t1",
        "--timeout",
        "10s",
        "-c",
        &case.load.connections.to_string(),
    ]);
    // wrk knows whole seconds only.
    command
        .args(["-d", &format!("{}s", duration.as_secs().max(1)), "-s"])
        .arg(script);
    command.args(["-H", &format!("Host: {}", case.routes.host())]);
    if case.load.close {
        command.args(["-H", "Connection: close"]);
    }
    command.arg(format!("{scheme}://{address}{}", case.path()));
    let output = command.output().context("cannot run wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "wrk failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    outcome(&text, case)
}

#[derive(Deserialize)]
struct Summary {
    duration_us: u64,
    requests: u64,
    bytes: u64,
    errors: u64,
    statuses: u64,
    latency_us: Vec<f64>,
}

fn outcome(text: &str, case: &Case) -> Result<Outcome> {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("BENCH "))
        .context("wrk told nothing")?;
    let summary: Summary = serde_json::from_str(line)?;
    ensure!(summary.requests > 0, "not one request was answered");
    ensure!(
        summary.statuses == 0,
        "{} answers were not 200",
        summary.statuses
    );
    ensure!(
        summary.errors == 0,
        "{} connections broke or timed out",
        summary.errors
    );
    let least = summary.requests * case.load.bytes as u64;
    ensure!(
        summary.bytes >= least,
        "{} bytes came instead of {least}",
        summary.bytes
    );
    let curve = QUANTILES.into_iter().zip(summary.latency_us).collect();
    Ok(Outcome {
        requests: summary.requests,
        seconds: count64(summary.duration_us) / 1e6,
        latency: Some(Latency {
            basis: Basis::ClosedLoop,
            curve,
        }),
        in_flight: case.load.connections as u64,
        ..Outcome::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    fn told(statuses: u64, bytes: u64) -> Result<Outcome> {
        let case = "id='T'\ntitle='t'\nwhy='w'\nfront='http1'\n\
                    load={with='wrk',connections=4,bytes=100}";
        let case = parse(case)?.remove(0);
        let line = format!(
            "Running 1s test\nBENCH {{\"duration_us\":1000000,\"requests\":10,\"bytes\":{bytes},\
             \"errors\":0,\"statuses\":{statuses},\"latency_us\":[1,2,3,4,5,6,7]}}\n"
        );
        outcome(&line, &case)
    }

    #[test]
    fn counts_and_quantiles_are_read() {
        let outcome = told(0, 2000).expect("right");
        assert_eq!((outcome.requests, outcome.in_flight), (10, 4));
        assert_eq!(outcome.latency.expect("some").at(0.999), Some(5.0));
    }

    #[test]
    fn wrong_statuses_and_short_bodies_fail_the_run() {
        assert!(told(1, 2000).is_err());
        assert!(told(0, 999).is_err());
    }
}
