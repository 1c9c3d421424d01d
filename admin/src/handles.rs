//! The interface between the proxy and the servers, which the proxy provides at their start.

use std::sync::Arc;

use admin_types::dump::{Endpoint, Runtime, Source};
use admin_types::memory::{Allocations, Allocator, HeapProfile};
use admin_types::tasks::Task;
use http::HeaderMap;
use xds::model::Model;

use crate::log::LogControl;
use crate::metrics::Format;
use crate::pprof::heap::HeapStack;
use crate::shard::{Call, ShardHandle, UpstreamId};
use crate::upstreams::UpstreamStats;

/// Access to the proxy's state and controls.
pub struct Handles {
    /// Returns the current configuration.
    pub view: Call<ConfigView>,
    /// The state of the process.
    pub runtime: Call<Runtime>,
    /// The source of the configuration.
    pub source: Call<Source>,
    /// Returns all metrics of the process.
    pub metrics: RenderMetrics,
    /// What readiness waits for, such as `listeners`; empty when ready.
    pub pending: Call<Vec<String>>,
    /// Fields of the responses to `/readyz` of a process other than the proxy.
    pub probe_fields: Call<HeaderMap>,
    /// Tasks of the configuration thread.
    pub xds_tasks: Call<Vec<Task>>,
    /// The request threads, by id.
    pub shards: Vec<ShardHandle>,
    /// The filter of the program log.
    pub log: LogControl,
    /// Statistics of the allocator and the heap profiler.
    pub allocator: Call<AllocatorReport>,
    /// Samples of the heap profiler.
    pub heap: Call<HeapSamples>,
    /// Drains connections and ends the process.
    pub quit: Call<()>,
}

impl Handles {
    /// For a process other than the proxy, which has a log and memory to show, without metrics and always
    /// ready: see [`start_for_process`](crate::start_for_process).
    #[must_use]
    pub fn of_process(log: LogControl) -> Self {
        Self {
            view: Box::new(|| ConfigView {
                number: 0,
                model: Arc::default(),
                endpoints: Box::new(|_| Vec::new()),
            }),
            runtime: Box::new(Runtime::default),
            source: Box::new(Source::default),
            metrics: Box::new(|format, _| (format.content_type(), String::new())),
            pending: Box::new(Vec::new),
            probe_fields: Box::new(HeaderMap::new),
            xds_tasks: Box::new(Vec::new),
            shards: Vec::new(),
            log,
            allocator: Box::new(AllocatorReport::default),
            heap: Box::new(HeapSamples::default),
            quit: Box::new(|| {}),
        }
    }
}

/// Returns the endpoints of the service or backend with a key. Their statistics are filled in from
/// [`UpstreamStats`].
pub type FindEndpoints = Box<dyn Fn(&str) -> Vec<(UpstreamId, Endpoint)> + Send>;

/// Returns metrics, and their `Content-Type`; those of endpoints come from [`UpstreamStats`]. A process with
/// one format may ignore the requested one.
pub type RenderMetrics =
    Box<dyn Fn(Format, &UpstreamStats) -> (&'static str, String) + Send + Sync>;

/// A configuration and its endpoints.
pub struct ConfigView {
    /// Sequence number, from 1; 0 before the first configuration.
    pub number: u64,
    /// The configuration that was applied last.
    pub model: Arc<Model>,
    /// The endpoints of a service or backend, by its key.
    pub endpoints: FindEndpoints,
}

/// Samples of the heap profiler since the start.
#[derive(Debug, Clone, Default)]
pub struct HeapSamples {
    /// Mean bytes between samples; None where sampling is off.
    pub distance: Option<u32>,
    /// Sampled allocations with their stacks.
    pub stacks: Vec<HeapStack>,
}

/// Memory statistics of the process itself.
#[derive(Debug, Clone, Default)]
pub struct AllocatorReport {
    /// Statistics of the allocator.
    pub allocator: Allocator,
    /// Allocations of the program; None where they are not counted.
    pub allocations: Option<Allocations>,
    /// State of the heap profiler.
    pub heap_profile: HeapProfile,
}
