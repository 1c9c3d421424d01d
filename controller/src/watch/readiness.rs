//! Which watches have told all objects, for the readiness probe.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::kinds::{KindId, Kinds};

/// The state of every watch. A clone refers to the same.
#[derive(Debug, Clone)]
pub struct Readiness {
    kinds: Kinds,
    states: Arc<Mutex<BTreeMap<KindId, State>>>,
}

/// The state of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Its objects are being listed for the first time; the last error, if there was one.
    Syncing(Option<String>),
    /// It has told all objects.
    Synced,
    /// The API server does not serve the kind.
    Absent,
    /// Objects of an optional kind may not be read.
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
        }
    }

    pub(super) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Notes the state of a watch. Returns whether it had another.
    pub(crate) fn set(&self, kind: KindId, state: State) -> bool {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.insert(kind, state.clone()) != Some(state)
    }

    /// Notes an error of a watch, which matters to readiness until it is synced.
    pub(crate) fn fail(&self, kind: KindId, error: &str) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(State::Syncing(last)) = states.get_mut(&kind) {
            *last = Some(error.to_owned());
        }
    }

    /// What is waited for: each kind that is not synced, with its last error.
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
