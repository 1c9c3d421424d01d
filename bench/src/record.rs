//! The record of a measurement: plain data, written as JSON after every round so that no result is
//! lost, and read by `bench report`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::load::latency::Latency;
use crate::peers::Role;

/// Everything of one `bench run`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BenchRecord {
    /// Seconds since the epoch when it began.
    pub(crate) started: u64,
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    /// The peers that were there.
    pub(crate) peers: Vec<PeerInfo>,
    /// Skipped cases, with the reason.
    pub(crate) skipped: Vec<Skipped>,
    /// Every run, failed ones too.
    pub(crate) runs: Vec<Run>,
}

/// The machine, as far as a reader needs it to judge the numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Model name of the first core.
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    /// Physical memory in bytes.
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    /// `net.ipv4.tcp_congestion_control`, the same for all.
    pub(crate) congestion_control: String,
    /// Versions of the load generators.
    pub(crate) tools: BTreeMap<String, String>,
}

/// How runs were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// Rounds of each case; in each every peer runs once.
    pub(crate) rounds: usize,
    /// Measured seconds of a run.
    pub(crate) seconds: u64,
    /// Milliseconds of a slice of it, where a scenario does not say.
    pub(crate) slice_ms: u64,
    /// Seconds of load before those.
    pub(crate) warm_up: u64,
    pub(crate) origin: String,
    /// Cores of the proxy.
    pub(crate) proxy_cores: Vec<usize>,
    /// Cores of load and origin.
    pub(crate) load_cores: Vec<usize>,
    /// Short runs, to see that everything works: not to be published.
    pub(crate) quick: bool,
}

impl Settings {
    /// Whether runs were made in the same way, apart from their number and length, which each
    /// record contains.
    fn same_way(&self, other: &Self) -> bool {
        let how = |settings: &Self| Self {
            rounds: 0,
            seconds: 0,
            quick: false,
            ..settings.clone()
        };
        how(self) == how(other)
    }
}

/// A peer that was there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerInfo {
    pub(crate) name: String,
    /// Whether it is the gateway or a peer.
    pub(crate) role: Role,
    pub(crate) version: String,
}

/// A skipped case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Skipped {
    /// Name of the case, or `all`.
    pub(crate) case: String,
    /// Name of the peer, or `all`.
    pub(crate) peer: String,
    pub(crate) why: String,
}

/// One run of one peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Name of the case.
    pub(crate) case: String,
    /// Name of the peer.
    pub(crate) peer: String,
    /// Number of the round, from 0.
    pub(crate) round: usize,
    /// The measurements, or the error.
    pub(crate) result: std::result::Result<Measured, String>,
}

/// The numbers of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// CPU of the proxy per request, in microseconds: the headline.
    pub(crate) cpu_us: f64,
    /// Share of it in user mode.
    pub(crate) user_share: f64,
    /// CPU of the origin per request, in microseconds.
    pub(crate) origin_cpu_us: f64,
    /// How long answers took.
    pub(crate) latency: Option<Latency>,
    /// Resident bytes of the proxy at the end; none where other runs of the round were its too.
    pub(crate) rss: Option<u64>,
    /// Voluntary context switches per request.
    pub(crate) voluntary: f64,
    /// System calls per request, where perf can count them.
    pub(crate) syscalls: Option<f64>,
    /// Requests lost while the configuration changed.
    pub(crate) lost: u64,
    /// The noise of the run, if there was any.
    pub(crate) noise: Option<String>,
    /// What only this load measures.
    pub(crate) extra: BTreeMap<String, f64>,
    /// Turn by turn, where other runs of the round were on the same process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turns: Option<Turns>,
}

/// The turns of a run on a process that other runs had turns on as well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turns {
    pub(crate) process: u32,
    /// In the order in which they came, as those of the other runs did.
    pub(crate) turns: Vec<OneTurn>,
}

/// The numbers of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct OneTurn {
    /// Rate in requests per second.
    pub(crate) rate: f64,
    /// CPU of the proxy per request, in microseconds.
    pub(crate) cpu_us: f64,
    /// Half of the answers took no longer, in microseconds.
    pub(crate) p50_us: Option<f64>,
    /// 99 % of the answers took no longer, in microseconds.
    pub(crate) p99_us: Option<f64>,
}

impl Measured {
    /// Rate in requests per second over the whole run.
    pub(crate) fn rate(&self) -> f64 {
        crate::stats::count64(self.requests) / self.seconds.max(f64::MIN_POSITIVE)
    }
}

impl BenchRecord {
    /// Writes the file atomically, by renaming.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let fresh = path.with_extension("new");
        std::fs::write(&fresh, serde_json::to_vec_pretty(self)?)?;
        Ok(std::fs::rename(fresh, path)?)
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a record", path.display()))
    }

    /// Takes over the runs of another, made on the same machine in the same way. Cases of `newer`
    /// replace those of this record: rounds of different days are not interleaved.
    pub(crate) fn merge(&mut self, newer: Self) -> Result<()> {
        if self.machine.cpu != newer.machine.cpu || self.machine.kernel != newer.machine.kernel {
            bail!("records of two machines do not go into one report");
        }
        if !self.settings.same_way(&newer.settings) {
            bail!(
                "records go into one report if they were made with the same origin, cores, slice and \
                 warm-up: measure one of them again"
            );
        }
        let replaced = |case: &str| newer.runs.iter().any(|run| run.case == case);
        self.runs.retain(|run| !replaced(&run.case));
        self.skipped
            .retain(|skipped| !replaced(&skipped.case) && skipped.case != "all");
        self.peers
            .retain(|peer| newer.peers.iter().all(|p| p.name != peer.name));
        self.peers.extend(newer.peers);
        self.skipped.extend(newer.skipped);
        self.runs.extend(newer.runs);
        self.settings.quick |= newer.settings.quick;
        self.machine = newer.machine;
        Ok(())
    }
}

/// The newest record in `folder`.
pub(crate) fn newest(folder: &Path) -> Result<PathBuf> {
    let hint = || format!("no record in {}: bench run makes one", folder.display());
    let entries = std::fs::read_dir(folder).with_context(hint)?;
    let paths = entries.flatten().map(|e| e.path());
    // Names begin with the time, so they sort by it.
    paths
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .max()
        .with_context(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(case: &str, slice_ms: u64, rounds: usize) -> BenchRecord {
        let run = |round| Run {
            case: case.to_owned(),
            peer: "nginx".to_owned(),
            round,
            result: Ok(Measured::default()),
        };
        BenchRecord {
            started: 0,
            machine: Machine {
                cpu: "some".to_owned(),
                cores: 2,
                memory: 0,
                kernel: "6".to_owned(),
                congestion_control: "bbr".to_owned(),
                tools: BTreeMap::new(),
            },
            settings: Settings {
                rounds,
                seconds: 1,
                slice_ms,
                warm_up: 1,
                origin: "glommio".to_owned(),
                proxy_cores: vec![1],
                load_cores: vec![0],
                quick: false,
            },
            peers: Vec::new(),
            skipped: Vec::new(),
            runs: (0..rounds).map(run).collect(),
        }
    }

    #[test]
    fn a_later_record_replaces_its_cases() {
        let mut all = record("S1", 250, 3);
        all.merge(record("S2", 250, 2)).expect("another case");
        all.merge(record("S1", 250, 10)).expect("the same again");
        let rounds = |case| all.runs.iter().filter(|run| run.case == case).count();
        assert_eq!((rounds("S1"), rounds("S2")), (10, 2));
    }

    #[test]
    fn records_with_different_settings_are_not_mixed() {
        let mut all = record("S1", 250, 3);
        let error = all.merge(record("S2", 500, 3)).expect_err("other slices");
        assert!(error.to_string().contains("slice"), "{error}");
        assert_eq!(all.runs.len(), 3);
    }
}
