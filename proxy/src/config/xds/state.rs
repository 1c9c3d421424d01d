//! How the controller is, as the admin server shows it.

#![expect(
    clippy::disallowed_types,
    reason = "the configuration and admin threads share it; no shard does"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use xds::delta::Version;
use xds::model::Kind;

/// What the configuration thread lets others see of the controller. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct ControllerState(Arc<Mutex<Connection>>);

/// How the connection to the controller is, and what came over it.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// Whether a stream is open.
    pub connected: bool,
    /// Since when it has been so; `None` before the first.
    pub changed: Option<Instant>,
    /// Streams that began.
    pub streams: u64,
    /// Why the last stream ended, or none began. `None` where there was no error.
    pub failure: Option<String>,
    /// Whether what is in force was kept by an earlier process, and the controller has not spoken
    /// since.
    pub restored: bool,
    /// Resources that are refused in their current version.
    pub refused: usize,
    /// By type.
    pub types: BTreeMap<Kind, TypeState>,
}

/// What is known of one type of resources.
#[derive(Debug, Clone, Default)]
pub struct TypeState {
    /// The version of all resources together that are in force.
    pub version: Option<Version>,
    /// Responses that were accepted.
    pub acks: u64,
    /// Responses of which something was refused.
    pub nacks: u64,
    /// When the last response was accepted.
    pub acked: Option<Instant>,
    /// When the last one was refused.
    pub nacked: Option<Instant>,
    /// Why, as long as a resource of the type is refused.
    pub refused: Option<String>,
}

impl ControllerState {
    /// How it is now.
    #[must_use]
    pub fn now(&self) -> Connection {
        self.lock().clone()
    }

    /// Changes what others see.
    pub(super) fn change(&self, change: impl FnOnce(&mut Connection)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
