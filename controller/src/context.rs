//! What every part of the controller is given.

use std::sync::Arc;

use kube::Client;

use crate::args::RunArgs;
use crate::leadership::Leadership;
use crate::metrics::Metrics;
use crate::outputs::Outputs;
use crate::stopping::Stopping;

/// What every part of the controller is given. A clone refers to the same.
#[derive(Clone)]
pub struct Context {
    /// The API server. It repeats requests that were refused with 429, 503 or 504.
    pub client: Client,
    /// What the user asked for.
    pub args: Arc<RunArgs>,
    /// What the parts hand to each other.
    pub outputs: Arc<Outputs>,
    /// Whether this replica may write to the cluster.
    pub leadership: Leadership,
    /// Shutdown signal.
    pub stopping: Stopping,
    /// Where metrics are registered.
    pub metrics: Metrics,
}
