//! Metrics of each shard and of the process.

use std::sync::Arc;
use std::time::Instant;

use admin::metrics::{Exposition, Labels};
use admin::process::resident_memory;

use super::Scrape;
use super::table::{BOUNDS, seconds};
use crate::names::Cause as _;
use crate::observe::counters::{HistogramSum, ShardCounters};

impl Scrape<'_> {
    /// Metrics of each shard and of the process.
    pub(super) fn process(&self, out: &mut Exposition) {
        let now = Instant::now();
        let shard = |id: usize| Labels::none().with("shard", &id.to_string());
        let shards: Vec<_> = self
            .shards
            .iter()
            .enumerate()
            .map(|(id, it)| (shard(id), it))
            .collect();
        connections(&shards, out);
        let help = "CPU time of a shard's thread.";
        let mut family = out.counter("shard_cpu_seconds", help);
        for (labels, counters) in &shards {
            if let Some(time) = counters.thread.cpu_time() {
                family.fraction(labels, time.as_secs_f64());
            }
        }
        let help = "Seconds since the last iteration of a shard's event loop.";
        let mut family = out.gauge("shard_heartbeat_age_seconds", help);
        for (labels, counters) in &shards {
            family.fraction(labels, counters.heartbeat.age(now).as_secs_f64());
        }
        let mut family = out.counter("shard_panics", "Tasks that panicked.");
        for (labels, counters) in &shards {
            family.number(labels, counters.panics.value());
        }
        let help = "Pauses in accepting connections, for lack of file descriptors.";
        let mut family = out.counter("shard_accept_pauses", help);
        for (labels, counters) in &shards {
            family.number(labels, counters.accept_paused.value());
        }
        pressure(&shards, out);
        self.memory(out);
        let help = "Delay of a shard's event loop.";
        let mut family = out.histogram("shard_loop_lag_seconds", help);
        for (labels, counters) in &shards {
            let mut sum = HistogramSum::default();
            sum.merge(&counters.loop_lag);
            family.distribution(labels, &BOUNDS, &sum.buckets, seconds(&sum));
        }
        let mut family = out.gauge(
            "shard_driver_info",
            "I/O driver of a shard: io_uring or epoll.",
        );
        for (id, report) in self.drivers.iter().enumerate() {
            let driver = report.as_ref().map_or("none", |report| report.driver);
            family.number(&shard(id).with("driver", driver), 1);
        }
        let help = "Access log lines dropped because the output was blocked.";
        out.counter("access_log_dropped_lines", help)
            .number(&Labels::none(), self.dropped_log_lines);
        let version = Labels::none().with("version", env!("CARGO_PKG_VERSION"));
        out.gauge("build_info", "The program's version.")
            .number(&version, 1);
    }

    /// Memory; what the kernel does not report is left out.
    fn memory(&self, out: &mut Exposition) {
        let mut size = |name, help, bytes: Option<u64>| {
            if let Some(bytes) = bytes {
                out.gauge(name, help).number(&Labels::none(), bytes);
            }
        };
        let help = "Memory limit of the cgroup; absent without one.";
        size("memory_limit_bytes", help, self.memory.limit());
        let help = "Memory usage of the cgroup, which Kubernetes compares with the limit.";
        size("memory_working_set_bytes", help, self.memory.working_set());
        let help = "Resident memory of the process.";
        size("memory_resident_bytes", help, resident_memory());
        let help = "Memory of the machine.";
        size("memory_machine_bytes", help, Some(self.memory.machine()));
    }
}

/// Client connections, and those of them in states that are bounded.
fn connections(shards: &[(Labels, &Arc<ShardCounters>)], out: &mut Exposition) {
    let mut family = out.gauge("shard_connections", "Client connections of a shard.");
    for (labels, counters) in shards {
        family.number(labels, counters.clients.value());
    }
    let help = "Client connections of a shard that are closed in their sending direction and wait for a \
                response.";
    let mut family = out.gauge("shard_half_closed_connections", help);
    for (labels, counters) in shards {
        family.number(labels, counters.half_closed.value());
    }
    let help =
        "Client connections of a shard that receive the rest of a request after its response.";
    let mut family = out.gauge("shard_lingering_connections", help);
    for (labels, counters) in shards {
        family.number(labels, counters.lingering.value());
    }
}

/// Rejections under overload, and buffers.
fn pressure(shards: &[(Labels, &Arc<ShardCounters>)], out: &mut Exposition) {
    let help = "Requests rejected under overload, by reason: late (the event loop), descriptors, memory \
                (close to the limit), buffers (too many in use).";
    let mut family = out.counter("shard_shed_requests", help);
    for (labels, counters) in shards {
        for (cause, count) in counters.shed.iter() {
            family.number(&labels.with("reason", cause.name()), count);
        }
    }
    let help = "Bytes of buffers in use by a shard's connections and streams.";
    let mut family = out.gauge("shard_buffer_bytes", help);
    for (labels, counters) in shards {
        family.number(labels, counters.buffers.value());
    }
}
