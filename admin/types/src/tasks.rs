//! The answer of `/debug/tasks`: what every thread is at.

use serde::{Deserialize, Serialize};

/// The task tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tasks {
    /// The request threads.
    pub shards: Vec<ShardTasks>,
    /// The admin thread.
    #[serde(default)]
    pub admin: Vec<Task>,
    /// The configuration thread.
    #[serde(default)]
    pub xds: Vec<Task>,
}

/// The tasks of one shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardTasks {
    /// Its number.
    pub id: u16,
    /// How long ago its event loop last turned.
    pub heartbeat_ms: u64,
    /// Whether it gave no answer in time: then there are no tasks here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stuck: bool,
    /// Tasks that there is no room for in the answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// Its tasks, those without a parent.
    pub tasks: Vec<Task>,
}

/// A task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its number on its thread.
    pub id: u64,
    /// What it is for, such as `connection`.
    pub kind: String,
    /// What it is at, such as `idle`.
    pub state: String,
    /// For how long it has been at that.
    pub since_ms: u64,
    /// How often it was run.
    pub polls: u64,
    /// Whom it serves, such as the client's address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Tasks it has begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Task>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}
