//! The response of `/debug/tasks`: running tasks per thread.

use serde::{Deserialize, Serialize};

/// The tasks of all threads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tasks {
    /// Tasks of the request threads.
    pub shards: Vec<ShardTasks>,
    /// Tasks of the admin thread.
    #[serde(default)]
    pub admin: Vec<Task>,
    /// Tasks of the configuration thread.
    #[serde(default)]
    pub xds: Vec<Task>,
}

/// The tasks of one shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardTasks {
    /// Number of the shard.
    pub id: u16,
    /// Time since the last iteration of its event loop.
    pub heartbeat_ms: u64,
    /// Whether it did not respond in time; `tasks` is empty then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stuck: bool,
    /// Number of tasks left out beyond the limit of the response.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// Root tasks; others are their children.
    pub tasks: Vec<Task>,
}

/// A task, with the tasks that it has spawned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Unique on its thread.
    pub id: u64,
    /// Kind of task, such as `connection`.
    pub kind: String,
    /// State of the task, such as `idle`.
    pub state: String,
    /// Time in this state.
    pub since_ms: u64,
    /// Number of times it was polled.
    pub polls: u64,
    /// The client or resource it serves, such as an address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Tasks it has spawned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Task>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}
