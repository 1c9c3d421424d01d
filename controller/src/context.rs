//! The resources shared by all parts of the controller.

use std::sync::Arc;

use kube::Client;

use crate::args::RunArgs;
use crate::leadership::Leadership;
use crate::metrics::Metrics;
use crate::outputs::Outputs;
use crate::stopping::Stopping;

/// The resources shared by all parts of the controller. Clones share them.
#[derive(Clone)]
pub struct Context {
    /// The API server. Retries requests rejected with 429, 503 or 504.
    pub client: Client,
    /// The parsed command line.
    pub args: Arc<RunArgs>,
    /// The data that the parts exchange.
    pub outputs: Arc<Outputs>,
    /// Whether this replica may write to the cluster.
    pub leadership: Leadership,
    /// Signals every task to stop.
    pub stopping: Stopping,
    /// The metrics that `/metrics` serves.
    pub metrics: Metrics,
}
