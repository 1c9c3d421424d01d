//! The status of a Gateway or ListenerSet, as far as it matters to translation: which of its listeners
//! served before. They stay where a limit of the Gateway is exceeded.

use serde::{Deserialize, Serialize};

/// The listeners in a status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct RecordedListeners {
    /// An entry for each listener.
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    listeners: Vec<RecordedListener>,
}

/// A listener in a status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "WrittenListener")]
struct RecordedListener {
    name: String,
    /// The generation of the object in which it was accepted; `None` if it was not.
    accepted: Option<i64>,
}

#[derive(Deserialize)]
struct WrittenListener {
    #[serde(default)]
    name: String,
    #[serde(default, deserialize_with = "crate::objects::api::null_as_default")]
    conditions: Vec<WrittenCondition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenCondition {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    observed_generation: i64,
}

impl From<WrittenListener> for RecordedListener {
    fn from(written: WrittenListener) -> Self {
        let mut conditions = written.conditions.into_iter();
        let accepted = conditions.find(|it| it.kind == "Accepted" && it.status == "True");
        Self {
            name: written.name,
            accepted: accepted.map(|it| it.observed_generation),
        }
    }
}

impl RecordedListeners {
    /// Whether a listener was accepted in any generation of the object.
    pub(crate) fn accepted_before(&self, name: &str) -> bool {
        self.accepted(name).is_some()
    }

    /// Whether a listener was accepted in this generation of the object.
    pub(crate) fn accepted_in(&self, generation: i64, name: &str) -> bool {
        self.accepted(name) == Some(generation)
    }

    fn accepted(&self, name: &str) -> Option<i64> {
        let mut listeners = self.listeners.iter();
        listeners.find(|it| it.name == name)?.accepted
    }
}
