//! wrk: the load for HTTP/1 at full speed.
//!
//! It checks statuses and counts bytes; together with the origin's count of requests and the probes
//! before and after a run, that detects wrong responses. Its latencies are not used: its clock
//! continues while it is suspended.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::external::External;
use super::target::LoadTarget;
use super::turn::{LoadResult, ResponseCount};
use crate::scenario::Load;

/// wrk, stopped between its turns.
#[derive(Debug)]
pub(super) struct Wrk {
    process: External,
    load: Load,
    /// Bytes of an answer, head and body.
    size: u64,
}

impl Wrk {
    pub(super) fn start(target: LoadTarget<'_>) -> Result<Self> {
        let script = target.folder.join("wrk.lua");
        std::fs::write(&script, include_str!("wrk.lua"))?;
        let LoadTarget { case, address, .. } = target;
        let scheme = if case.encrypted() { "https" } else { "http" };
        let mut command = Command::new("wrk");
        command.args(["-t1", "-c", &case.load.connections.to_string()]);
        // Longer than any round: it is interrupted.
        command.args(["-d", "24h", "-s"]).arg(script);
        command.args(["-H", &format!("Host: {}", case.routes.host())]);
        if case.load.close {
            command.args(["-H", "Connection: close"]);
        }
        command.arg(format!("{scheme}://{address}{}", case.path()));
        // wrk counts heads too.
        let size = target.answer_size as u64;
        let process = External::start(command, target.folder)?;
        let load = case.load.clone();
        Ok(Self {
            process,
            load,
            size,
        })
    }
}

impl super::Load for Wrk {
    fn turn(&mut self, duration: Duration) -> Result<LoadResult> {
        let seconds = self.process.turn(duration).context("wrk")?;
        Ok(LoadResult {
            seconds,
            ..LoadResult::default()
        })
    }

    fn end(&mut self) -> Result<ResponseCount> {
        let text = self.process.interrupt().context("wrk")?;
        account(&text, &self.load, self.size)
    }
}

/// Bytes by which heads of right answers differ, as some tell how long they took: no body is as short.
const HEADS_DIFFER: u64 = 16;

#[derive(Deserialize)]
struct Summary {
    requests: u64,
    bytes: u64,
    errors: u64,
    statuses: u64,
}

fn account(text: &str, load: &Load, size: u64) -> Result<ResponseCount> {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("BENCH "))
        .with_context(|| format!("wrk printed no figures: {}", text.trim()))?;
    let summary: Summary = serde_json::from_str(line)?;
    ensure!(summary.requests > 0, "no request was answered");
    ensure!(
        summary.statuses == 0,
        "{} responses were not 200",
        summary.statuses
    );
    ensure!(summary.errors == 0, "{} connections failed", summary.errors);
    let least = summary.requests * size.saturating_sub(HEADS_DIFFER);
    ensure!(
        summary.bytes >= least,
        "{} bytes received instead of {least}",
        summary.bytes
    );
    Ok(ResponseCount {
        requests: summary.requests,
        unanswered: load.connections as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    fn count_of(statuses: u64, bytes: u64) -> Result<ResponseCount> {
        let case = "id='T'\ntitle='t'\nwhy='w'\nfront='http1'\n\
                    load={with='wrk',connections=4,bytes=100}";
        let case = parse(case)?.remove(0);
        let line = format!(
            "Running 1s test\nBENCH {{\"requests\":10,\"bytes\":{bytes},\
             \"errors\":0,\"statuses\":{statuses}}}\n"
        );
        account(&line, &case.load, 200)
    }

    #[test]
    fn wrk_counts_are_parsed() {
        let account = count_of(0, 2000).expect("right");
        assert_eq!((account.requests, account.unanswered), (10, 4));
    }

    #[test]
    fn wrong_statuses_and_short_bodies_fail_the_run() {
        assert!(count_of(1, 2000).is_err());
        // Heads of 100 bytes, and one body too few.
        assert!(count_of(0, 1900 - 160).is_err());
    }
}
