//! The proxy's data for the admin server.
//!
//! Everything here runs on threads of the admin server and reads what shards and the configuration
//! thread publish; state that only a shard has is queried through its inbox.

mod endpoints;
mod failures;
pub mod scrape;
pub mod servers;
mod source;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use admin::handles::{AllocatorReport, FindEndpoints, HeapSamples};
use admin::metrics::Exposition;
use admin::pprof::heap::HeapStack;
use admin::shard::ShardHandle;
use admin::{ConfigView, Handles, LogControl};
use admin_types::dump::{HealthCheckLimit, LimitedHealthCheck, Runtime, Shard, Source};
use admin_types::memory::{Allocated, Allocations, HeapProfile};
use admin_types::tasks::Task;

use self::scrape::Scrape;
use crate::config::in_force::InForce;
use crate::config::xds::ControllerState;
use crate::config::{CheckLimit, Snapshot};
use crate::limits::PREVIOUS_VERSIONS_SHOWN;
use crate::machine::cpu::Cpus;
use crate::memory;
use crate::memory::heap::{self, Sampling};
use crate::shard::inbox;
use crate::supervisor::Shards;

/// The parts of the process that can be inspected.
#[derive(Clone)]
pub struct Inspected {
    /// Handle of the shards.
    pub shards: Shards,
    /// The configuration that was applied last, and those that failed.
    pub in_force: InForce,
    /// Source of the configuration.
    pub origin: Origin,
    /// CPUs of the process.
    pub cpus: Cpus,
    /// Start time of the process.
    pub started: Instant,
}

/// Source of the configuration.
#[derive(Clone)]
pub enum Origin {
    /// Paths of files and folders.
    Files(Vec<PathBuf>),
    /// A controller, over xDS.
    Controller {
        /// URL of the controller.
        address: String,
        /// State of the connection.
        state: ControllerState,
    },
}

impl Inspected {
    /// Builds the handles. `quit` shuts the process down.
    #[must_use]
    pub fn handles(self, log: LogControl, quit: impl Fn() + Send + Sync + 'static) -> Handles {
        let this = Arc::new(self);
        let call = || Arc::clone(&this);
        let (view, runtime, source, metrics) = (call(), call(), call(), call());
        let (pending, xds, allocator) = (call(), call(), call());
        Handles {
            view: Box::new(move || view.view()),
            runtime: Box::new(move || runtime.runtime()),
            source: Box::new(move || source.source()),
            metrics: Box::new(move |format, live| {
                let mut out = Exposition::new(format);
                metrics.metrics(&mut out, live);
                (format.content_type(), out.finish())
            }),
            pending: Box::new(move || {
                let pending = pending.pending().into_iter();
                pending.map(str::to_owned).collect()
            }),
            probe_fields: Box::new(Default::default),
            xds_tasks: Box::new(move || xds.configuration_tasks()),
            shards: (0..this.shards.counters().len())
                .map(|id| shard_handle(this.shards.clone(), id))
                .collect(),
            log,
            allocator: Box::new(move || allocator.allocator()),
            heap: Box::new(heap_samples),
            quit: Box::new(quit),
        }
    }

    fn source(&self) -> Source {
        source::shown(&self.origin, &self.in_force.applied())
    }

    fn metrics(&self, out: &mut Exposition, live: &admin::UpstreamStats) {
        let applied = self.in_force.applied();
        let down = self.in_force.down();
        let binds_down: Vec<u32> = down.iter().map(|bind| bind.id).collect();
        let scrape = Scrape {
            snapshot: &applied.snapshot,
            shards: self.shards.counters(),
            drivers: &self.shards.drivers(),
            live,
            model: &applied.model,
            source: &self.source(),
            binds_down: &binds_down,
            missing_keys: &self.in_force.missing_keys(),
            previous_versions: self.in_force.previous_versions().len(),
            replaced: self.in_force.replaced(),
            memory: self.shards.memory(),
            dropped_log_lines: self.shards.dropped_log_lines(),
        };
        scrape.write(out);
    }

    fn view(&self) -> ConfigView {
        let applied = self.in_force.applied();
        ConfigView {
            number: applied.snapshot.version,
            model: Arc::clone(&applied.model),
            endpoints: endpoints(Arc::clone(&applied.snapshot)),
        }
    }

    fn runtime(&self) -> Runtime {
        let now = Instant::now();
        let place = self.in_force.place();
        let model = Arc::clone(&self.in_force.applied().model);
        let counters = self.shards.counters().iter();
        let drivers = self.shards.drivers();
        let cores = self.shards.plan().cores.as_deref().unwrap_or_default();
        let shards = counters
            .zip(drivers)
            .enumerate()
            .map(|(id, (counters, driver))| {
                let reason = driver.as_ref().map(|driver| driver.reason.clone());
                Shard {
                    id: u16::try_from(id).unwrap_or(u16::MAX),
                    driver: driver.map_or("none", |driver| driver.driver).to_owned(),
                    reason: reason.filter(|reason| !reason.is_empty()),
                    core: cores.get(id).copied(),
                    heartbeat_ms: u64::try_from(counters.heartbeat.age(now).as_millis())
                        .unwrap_or(u64::MAX),
                    connections: counters.clients.value(),
                    // Filled in by the code that queries the shards.
                    stuck: false,
                }
            });
        Runtime {
            shards: shards.collect(),
            cpus: self.cpus.set.clone(),
            descriptors_per_shard: self.shards.plan().descriptors,
            uptime_seconds: self.started.elapsed().as_secs(),
            node: place.node.as_ref().map(ToString::to_string),
            zone: place.zone.as_ref().map(ToString::to_string),
            pending: self.pending().into_iter().map(str::to_owned).collect(),
            binds_down: failures::binds(&self.in_force.down(), &model),
            keys_missing: failures::keys(&self.in_force.missing_keys(), &model),
            limited_health_checks: self.limited_health_checks(),
            previous_versions: self.previous_versions(),
            problems: failures::problems(&self.in_force.file_problems()),
        }
    }

    fn previous_versions(&self) -> Vec<String> {
        let objects = self.in_force.previous_versions();
        objects
            .iter()
            .take(PREVIOUS_VERSIONS_SHOWN)
            .cloned()
            .collect()
    }

    fn limited_health_checks(&self) -> Vec<LimitedHealthCheck> {
        let limited = self.in_force.limited_checks();
        let shown = limited.iter().map(|check| LimitedHealthCheck {
            target: check.object.to_string(),
            state: match check.limit {
                CheckLimit::Ignored => HealthCheckLimit::Ignored,
                CheckLimit::Stretched => HealthCheckLimit::Stretched,
            },
            seconds: check.since.elapsed().as_secs(),
            text: check.text.clone(),
        });
        shown.collect()
    }

    fn allocator(&self) -> AllocatorReport {
        let shards = 0..self.shards.counters().len();
        let shards = shards.filter_map(|id| heap::counts::of_shard(u16::try_from(id).ok()?));
        AllocatorReport {
            allocator: memory::report(),
            allocations: Some(Allocations {
                total: allocated(heap::counts::of_process()),
                shards: shards.map(allocated).collect(),
            }),
            heap_profile: heap_profile(),
        }
    }

    /// What readiness still waits for.
    fn pending(&self) -> Vec<&'static str> {
        let applied = self.in_force.applied();
        let waits = [
            ("configuration", applied.since.is_none()),
            (
                "recognisable configuration",
                applied.since.is_some() && !self.in_force.was_recognised(),
            ),
            (
                "listeners",
                applied.since.is_some() && !self.in_force.has_listened(),
            ),
            ("shards", !self.shards.are_up()),
            ("draining", self.shards.are_draining()),
        ];
        let pending = waits.into_iter().filter(|(_, waits)| *waits);
        pending.map(|(name, _)| name).collect()
    }

    fn configuration_tasks(&self) -> Vec<Task> {
        let applied = self.in_force.applied();
        let since = applied.since.unwrap_or(self.started);
        vec![Task {
            kind: "configuration".to_owned(),
            state: source::task_state(&self.origin, &applied).to_owned(),
            since_ms: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
            detail: self.source().from.join(", "),
            ..Task::default()
        }]
    }
}

fn allocated(counted: heap::counts::Allocated) -> Allocated {
    Allocated {
        count: counted.count,
        bytes: counted.bytes,
        live_count: counted.count.saturating_sub(counted.freed_count),
        live_bytes: counted.bytes.saturating_sub(counted.freed_bytes),
    }
}

fn heap_profile() -> HeapProfile {
    let samples = heap::samples();
    HeapProfile {
        armed: heap::sampling() != Sampling::Off,
        sampled: samples.taken,
        live_samples: samples.live,
    }
}

fn heap_samples() -> HeapSamples {
    let distance = match heap::sampling() {
        Sampling::Every(bytes) => Some(bytes),
        Sampling::Off => None,
    };
    let stacks = heap::stacks().map(|stack| HeapStack {
        frames: stack.frames,
        allocated_objects: stack.allocated.objects,
        allocated_bytes: stack.allocated.bytes,
        live_objects: stack.live.objects,
        live_bytes: stack.live.bytes,
    });
    HeapSamples {
        distance,
        stacks: stacks.collect(),
    }
}

fn shard_handle(shards: Shards, id: usize) -> ShardHandle {
    let inboxes = shards.clone();
    ShardHandle {
        query: Box::new(move |query| inboxes.send_to(id, inbox::ShardMessage::Admin(query))),
        heartbeat: Box::new(move || shards.counters()[id].heartbeat.age(Instant::now())),
    }
}

/// Finds the endpoints of services and backends in a snapshot.
fn endpoints(snapshot: Arc<Snapshot>) -> FindEndpoints {
    let mut clusters: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, cluster) in snapshot.clusters.entries() {
        let (key, _) = key_and_port(&cluster.name);
        clusters.entry(key.to_owned()).or_default().push(at);
    }
    Box::new(move |key| {
        let found = clusters.get(key).into_iter().flatten();
        found
            .filter_map(|at| snapshot.clusters.get(*at))
            .flat_map(endpoints::shown)
            .collect()
    })
}

/// Splits `Service/namespace/name:port`; backends have no port. A transport may follow, and the
/// Gateway of a dedicated cluster.
fn key_and_port(name: &str) -> (&str, Option<u16>) {
    let name = name.split_once(" from ").map_or(name, |(name, _)| name);
    match name.rsplit_once(':') {
        Some((key, port)) => (
            key,
            port.split('/').next().and_then(|port| port.parse().ok()),
        ),
        None => (name, None),
    }
}
