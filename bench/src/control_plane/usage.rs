//! CPU time and memory of controller and proxies, sampled from `/proc`: the cluster's processes are this
//! machine's.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use crate::procfs::{Stat, ticks_to_us};
use crate::stats::count64;

/// Time between two samples.
const PERIOD: Duration = Duration::from_millis(250);

/// Resources used by some processes over time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Seconds of CPU time in all.
    pub(crate) cpu: f64,
    /// Resident bytes at the beginning, at the end, and at most.
    pub(crate) rss: [f64; 3],
    pub(crate) points: Vec<Point>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Seconds since the beginning.
    pub(crate) at: f64,
    /// Cores that were busy since the sample before.
    pub(crate) cores: f64,
    /// Resident memory in bytes.
    pub(crate) rss: f64,
}

/// Processes whose usage is sampled: the controller's and the proxies'.
type Watched = Arc<Mutex<[Vec<u32>; 2]>>;

/// Samples until it is stopped.
pub(crate) struct Sampler {
    stopping: Arc<AtomicBool>,
    watched: Watched,
    thread: JoinHandle<[Usage; 2]>,
}

impl Sampler {
    pub(crate) fn start(controller: &[String], proxies: &[String]) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let watched = Watched::default();
        if let Ok(mut watched) = watched.lock() {
            *watched = [processes(controller), processes(proxies)];
        }
        let (stop, shared) = (Arc::clone(&stopping), Arc::clone(&watched));
        let thread = thread::spawn(move || sample(&stop, &shared));
        Self {
            stopping,
            watched,
            thread,
        }
    }

    /// The pods have been replaced.
    pub(crate) fn watch(&self, controller: &[String], proxies: &[String]) {
        let found = [processes(controller), processes(proxies)];
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    pub(crate) fn stop(self) -> Result<[Usage; 2]> {
        self.stopping.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("the sampler panicked"))
    }
}

fn sample(stopping: &AtomicBool, watched: &Watched) -> [Usage; 2] {
    let started = Instant::now();
    let mut series = [Series::default(), Series::default()];
    while !stopping.load(Ordering::Relaxed) {
        let now = watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for (series, pids) in series.iter_mut().zip(now) {
            series.push(started.elapsed(), &pids);
        }
        thread::sleep(PERIOD);
    }
    series.map(|series| series.usage)
}

#[derive(Default)]
struct Series {
    usage: Usage,
    last: Option<(Duration, Vec<u32>, f64)>,
}

impl Series {
    fn push(&mut self, at: Duration, pids: &[u32]) {
        let (cpu, rss) = used(pids);
        let cores = match &self.last {
            Some((before, same, earlier)) if same == pids => {
                let used = (cpu - earlier).max(0.0);
                self.usage.cpu += used;
                used / (at.saturating_sub(*before)).as_secs_f64().max(1e-3)
            }
            // Others than before.
            _ => 0.0,
        };
        if self.last.is_none() {
            self.usage.rss[0] = rss;
        }
        self.usage.rss[1] = rss;
        self.usage.rss[2] = self.usage.rss[2].max(rss);
        self.usage.points.push(Point {
            at: at.as_secs_f64(),
            cores,
            rss,
        });
        self.last = Some((at, pids.to_vec(), cpu));
    }
}

/// Seconds of CPU time and resident bytes of processes.
pub(crate) fn used(pids: &[u32]) -> (f64, f64) {
    let stats = pids.iter().filter_map(|pid| Stat::of(*pid));
    stats.fold((0.0, 0.0), |(cpu, rss), stat| {
        let ticks = stat.own_ticks() + stat.reaped_ticks();
        (cpu + ticks_to_us(ticks) / 1e6, rss + count64(stat.rss()))
    })
}

/// The processes of pods, by their cgroups; without those that only hold a pod's namespaces.
pub(crate) fn processes(uids: &[String]) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else {
            continue;
        };
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let cgroup = read("cgroup");
        // systemd's driver writes underscores.
        let is_of = |uid: &String| cgroup.contains(uid) || cgroup.contains(&uid.replace('-', "_"));
        if uids.iter().any(is_of) && read("comm").trim() != "pause" {
            found.push(pid);
        }
    }
    found.sort_unstable();
    found
}
