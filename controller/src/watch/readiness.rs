//! Which watches are synced, for the readiness probe.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::heard::Heard;
use super::kinds::{KindId, Kinds};

/// The state of every watch. Clones share it.
#[derive(Debug, Clone)]
pub struct Readiness {
    kinds: Kinds,
    states: Arc<Mutex<BTreeMap<KindId, State>>>,
    heard: Heard,
}

/// The state of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Listing for the first time; with the last error, if any.
    Syncing(Option<String>),
    /// All objects were reported.
    Synced,
    /// The API server does not serve the kind.
    Absent,
    /// Reading an optional kind is not permitted.
    Forbidden,
}

impl Readiness {
    /// Nothing is synced yet.
    #[must_use]
    pub fn new(kinds: Kinds) -> Self {
        let states = kinds.ids().map(|id| (id, State::Syncing(None))).collect();
        Self {
            kinds,
            states: Arc::new(Mutex::new(states)),
            heard: Heard::default(),
        }
    }

    /// The kinds whose watches are followed.
    #[must_use]
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// When the API server was last heard.
    pub(crate) fn heard(&self) -> &Heard {
        &self.heard
    }

    /// For how long no watch has received anything from the API server.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.heard.silence()
    }

    /// Sets the state of a watch. Returns whether it changed.
    pub(crate) fn set(&self, kind: KindId, state: State) -> bool {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.insert(kind, state.clone()) != Some(state)
    }

    /// Records an error of a watch that is not synced yet.
    pub(crate) fn fail(&self, kind: KindId, error: &str) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(State::Syncing(last)) = states.get_mut(&kind) {
            *last = Some(error.to_owned());
        }
    }

    /// The kinds that are not synced, with their last errors.
    #[must_use]
    pub fn unsynced(&self) -> Vec<(&'static str, Option<String>)> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let unsynced = states.iter().filter_map(|(id, state)| match state {
            State::Syncing(error) => Some((self.kinds.name(*id), error.clone())),
            State::Synced | State::Absent | State::Forbidden => None,
        });
        unsynced.collect()
    }
}
