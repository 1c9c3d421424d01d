//! The state that endpoints share.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::background::Background;
use crate::handles::Handles;
use crate::limits::MAX_TRACES;
use crate::scrapes::Scrapes;
use crate::tasks::Tasks;

/// State shared by the endpoints of all servers.
pub(crate) struct Context {
    pub(crate) handles: Arc<Handles>,
    /// Allowed values of `Host` on the admin server, besides IP addresses and `localhost`.
    pub(crate) hosts: Vec<String>,
    /// For expensive responses of the admin server.
    pub(crate) background: Background,
    /// Scrapes of metrics, which do not wait for dumps.
    pub(crate) scrapes: Scrapes,
    /// Running tasks of the admin thread.
    pub(crate) tasks: Tasks,
    /// Permits for active traces.
    pub(crate) traces: Arc<Semaphore>,
}

impl Context {
    pub(crate) fn new(handles: Handles, hosts: Vec<String>) -> Self {
        Self {
            handles: Arc::new(handles),
            hosts,
            background: Background::default(),
            scrapes: Scrapes::default(),
            tasks: Tasks::default(),
            traces: Arc::new(Semaphore::new(MAX_TRACES)),
        }
    }
}
