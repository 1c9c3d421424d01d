//! What the proxy hands over to the servers at their start.

use std::sync::Arc;
use std::time::Duration;

use admin_types::dump::{Endpoint, Runtime, Source};
use admin_types::memory::{Allocations, Allocator, HeapProfile};
use admin_types::tasks::Task;
use xds::model::Model;

use crate::ask::{Ask, UpstreamId};
use crate::live::Live;
use crate::log::LogControl;
use crate::metrics::Exposition;
use crate::pprof::heap::HeapStack;

/// What the servers see of the proxy, and what they can have it do.
pub struct Handles {
    /// The configuration in force.
    pub view: Call<View>,
    /// How the proxy runs.
    pub runtime: Call<Runtime>,
    /// Where its configuration comes from.
    pub source: Call<Source>,
    /// What it counts, as metrics.
    pub metrics: WriteMetrics,
    /// What it is not ready for yet; nothing where it is ready.
    pub pending: Call<Vec<&'static str>>,
    /// What the configuration thread is at.
    pub xds_tasks: Call<Vec<Task>>,
    /// The request threads, by number.
    pub shards: Vec<ShardHandle>,
    /// The program's own log.
    pub log: LogControl,
    /// The allocator and the heap profiler.
    pub allocator: Call<AllocatorReport>,
    /// What the allocator has sampled.
    pub heap: Call<HeapSamples>,
    /// Drains the process and ends it.
    pub quit: Call<()>,
}

/// A question that is answered at once, from any thread.
pub type Call<T> = Box<dyn Fn() -> T + Send + Sync>;

/// Finds the endpoints of a service or backend by its key.
/// How they fare is filled in by [`Live`].
pub type FindEndpoints = Box<dyn Fn(&str) -> Vec<(UpstreamId, Endpoint)> + Send>;

/// Writes metrics, those of endpoints by how they fare.
pub type WriteMetrics = Box<dyn Fn(&mut Exposition, &Live) + Send + Sync>;

/// A request thread.
pub struct ShardHandle {
    /// Leaves a question in its inbox.
    pub ask: Box<dyn Fn(Ask) + Send + Sync>,
    /// How long ago its event loop last turned.
    pub heartbeat: Call<Duration>,
}

/// A configuration, and how its endpoints fare.
pub struct View {
    /// Its number; 0 before the first one.
    pub number: u64,
    /// What it says.
    pub model: Arc<Model>,
    /// The endpoints of a service or backend, by its key.
    pub endpoints: FindEndpoints,
}

/// What the allocator has sampled since the start.
#[derive(Debug, Clone, Default)]
pub struct HeapSamples {
    /// One in so many bytes was sampled; `None` where sampling is off.
    pub distance: Option<u32>,
    /// The stacks that allocated.
    pub stacks: Vec<HeapStack>,
}

/// What is known of memory from within.
#[derive(Debug, Clone, Default)]
pub struct AllocatorReport {
    /// The allocator's own numbers.
    pub allocator: Allocator,
    /// What the program holds, where that is counted.
    pub allocations: Option<Allocations>,
    /// The heap profiler.
    pub heap_profile: HeapProfile,
}
