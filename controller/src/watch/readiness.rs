//! Which watches are synced, for the readiness probe.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use translate::ObjectKind;

use super::heard::Heard;
use super::kinds::Kinds;

/// The state of every watch. Clones share it.
#[derive(Debug, Clone)]
pub struct Readiness {
    kinds: Kinds,
    states: Arc<Mutex<BTreeMap<ObjectKind, State>>>,
    heard: Arc<BTreeMap<ObjectKind, Heard>>,
    /// Wakes those that wait for a state.
    changed: Arc<Notify>,
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
        let states = kinds.iter().map(|id| (id, State::Syncing(None))).collect();
        let heard = kinds.iter().map(|id| (id, Heard::default())).collect();
        Self {
            kinds,
            states: Arc::new(Mutex::new(states)),
            heard: Arc::new(heard),
            changed: Arc::default(),
        }
    }

    /// The kinds whose watches are followed.
    #[must_use]
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// When the watch of a kind last heard the API server.
    pub(crate) fn heard(&self, kind: ObjectKind) -> Heard {
        self.heard.get(&kind).cloned().unwrap_or_default()
    }

    /// For how long a watch has received nothing from the API server: the most silent of those that are
    /// synced, since what is stale of one kind may be a grant. Before one is, the least silent of all.
    #[must_use]
    pub fn silence(&self) -> Duration {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let is_synced = |id: &ObjectKind| states.get(id) == Some(&State::Synced);
        let synced = self.heard.iter().filter(|(id, _)| is_synced(id));
        let longest = synced.map(|(_, heard)| heard.silence()).max();
        let least = || self.heard.values().map(Heard::silence).min();
        longest.or_else(least).unwrap_or_default()
    }

    /// Sets the state of a watch. Returns whether it changed.
    pub(crate) fn set(&self, kind: ObjectKind, state: State) -> bool {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let is_changed = states.insert(kind, state.clone()) != Some(state);
        drop(states);
        self.changed.notify_waiters();
        is_changed
    }

    /// Whether the objects of a kind are known, or there are none.
    pub(crate) fn is_settled(&self, kind: ObjectKind) -> bool {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        !matches!(states.get(&kind), Some(State::Syncing(_)))
    }

    /// Whether it is known which entries policies refer to and may: policies are, and ReferenceGrants.
    pub(crate) fn are_references_settled(&self) -> bool {
        [ObjectKind::TrafficPolicy, ObjectKind::ReferenceGrant]
            .into_iter()
            .all(|kind| self.is_settled(kind))
    }

    /// Waits for that.
    pub(crate) async fn references_settled(&self) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.are_references_settled() {
                return;
            }
            changed.await;
        }
    }

    /// Records an error of a watch that is not synced yet.
    pub(crate) fn fail(&self, kind: ObjectKind, error: &str) {
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
            State::Syncing(error) => Some((id.name(), error.clone())),
            State::Synced | State::Absent | State::Forbidden => None,
        });
        unsynced.collect()
    }
}
