//! State of the controller connection, as the admin server shows it.

#![expect(
    clippy::disallowed_types,
    reason = "the configuration and admin threads share it; no shard does"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use xds::delta::Version;
use xds::model::Kind;

/// State of the controller connection that others can read. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ControllerState(Arc<Mutex<Connection>>);

/// The connection to the controller, and statistics of its streams.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// Whether a stream is open.
    pub connected: bool,
    /// Time of the last change of `connected`; `None` before the first.
    pub changed: Option<Instant>,
    /// Streams opened so far.
    pub streams: u64,
    /// Why the last stream ended or failed to open. `None` if there was no error.
    pub failure: Option<String>,
    /// Whether the current configuration was saved by an earlier process, and the controller has
    /// sent nothing since.
    pub restored: bool,
    /// Resources whose current version is rejected.
    pub refused: usize,
    /// State of the subscription of each resource type.
    pub types: BTreeMap<Kind, TypeState>,
}

/// State of one resource type.
#[derive(Debug, Clone, Default)]
pub struct TypeState {
    /// The version of all its applied resources together.
    pub version: Option<Version>,
    /// Responses that were accepted.
    pub acks: u64,
    /// Responses that were rejected in part.
    pub nacks: u64,
    /// When the last response was accepted.
    pub acked: Option<Instant>,
    /// When the last response was rejected.
    pub nacked: Option<Instant>,
    /// The error, as long as a resource of the type is rejected.
    pub refused: Option<String>,
}

impl ControllerState {
    /// A snapshot of the state.
    #[must_use]
    pub fn now(&self) -> Connection {
        self.lock().clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Connection)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
