//! The results of `bench control-plane`: plain data, written as JSON after every case.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::sizes::Sizes;
use super::usage::Usage;
use crate::output::print_line;
use crate::record::Machine;
use crate::stats::{count, count64};

/// Everything of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ControlPlaneRecord {
    /// Seconds since the epoch when it began.
    pub(crate) started: u64,
    pub(crate) machine: Machine,
    pub(crate) sizes: Sizes,
    pub(crate) quick: bool,
    pub(crate) peers: Vec<PeerInfo>,
    pub(crate) runs: Vec<Run>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerInfo {
    pub(crate) name: String,
    /// Images of its controller.
    pub(crate) images: Vec<String>,
}

/// One case of one peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) case: String,
    pub(crate) peer: String,
    pub(crate) result: Result<Measured, String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    /// The figures of the case, in the order of display.
    pub(crate) figures: Vec<Figure>,
    /// Each change that was waited for.
    pub(crate) changes: Vec<Propagation>,
    /// `attachedRoutes` whenever the Gateway changed: seconds since the beginning, and the number.
    pub(crate) attached: Vec<(f64, f64)>,
    /// Error responses, and how often each occurred.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) controller: Usage,
    pub(crate) proxies: Usage,
    /// Writes to the API server.
    pub(crate) writes: BTreeMap<String, f64>,
    /// Share of the whole machine's CPU time that was in use.
    pub(crate) machine_busy: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) value: f64,
}

/// How long a change took to be served.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Propagation {
    /// Seconds since the beginning.
    pub(crate) at: f64,
    /// Milliseconds from the API server's response to the first response of the changed route.
    pub(crate) took: f64,
}

impl ControlPlaneRecord {
    /// Writes it; renamed into place, so that it is never incomplete.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let fresh = path.with_extension("new");
        std::fs::write(&fresh, serde_json::to_vec(self)?)?;
        Ok(std::fs::rename(fresh, path)?)
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is no record of this bench", path.display()))
    }

    /// Adds the runs of a later record, replacing earlier ones of the same case and peer.
    pub(crate) fn merge(&mut self, later: Self) {
        self.started = self.started.max(later.started);
        self.quick |= later.quick;
        for peer in later.peers {
            self.peers.retain(|known| known.name != peer.name);
            self.peers.push(peer);
        }
        for run in later.runs {
            self.runs
                .retain(|known| (&known.case, &known.peer) != (&run.case, &run.peer));
            self.runs.push(run);
        }
    }
}

impl Run {
    pub(crate) fn print(&self) {
        let head = format!("{:<18} {:<14}", self.case, self.peer);
        let measured = match &self.result {
            Ok(measured) => measured,
            Err(error) => return print_line(&format!("{head} !! FAILED: {error}")),
        };
        for Figure { name, unit, value } in &measured.figures {
            print_line(&format!("{head} {name:<42} {value:>10.1} {unit}"));
        }
        for (error, times) in &measured.errors {
            print_line(&format!("{head} !! {times} × {error}"));
        }
        let Measured {
            seconds,
            controller,
            proxies,
            machine_busy,
            ..
        } = measured;
        print_line(&format!(
            "{head} {seconds:.0} s: controller {:.1} s CPU, {:.0} MB at most; proxies {:.1} s CPU, {:.0} MB at most; \
             the machine was {:.0} % busy",
            controller.cpu,
            controller.rss[2] / 1e6,
            proxies.cpu,
            proxies.rss[2] / 1e6,
            machine_busy * 100.0
        ));
    }
}

impl Measured {
    pub(crate) fn figure(&mut self, name: &str, value: f64, unit: &str) {
        self.figures.push(Figure {
            name: name.to_owned(),
            unit: unit.to_owned(),
            value,
        });
    }

    /// How many errors there were.
    pub(crate) fn error_count(&self) -> f64 {
        count64(self.errors.values().sum())
    }

    /// The figures of the changes: quantiles of how long they took.
    pub(crate) fn figure_changes(&mut self) {
        let mut took: Vec<f64> = self.changes.iter().map(|change| change.took).collect();
        took.sort_by(f64::total_cmp);
        for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("longest", 1.0)] {
            self.figure(name, quantile(&took, share), "ms");
        }
    }
}

/// The smallest value that this share of the values does not exceed.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in a list"
    )]
    let place = (count(sorted.len()) * share).ceil() as usize;
    let found = sorted.get(place.saturating_sub(1)).or(sorted.last());
    found.copied().unwrap_or(0.0)
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
